"""Output and exit code of each command."""

from __future__ import annotations

import asyncio
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID
from xml.etree import ElementTree

import pytest
from commandline import Call, environment, lines, process, thread

from memalchemy import Checkpointer, Database, ThreadLog
from memalchemy.migrate import TABLES, VERSION_TABLE
from servers import Postgres
from waiting import A_WHILE

INFO = {
    "thread_id",
    "namespace",
    "checkpoint_id",
    "parent_id",
    "seq",
    "metadata",
    "created_at",
    "raw_size",
    "stored_size",
    "occurred_at",
}


def save(
    url: str,
    state: dict[str, Any],
    thread_id: str,
    *arguments: Any,
    namespace: tuple[str, ...] = (),
    **more: Any,
) -> None:
    async def work() -> None:
        async with Database(url) as db:
            await Checkpointer(db, namespace=namespace).save(state, thread_id, *arguments, **more)

    asyncio.run(work())


@pytest.fixture
def application(postgres: Postgres, call: Call) -> Iterator[str]:
    """A database with the schema, opened by a role that may not change the schema."""
    name, role = postgres.create_database(), "ma_vacuum"
    call("upgrade", "--db", postgres.url(name))
    postgres.execute(f"CREATE ROLE {role} LOGIN")
    for grant in Database(postgres.url(name)).dialect.maintenance.grants(
        role, None, (*TABLES, VERSION_TABLE)
    ):
        postgres.execute(grant, name)
    yield postgres.url(name, user=role)
    postgres.drop_database(name)
    postgres.execute(f"DROP ROLE {role}")


def test_a_database_is_created_filled_inspected_and_removed(url: str, call: Call) -> None:
    db = ("--db", url)
    assert call(*db, "upgrade", "--json").json["ran"] == ["0001"]
    assert call(*db, "check").code == 0
    assert call(*db, "import", "-", stdin=lines(thread("a", 5, customer=7))).code == 0
    assert [row["thread_id"] for row in call(*db, "threads", "--json").json] == ["a"]
    assert [row["seq"] for row in call(*db, "history", "a", "--json").json] == [5, 4, 3, 2, 1]
    assert len(call(*db, "show", "a", "--at", "000002", "--json").json) == 2
    assert list(call(*db, "diff", "a", "000004", "000005", "--json").json["added"]) == [
        "/messages/4"
    ]
    assert call(*db, "stats", "--json").json["checkpoints"] == 5
    assert call(*db, "search", "flights", "--json").json[0]["checkpoint_id"] == "000001"
    assert call(*db, "fork", "a", "000003", "--to", "b").out == "b\n"
    assert call(*db, "prune", "a", "--keep-last", "2", "--json").json["pruned"] == 3
    assert len(call(*db, "export", "--all").out.splitlines()) == 5
    assert call(*db, "delete", "b").code == 0
    assert call(*db, "downgrade", "base").code == 4
    assert call(*db, "forget", "--metadata", "customer=7", "--yes", "--json").json == {"erased": 2}
    assert call(*db, "downgrade", "base", "--delete-rows").code == 0
    assert call(*db, "check").code == 1
    assert call(*db, "current", "--json").json["revision"] is None


def test_threads_list_what_each_thread_holds(filled: str, call: Call) -> None:
    found = call("threads", "--db", filled, "--pattern", "air*", "--json").json

    assert [set(row) for row in found] == [
        {"thread_id", "namespace", "checkpoints", "entries", "newest", "saved_at"}
        | {"raw_bytes", "stored_bytes"}
    ]
    assert (found[0]["checkpoints"], found[0]["newest"]) == (8, "000008")


def test_a_pattern_without_matches_lists_no_threads(filled: str, call: Call) -> None:
    answer = call("threads", "--db", filled, "--pattern", "nothing", "--json")

    assert (answer.code, answer.json) == (0, [])


def test_history_is_newest_first_and_limited(filled: str, call: Call) -> None:
    found = call("history", "airline-1", "--db", filled, "--limit", "3", "--json").json

    assert [row["checkpoint_id"] for row in found] == ["000008", "000007", "000006"]
    assert all(set(row) == INFO | {"branch", "waiting"} for row in found)


def test_history_marks_a_branch_and_nothing_else(filled: str, call: Call) -> None:
    save(filled, {"messages": []}, "airline-1", "other", parent_id="000003")
    save(filled, {"messages": []}, "airline-1", "further")

    found = call("history", "airline-1", "--db", filled, "--json").json

    assert [row["checkpoint_id"] for row in found if row["branch"]] == ["other"]


def test_the_table_of_history_names_the_parent_of_a_branch(filled: str, call: Call) -> None:
    save(filled, {"messages": []}, "airline-1", "other", parent_id="000003")

    _, _, *lines = call("history", "airline-1", "--db", filled).out.splitlines()

    assert lines[0].split()[:2] == ["other", "000003"]
    assert lines[1].split()[0] == "000008"
    assert "000007" not in lines[1]


def test_history_says_which_checkpoint_waits_for_an_answer(filled: str, call: Call) -> None:
    async def interrupt(checkpoint_id: str) -> None:
        async with Database(filled) as db:
            await Checkpointer(db).put_writes(
                [("__interrupt__", [{"value": "sure?"}])], "t", checkpoint_id, "task"
            )

    def waiting() -> list[str]:
        found = call("history", "t", "--json", "--db", filled).json
        return [one["checkpoint_id"] for one in found if one["waiting"]]

    for id_ in ("a", "b"):
        save(filled, {}, "t", id_)
        asyncio.run(interrupt(id_))
    assert waiting() == ["b"]
    assert " waits " in call("history", "t", "--db", filled).out.splitlines()[0]
    save(filled, {}, "t", "c")
    assert waiting() == []
    assert " waits " not in call("history", "t", "--db", filled).out


def test_threads_lists_those_that_wait_with_what_is_asked(filled: str, call: Call) -> None:
    async def interrupt(thread_id: str, question: str) -> None:
        async with Database(filled) as db:
            await Checkpointer(db).put_writes(
                [("__interrupt__", [{"value": question}])], thread_id, "a", "task"
            )

    def waiting(*options: str) -> list[str]:
        found = call("threads", "--waiting", *options, "--json", "--db", filled).json
        return [one["thread_id"] for one in found]

    assert waiting() == []
    for id_, question in (("pay", "pay 30 EUR?"), ("ship", "ship today?"), ("idle", "")):
        save(filled, {"messages": [{"role": "user", "content": "Please"}]}, id_, "a")
        if question:
            asyncio.run(interrupt(id_, question))
    assert sorted(waiting()) == ["pay", "ship"]
    assert waiting("--pattern", "p*") == ["pay"]
    assert waiting("--namespace", "/") == waiting()
    assert waiting("--namespace", "langgraph") == []
    limited = call("threads", "--waiting", "--limit", "1", "--db", filled)
    assert len(limited.out.splitlines()) == 3
    assert "--limit shows more" in limited.err
    asked = call("threads", "--waiting", "--db", filled)
    assert "pay 30 EUR?" in asked.out
    assert "2 threads waiting for an answer" in asked.err
    save(filled, {}, "pay", "b")
    assert waiting() == ["ship"]


def test_history_does_not_mark_the_gap_that_pruning_leaves_as_a_branch(
    filled: str, call: Call
) -> None:
    call("prune", "airline-1", "--keep-every", "4", "--db", filled)

    found = call("history", "airline-1", "--db", filled, "--json").json

    assert [(row["checkpoint_id"], row["branch"]) for row in found] == [
        ("000008", False),
        ("000004", False),
    ]


def test_show_prints_the_state_itself_where_it_is_wanted(filled: str, call: Call) -> None:
    state = call("show", "retail-1", "--raw", "--db", filled).json

    assert [message["role"] for message in state["messages"]] == [
        "system",
        "user",
        "assistant",
        "user",
    ]


def test_show_makes_values_readable_that_json_lacks(filled: str, call: Call) -> None:
    state = {
        "day": date(2026, 3, 1),
        "at": datetime(2026, 3, 1, 12, tzinfo=UTC),
        "bytes": b"\x00\x01",
        "set": {3, 1, 2},
        "tuple": (1, 2),
        "price": Decimal("1.50"),
        "id": UUID(int=1),
        "not a number": float("nan"),
        "large": 2**80,
    }
    save(filled, state, "exotic")

    found = call("show", "exotic", "--db", filled, "--json").json["state"]

    assert found == {
        "day": "2026-03-01",
        "at": "2026-03-01T12:00:00+00:00",
        "bytes": "AAE=",
        "set": [1, 2, 3],
        "tuple": [1, 2],
        "price": "1.50",
        "id": "00000000-0000-0000-0000-000000000001",
        "not a number": "nan",
        "large": 2**80,
    }


def test_stored_text_cannot_control_the_terminal(filled: str, call: Call) -> None:
    evil = "\x1b[2J\x9b31m"
    save(filled, {"text": evil}, f"{evil}[bold]", metadata={"note": evil})

    for arguments in (("threads",), ("history", f"{evil}[bold]"), ("show", f"{evil}[bold]")):
        answer = call(*arguments, "--db", filled, "--no-color")
        assert "\x1b" not in answer.out
        assert "\x9b" not in answer.out
    assert "[bold]" in call("threads", "--db", filled).out


def test_diff_separates_added_removed_and_changed(filled: str, call: Call) -> None:
    save(filled, {"kept": 1, "gone": 2, "other": 3}, "t", "a")
    save(filled, {"kept": 1, "new": 4, "other": 5}, "t", "b")

    assert call("diff", "t", "a", "b", "--db", filled, "--json").json == {
        "a": "a",
        "b": "b",
        "added": {"/new": 4},
        "removed": {"/gone": 2},
        "changed": {"/other": {"a": 3, "b": 5}},
        "hidden": 0,
    }


def test_diff_leaves_langgraphs_bookkeeping_out_unless_it_is_asked_for(
    filled: str, call: Call
) -> None:
    for n in (1, 2):
        save(filled, {"~checkpoint": n, "n": n}, "t", str(n), namespace=("langgraph",))
    db = ("--db", filled)

    answer = call("diff", "t", *db)
    assert "/~0checkpoint" not in answer.out
    assert "1 difference in LangGraph's bookkeeping left out; --raw lists all" in answer.err
    assert list(call("diff", "t", "--json", *db).json["changed"]) == ["/n"]
    assert len(call("diff", "t", "--raw", "--json", *db).json["changed"]) == 2


def test_stats_are_the_sums_over_threads(filled: str, call: Call) -> None:
    whole = call("stats", "--db", filled, "--json").json
    each = [
        call("stats", name, "--db", filled, "--json").json for name in ("airline-1", "retail-1")
    ]

    assert whole["threads"] == 2
    for key in ("checkpoints", "full_checkpoints", "raw_bytes", "stored_bytes"):
        assert whole[key] == sum(one[key] for one in each)
    assert whole["file_bytes"] >= Path(filled.removeprefix("sqlite:///")).stat().st_size


def test_search_highlights_the_words(filled: str) -> None:
    from memalchemy.cli.formatting import highlight

    text = highlight("book flights, not flight", "FLIGHTS")

    assert [text.plain[span.start : span.end] for span in text.spans] == ["flights"]


def test_export_writes_what_forget_erases(filled: str, call: Call) -> None:
    records = [
        json.loads(line)
        for line in call("export", "--metadata", "customer=42", "--db", filled).out.splitlines()
    ]
    erased = call("forget", "--metadata", "customer=42", "--yes", "--json", "--db", filled).json

    assert [record["checkpoint_id"] for record in records] == [f"00000{n}" for n in (1, 2, 3, 4)]
    assert erased == {"erased": len(records)}
    assert call("export", "--thread", "retail-1", "--db", filled).code == 1


def test_export_to_a_file_reports_a_count(filled: str, call: Call, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"

    answer = call("export", "--all", "-o", str(target), "--json", "--db", filled)

    assert answer.json == {"records": 12, "file": str(target)}
    assert len(target.read_text().splitlines()) == 12


def test_an_export_that_fails_leaves_the_old_file(filled: str, call: Call, tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    target.write_text("old")
    Path(filled.removeprefix("sqlite:///")).write_bytes(b"no database at all" * 500)

    assert call("export", "--all", "-o", str(target), "--db", filled).code == 5
    assert target.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir() if path.name.endswith(".part")] == []


def test_a_dry_run_of_prune_counts_and_deletes_nothing(url: str, call: Call) -> None:
    call("upgrade", "--db", url)
    call("import", "-", "--db", url, stdin=lines(thread("a", 6), thread("b", 5)))

    rules = ("prune", "--all", "--keep-last", "2", "--json", "--db", url)

    assert call(*rules, "--dry-run").json == {"pruned": 7, "dry_run": True, "busy": 0}
    assert call("stats", "--json", "--db", url).json["checkpoints"] == 11
    assert call(*rules).json == {"pruned": 7, "dry_run": False, "busy": 0}
    assert call("stats", "--json", "--db", url).json["checkpoints"] == 4


def test_prune_keeps_younger_checkpoints(filled: str, call: Call) -> None:
    answer = call(
        "prune", "--all", "--keep-last", "1", "--older-than", "30d", "--json", "--db", filled
    )

    assert answer.json["pruned"] == 0


def test_prune_vacuum_and_sweep_work_on_all_tenants(file_url: str, call: Call) -> None:
    db = ("--db", file_url)
    for tenant in ("acme", "globex"):
        given = lines(thread("t", 4))
        assert call(*db, "--tenant", tenant, "import", "-", stdin=given).code == 0
        put = ("store", "put", "a", "k", "1", "--ttl", "1s")
        assert call(*db, "--tenant", tenant, *put).code == 0

    async def expire() -> None:
        async with Database(file_url) as database:
            await database.run_sync(
                lambda c: c.exec_driver_sql(
                    "UPDATE store_items SET expires_at = 1 WHERE expires_at IS NOT NULL"
                )
            )

    asyncio.run(expire())
    assert call(*db, "store", "sweep", "--json").json == {"removed": 0}
    assert call(*db, "store", "sweep", "--all-tenants", "--json").json == {"removed": 2}
    rules = ("prune", "--all", "--keep-last", "1", "--all-tenants")
    counted = call(*db, *rules, "--dry-run", "--json").json
    assert counted == {"pruned": 6, "dry_run": True, "busy": 0}
    assert call(*db, *rules, "--json").json["pruned"] == 6
    gone = call(*db, "vacuum", "--all-tenants", "--older-than-days", "0", "--json").json
    assert gone["removed"] == 2
    for tenant in ("acme", "globex"):
        assert call(*db, "--tenant", tenant, "threads", "--json").json == []
    for command in (rules, ("vacuum", "--all-tenants"), ("store", "sweep", "--all-tenants")):
        assert call(*db, "--tenant", "acme", *command).code == 2
    assert call(*db, "prune", "t", "--keep-last", "1", "--all-tenants").code == 2


def test_forget_asks_and_takes_only_yes(filled: str, call: Call) -> None:
    forget = ("forget", "--thread", "airline-1", "--db", filled)

    for answer in ("", "no\n", "maybe\n"):
        refused = call(*forget, stdin=answer)
        assert refused.code == 4
        assert "Erase 8 checkpoints" in refused.err
        assert "error [MA-NOT-CONFIRMED]: nothing was erased" in refused.err
        assert "--yes" in refused.err
        last = call(*forget, "--json", stdin=answer).err.splitlines()[-1]
        error = json.loads(last)["error"]
        assert (error["code"], error["exit_code"]) == ("MA-NOT-CONFIRMED", 4)
    assert call("show", "airline-1", "--db", filled).code == 0
    assert call(*forget, stdin="y\n").code == 0
    assert call("show", "airline-1", "--db", filled).code == 1


def test_forgetting_a_missing_thread_is_not_found(filled: str, call: Call) -> None:
    assert call("forget", "--thread", "nobody", "--db", filled).code == 1


def test_forget_erases_one_whole_tenant(file_url: str, call: Call) -> None:
    for tenant in ("acme", "other"):
        call("--tenant", tenant, "import", "-", "--db", file_url, stdin=lines(thread("a")))

    assert call("forget", "--whole-tenant", "acme", "--yes", "--json", "--db", file_url).json == {
        "erased": 4
    }
    assert call("threads", "--tenant", "acme", "--json", "--db", file_url).json == []
    assert len(call("threads", "--tenant", "other", "--json", "--db", file_url).json) == 1


def test_forget_erases_the_items_of_a_namespace_and_names_its_threads(
    file_url: str, call: Call
) -> None:
    def put(*where: str) -> None:
        assert call("store", "put", *where, '"v"', "--db", file_url).code == 0

    call("upgrade", "--db", file_url)
    put("users/ada", "k")
    put("users/ada/memories", "k")
    put("users/adam", "k")
    save(file_url, {"n": 1}, "t", namespace=("users", "ada"))
    forget = ("forget", "--namespace", "users/ada", "--db", file_url)

    asked = call(*forget, stdin="n\n")
    assert asked.code == 4
    assert "Erase 2 items of the namespace users/ada" in asked.err
    done = call(*forget, "--yes", "--json")
    assert done.json == {"erased": 2}
    assert "memalchemy threads --namespace users/ada --prefix" in done.err
    left = call("store", "ls", "users", "--prefix", "--json", "--db", file_url).json
    assert [item["namespace"] for item in left] == [["users", "adam"]]
    assert call(*forget, "--yes").code == 1
    assert call("forget", "--namespace", "/", "--yes", "--db", file_url).code == 2


def test_forget_erases_what_threads_have_in_a_namespace(file_url: str, call: Call) -> None:
    call("upgrade", "--db", file_url)
    assert call("store", "put", "users/ada", "k", '"v"', "--db", file_url).code == 0
    for place in ((), ("users", "ada"), ("users", "ada", "eu"), ("users", "adam")):
        save(file_url, {"n": 1}, "t", namespace=place)
    forget = ("forget", "--namespace", "users/ada", "--threads", "--db", file_url)

    asked = call(*forget, stdin="n\n")
    assert asked.code == 4
    assert "Erase 3 checkpoints, entries and items of the namespace users/ada" in asked.err
    done = call(*forget, "--yes", "--json")
    assert (done.json, "stay" in done.err) == ({"erased": 3}, False)
    left = call("threads", "--json", "--db", file_url).json
    assert sorted(log["namespace"] for log in left) == [[], ["users", "adam"]]
    assert call(*forget, "--yes").code == 1


def test_forget_takes_threads_with_a_namespace_only(filled: str, call: Call) -> None:
    answer = call("forget", "--thread", "airline-1", "--threads", "--yes", "--db", filled)

    assert answer.code == 2
    assert "--threads needs --namespace" in answer.err


def test_forget_says_that_metadata_does_not_find_what_is_named(filled: str, call: Call) -> None:
    answer = call("forget", "--metadata", "user=airline", "--yes", "--db", filled)

    assert answer.code == 1
    assert "docs/erasure.md" in answer.err


def test_forget_refuses_a_thread_and_a_whole_tenant_together(filled: str, call: Call) -> None:
    answer = call("forget", "--thread", "a", "--whole-tenant", "acme", "--yes", "--db", filled)

    assert answer.code == 2
    assert "--whole-tenant" in answer.err


def test_tenant_means_to_forget_what_it_means_to_every_command(filled: str, call: Call) -> None:
    nothing = call("forget", "--tenant", "acme", "--yes", "--db", filled)
    other = call("forget", "--thread", "airline-1", "--tenant", "acme", "--yes", "--db", filled)

    assert nothing.code == 2
    assert "--whole-tenant" in nothing.err
    assert other.code == 1
    assert call("show", "airline-1", "--db", filled).code == 0


def test_forget_names_what_has_the_value_as_its_name(filled: str, call: Call) -> None:
    for place in ("facts/u1", "users/u1/notes", "users/u11"):
        call("store", "put", place, "k", '"v"', "--db", filled)
    call("store", "put", "notes", "k", '"v"', "--metadata", '{"user_id": "u1"}', "--db", filled)

    answer = call("forget", "--metadata", "user_id=u1", "--yes", "--db", filled)

    assert answer.code == 0
    assert "forget --namespace facts/u1" in answer.err
    assert "forget --namespace users/u1/notes" in answer.err
    assert "users/u11" not in answer.err


@pytest.mark.parametrize("nothing", ["", "  ", "\n"])
def test_a_search_for_nothing_is_a_mistake(nothing: str, filled: str, call: Call) -> None:
    answer = call("search", nothing, "--db", filled)

    assert answer.code == 2
    assert "words to look for" in answer.err


def test_delete_removes_one_checkpoint_or_the_thread(filled: str, call: Call) -> None:
    delete = ("delete", "airline-1")

    assert call(*delete, "000003", "--json", "--db", filled).json == {
        "deleted": True,
        "thread_id": "airline-1",
        "checkpoint_id": "000003",
    }
    assert call(*delete, "000003", "--db", filled).code == 1
    assert call(*delete, "--db", filled).code == 0
    assert call(*delete, "--db", filled).code == 1


def test_a_fork_needs_a_free_id(filled: str, call: Call) -> None:
    fork = ("fork", "airline-1", "000003", "--db", filled)
    made = call(*fork, "--json").json

    assert len(call("history", made["thread_id"], "--json", "--db", filled).json) == 3
    assert call(*fork, "--to", "retail-1").code == 4
    assert call(*fork, "--to", "airline-1").code == 2


def test_vacuum_removes_idle_threads_only_with_older_than_days(filled: str, call: Call) -> None:
    for days, removed in (((), 0), (("--older-than-days", "30"), 0)):
        assert call("vacuum", *days, "--json", "--db", filled).json["removed"] == removed
    idle = ("vacuum", "--older-than-days", "0", "--json", "--db", filled)

    tried = call(*idle, "--dry-run").json
    assert (tried["removed"], tried["before_bytes"]) == (12, None)
    done = call(*idle).json
    assert (done["removed"], done["dry_run"], done["busy"], done["advice"]) == (12, False, 0, [])
    assert done["after_bytes"] == Path(filled.removeprefix("sqlite:///")).stat().st_size
    assert call("threads", "--json", "--db", filled).json == []


def test_a_change_of_the_schema_names_the_owner_of_the_tables(application: str, call: Call) -> None:
    refused = call("--db", application, "downgrade", "base", "--delete-rows")

    assert refused.code == 3
    assert refused.err.startswith("error [MA-AUTHENTICATION]: ")
    assert "to change the schema takes the role that owns the tables" in refused.err
    assert call("--db", application, "check").code == 0


def test_vacuum_names_the_commands_that_it_may_not_run(
    call: Call, postgres: Postgres, application: str
) -> None:
    answer = call("vacuum", "--db", application)

    assert answer.code == 0
    assert "only its owner may vacuum deltas" in answer.out
    assert "  VACUUM (ANALYZE) deltas;" in answer.out
    told = call("vacuum", "--json", "--db", application).json["advice"]
    assert {one["table"] for one in told} == set(TABLES)
    assert all(isinstance(one["dead_rows"], int) for one in told)


def test_stats_draw_threads_kinds_and_tables_as_svg(
    filled: str, call: Call, tmp_path: Path
) -> None:
    save(filled, {"a": 1}, "<script>&\x1b[31m$1$2 日本")
    target = tmp_path / "bytes.svg"

    answer = call(
        *("stats", "--plot", str(target), "--largest", "3", "--tables", "--json", "--db", filled)
    )

    assert answer.code == 0, answer.err
    texts = [
        text.text or ""
        for text in ElementTree.parse(target).iter("{http://www.w3.org/2000/svg}text")
    ]
    words = " ".join(texts)
    for word in ("deltas", "snapshot", "delta", "search text", "airline-1", "text index", "$1$2"):
        assert word in words
    bars = [text for text in texts if text.endswith(" %")]
    assert len(bars) >= len(answer.json["kinds"]) + len(answer.json["largest"])
    assert "\x1b" not in target.read_text()


def test_the_sizes_of_threads_add_up_to_those_of_their_kinds(filled: str, call: Call) -> None:
    save(filled, {"a": 1}, "third")

    found = call("stats", "--largest", "2", "--json", "--db", filled).json

    assert found["logs"] == 3
    assert len(found["largest"]) == 2
    held = sum(one["bytes"] for one in found["largest"]) + found["rest_bytes"]
    assert held == sum(kind["bytes"] for kind in found["kinds"])


def test_each_kind_has_a_colour_of_its_own_and_the_legend_is_in_the_picture(
    filled: str, call: Call, tmp_path: Path
) -> None:
    from memalchemy.cli.space_chart import COLOURS, PALETTE

    assert len(set(PALETTE)) == len(PALETTE)
    kinds = ("snapshot", "delta", "entry", "write", "search text", "item", "item text", "vector")
    assert len({COLOURS[kind] for kind in kinds}) == len(kinds)
    target = tmp_path / "bytes.svg"
    call("stats", "--plot", str(target), "--tables", "--db", filled)

    picture = ElementTree.parse(target).getroot()
    width, height = (float(size) for size in picture.attrib["viewBox"].split()[2:])
    words = {
        text.text: (float(text.attrib["x"]), float(text.attrib["y"]))
        for text in picture.iter("{http://www.w3.org/2000/svg}text")
        if "x" in text.attrib
    }
    for kind in ("table", "index", "text index"):
        x, y = words[kind]
        assert 0 < x < width - 5 * len(kind)
        assert 0 < y < height


def test_the_suffix_of_the_file_decides_how_stats_are_drawn(
    filled: str, call: Call, tmp_path: Path
) -> None:
    for name, begins in (("a.png", b"\x89PNG"), ("a.SVG", b"<?xml")):
        answer = call("stats", "--plot", str(tmp_path / name), "--db", filled)
        assert answer.code == 0, answer.err
        assert (tmp_path / name).read_bytes().startswith(begins)
        assert answer.err == f"drew the chart {tmp_path / name}\n"

    for name in ("a.docx", "a.pdf", "plain"):
        refused = call("stats", "--plot", str(tmp_path / name), "--db", filled)
        assert refused.code == 2
        assert "must end with .png or .svg" in refused.err
        assert not (tmp_path / name).exists()


def test_only_all_threads_are_drawn_and_only_where_a_file_can_be_written(
    filled: str, call: Call, tmp_path: Path
) -> None:
    assert call("stats", "airline-1", "--plot", "x.svg", "--db", filled).code == 2
    assert call("stats", "airline-1", "--tables", "--db", filled).code == 2
    assert call("stats", "--plot", str(tmp_path / "no" / "x.svg"), "--db", filled).code == 2


def test_drawing_without_the_plotting_library_names_the_extra(filled: str, tmp_path: Path) -> None:
    without = (
        "import sys; sys.modules['matplotlib'] = None; from memalchemy.cli import main; main()"
    )
    target = tmp_path / "bytes.png"
    arguments = ["stats", "--plot", str(target), "--db", filled]

    ended = subprocess.run(
        [sys.executable, "-c", without, *arguments],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=2 * A_WHILE,
    )

    assert ended.returncode == 3
    assert ended.stderr.startswith("error [MA-DRIVER-MISSING]: ")
    assert 'pip install "matplotlib>=3.10.7" (' in ended.stderr
    assert ended.stdout == ""
    assert not target.exists()


def test_stats_show_totals_first_and_tables_if_they_are_asked_for(filled: str, call: Call) -> None:
    shown = call("stats", "--db", filled).out
    with_tables = call("stats", "--tables", "--db", filled).out

    places = [
        shown.index(word)
        for word in ("file, all tenants", "last 7 days", "framework", "snapshot", "airline-1")
    ]
    assert places == sorted(places)
    assert "deltas" not in shown
    assert with_tables.startswith(shown)
    for word in ("deltas", "text index"):
        assert word in with_tables
    assert "tables" not in call("stats", "--json", "--db", filled).json
    assert call("stats", "--tables", "--json", "--db", filled).json["tables"]


def test_stats_count_the_bytes_of_a_framework_that_keeps_entries_only(url: str, call: Call) -> None:
    async def fill() -> None:
        async with Database(url, migrate="upgrade") as db:
            await ThreadLog(db, namespace=("openai", "a")).append("s", ["x" * 50, "y"])
            await ThreadLog(db, namespace=("openai", "b")).append("s", ["z"])
            await Checkpointer(db, namespace=("langgraph",)).save({"a": 1}, "t")

    asyncio.run(fill())
    found = call("stats", "--json", "--db", url).json

    openai, langgraph = sorted(found["frameworks"], key=lambda one: -one["entries"])
    assert (openai["name"], openai["threads"], openai["entries"]) == ("openai", 2, 3)
    assert (langgraph["name"], langgraph["checkpoints"]) == ("langgraph", 1)
    kinds = {kind["name"]: kind["bytes"] for kind in found["kinds"]}
    assert openai["stored_bytes"] == kinds["entry"] > 0
    assert langgraph["stored_bytes"] == kinds["snapshot"]
    assert found["stored_bytes"] == kinds["snapshot"] + kinds["entry"]
    assert found["entries"] == 3
    assert {one["bytes"] for one in found["growth"]} == {kinds["entry"] + kinds["snapshot"]}
    assert found["total_bytes"] > found["content_bytes"] == sum(kinds.values())
    assert "openai" in call("stats", "--db", url).out


def test_stats_name_the_commands_that_give_space_back(filled: str, call: Call) -> None:
    assert call("stats", "--db", filled).err == ""
    big = json.dumps({"pad": [hashlib.sha256(b"%d" % n).hexdigest() for n in range(10_000)]})
    call("store", "put", "a", "big", "-", "--db", filled, stdin=big)
    call("store", "rm", "a", "big", "--db", filled)
    assert call("store", "put", "a", "k", "1", "--ttl", "0.000001s", "--db", filled).code == 0

    told = call("stats", "--db", filled).err

    assert "of the file are empty: `memalchemy vacuum`" in told
    assert "1 item expired: `memalchemy store sweep`" in told


def test_stats_show_a_bar_beside_each_size(filled: str, call: Call) -> None:
    lines = call("stats", "--db", filled, "--no-color").out.splitlines()
    lengths = {line.split()[0]: line.count("█") for line in lines if "█" in line}

    assert lengths["airline-1"] == max(lengths.values())
    assert 0 < lengths["retail-1"] < lengths["airline-1"]


def test_bars_are_hash_signs_where_the_encoding_lacks_blocks(filled: str) -> None:
    ended = process("stats", "--db", filled, env=environment(PYTHONIOENCODING="ascii"))

    assert "#####" in ended.stdout
    assert "\\u" not in ended.stdout


def test_a_script_is_printed_without_a_server(call: Call) -> None:
    nowhere = "postgresql://me@nowhere.invalid/db"

    up = call("upgrade", "--sql", "--db", nowhere, "--schema", "memory")
    down = call("downgrade", "base", "--sql", "--db", nowhere)

    assert (up.code, down.code) == (0, 0)
    assert "CREATE TABLE memory.threads" in up.out
    assert "DROP TABLE threads" in down.out


def test_grants_name_every_table_and_the_role(call: Call) -> None:
    answer = call(
        "grants", "app", "--schema", "memory", "--json", "--db", "postgresql://me@nowhere.invalid/d"
    )

    granted = "\n".join(answer.json["statements"])
    for table in ("threads", "checkpoints", "deltas", "store_items", "embeddings"):
        assert f"ON memory.{table} TO app" in granted
    assert "memalchemy_version" in granted


def test_grants_are_refused_for_a_sqlite_file(call: Call, file_url: str) -> None:
    assert call("grants", "app", "--db", file_url).code == 4
