"""Lost words and fields are rebuilt from the payloads; verify counts the rows that lack some."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from test_encryption import Open, change, opened, rows

from memalchemy import Checkpointer, Conflict, Database, Store, ThreadLog
from memalchemy.codec.encryption import generate_key
from memalchemy.contracts import Progress
from memalchemy.events import Event, subscribe
from memalchemy.rotation import rotate_keys
from memalchemy.verify import Report, verify
from memalchemy.words import rebuild_words

__all__ = ["opened"]

KEY, NEW = generate_key(), generate_key()
READABLE = ("text", "fields")
WORDS = [
    "zebra",
    "quagga",
    "okapi",
    "斑馬",
    "crème",
    "naïve",
    "42",
    "gnu",
    "eland",
    "kudu",
    "Straße",
    "ibex",
]

pytestmark = [
    pytest.mark.own_keys,
    pytest.mark.own_signing_keys,  # what somebody removes by SQL is not what was signed
    pytest.mark.usefixtures("lasting"),
]


async def fill(db: Database, seed: int) -> None:
    """Save states on branches, with gaps and without words; entries; items of every kind."""
    draw = random.Random(seed)

    def text() -> str:
        return " ".join(draw.choices(WORDS, k=draw.randint(0, 6)))

    agent, log, store = Checkpointer(db), ThreadLog(db), Store(db)
    sub = Checkpointer(db, namespace=("agents", "sub"))
    for thread in ("a", "b"):
        states: dict[str, dict[str, Any]] = {}
        for step in range(draw.randint(1, 12)):
            parent = draw.choice([None, *states]) if draw.random() < 0.4 else None
            newest = list(states.values())[-1] if states else {"messages": []}
            state = dict(newest if parent is None else states[parent])
            if draw.random() < 0.8:
                state["messages"] = [*state["messages"], {"role": "user", "text": text()}]
            state[draw.choice(["note", "plan"])] = draw.choice([text(), 7, [text(), {"x": text()}]])
            states[f"c{step}"] = state
            await agent.save(state, thread, f"c{step}", parent_id=parent)
            if draw.random() < 0.3:
                await sub.save(state, thread, f"c{step}")
        await log.append(f"log {thread}", [{"text": text()} for _ in range(draw.randint(1, 5))])
    for n in range(draw.randint(1, 12)):
        value = {"text": text(), "n": n, "deep": {"yes": n % 2 == 0}}
        if draw.random() < 0.2:
            value |= {f"field {i}": i for i in range(80)}  # more than have words
        await store.put(("notes", str(n % 3)), f"k{n}", draw.choice([value, text(), 5]), {"m": n})


async def words_of(db: Database, tenant: str) -> dict[str, list[tuple[Any, ...]]]:
    """The words of all rows of a tenant, beside what names the rows."""
    every = {table: await rows(db, table) for table in ("deltas", "store_items")}
    return {
        "deltas": sorted(
            (row["thread_id"], row["namespace"], row["seq"], row["kind"], row["search_text"] or "")
            for row in every["deltas"]
            if row["tenant"] == tenant
        ),
        "store_items": sorted(
            (row["namespace"], row["key"], row["search_text"] or "", row["field_terms"] or "")
            for row in every["store_items"]
            if row["tenant"] == tenant
        ),
    }


async def lose_by_rotation(opened: Open, seed: int) -> dict[str, Any]:
    await fill(await opened(keys=None, tenant="lost"), seed)
    report = await rotate_keys(await opened(keys=[KEY], tenant="lost"), drop_words=True)
    assert report.words
    return {"keys": [KEY]}


async def lose_by_a_second_rotation(opened: Open, seed: int) -> dict[str, Any]:
    await fill(await opened(keys=[KEY], readable=READABLE, tenant="lost"), seed)
    await rotate_keys(await opened(keys=[NEW, KEY], tenant="lost"), drop_words=True)
    await rotate_keys(await opened(keys=[KEY, NEW], tenant="lost"))
    return {"keys": [KEY]}


async def never_write_them(opened: Open, seed: int) -> dict[str, Any]:
    await fill(await opened(keys=[KEY], tenant="lost"), seed)
    return {"keys": [KEY]}


async def lose_by_sql(opened: Open, seed: int) -> dict[str, Any]:
    await fill(await opened(keys=None, tenant="lost"), seed)
    db = await opened(keys=None)
    await change(db, "UPDATE deltas SET search_text = NULL WHERE tenant = 'lost'")
    await change(
        db,
        "UPDATE store_items SET search_text = NULL, field_terms = NULL WHERE tenant = 'lost' "
        "AND namespace NOT LIKE '/~%'",
    )
    return {"keys": None}


ROADS: list[Callable[..., Any]] = [
    lose_by_rotation,
    lose_by_a_second_rotation,
    never_write_them,
    lose_by_sql,
]


def lost(report: Report, severity: str = "error") -> list[str]:
    findings = [f for f in report.findings if (f.code, f.severity) == ("lost-words", severity)]
    return [finding.sentence for finding in findings]


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("lose", ROADS, ids=lambda lose: lose.__name__)
async def test_what_was_lost_is_what_a_fresh_save_has(
    opened: Open, lose: Callable[..., Any], seed: int
) -> None:
    settings = await lose(opened, seed) | {"tenant": "lost"}
    if settings["keys"]:
        settings["readable"] = READABLE
    await fill(await opened(**settings | {"tenant": "fresh"}), seed)
    db = await opened(**settings)
    fresh = await words_of(db, "fresh")
    assert await words_of(db, "lost") != fresh
    before = await rows(db, "store_items")

    rehearsed = await rebuild_words(db, all_namespaces=True, dry_run=True)
    assert await words_of(db, "lost") != fresh
    told: list[Progress] = []
    report = await rebuild_words(db, all_namespaces=True, progress=told.append)

    assert await words_of(db, "lost") == fresh
    assert (report.states, report.entries, report.items, report.left) == (
        *(rehearsed.states, rehearsed.entries, rehearsed.items),
        0,
    )
    assert report.rebuilt
    assert report.unnamed == ()
    assert [one.done for one in told] == sorted(one.done for one in told)
    assert told[-1].done == told[-1].total
    after = await rows(db, "store_items")
    for name in ("version", "updated_at", "value", "codec"):
        was, now = ({(r["tenant"], r["key"]): r[name] for r in one} for one in (before, after))
        assert was == now
    assert (await verify(db)).findings == ()
    assert (await rebuild_words(db, all_namespaces=True)).rebuilt == 0


@pytest.mark.parametrize("lose", ROADS[:3], ids=lambda lose: lose.__name__)
async def test_verify_counts_what_lacks_words_where_they_may_be_read(
    opened: Open, lose: Callable[..., Any]
) -> None:
    settings = await lose(opened, 1) | {"tenant": "lost"}
    assert (await verify(await opened(**settings))).findings == (), "they may not be read"
    db = await opened(**settings, readable=READABLE)
    missing = await rebuild_words(db, all_namespaces=True, dry_run=True)

    report = await verify(db)

    assert not report.ok
    fields, texts = lost(report)
    assert " lack the words of their fields" in fields
    assert 1 < int(fields.split(" ")[0]) <= missing.items
    number = int(texts.split(" ")[0])
    assert missing.states + missing.entries < number <= missing.rebuilt
    assert all(f.remedy and "rebuild-words" in f.remedy for f in report.findings)
    one = await verify(db, thread_id="a")
    assert 0 < int(lost(one)[0].split(" ")[0]) < number
    await rebuild_words(db, all_namespaces=True)
    assert (await verify(db)).findings == ()
    assert (await verify(db, thread_id="a")).findings == ()


async def test_a_rotation_notes_what_it_removes_so_that_nobody_has_to_name_it(opened: Open) -> None:
    plain = await opened(keys=None)
    await fill(plain, 3)
    secrets, shown = Store(plain, index_text=False), ThreadLog(plain, namespace=("shown",))
    await secrets.put(("secrets",), "one", {"password": "swordfish"})
    await shown.append("t", ["a zebra"])
    await rotate_keys(await opened(keys=[KEY]), drop_words=True, all_tenants=True)
    db = await opened(keys=[KEY], readable=("text",))

    report = await rebuild_words(db)

    assert [(one.namespace, one.kind, one.rows) for one in report.unnamed] == [
        ("/secrets/", "items", 1)
    ]
    assert report.states
    assert report.entries
    assert report.items
    assert [hit.value for hit in await ThreadLog(db, namespace=("shown",)).search("zebra")] == [
        "a zebra"
    ]
    assert await Store(db).search(("secrets",), "swordfish") == []
    assert (await verify(db)).ok
    (note,) = lost(await verify(db), "note")
    assert note.startswith("1 row has texts and no words")
    assert (await rebuild_words(db)).rebuilt == 0
    await rebuild_words(db, namespaces=[("secrets",)])
    assert len(await Store(db).search(("secrets",), "swordfish")) == 1


async def test_a_killed_run_goes_on_where_it_was(opened: Open) -> None:
    settings = await lose_by_rotation(opened, 2) | {"tenant": "lost", "readable": READABLE}
    db = await opened(**settings)
    due = (await rebuild_words(db, dry_run=True)).rebuilt

    class Killed(BaseException):
        pass

    def kill(progress: Progress) -> None:
        if 0 < progress.done < progress.total:
            raise Killed

    with pytest.raises(Killed):
        await rebuild_words(db, progress=kill)
    left = (await rebuild_words(db, dry_run=True)).rebuilt
    assert 0 < left < due
    assert (await rebuild_words(db)).rebuilt == left


async def test_words_that_may_not_be_read_are_not_rebuilt(opened: Open) -> None:
    await never_write_them(opened, 1)
    db = await opened(keys=[KEY], tenant="lost")
    before = await words_of(db, "lost")

    with pytest.raises(Conflict, match="readable"):
        await rebuild_words(db, all_namespaces=True)

    assert await words_of(db, "lost") == before
    await rebuild_words(
        await opened(keys=[KEY], tenant="lost", readable=["fields"]), all_namespaces=True
    )
    after = await words_of(db, "lost")
    assert after["deltas"] == before["deltas"]
    assert [row[2] for row in after["store_items"]] == [row[2] for row in before["store_items"]]
    assert [row[3] for row in after["store_items"]] != [row[3] for row in before["store_items"]]


async def test_a_row_that_cannot_be_read_is_left_and_the_others_are_rebuilt(opened: Open) -> None:
    db = await opened(keys=None)
    await ThreadLog(db).append("t", ["a zebra", "a quagga"])
    await Store(db).put_batch([(("notes",), str(n), {"text": "an okapi"}) for n in range(3)])
    await change(db, "UPDATE deltas SET search_text = NULL")
    await change(db, "UPDATE store_items SET search_text = NULL WHERE namespace = '/notes/'")
    await change(db, "UPDATE deltas SET checksum = checksum + 1 WHERE seq = 1")
    await change(db, "UPDATE store_items SET checksum = 5 WHERE key = '1'")

    report = await rebuild_words(db, all_namespaces=True)

    assert (report.entries, report.items, report.left) == (1, 2, 2)
    assert len(await Store(db).search(("notes",), "okapi", limit=5)) == 2


async def test_a_signed_row_whose_words_somebody_removed_is_left(opened: Open) -> None:
    db = await opened(keys=None, signing_keys=[KEY])
    await ThreadLog(db).append("t", ["a zebra", "a quagga"])
    await change(db, "UPDATE deltas SET search_text = NULL WHERE seq = 1")

    report = await rebuild_words(db, all_namespaces=True)

    assert (report.entries, report.left) == (0, 1)


async def test_a_signed_database_is_signed_afterwards(opened: Open) -> None:
    signed = {"signing_keys": [NEW]}
    await fill(await opened(keys=[KEY], **signed), 4)
    db = await opened(keys=[KEY], readable=READABLE, **signed)

    report = await rebuild_words(db, all_namespaces=True)

    assert report.rebuilt
    assert not report.left
    assert (await verify(db)).findings == ()


async def test_a_run_is_an_event_that_counts_its_round_trips(opened: Open) -> None:
    db = await opened(keys=None)
    await ThreadLog(db).append("t", [f"zebra {n}" for n in range(1000)])
    await change(db, "UPDATE deltas SET search_text = NULL")
    events: list[Event] = []
    unsubscribe = subscribe(events.append)
    try:
        report = await rebuild_words(db, all_namespaces=True)
    finally:
        unsubscribe()

    assert report.entries == 1000
    assert [event.name for event in events].count("words") == 1
