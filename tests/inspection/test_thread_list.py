"""The list of threads says what each is about, in any order, filtered, in bounded pages."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest
from cryptography.fernet import Fernet
from sqlalchemy import update

from golden.watch import Watch
from memalchemy import Checkpointer, Database, ThreadLog
from memalchemy.errors import InvalidArgument
from memalchemy.inspection import Inspector
from memalchemy.inspection.thread_list import SORTS
from memalchemy.log import DELTAS

KEY, OTHER_KEY = Fernet.generate_key().decode(), Fernet.generate_key().decode()
START = datetime(2026, 3, 1, 12, tzinfo=UTC)
PEOPLE = ["ada", "bob", "Ünal", "<b>eve</b>"]
WORDS = ["refund", "trip", "café", "Grinder", "{x}%_"]
FALLING = ("happened", "written", "steps", "stored", "messages", "errors", "tokens", "cost")


def assistant(tokens: int, cost: float | None = None, **more: Any) -> dict[str, Any]:
    metadata = {} if cost is None else {"metadata": {"cost_usd": cost}}
    usage = {"prompt_tokens": tokens, "completion_tokens": 1}
    return {"role": "assistant", "content": "Well.", "model": "m", "usage": usage} | metadata | more


def interrupt(question: str) -> list[tuple[str, Any]]:
    return [("__interrupt__", [{"value": {"question": question}, "id": "i"}])]


async def fill(db: Database, seed: int, number: int) -> dict[tuple[str, tuple[str, ...]], Any]:
    """Write random threads; return what a list has to say of each."""
    chance = random.Random(seed)
    known: dict[tuple[str, tuple[str, ...]], Any] = {}
    for at in range(number):
        name = f"{chance.choice(WORDS)}-{chance.choice(WORDS)}-{at}"
        said = f"{chance.choice(WORDS)} please, number {at}"
        happened = START - timedelta(minutes=chance.randrange(100_000))
        user = chance.choice(PEOPLE)
        tokens, cost = chance.randrange(1, 900), chance.choice([None, chance.random()])
        waits, namespace = chance.random() < 0.3, ("langgraph",)
        if chance.random() < 0.3:
            namespace, waits = ("log",), False
            log = ThreadLog(db, namespace=namespace)
            entries = [{"role": "user", "content": said}, assistant(tokens, cost)]
            await log.append(name, entries, occurred_at=[happened - timedelta(1), happened])
            user = None
        else:
            checkpointer = Checkpointer(db, namespace=namespace)
            state = {"messages": [{"role": "user", "content": said}, assistant(tokens, cost)]}
            id_ = await checkpointer.save(
                state, name, metadata={"user_id": user, "n": at}, occurred_at=happened
            )
            if waits:
                await checkpointer.put_writes(interrupt(f"sure of {at}?"), name, id_, "task")
        known[name, namespace] = {
            "title": said,
            "user": user,
            "happened_at": happened.isoformat(),
            "waiting": waits,
            "input_tokens": tokens,
            "cost_usd": cost,
            "messages": 2,
        }
    return known


def named(rows: list[Any]) -> list[tuple[str, tuple[str, ...]]]:
    return [(row["thread_id"], tuple(row["namespace"])) for row in rows]


async def pages(inspector: Inspector, limit: int, **asked: Any) -> list[list[Any]]:
    found, cursor = [], None
    while True:
        page = await inspector.threads(cursor=cursor, limit=limit, **asked)
        assert len(page["threads"]) <= limit
        found.append(page["threads"])
        cursor = page["next"]
        if cursor is None:
            return found


@pytest.mark.parametrize("seed", [1, 2])
async def test_a_row_says_what_a_thread_is_about(db: Database, seed: int) -> None:
    known = await fill(db, seed, 12)

    rows = (await Inspector(db).threads())["threads"]

    assert set(named(rows)) == set(known)
    for row in rows:
        wanted = known[row["thread_id"], tuple(row["namespace"])]
        assert {name: row[name] for name in wanted} == wanted
        assert (row["problem"], row["partial"]) == (None, False)
        assert (row["asked"] or "").startswith("sure of " if row["waiting"] else "")


def order_of(sort: str) -> Callable[[Any], Any]:
    names = {
        "happened": lambda row: datetime.fromisoformat(row["happened_at"]),
        "written": lambda row: row["updated_at"],
        "thread": lambda row: row["thread_id"],
        "steps": lambda row: row["checkpoints"] + row["entries"],
        "stored": lambda row: row["stored_bytes"],
        "tokens": lambda row: row["input_tokens"] + row["output_tokens"],
        "cost": lambda row: row["cost_usd"],
    }
    folded = lambda row: None if row[sort] is None else row[sort].casefold()  # noqa: E731
    numbers = ("messages", "errors")
    return names.get(sort) or ((lambda row: row[sort]) if sort in numbers else folded)


@pytest.mark.parametrize("sort", SORTS)
async def test_any_column_sorts_all_threads_and_pages_fit_together(db: Database, sort: str) -> None:
    known = await fill(db, 3, 23)
    inspector, value = Inspector(db), order_of(sort)
    for descending in (None, True, False):
        falls = sort in FALLING if descending is None else descending
        for limit in (1, 5, 50):
            rows = [
                row
                for page in await pages(inspector, limit, sort=sort, descending=descending)
                for row in page
            ]

            assert sorted(named(rows)) == sorted(known)
            values = [value(row) for row in rows]
            there = [one for one in values if one is not None]
            assert there == sorted(there, reverse=falls)
            assert values[len(there) :] == [None] * (len(values) - len(there))


FILTERS: dict[str, tuple[dict[str, Any], Callable[[Any, Any, int], bool]]] = {
    "user": ({"metadata": {"user_id": "ada"}}, lambda _, one, at: one["user"] == "ada"),
    "number": ({"metadata": {"n": "7"}}, lambda _, one, at: at == 7 and one["user"] is not None),
    "two pairs": (
        {"metadata": {"user_id": "bob", "n": "4"}},
        lambda _, one, at: at == 4 and one["user"] == "bob",
    ),
    "waiting": ({"waiting": True}, lambda _, one, at: one["waiting"]),
    "since": (
        {"since": START - timedelta(minutes=40_000)},
        lambda _, one, at: one["happened_at"] >= (START - timedelta(minutes=40_000)).isoformat(),
    ),
    "until": (
        {"until": START - timedelta(minutes=40_000)},
        lambda _, one, at: one["happened_at"] < (START - timedelta(minutes=40_000)).isoformat(),
    ),
    "a person": ({"about": "ünal"}, lambda _, one, at: one["user"] == "Ünal"),
    "markup": ({"about": "<b>EVE"}, lambda _, one, at: one["user"] == "<b>eve</b>"),
    "words": (
        {"about": "grinder"},
        lambda name, one, at: "grinder" in (name + one["title"]).casefold(),
    ),
    "signs": ({"about": "{x}%_"}, lambda name, one, at: "{x}%_" in name + one["title"]),
    "a question": ({"about": "sure of 1"}, lambda _, one, at: one["waiting"] and str(at)[0] == "1"),
    "all": (
        {"about": "trip", "waiting": True, "metadata": {"user_id": "ada"}},
        lambda name, one, at: (
            "trip" in name + one["title"] and one["waiting"] and one["user"] == "ada"
        ),
    ),
}


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("window", [4, 500])
async def test_filters_find_what_is_wanted_whatever_the_window(
    db: Database, monkeypatch: pytest.MonkeyPatch, name: str, window: int
) -> None:
    monkeypatch.setattr("memalchemy.inspection.thread_list.WINDOW", window)
    known = await fill(db, 4, 40)
    asked, wanted = FILTERS[name]
    expected = sorted(key for at, (key, one) in enumerate(known.items()) if wanted(key[0], one, at))
    inspector = Inspector(db)
    for limit in (1, 3, 50):
        for sort in (None, "happened", "cost"):
            found = await pages(inspector, limit, sort=sort, **asked)

            assert sorted(named([row for page in found for row in page])) == expected


async def test_a_page_looks_at_a_window_of_threads_and_says_so(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memalchemy.inspection.thread_list.WINDOW", 6)
    await fill(db, 5, 20)
    page = await Inspector(db).threads(sort="cost", limit=50)
    rest = await Inspector(db).threads(sort="cost", limit=50, cursor=page["next"])

    assert (page["looked"], page["window"], len(page["threads"])) == (6, 6, 6)
    assert (rest["looked"], len(rest["threads"])) == (6, 6)
    newest = (await Inspector(db).threads(limit=6))["threads"]
    assert sorted(named(page["threads"])) == sorted(named(newest))

    nobody = await Inspector(db).threads(metadata={"user_id": "nobody"}, limit=50)
    assert nobody["threads"] == []
    assert (nobody["looked"], nobody["next"] is None) == (6, False)


async def test_a_window_that_was_read_is_read_again_without_its_states(db: Database) -> None:
    await fill(db, 6, 30)
    inspector = Inspector(db)
    sent: list[int] = []
    for _ in range(2):
        with Watch() as watch:
            look, count = watch._look, [0]

            def noting(*args: Any, **more: Any) -> None:
                count[0] += 1  # noqa: B023
                look(*args, **more)  # noqa: B023

            watch._look = noting  # type: ignore[method-assign]
            await inspector.threads(sort="cost", limit=50)
        sent.append(count[0])

    assert sent[0] > 30
    assert sent[1] <= 8


async def test_windows_end_where_all_was_written_too_long_ago(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memalchemy.inspection.thread_list.WINDOW", 3)
    await fill(db, 7, 12)

    page = await Inspector(db).threads(since=datetime.now(UTC) + timedelta(hours=1))

    assert (page["threads"], page["next"]) == ([], None)


async def test_a_title_is_that_of_the_metadata_or_what_the_user_said_first(db: Database) -> None:
    checkpointer, log = Checkpointer(db), ThreadLog(db)
    system = {"role": "system", "content": "Be brief."}
    await checkpointer.save({"messages": [system, {"role": "user", "content": "Hello"}]}, "said")
    await checkpointer.save({"messages": [{"role": "user", "content": "Hello"}]}, "titled")
    await checkpointer.set_thread_metadata("titled", {"title": "A greeting"})
    await checkpointer.save({"number": 3}, "no messages")
    await log.append("long", [{"role": "user", "content": f"entry {at}"} for at in range(700)])
    rows = {row["thread_id"]: row for row in (await Inspector(db).threads())["threads"]}

    assert rows["said"]["title"] == "Hello"
    assert rows["titled"]["title"] == "A greeting"
    assert rows["no messages"]["title"] is None
    assert (rows["long"]["title"], rows["long"]["messages"]) == ("entry 0", 700)
    assert rows["long"]["partial"]


async def test_usage_in_the_metadata_of_steps_is_summed_up(db: Database) -> None:
    checkpointer = Checkpointer(db)
    for at in range(5):
        said = {"messages": [{"role": "user", "content": "x"}] * (at + 1)}
        await checkpointer.save(said, "t", metadata={"input_tokens": 10, "cost_usd": 0.5})
    await checkpointer.save({"messages": []}, "own")
    await checkpointer.set_thread_metadata("own", {"output_tokens": 7})
    rows = {row["thread_id"]: row for row in (await Inspector(db).threads())["threads"]}

    assert (rows["t"]["input_tokens"], rows["t"]["cost_usd"]) == (50, 2.5)
    assert (rows["own"]["output_tokens"], rows["own"]["cost_usd"]) == (7, None)


async def test_a_state_that_is_too_large_for_a_list_is_not_read(db: Database) -> None:
    checkpointer = Checkpointer(db)
    said = {"messages": [{"role": "user", "content": "x" * 2_000_000}]}
    id_ = await checkpointer.save(said, "large", metadata={"user_id": "ada"})
    await checkpointer.put_writes(interrupt("Go on?"), "large", id_, "task")
    (row,) = (await Inspector(db).threads())["threads"]

    assert (row["problem"], row["title"], row["messages"]) == ("large", None, None)
    assert (row["user"], row["asked"]) == ("ada", "Go on?")


UNREADABLE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "KeyMissing": ({"keys": [KEY]}, {"keys": [OTHER_KEY]}),
    "NotEncrypted": ({}, {"keys": [KEY]}),
    "Corrupt": ({}, {}),
    "Corrupt, of a signed database": ({"signing_keys": [KEY]}, {"signing_keys": [KEY]}),
}
"""Options of the database that wrote threads, and of the one that cannot read them."""


@pytest.mark.own_keys
@pytest.mark.own_signing_keys
@pytest.mark.parametrize("problem", UNREADABLE)
@pytest.mark.parametrize("window", [2, 500])
async def test_no_filter_of_contents_hides_a_thread_that_cannot_be_read(
    db: Database,
    shared_url: str,
    lasting: None,
    monkeypatch: pytest.MonkeyPatch,
    problem: str,
    window: int,
) -> None:
    monkeypatch.setattr("memalchemy.inspection.thread_list.WINDOW", window)
    written, read = UNREADABLE[problem]
    said = {"messages": [{"role": "user", "content": "Hello"}]}
    async with Database(shared_url, tenant=db.tenant, **written) as wrote:
        steps = Checkpointer(wrote)
        id_ = await steps.save(said, "waiting", metadata={"user_id": "ada"})
        await steps.put_writes(interrupt("Go on?"), "waiting", id_, "task")
        await steps.save(said, "idle", metadata={"user_id": "bob"})
        await ThreadLog(wrote).append("log", said["messages"])
    problem = problem.partition(",")[0]
    if problem == "Corrupt":
        async with db.transaction() as tx:
            await tx.execute(update(DELTAS).values(payload=b"\x00no"))
    async with Database(shared_url, tenant=db.tenant, **read) as blind:
        inspector = Inspector(blind)
        for asked in ({"waiting": True}, {"about": "Hello"}, {"about": "x", "waiting": True}):
            rows = [row for page in await pages(inspector, 2, **asked) for row in page]

            assert sorted(name for name, _ in named(rows)) == ["idle", "log", "waiting"], asked
            assert {(row["problem"], row["waiting"]) for row in rows} == {(problem, False)}
        by_metadata = {"metadata": {"user_id": "ada"}, "waiting": True}
        (row,) = [row for page in await pages(inspector, 2, **by_metadata) for row in page]
        assert row["thread_id"] == "waiting"
        person = await inspector.person("bob")
        assert [row["thread_id"] for row in person["threads"]] == ["idle"]


@pytest.mark.parametrize(
    "asked",
    [
        {"sort": "colour"},
        {"metadata": {str(at): "x" for at in range(17)}},
        {"about": "x" * 256},
        {"since": datetime(2026, 1, 1)},
        {"since": "2026-01-01"},
        {"until": date(2026, 1, 1)},
        {"about": 7},
        {"metadata": "a=b"},
        {"query": "a", "sort": "cost"},
        {"sort": "cost", "cursor": "WzFd"},
        {"sort": "cost", "cursor": "nonsense"},
    ],
    ids=[
        *("sort", "metadata", "about", "since", "a text", "a date", "a number", "no mapping"),
        *("part", "other list", "nonsense"),
    ],
)
async def test_what_cannot_be_listed_is_refused(db: Database, asked: Any) -> None:
    with pytest.raises(InvalidArgument):
        await Inspector(db).threads(**asked)
