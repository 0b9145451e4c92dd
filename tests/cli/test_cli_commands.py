"""What each command answers, and how it ends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID
from xml.etree import ElementTree

import pytest
from commandline import Call, lines, thread

from memalchemy import Checkpointer, Database
from memalchemy.migrate import TABLES, VERSION_TABLE
from servers import Postgres

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


def save(url: str, state: dict[str, Any], thread_id: str, *arguments: Any, **more: Any) -> None:
    async def work() -> None:
        async with Database(url) as db:
            await Checkpointer(db).save(state, thread_id, *arguments, **more)

    asyncio.run(work())


@pytest.fixture
def application(postgres: Postgres, call: Call) -> Iterator[str]:
    """A migrated database, as a role without a right to DDL reaches it."""
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


def test_a_database_is_made_filled_looked_at_and_taken_down(url: str, call: Call) -> None:
    db = ("--db", url)
    assert call(*db, "upgrade", "--json").json["ran"] == ["0001", "0002", "0003", "0004"]
    assert call(*db, "check").code == 0
    assert call(*db, "import", "-", stdin=lines(thread("a", 5, customer=7))).code == 0
    assert [row["thread_id"] for row in call(*db, "threads", "--json").json] == ["a"]
    assert [row["seq"] for row in call(*db, "history", "a", "--json").json] == [5, 4, 3, 2, 1]
    assert len(call(*db, "show", "a", "--at", "000002", "--json").json["state"]["messages"]) == 2
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


def test_threads_say_how_much_each_holds(filled: str, call: Call) -> None:
    found = call("threads", "--db", filled, "--pattern", "air*", "--json").json

    assert [set(row) for row in found] == [
        {"thread_id", "namespace", "checkpoints", "entries", "newest", "saved_at"}
        | {"raw_bytes", "stored_bytes"}
    ]
    assert (found[0]["checkpoints"], found[0]["newest"]) == (8, "000008")


def test_threads_that_match_nothing_are_an_empty_answer(filled: str, call: Call) -> None:
    answer = call("threads", "--db", filled, "--pattern", "nothing", "--json")

    assert (answer.code, answer.json) == (0, [])


def test_history_is_newest_first_and_limited(filled: str, call: Call) -> None:
    found = call("history", "airline-1", "--db", filled, "--limit", "3", "--json").json

    assert [row["checkpoint_id"] for row in found] == ["000008", "000007", "000006"]
    assert all(set(row) == INFO | {"branch"} for row in found)


def test_history_marks_a_branch_and_nothing_else(filled: str, call: Call) -> None:
    save(filled, {"messages": []}, "airline-1", "other", parent_id="000003")
    save(filled, {"messages": []}, "airline-1", "further")

    found = call("history", "airline-1", "--db", filled, "--json").json

    assert [row["checkpoint_id"] for row in found if row["branch"]] == ["other"]


def test_history_does_not_take_the_gap_that_pruning_leaves_for_a_branch(
    filled: str, call: Call
) -> None:
    call("prune", "airline-1", "--keep-every", "4", "--db", filled)

    found = call("history", "airline-1", "--db", filled, "--json").json

    assert [(row["checkpoint_id"], row["branch"]) for row in found] == [
        ("000008", False),
        ("000004", False),
    ]


def test_show_prints_the_state_itself(filled: str, call: Call) -> None:
    state = call("show", "retail-1", "--db", filled).json

    assert [message["role"] for message in state["messages"]] == [
        "system",
        "user",
        "assistant",
        "user",
    ]


def test_show_makes_values_readable_that_json_has_not(filled: str, call: Call) -> None:
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


def test_nothing_stored_can_command_a_terminal(filled: str, call: Call) -> None:
    evil = "\x1b[2J\x9b31m"
    save(filled, {"text": evil}, f"{evil}[bold]", metadata={"note": evil})

    for arguments in (("threads",), ("history", f"{evil}[bold]"), ("show", f"{evil}[bold]")):
        answer = call(*arguments, "--db", filled, "--no-color")
        assert "\x1b" not in answer.out
        assert "\x9b" not in answer.out
    assert "[bold]" in call("threads", "--db", filled).out


def test_diff_tells_added_removed_and_changed_apart(filled: str, call: Call) -> None:
    save(filled, {"kept": 1, "gone": 2, "other": 3}, "t", "a")
    save(filled, {"kept": 1, "new": 4, "other": 5}, "t", "b")

    assert call("diff", "t", "a", "b", "--db", filled, "--json").json == {
        "added": {"/new": 4},
        "removed": {"/gone": 2},
        "changed": {"/other": {"a": 3, "b": 5}},
    }


def test_stats_add_up_what_the_threads_say(filled: str, call: Call) -> None:
    whole = call("stats", "--db", filled, "--json").json
    each = [
        call("stats", name, "--db", filled, "--json").json for name in ("airline-1", "retail-1")
    ]

    assert whole["threads"] == 2
    for key in ("checkpoints", "full_checkpoints", "raw_bytes", "stored_bytes"):
        assert whole[key] == sum(one[key] for one in each)
    assert whole["file_bytes"] >= Path(filled.removeprefix("sqlite:///")).stat().st_size


def test_search_names_the_step_that_brought_the_word(filled: str, call: Call) -> None:
    (hit,) = call("search", "RETAIL 3", "--db", filled, "--limit", "1", "--json").json

    assert set(hit) == INFO | {"score", "snippet"}
    assert (hit["thread_id"], hit["checkpoint_id"]) == ("retail-1", "000004")


def test_search_sets_hits_off_on_a_terminal(filled: str) -> None:
    from memalchemy.cli.finding import highlighted

    text = highlighted("book flights, not flight", "FLIGHTS")

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


def test_export_to_a_file_answers_with_a_count(filled: str, call: Call, tmp_path: Path) -> None:
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


def test_prune_keeps_what_is_younger(filled: str, call: Call) -> None:
    answer = call(
        "prune", "--all", "--keep-last", "1", "--older-than", "30d", "--json", "--db", filled
    )

    assert answer.json["pruned"] == 0


def test_forget_says_how_much_and_takes_only_yes(filled: str, call: Call) -> None:
    forget = ("forget", "--thread", "airline-1", "--db", filled)

    for answer in ("", "no\n", "maybe\n"):
        refused = call(*forget, stdin=answer)
        assert refused.code == 4
        assert "Erase 8 checkpoints" in refused.err
    assert call("show", "airline-1", "--db", filled).code == 0
    assert call(*forget, stdin="y\n").code == 0
    assert call("show", "airline-1", "--db", filled).code == 1


def test_forget_of_what_is_not_there_ends_with_not_found(filled: str, call: Call) -> None:
    assert call("forget", "--thread", "nobody", "--db", filled).code == 1


def test_forget_takes_a_whole_tenant_and_no_other(file_url: str, call: Call) -> None:
    for tenant in ("acme", "other"):
        call("--tenant", tenant, "import", "-", "--db", file_url, stdin=lines(thread("a")))

    assert call("forget", "--tenant", "acme", "--yes", "--json", "--db", file_url).json == {
        "erased": 4
    }
    assert call("threads", "--tenant", "acme", "--json", "--db", file_url).json == []
    assert len(call("threads", "--tenant", "other", "--json", "--db", file_url).json) == 1


def test_a_thread_and_a_tenant_to_forget_are_one_too_many(filled: str, call: Call) -> None:
    answer = call("forget", "--thread", "a", "--tenant", "acme", "--yes", "--db", filled)

    assert answer.code == 2
    assert "goes before forget" in answer.err


def test_delete_takes_one_checkpoint_or_the_thread(filled: str, call: Call) -> None:
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


def test_vacuum_removes_what_is_idle_only_when_it_is_told_how_long(filled: str, call: Call) -> None:
    for days, removed in (((), 0), (("--older-than-days", "30"), 0)):
        assert call("vacuum", *days, "--json", "--db", filled).json["removed"] == removed
    idle = ("vacuum", "--older-than-days", "0", "--json", "--db", filled)

    tried = call(*idle, "--dry-run").json
    assert (tried["removed"], tried["before_bytes"]) == (12, None)
    done = call(*idle).json
    assert (done["removed"], done["dry_run"], done["busy"], done["advice"]) == (12, False, 0, [])
    assert done["after_bytes"] == Path(filled.removeprefix("sqlite:///")).stat().st_size
    assert call("threads", "--json", "--db", filled).json == []


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


def test_stats_draw_a_picture_that_names_threads_kinds_and_tables(
    filled: str, call: Call, tmp_path: Path
) -> None:
    save(filled, {"a": 1}, "<script>&\x1b[31m")
    target = tmp_path / "bytes.svg"

    answer = call("stats", "--plot", str(target), "--largest", "2", "--json", "--db", filled)

    svg = ElementTree.parse(target).getroot()
    words = " ".join(e.text or "" for e in svg.iter("{http://www.w3.org/2000/svg}text"))
    for word in (
        "deltas",
        "snapshot",
        "delta",
        "search text",
        "airline-1",
        "the other 1",
        "text index",
    ):
        assert word in words
    bars = list(svg.iter("{http://www.w3.org/2000/svg}rect"))
    assert len(bars) >= len(answer.json["kinds"]) + 3
    assert "\x1b" not in target.read_text()
    assert answer.json["logs"] == 3
    held = sum(one["bytes"] for one in answer.json["largest"]) + answer.json["rest_bytes"]
    assert held == sum(kind["bytes"] for kind in answer.json["kinds"])
    assert call("stats", "airline-1", "--plot", str(target), "--db", filled).code == 2
    assert call("stats", "--plot", str(tmp_path / "no" / "x.svg"), "--db", filled).code == 2


def test_stats_show_tables_kinds_and_the_largest_threads(filled: str, call: Call) -> None:
    shown = call("stats", "--db", filled).out

    for word in ("airline-1", "snapshot", "search text", "deltas", "text index"):
        assert word in shown


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


def test_a_file_has_no_roles_to_grant_to(call: Call, file_url: str) -> None:
    assert call("grants", "app", "--db", file_url).code == 4
