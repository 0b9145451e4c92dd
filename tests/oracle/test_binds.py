"""What is bound, as which of the driver's types; and the driver's own checks of it.

`recording` puts every bind of every test through the driver's check; here are the types themselves.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import oracledb
import pytest
from sqlalchemy import insert

from memalchemy import Checkpointer, Database, Retention
from memalchemy.dialects import DIALECTS
from memalchemy.errors import CapabilityMissing, TooLarge
from memalchemy.keys import encode_id
from memalchemy.schema import EmbeddingRow, StoreItemRow
from oracle.recording import Answer, Connection, Recorder, bound
from oracle.strict import merged
from oracle.test_programs import found, head, listed, position

AWKWARD = ("", "\x00", "\ud800", " ", "Ünïcödé 漢字", "a'b\"c:d%e")


async def everything(oracle: Database, server: Recorder, thread_id: str) -> None:
    """Each operation once, with the emptiest values that the API takes."""
    agent = Checkpointer(oracle, retention=Retention(keep_last=1), ttl=60)
    server.answer("log.no_upsert.create_head", position(1))
    server.answer("log.heads.allot", position(2))
    about = {
        "thread_id": encode_id(thread_id),
        "namespace": "/",
        "names": 3,
        "going": 2,
        "needless": 1,
    }
    server.answer("log.bulk_delete.list_prunable", Answer([about]))
    server.answer("log.bulk_delete.list_stale", Answer([about | {"next_seq": 4}]))
    server.answer("log.bulk_delete.lock_batch", listed(thread_id), listed(thread_id))
    server.answer("log.bulk_delete.delete_pruned_checkpoints", Answer(touched=2))
    for name in ("log.heads.lock_log", "log.heads.lock_thread"):
        server.answer(name, head(), head(), head())
    server.answer("log.delete.delete_checkpoint_row", Answer([{"seq": 1}]))
    server.answer("log.append.delete_beyond_retention", Answer(), Answer(), Answer(touched=1))
    await agent.save({}, thread_id, thread_id or None, {})
    await agent.save({"": "", "b": b""}, thread_id, parent_id=None, metadata={"": ""})
    await agent.load(thread_id)
    await agent.load(thread_id, "one")
    await agent.list_checkpoints(thread_id)
    await agent.get_metadata(thread_id, "one")
    await agent.list_threads(pattern="a*")
    await agent.list_with_metadata()
    await agent.list_logs(pattern="a*", below=True)
    await agent.list_logs(thread_id)
    await agent.search("a")
    await agent.search("a", below=True)
    for value in ("", 1, 1.5, True, False, None, [], {"a": ""}):
        await agent.query_by_metadata("", value)
    await agent.copy_thread(thread_id, "copy")
    await agent.prune(thread_id, keep_last=1)
    await agent.delete(thread_id, "one")
    await agent.delete(thread_id)
    await agent.vacuum()
    await agent.forget(thread_id=thread_id)
    await agent.forget(tenant="acme")


@pytest.mark.parametrize("thread_id", AWKWARD)
async def test_nothing_empty_is_ever_bound(
    oracle: Database, server: Recorder, thread_id: str
) -> None:
    await everything(oracle, server, thread_id)

    assert len(set(server.sent())) > 20
    empty = [
        (name, bind)
        for name, bind, value in bound(server.calls)
        if isinstance(value, (str, bytes)) and len(value) == 0
    ]
    assert empty == []


async def test_no_datetime_is_bound_untyped_and_none_with_a_zone(
    oracle: Database, server: Recorder
) -> None:
    await everything(oracle, server, "thread")

    times = [
        (call, bind, value)
        for call in server.calls
        for bind, value in call.binds.items()
        if isinstance(value, datetime)
    ]
    assert len(times) > 20
    for call, bind, value in times:
        assert bind in call.asked, f"{call.name} leaves {bind} to the driver, which makes it a DATE"
        assert call.types[bind] is oracledb.DB_TYPE_TIMESTAMP
        assert value.tzinfo is None


async def test_every_bind_has_a_type_that_the_driver_takes(
    oracle: Database, server: Recorder
) -> None:
    await everything(oracle, server, "thread")

    kinds = {type(value) for _, _, value in bound(server.calls)}
    assert kinds <= {str, bytes, int, float, datetime, type(None)}


@pytest.mark.parametrize("size", [1, 40_000, 6_000_000])
async def test_a_payload_is_bound_as_bytes_of_any_size(
    oracle: Database, server: Recorder, size: int
) -> None:
    server.answer("log.no_upsert.allot_existing", position(1))
    # Random digits compress to about half.
    state = {"data": "".join(chr(33 + (i * i * 7919 + i) % 90) for i in range(size))}

    await Checkpointer(oracle, index_text=False).save(state, "thread", "one")

    delta = server.last("log.append.insert_row")
    assert type(delta.binds["p_payload"]) is bytes
    assert delta.types["p_payload"] is oracledb.DB_TYPE_RAW
    assert "p_payload" in delta.asked


async def test_metadata_is_bound_as_text_because_the_server_encodes_it(
    oracle: Database, server: Recorder
) -> None:
    server.answer("log.no_upsert.allot_existing", position(1))

    await Checkpointer(oracle).save({}, "thread", "one", {"b": 1, "a": [None, True]})

    meta = server.last("log.no_upsert.insert_checkpoint").binds["p_meta"]
    assert type(meta) is str
    assert json.loads(meta) == {"a": [None, True], "b": 1}


async def test_an_offset_is_taken_off_a_time_before_it_is_bound(
    oracle: Database, server: Recorder
) -> None:
    when = datetime(2030, 1, 1, 12, 0, 0, 123456, tzinfo=timezone(timedelta(hours=5)))
    async with oracle.transaction() as tx:
        await tx.execute(
            insert(StoreItemRow.__table__).values(item(created_at=when, updated_at=when))
        )

    (call,) = server.calls
    assert call.binds["created_at"] == datetime(2030, 1, 1, 7, 0, 0, 123456)


async def test_a_vector_is_bound_as_the_drivers_array_of_floats(
    oracle: Database, server: Recorder
) -> None:
    values = {name: "x" for name in ("tenant", "namespace", "key", "field", "model")}
    values |= {"part": 0, "dimensions": 2, "change": 1, "vector": [0.5, 1.0]}  # type: ignore[dict-item]
    async with oracle.transaction() as tx:
        await tx.execute(insert(EmbeddingRow.__table__).values(values))

    (call,) = server.calls
    assert call.binds["vector"].typecode == "f"
    assert list(call.binds["vector"]) == [0.5, 1.0]


def item(**values: Any) -> dict[str, Any]:
    now = datetime.now(UTC)
    return {
        "tenant": "t",
        "namespace": "/",
        "key": "k",
        "meta": {},
        "version": 1,
        "codec": "none",
        "checksum": 0,
        "created_at": now,
        "updated_at": now,
        "value": b"-",
    } | values


async def test_returning_has_variables_of_the_columns_types(
    oracle: Database, server: Recorder
) -> None:
    server.answer("log.no_upsert.allot_existing", position(3, "two"))

    await Checkpointer(oracle).save({}, "thread", "three")

    given = {f"ret_{at}" for at in range(5)}
    assert server.last("log.no_upsert.allot_existing").out == given
    assert server.last("log.append.insert_row").binds["p_seq"] == 3


# --- The driver's own rules, which the types above are made for ----------------------------------


async def check(type_: Any, value: Any) -> None:
    # In one loop with the connection, and never executed: see `recording`.
    Connection(Recorder()).cursor().driver.var(type_).setvalue(0, value)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (oracledb.DB_TYPE_RAW, bytearray(b"x")),
        (oracledb.DB_TYPE_RAW, memoryview(b"x")),
        (oracledb.DB_TYPE_BLOB, b"x"),
        (oracledb.DB_TYPE_CLOB, "x"),
        (oracledb.DB_TYPE_NUMBER, "1"),
        (oracledb.DB_TYPE_VARCHAR, 1),
        (oracledb.DB_TYPE_TIMESTAMP, "2030-01-01"),
    ],
)
async def test_the_driver_refuses(type_: Any, value: Any) -> None:
    with pytest.raises(oracledb.Error, match="DPY-3013"):
        await check(type_, value)


@pytest.mark.parametrize(
    ("type_", "value"),
    [
        (oracledb.DB_TYPE_RAW, b"x" * 100_000),
        (oracledb.DB_TYPE_TIMESTAMP, datetime(2030, 1, 1, 0, 0, 0, 1)),
        (oracledb.DB_TYPE_NUMBER, 2**63),
        (oracledb.DB_TYPE_NVARCHAR, "x" * 100_000),
        (oracledb.DB_TYPE_VARCHAR, None),
    ],
)
async def test_the_driver_takes(type_: Any, value: Any) -> None:
    await check(type_, value)


# --- Metadata that is looked for -----------------------------------------------------------------


def answered(meta: Any, key: str, value: Any, kind: str) -> bool:
    """What the conditions of `Oracle.json_equals` say, by the RFC."""
    binds = DIALECTS["oracle"].statements.json_equals_binds(key, value, kind)
    removed, pair = (json.loads(binds.get(n, "{}")) for n in ("match_key", "match_pair"))
    if kind == "null":
        dropped = merged({}, meta)
        return meta != merged(meta, removed) and dropped == merged(dropped, removed)
    return bool(meta == merged(merged(meta, removed) if kind == "container" else meta, pair))


VALUES: list[tuple[str, Any]] = [
    ("text", "x"),
    ("number", 5),
    ("true", True),
    ("null", None),
    ("container", {}),
    ("container", {"a": 1}),
    ("container", {"a": 1, "b": 2}),
    ("container", []),
    ("container", [{"a": None}]),
]


@pytest.mark.parametrize(("kind", "wanted"), VALUES)
def test_merging_tells_a_value_from_every_other_and_from_none(kind: str, wanted: Any) -> None:
    for _, stored in VALUES:
        for others in ({}, {"other": None}, {"other": wanted}):
            meta = {"k": stored} | others
            same = stored == wanted and type(stored) is type(wanted)
            assert answered(meta, "k", wanted, kind) is same, meta
    assert not answered({"other": wanted}, "k", wanted, kind)
    assert not answered({}, "k", wanted, kind)


def test_an_object_with_a_null_cannot_be_looked_for_by_merging() -> None:
    with pytest.raises(CapabilityMissing, match="Oracle"):
        DIALECTS["oracle"].statements.json_equals_binds("k", {"a": {"b": None}}, "container")


def test_metadata_to_look_for_fits_in_one_bind() -> None:
    with pytest.raises(TooLarge):
        DIALECTS["oracle"].statements.json_equals_binds("k", "x" * 4000, "text")


async def test_no_value_looked_for_is_part_of_the_text(
    agent: Checkpointer, server: Recorder
) -> None:
    await agent.query_by_metadata("k'; DROP TABLE deltas --", "v\"')]")
    server.answer("search.text.search_checkpoints", Answer([found("x")]))

    texts = {call.sql for call in server.calls}
    assert not [text for text in texts if "DROP" in text]
