"""References to checkpoints and threads: ids, beginnings of ids, ``latest~2``, ``@TIME``."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from types import FrameType
from typing import Any

import pytest
from commandline import Call, lines, thread

from lifetimes import MOMENT
from memalchemy import Checkpointer, Database
from memalchemy.cli.checkpoint_references import find_checkpoint, find_thread
from memalchemy.cli.usage_errors import UsageError
from memalchemy.errors import NotFound
from memalchemy.events import subscribe_statements

NOON = datetime(2026, 11, 1, 12, tzinfo=UTC)


def save(url: str, thread_id: str, ids: Sequence[str], **more: Any) -> None:
    """Save a state for each id, an hour apart, from noon on."""

    async def work() -> None:
        async with Database(url) as db:
            for hours, checkpoint_id in enumerate(ids):
                happened = NOON + timedelta(hours=hours, microseconds=5)
                await Checkpointer(db).save(
                    {"id": checkpoint_id}, thread_id, checkpoint_id, occurred_at=happened, **more
                )

    asyncio.run(work())


@pytest.fixture
def agent(url: str, call: Call) -> str:
    """A database with a thread of four checkpoints an hour apart, and a branch off the second."""
    call("upgrade", "--db", url)
    save(url, "agent", ["aa-1", "aa-2", "ab-3", "b-4"])
    return url


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("aa-2", "aa-2"),
        ("b", "b-4"),
        ("ab", "ab-3"),
        ("latest", "b-4"),
        ("latest~", "ab-3"),
        ("latest~0", "b-4"),
        ("latest~3", "aa-1"),
        ("latest~1~1", "aa-2"),
        ("ab~1", "aa-2"),
        ("@2026-11-01T12:00", "aa-1"),
        ("@2026-11-01T13:59:59", "aa-2"),
        ("@2026-11-01T14:00:00", "ab-3"),
        ("@2026-11-01 15:00+01:00", "ab-3"),
        ("@2026-11-02", "b-4"),
        ("@2026-11-02~1", "ab-3"),
    ],
)
def test_a_reference_names_one_checkpoint(
    reference: str, found: str, agent: str, call: Call
) -> None:
    answer = call("show", "agent", "--at", reference, "--db", agent)

    assert answer.json == {"id": found}, answer.err


@pytest.mark.parametrize(
    ("reference", "code", "helps"),
    [
        ("aa", 2, "aa-2, aa-1"),
        ("", 2, "latest"),
        ("@yesterday", 2, "@2026-11-01"),
        ("@0001-01-01T00:00+23:00", 2, "@2026-11-01"),
        ("@2026-11-01", 1, "memalchemy history"),
        ("latest~4", 1, "aa-1, 3 steps back, has no parent"),
        ("zz~1", 1, "'zz'"),
        ("aa-3", 1, "memalchemy history"),
    ],
)
def test_a_reference_that_names_none_or_several_is_an_error(
    reference: str, code: int, helps: str, agent: str, call: Call
) -> None:
    answer = call("show", "agent", "--at", reference, "--db", agent)

    assert answer.code == code
    assert answer.out == ""
    assert helps in answer.err


def test_an_error_lists_a_few_candidates_only(file_url: str, call: Call) -> None:
    save(file_url, "agent", [f"step-{number}" for number in range(10, 30)])

    answer = call("show", "agent", "--at", "step-", "--db", file_url)

    assert answer.code == 2
    assert answer.err.count("step-") == 1 + 5
    assert answer.err.endswith(", …\n")


def test_an_id_wins_over_what_it_would_mean_as_a_reference(file_url: str, call: Call) -> None:
    save(file_url, "agent", ["latest", "latest~1", "@2026-11-01T12:00", "x", "xy", "newest"])

    for name in ("latest", "latest~1", "@2026-11-01T12:00", "x"):
        assert call("show", "agent", "--at", name, "--db", file_url).json == {"id": name}


def test_parents_are_followed_along_the_branch(file_url: str, call: Call) -> None:
    save(file_url, "agent", ["1", "2", "3", "4"])
    save(file_url, "agent", ["other"], parent_id="2")
    save(file_url, "agent", ["2"])  # replaced: it is the newest now, and a parent of older ones

    for reference, found in (("other~1", "2"), ("4~2", "2"), ("4~1", "3")):
        assert call("show", "agent", "--at", reference, "--db", file_url).json == {"id": found}


def test_a_deleted_ancestor_is_named(file_url: str, call: Call) -> None:
    save(file_url, "agent", ["1", "2", "3"])
    call("delete", "agent", "2", "--db", file_url)

    answer = call("show", "agent", "--at", "latest~1", "--db", file_url)

    assert answer.code == 1
    assert "its ancestor 2 has been deleted" in answer.err


def test_every_command_takes_references(agent: str, call: Call) -> None:
    def run(*arguments: str) -> Any:
        answer = call(*arguments, "--json", "--db", agent)
        assert answer.code == 0, answer.err
        return answer.json

    compared = run("diff", "ag", "aa-1", "ab")
    assert (compared["a"], compared["b"]) == ("aa-1", "ab-3")
    forked = run("fork", "ag", "latest~2", "--to", "what-if")
    assert forked == {"thread_id": "what-if", "from_thread_id": "agent"}
    assert [row["checkpoint_id"] for row in run("history", "what")] == ["aa-2", "aa-1"]
    assert run("delete", "what-if", "latest")["checkpoint_id"] == "aa-2"
    assert run("stats", "ag")["checkpoints"] == 4
    assert run("verify", "--thread", "ag")["states"] == 4
    assert len(call("export", "--thread", "ag", "--db", agent).out.splitlines()) == 4


def test_diff_compares_the_last_two_or_one_with_the_newest(agent: str, call: Call) -> None:
    def compared(*arguments: str) -> tuple[str, str]:
        found = call("diff", "agent", *arguments, "--json", "--db", agent).json
        return found["a"], found["b"]

    assert compared() == ("ab-3", "b-4")
    assert compared("aa-1") == ("aa-1", "b-4")
    save(agent, "short", ["only"])
    assert call("diff", "short", "--db", agent).code == 1


def test_diff_says_which_checkpoints_it_compares(agent: str, call: Call) -> None:
    assert call("diff", "agent", "--db", agent).err == "from ab-3 to b-4\n"


def test_diff_compares_with_the_parent_and_says_where_a_branch_is(agent: str, call: Call) -> None:
    save(agent, "agent", ["branch"], parent_id="aa-2")

    assert call("diff", "agent", "--db", agent).err == "from aa-2 to branch\n"
    other = call("diff", "agent", "b-4", "branch", "--db", agent)
    assert other.err == "from b-4 to branch, which does not continue it: a branch\n"
    assert call("diff", "agent", "aa-1", "--db", agent).err == "from aa-1 to branch\n"

    call("delete", "agent", "aa-2", "--db", agent)
    assert call("diff", "agent", "--db", agent).err == "from b-4 to branch\n"


def test_a_repeated_deletion_deletes_nothing_else(file_url: str, call: Call) -> None:
    save(file_url, "agent", ["step-1", "step-10"])
    save(file_url, "agent-2", ["1"])

    assert call("delete", "agent", "step-1", "--db", file_url).code == 0
    again = call("delete", "agent", "step-1", "--db", file_url)
    assert again.code == 1
    assert "may be step-10" in again.err
    assert call("delete", "agent", "--db", file_url).code == 0
    for arguments in (
        ("delete", "agent"),
        ("delete", "agent", "1"),
        ("forget", "--thread", "agent", "--yes"),
        ("prune", "agent", "--keep-last", "1"),
    ):
        assert call(*arguments, "--db", file_url).code == 1
    assert call("show", "agent-2", "--db", file_url).json == {"id": "1"}


def test_the_beginning_of_a_thread_is_enough_if_it_is_the_only_one(filled: str, call: Call) -> None:
    call("import", "-", "--db", filled, stdin=lines(thread("airline-10")))

    assert call("history", "ret", "--json", "--db", filled).json[0]["thread_id"] == "retail-1"
    assert len(call("history", "airline-1", "--json", "--db", filled).json) == 8
    several = call("history", "air", "--db", filled)
    assert (several.code, several.out) == (2, "")
    assert "airline-1, airline-10" in several.err
    assert call("history", "x", "--db", filled).code == 1


def test_threads_of_other_tenants_are_no_candidates(filled: str, call: Call) -> None:
    call("import", "-", "--db", filled, "--tenant", "b", stdin=lines(thread("airline-2")))

    found = call("history", "air", "--json", "--db", filled)

    assert found.json[0]["thread_id"] == "airline-1"


def test_an_expired_or_deleted_thread_is_no_candidate(file_url: str, call: Call) -> None:
    save(file_url, "agent-1", ["1"])
    save(file_url, "agent-2", ["1"], ttl=MOMENT)
    save(file_url, "agent-3", ["1"])
    call("delete", "agent-3", "--db", file_url)

    assert call("show", "agent", "--db", file_url).json == {"id": "1"}


def test_wildcards_and_odd_characters_are_letters(file_url: str, call: Call) -> None:
    ids = ["100%_a", "100xxb", "[z]*", "\udcff", "\N{MAN}"]
    save(file_url, "agent", ids)

    for reference, found in (("100%", "100%_a"), ("[z", "[z]*"), ("\N{MAN}", "\N{MAN}")):
        assert call("show", "agent", "--at", reference, "--db", file_url).json == {"id": found}
    for reference in ("%", "_", "*", "?", "\x1a"):
        assert call("show", "agent", "--at", reference, "--db", file_url).code == 1


STEPS = 3_000


async def test_references_into_a_thread_of_many_steps_read_few_of_them(file_url: str) -> None:
    async with Database(file_url) as db:
        checkpointer = Checkpointer(db, index_text=False)
        async with db.transaction() as connection:
            for number in range(STEPS):
                await checkpointer.save(
                    {"n": number}, "long", f"{number:06}", connection=connection
                )
        for reference, found, most in (
            ("latest", "002999", 2),
            ("00077", None, 2),
            ("001432", "001432", 2),
            ("latest~3", "002996", 10),
            ("latest~2999", "000000", STEPS // 100),
            ("@2100-01-01", "002999", 2),
        ):
            with counted() as counts:
                if found is None:
                    with pytest.raises(UsageError):
                        await find_checkpoint(checkpointer, "long", reference)
                else:
                    assert await find_checkpoint(checkpointer, "long", reference) == found
            assert counts["statements"] <= most, reference
            assert counts["calls"] < STEPS or reference == "latest~2999", reference
        with pytest.raises(NotFound):
            await find_checkpoint(checkpointer, "long", f"latest~{STEPS}")
        assert await find_thread(db, "lo") == "long"


@contextmanager
def counted() -> Iterator[Counter[str]]:
    """Count the statements that are sent meanwhile, and the calls in this thread."""
    counts: Counter[str] = Counter()

    def count(frame: FrameType, event: str, argument: object) -> None:
        counts["calls"] += event == "call"

    unsubscribe = subscribe_statements(lambda _: counts.update(["statements"]))
    sys.setprofile(count)
    try:
        yield counts
    finally:
        sys.setprofile(None)
        unsubscribe()


def test_an_empty_thread_is_not_the_beginning_of_another(url: str, call: Call) -> None:
    """A variable of a shell that is not set selects no thread, not even the one of that id."""
    call("upgrade", "--db", url)
    save(url, "only", ["a", "b", "c"])
    save(url, "", ["a", "b", "c"])

    for command in (
        ("prune", "", "--keep-last", "1"),
        ("show", ""),
        ("export", "--thread", ""),
        ("delete", ""),
        ("forget", "--thread", "", "--yes"),
    ):
        assert call("--db", url, *command).code == 2
        assert ids_of(url, "only") == ids_of(url, "") == ["c", "b", "a"]


def ids_of(url: str, thread_id: str) -> list[str]:
    async def work() -> list[str]:
        async with Database(url) as db:
            return await Checkpointer(db).list_checkpoints(thread_id)

    return asyncio.run(work())
