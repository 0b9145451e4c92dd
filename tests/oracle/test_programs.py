"""The programs on Oracle: which statements are sent, in which order, and what answers do to them.

Over SQLAlchemy's real dialect and a recording: this shows what is sent, not that a server takes it.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest

from memalchemy import Checkpointer, Database, Retention, Store
from memalchemy.codec.payloads import VALUE_CODEC, encode_payload
from memalchemy.errors import Conflict, StatementFailed, UniqueViolation
from memalchemy.keys import encode_id, log_key
from memalchemy.log.bulk_delete import MAX_LOGS
from memalchemy.log.tables import CHECKPOINT_INFO
from memalchemy.store.jsonl import export_items
from memalchemy.store.read import stored
from oracle.recording import Answer, Recorder

SWEEP = ["log.delete.sweep_states", "log.delete.move_epoch"]
PLACE = [
    "log.append.insert_row",
    "log.no_upsert.update_checkpoint",
    "log.no_upsert.insert_checkpoint",
]
NOW = datetime(2030, 1, 2, 3, 4, 5, 678901)


def position(seq: int, previous: str | None = None, epoch: int = 7) -> Answer:
    """What RETURNING says of an allotted position; numbers come as text."""
    row = {"next_seq": seq + 1, "version": seq, "epoch": epoch, "previous_id": previous}
    return Answer([row | {"last_ordinal": seq}])


def head(head_id: str | None = "one", *, next_seq: int = 2, deleted: bool = False) -> Answer:
    return Answer(
        [
            {
                "namespace": "/",
                "next_seq": next_seq,
                "epoch": 7,
                "head_id": head_id,
                "expires_at": None,
                "deleted_at": NOW if deleted else None,
                "version": 1,
                "tenant": "acme",
                "thread_id": "thread",
            }
        ]
    )


def link(server: Recorder, checkpoint_id: str = "one", epoch: int = 7) -> dict[str, Any]:
    """The recorded INSERTs of the last save as the row that `read_chain` returns."""
    state = server.last("log.append.insert_row")
    size = server.last("log.no_upsert.insert_checkpoint").binds["p_raw_size"]
    columns = ("seq", "base_seq", "depth", "codec", "checksum", "payload")
    return {"checkpoint_id": checkpoint_id, "raw_size": size, "epoch": epoch} | {
        name: state.binds[f"p_{name}"] for name in columns
    }


async def begun(agent: Checkpointer, server: Recorder, state: dict[str, Any]) -> None:
    server.answer("log.no_upsert.create_head", position(1))
    await agent.save(state, "thread", "one")


async def test_the_first_save_of_a_thread_updates_then_inserts(
    agent: Checkpointer, server: Recorder
) -> None:
    await begun(agent, server, {"step": 1})

    assert [n for n in server.sent() if "." in n] == [
        "checkpoints.load.read_chain",
        "protection.key_registry.read_registered_keys",
        "protection.key_registry.find_encrypted",
        "protection.key_registry.find_encrypted",
        "protection.key_registry.find_signed",
        "protection.key_registry.find_signed",
        "log.no_upsert.allot_existing",
        "log.no_upsert.create_head",
        *PLACE,
    ]
    assert server.log.index("log.no_upsert.insert_checkpoint") + 1 == server.log.index("commit")


async def test_a_thread_that_is_there_takes_no_insert(
    agent: Checkpointer, server: Recorder
) -> None:
    server.answer("log.no_upsert.allot_existing", position(4, "three"))

    await agent.save({"step": 1}, "thread", "four")

    assert "log.no_upsert.create_head" not in server.sent()
    assert server.last("log.append.insert_row").binds["p_seq"] == 4
    assert server.last("log.no_upsert.insert_checkpoint").binds["p_previous_id"] == "three"


async def test_of_two_who_begin_a_thread_the_loser_looks_again_and_appends(
    agent: Checkpointer, server: Recorder
) -> None:
    server.answer("log.no_upsert.allot_existing", Answer(), position(2, "theirs"))
    server.answer("log.no_upsert.create_head", Answer(error=1))

    await agent.save({"step": 1}, "thread", "mine")

    tried = [name.rpartition(".")[2] for name in server.sent() if "log.no_upsert" in name][:3]
    assert tried == ["allot_existing", "create_head", "allot_existing"]
    assert server.last("log.append.insert_row").binds["p_seq"] == 2
    assert server.log.count("commit") == 1


async def test_the_race_leaves_the_transaction_and_takes_no_savepoint(
    agent: Checkpointer, server: Recorder
) -> None:
    server.answer("log.no_upsert.allot_existing", Answer(), position(2))
    server.answer("log.no_upsert.create_head", Answer(error=1))

    await agent.save({"step": 1}, "thread", "mine")

    lost = server.log.index("log.no_upsert.create_head")
    assert "rollback" not in server.log[lost : server.log.index("commit")]
    assert not [sql for sql in server.log if "SAVEPOINT" in sql]


async def test_a_save_on_a_cached_base_is_one_update_with_the_epoch(
    agent: Checkpointer, server: Recorder
) -> None:
    await begun(agent, server, {"text": "word " * 50})
    server.forget()
    server.answer("log.heads.allot", position(2, "one"))

    await agent.save({"text": "word " * 51}, "thread", "two")

    assert server.sent() == ["log.heads.allot", *PLACE]
    assert "threads.epoch = :p_epoch" in server.last("log.heads.allot").sql
    assert server.last("log.heads.allot").binds["p_epoch"] == 7
    assert server.last("log.append.insert_row").binds["p_base_seq"] == 1


async def test_a_stale_epoch_changes_nothing_and_the_save_looks_again(
    agent: Checkpointer, server: Recorder
) -> None:
    await begun(agent, server, {"text": "word " * 50})
    stored = link(server, epoch=8)
    server.forget()
    server.answer("log.heads.allot", Answer(), position(2, "one", epoch=8))
    server.answer("log.heads.read_head", head())
    server.answer("checkpoints.load.read_chain", Answer([stored]))

    await agent.save({"text": "word " * 51}, "thread", "two")

    assert [n for n in server.sent() if "." in n] == [
        "log.heads.allot",
        "log.heads.read_head",
        "checkpoints.load.read_chain",
        "log.heads.allot",
        *PLACE,
    ]
    assert server.last("log.heads.allot").binds["p_epoch"] == 8


async def test_an_expected_parent_is_part_of_the_update(
    agent: Checkpointer, server: Recorder
) -> None:
    await begun(agent, server, {"text": "word " * 50})
    server.answer("log.heads.read_head", head("other"))

    with pytest.raises(Conflict) as caught:
        await agent.save({"text": "word " * 51}, "thread", "two", expected_parent="one")

    assert caught.value.current == "other"
    assert "threads.head_id = :p_expected" in server.last("log.heads.allot").sql


async def test_saving_an_id_that_is_there_moves_it_and_inserts_no_name(
    agent: Checkpointer, server: Recorder
) -> None:
    await begun(agent, server, {"text": "word " * 50})
    server.forget()
    server.answer("log.heads.allot", position(2, "one"))
    server.answer("log.no_upsert.update_checkpoint", Answer(touched=1))

    await agent.save({"text": "word " * 51}, "thread", "one")

    assert server.sent() == ["log.heads.allot", *PLACE[:2]]


async def test_retention_is_kept_in_the_transaction_of_the_save(
    oracle: Database, server: Recorder
) -> None:
    agent = Checkpointer(oracle, retention=Retention(keep_last=2))
    server.answer("log.no_upsert.allot_existing", position(9, "eight"))

    await agent.save({"step": 1}, "thread", "nine")

    assert server.log.index("log.append.delete_beyond_retention") < server.log.index("commit")
    assert server.last("log.append.delete_beyond_retention").binds["p_keep"] == 1


async def test_a_unique_violation_elsewhere_is_an_error_and_a_rollback(
    agent: Checkpointer, server: Recorder
) -> None:
    server.answer("log.no_upsert.allot_existing", position(1))
    server.answer("log.append.insert_row", Answer(error=1))

    with pytest.raises(UniqueViolation) as caught:
        await agent.save({"step": 1}, "thread", "one")

    assert caught.value.sqlstate == "ORA-00001"
    assert "commit" not in server.log


@pytest.mark.parametrize("number", [60, 8177])
async def test_a_deadlock_is_repeated_from_the_start(
    agent: Checkpointer, server: Recorder, number: int
) -> None:
    server.answer("log.no_upsert.allot_existing", position(1), position(1))
    server.answer("log.append.insert_row", Answer(error=number), Answer())

    await agent.save({"step": 1}, "thread", "one")

    assert server.sent().count("log.no_upsert.allot_existing") == 2
    assert server.log.count("commit") == 1


async def test_a_refused_statement_is_named_by_its_number_and_shows_no_values(
    agent: Checkpointer, server: Recorder
) -> None:
    server.answer("log.no_upsert.allot_existing", Answer(error=12899))

    with pytest.raises(StatementFailed) as caught:
        await agent.save({"step": "secret"}, "thread", "one")

    assert caught.value.sqlstate == "ORA-12899"
    assert "secret" not in str(caught.value)


async def test_a_chain_of_rows_loads_back_equal(agent: Checkpointer, server: Recorder) -> None:
    first, second = {"text": "word " * 50, "n": 1}, {"text": "word " * 51, "n": 2.5}
    await begun(agent, server, first)
    rows = [link(server, "two")]
    server.answer("log.heads.allot", position(2, "one"))
    await agent.save(second, "thread", "two")
    rows.append(link(server, "two"))
    server.forget()
    server.answer("checkpoints.load.read_chain", Answer(rows))

    assert await agent.load("thread", "two") == second
    assert server.last("checkpoints.load.read_chain").binds["p_checkpoint_id"] == "two"


async def test_a_load_is_one_statement_and_the_pools_rollback(
    agent: Checkpointer, server: Recorder
) -> None:
    await agent.load("thread")

    assert server.log == ["checkpoints.load.read_chain", "rollback"]


async def test_deleting_a_checkpoint_locks_first(agent: Checkpointer, server: Recorder) -> None:
    server.answer("log.heads.lock_log", head("two", next_seq=3))
    server.answer("log.delete.delete_checkpoint_row", Answer([{"seq": 1}]))
    server.answer("log.delete.delete_unneeded_state", Answer([{"base_seq": None}]))

    assert await agent.delete("thread", "one") is True

    assert server.sent() == [
        "protection.key_registry.read_registered_keys",
        "log.heads.lock_log",
        "log.delete.delete_checkpoint_row",
        "log.delete.delete_writes",
        "log.delete.delete_unneeded_state",
        "log.delete.move_epoch",
    ]
    assert server.last("log.heads.lock_log").sql.endswith("FOR UPDATE")


async def test_deleting_what_is_not_there_changes_nothing(
    agent: Checkpointer, server: Recorder
) -> None:
    server.answer("log.heads.lock_log", head())

    assert await agent.delete("thread", "other") is False

    assert server.sent() == [
        "protection.key_registry.read_registered_keys",
        "log.heads.lock_log",
        "log.delete.delete_checkpoint_row",
        "log.dependencies.find_dependent",
    ]


async def test_deleting_a_thread_leaves_a_tombstone(agent: Checkpointer, server: Recorder) -> None:
    server.answer("log.heads.lock_thread", head())

    assert await agent.delete("thread") is True

    assert server.sent() == [
        "protection.key_registry.read_registered_keys",
        "log.heads.lock_thread",
        "log.delete.delete_rows",
        "log.delete.delete_rows",
        "log.delete.leave_tombstones",
    ]


PRUNED = [
    "log.bulk_delete.find_window",
    "log.bulk_delete.list_ranked",
    "log.bulk_delete.find_write",
    "log.bulk_delete.delete_pruned_checkpoints",
    "log.bulk_delete.delete_unneeded_states",
    "log.bulk_delete.move_epochs",
]


def prunable(*threads: str) -> Answer:
    about = {"namespace": "/", "names": 9, "going": 3, "needless": 0}
    return Answer([{"thread_id": thread} | about for thread in threads])


def listed(*threads: str) -> Answer:
    """What a batch has locked, as the driver returns it."""
    standing = {"namespace": "/", "updated_at": NOW, "expires_at": None, "deleted_at": None}
    return Answer(
        [
            {
                "log_id": log_key("acme", thread, "/").bytes,
                "tenant": "acme",
                "thread_id": encode_id(thread),
            }
            | standing
            for thread in threads
        ]
    )


async def test_pruning_sweeps_what_no_name_leads_to(agent: Checkpointer, server: Recorder) -> None:
    server.answer("log.bulk_delete.list_prunable", prunable("thread"))
    server.answer("log.bulk_delete.lock_batch", listed("thread"))
    server.answer("log.bulk_delete.delete_pruned_checkpoints", Answer(touched=3))
    server.answer("log.bulk_delete.delete_unneeded_states", Answer(touched=2))

    assert await agent.prune("thread", keep_last=2) == 3

    assert server.sent() == [
        "log.bulk_delete.list_prunable",
        "protection.key_registry.read_registered_keys",
        "log.bulk_delete.lock_batch",
        *PRUNED,
    ]
    assert server.last("log.bulk_delete.lock_batch").sql.endswith("FOR UPDATE")


async def test_pruning_a_long_log_goes_through_it_from_its_end_in_windows(
    agent: Checkpointer, server: Recorder
) -> None:
    server.answer("log.bulk_delete.list_prunable", prunable("thread"))
    server.answer("log.bulk_delete.lock_batch", listed("thread"), listed("thread"))
    server.answer("log.bulk_delete.find_window", Answer([{"seq": 77}]))
    server.answer("log.bulk_delete.delete_pruned_checkpoints", Answer(touched=3), Answer(touched=4))

    assert await agent.prune("thread", keep_last=2) == 7

    deletions = [call for call in server.calls if call.name.endswith("delete_pruned_checkpoints")]
    assert [(call.binds["p_low"], call.binds["p_high"]) for call in deletions] == [
        (77, 2**62),
        (0, 77),
    ]


async def test_pruning_all_passes_over_what_is_locked_and_touches_the_rest_only(
    agent: Checkpointer, server: Recorder
) -> None:
    server.answer("log.bulk_delete.list_prunable", prunable("a", "b"))
    server.answer("log.bulk_delete.lock_batch", listed("a"), listed("b"))
    server.answer("log.bulk_delete.read_batch", listed("b"))
    server.answer("log.bulk_delete.delete_pruned_checkpoints", Answer(touched=3), Answer(touched=1))

    assert await agent.prune(keep_last=2) == 4

    locks = [call for call in server.calls if call.name == "log.bulk_delete.lock_batch"]
    assert all(call.sql.endswith("FOR UPDATE SKIP LOCKED") for call in locks)
    a, b = (f'["{log_key("acme", thread, "/")}"]' for thread in ("a", "b"))
    assert [call.binds["p_logs"] for call in locks] == [f"[{a},{b}]", f"[{b}]"]
    forgotten = [
        call for call in server.calls if call.name == "log.bulk_delete.delete_pruned_checkpoints"
    ]
    assert [call.binds["p_logs"] for call in forgotten] == [f"[{a}]", f"[{b}]"]


async def test_a_list_of_logs_is_a_bind_that_a_query_takes(
    agent: Checkpointer, server: Recorder
) -> None:
    names = [f"{number:03}\x00" + "漢" * 200 for number in range(200)]
    server.answer("log.bulk_delete.list_prunable", prunable(*names))
    batches = (names[at : at + MAX_LOGS] for at in range(0, len(names), MAX_LOGS))
    server.answer("log.bulk_delete.lock_batch", *(listed(*batch) for batch in batches))

    await agent.prune(keep_last=2)

    lists = [c.binds["p_logs"] for c in server.calls if c.name == "log.bulk_delete.lock_batch"]
    assert len(lists) > 1
    assert all(len(value.encode()) <= 4000 for value in lists)


async def test_a_search_returns_rows_with_their_score_and_snippet(
    agent: Checkpointer, server: Recorder
) -> None:
    server.answer("search.text.search_checkpoints", Answer([found("the word")]))

    (hit,) = await agent.search("word AND {NOT} 漢字")

    assert (hit["checkpoint_id"], hit["score"], hit["snippet"]) == ("one", 0.5**0.5, "the word")
    assert hit["metadata"] == {"k": 1, "f": 0.5}
    asked = [call.binds["terms"] for call in server.calls if "terms" in call.binds]
    assert asked == [
        '["{word}", "{and}", "{not}", "{漢字}"]',
        '["{word}", "{and}", "{not}", "{漢}", "{字}"]',  # in words of an older release
        '["漢%", "字%"]',
    ]


async def test_a_search_of_any_length_is_a_bind_that_a_query_takes(
    agent: Checkpointer, server: Recorder
) -> None:
    await agent.search(" ".join(chr(0x4E00 + i) * 300 for i in range(40)) + " word" * 100)

    assert len(server.last("search.text.search_checkpoints").binds["terms"].encode()) <= 4000


def found(text: str) -> dict[str, Any]:
    return {
        "thread_id": "thread",
        "namespace": "/",
        "checkpoint_id": "one",
        "parent_id": None,
        "seq": 1,
        "meta": {"k": Decimal(1), "f": Decimal("0.5")},
        "created_at": NOW,
        "raw_size": 1,
        "stored_size": 1,
        "occurred_at": NOW,
        "log_id": log_key("acme", "thread", "/").bytes,
        "score": 0.5,
        "opening": text,
        "search_text": text,
    }


async def test_what_is_read_is_as_python_had_it(agent: Checkpointer, server: Recorder) -> None:
    row = {
        name: v
        for name, v in found("").items()
        if name in ("thread_id", "namespace", *CHECKPOINT_INFO)
    }
    server.answer("checkpoints.listing.read_checkpoint", Answer([row]))

    metadata = await agent.get_metadata("thread", "one")

    assert metadata is not None
    assert metadata["metadata"] == {"k": 1, "f": 0.5}
    assert [type(v) for v in metadata["metadata"].values()] == [int, float]
    assert datetime.fromisoformat(str(metadata["created_at"])) == NOW.replace(tzinfo=UTC)


async def test_the_vectors_of_a_page_of_items_are_asked_for_in_binds_that_a_query_takes(
    oracle: Database, server: Recorder
) -> None:
    keys = [f"{number:03}" + "漢" * 200 for number in range(30)]
    payload, checksum = encode_payload("a value")
    row = {"namespace": "/a/", "meta": {}, "version": 1, "codec": VALUE_CODEC, "checksum": checksum}
    row |= dict.fromkeys(("created_at", "updated_at"), NOW) | {"expires_at": None, "lifetime": None}
    row["signature"] = None
    page = [
        {
            name: (row | {"key": key, "value": payload})[name]
            for name in (column.name for column in stored())
        }
        for key in keys
    ]
    server.answer("store.read.list_items", Answer(page))

    records = [one async for one in export_items(Store(oracle), ("a",), vectors=True)]

    assert [record["key"] for record in records] == keys
    calls = [
        call for call in server.calls if call.name == "search._vector_statements.vectors_of_items"
    ]
    lists = [call.binds["p_keys"] for call in calls]
    assert len(lists) > 1
    assert all(len(value.encode()) <= 4000 for value in lists)
    assert [key for value in lists for _, key in json.loads(value)] == keys
