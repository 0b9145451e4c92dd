"""Rotating keys: everything ends under the first, whatever it was under, while others save."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from test_encryption import (
    ITEM_MARKERS,
    MARKERS,
    SPACE,
    STATE,
    VALUE,
    Open,
    change,
    dump,
    fill,
    found_in,
    opened,
    rows,
)

from memalchemy import (
    Checkpointer,
    Conflict,
    Corrupt,
    Database,
    KeyMissing,
    NotEncrypted,
    Store,
    ThreadLog,
)
from memalchemy.codec.encryption import Keyring, generate_key
from memalchemy.contracts import Progress
from memalchemy.events import subscribe
from memalchemy.maintenance.rotation.key_rotation import KeyRotation
from memalchemy.rotation import rotate_keys
from memalchemy.space import reclaim
from memalchemy.verify import verify
from rows import of_thread

__all__ = ["opened"]

OLD, NEW, THIRD = generate_key(), generate_key(), generate_key()
ROWS = 6 + 1 + 4 + 7
"""Of logs, that `fill` makes: t, branch, forked, copied."""
ITEMS = 5

pytestmark = [pytest.mark.own_keys, pytest.mark.usefixtures("lasting")]


async def check_contents(db: Database) -> None:
    """What `fill` has filled is there."""
    agent, store = Checkpointer(db), Store(db)
    for step in range(6):
        for thread in ("t", "copied"):
            assert len((await agent.load(thread, f"c{step}"))["messages"]) == 3 + step
    assert await agent.load("t", "branch") == STATE
    assert await store.get(SPACE, "one") == VALUE
    assert await store.get(SPACE, "many 2") == VALUE | {"n": 2}


@pytest.mark.own_signing_keys  # what it forges has no signature
async def test_everything_is_read_with_the_new_key_alone_afterwards(opened: Open) -> None:
    await fill(await opened(keys=[OLD]))
    before = {row["key"]: row for row in await rows(await opened(keys=None), "store_items")}
    told: list[Progress] = []

    report = await rotate_keys(await opened(keys=[NEW, OLD]), progress=told.append)

    assert (report.rotated, report.left, report.damaged) == (ROWS + ITEMS, 0, 0)
    (use,) = report.uses
    assert (use.state, use.rows, use.items) == ("first", ROWS, ITEMS)
    assert [p.done for p in told] == sorted(p.done for p in told)
    assert (told[-1].done, told[-1].total) == (ROWS + ITEMS, ROWS + ITEMS)
    db = await opened(keys=[NEW])
    await check_contents(db)
    assert (await verify(db)).findings == ()
    for row in await rows(db, "store_items"):
        was = before[row["key"]]
        assert row["checksum"] != was["checksum"]
        assert {k for k in row if row[k] != was[k]} == {"checksum", "value"}, "and nothing else"
    with pytest.raises(KeyMissing):
        await Checkpointer(await opened(keys=[OLD])).load("t")


async def test_a_second_rotation_has_nothing_to_do(opened: Open) -> None:
    db = await opened(keys=[OLD])
    await fill(db)
    before = await rows(db, "deltas")

    report = await rotate_keys(db)

    assert (report.rotated, report.left) == (0, 0)
    assert await rows(db, "deltas") == before


async def test_a_dry_run_says_what_is_under_which_key_and_changes_nothing(opened: Open) -> None:
    await fill(await opened(keys=None))
    await Store(await opened(keys=[OLD])).put(SPACE, "old", VALUE)
    await Store(await opened(keys=[THIRD, OLD])).put(SPACE, "third", VALUE)
    db = await opened(keys=[NEW, OLD])
    await Store(db).put(SPACE, "new", VALUE)
    before = await rows(db, "store_items")

    report = await rotate_keys(db, dry_run=True)

    uses = {use.state: (use.key_id, use.rows, use.items) for use in report.uses}
    assert uses == {
        "plaintext": (None, ROWS, ITEMS),
        "given": (Keyring([OLD]).prefix[1:].hex(), 0, 1),
        "first": (Keyring([NEW]).prefix[1:].hex(), 0, 1),
        "missing": (Keyring([THIRD]).prefix[1:].hex(), 0, 1),
    }
    assert (report.left, report.rotated) == (ROWS + ITEMS + 2, 0)
    assert await rows(db, "store_items") == before

    done = await rotate_keys(db, encrypt_plaintext=True, drop_words=True)
    assert (done.left, done.rotated) == (1, ROWS + ITEMS + 1), "one key is missing"
    await check_contents(db)


@pytest.mark.needs("space that is given back")
async def test_what_was_not_encrypted_is_and_its_words_are_gone(opened: Open) -> None:
    await fill(await opened(keys=None))
    db = await opened(keys=[NEW])

    report = await rotate_keys(db, drop_words=True)

    assert report.words > 0
    assert {use.state for use in report.uses} == {"first"}
    await check_contents(db)
    assert (await verify(db)).findings == (), "recorded sizes too are those of what is stored"
    for table in ("deltas", "store_items"):
        for row in await rows(db, table):
            assert row["search_text"] is None
            assert row["codec"].endswith("+gcm2")
    await reclaim(db, full=True)  # what was deleted lies in free pages until then
    assert found_in(await dump(db), (*MARKERS, *ITEM_MARKERS)) == []


async def test_what_may_be_readable_stays_and_is_found(opened: Open) -> None:
    plain = await opened(keys=None)
    await fill(plain)
    await Store(plain).put_with_embedding(SPACE, "near", VALUE, [1.0, 0.5])
    db = await opened(keys=[NEW], readable=("text", "fields", "vectors"))

    report = await rotate_keys(db)

    assert (report.words, report.vectors, report.left) == (0, 0, 0)
    assert await Checkpointer(db).search("quaggatext")
    found = await Store(db).search(SPACE, "ibexvalue", filter={"n": 1})
    assert [hit.key for hit in found] == ["many 1"]
    near = await Store(db).search_by_embedding(SPACE, [1.0, 0.5])
    assert [one.item.key for one in near] == ["near"]
    assert (await verify(db)).findings == ()


async def test_vectors_are_not_removed_unless_that_is_said(opened: Open) -> None:
    plain = await opened(keys=None)
    await Store(plain).put_with_embedding(SPACE, "near", VALUE, [1.0, 0.5])
    db = await opened(keys=[NEW])

    with pytest.raises(Conflict, match=r"1 vectors.*drop_vectors=True") as raised:
        await rotate_keys(db)
    assert "nothing was changed" in str(raised.value)
    assert await Store(plain).get(SPACE, "near") == VALUE
    assert (await rotate_keys(db, dry_run=True)).vectors == 1

    assert (await rotate_keys(db, drop_vectors=True, drop_words=True)).vectors == 1
    assert await rows(db, "embeddings") == []
    assert await Store(db).get(SPACE, "near") == VALUE


async def test_words_go_when_they_may_not_be_readable_any_more(opened: Open) -> None:
    await fill(await opened(keys=[NEW], readable=("text", "fields")))
    db = await opened(keys=[NEW])

    report = await rotate_keys(db, drop_words=True)

    assert report.words > 0
    for row in await rows(db, "store_items"):
        assert (row["search_text"], row["field_terms"]) == (None, "fothers")
    await check_contents(db)


@pytest.mark.parametrize("readable", [("text",), ("fields",), ("text", "fields")])
@pytest.mark.parametrize("given", [(), ("text",), ("fields",), ("text", "fields"), ("vectors",)])
@pytest.mark.parametrize("new", [OLD, NEW], ids=["one key", "new key"])
async def test_words_are_not_removed_unless_that_is_said(
    opened: Open, readable: tuple[str, ...], given: tuple[str, ...], new: str
) -> None:
    await fill(await opened(keys=[OLD], readable=readable))
    db = await opened(keys=[new, OLD], readable=given)
    before = await rows(db, "deltas"), await rows(db, "store_items")
    if {*readable} <= {*given}:
        report = await rotate_keys(db)
        assert (report.words, report.left) == (0, 0)
    else:
        with pytest.raises(Conflict, match=r"words or fields.*drop_words=True") as raised:
            await rotate_keys(db)
        assert "nothing was changed" in str(raised.value)
        assert (await rows(db, "deltas"), await rows(db, "store_items")) == before
        assert (await rotate_keys(db, dry_run=True)).words > 0
    reader = await opened(keys=[new, OLD], readable=("text", "fields"))
    if "text" in readable:
        assert await Checkpointer(reader).search("quaggatext"), "what was found is found"
        assert await Store(reader).search(SPACE, "ibexvalue")


async def test_of_all_tenants_each_is_rotated_or_only_ones_own(opened: Open) -> None:
    old = await opened(keys=[OLD], tenant="a")
    for tenant in ("a", "b"):
        await fill(old.for_tenant(tenant))
    both = await opened(keys=[NEW, OLD], tenant="a")

    assert (await rotate_keys(both)).rotated == ROWS + ITEMS
    new = await opened(keys=[NEW], tenant="a")
    await check_contents(new)
    with pytest.raises(KeyMissing):
        await check_contents(new.for_tenant("b"))
    assert (await rotate_keys(both, all_tenants=True)).rotated == ROWS + ITEMS
    await check_contents(new.for_tenant("b"))


async def test_a_damaged_row_is_left_and_counted_and_the_others_are_rotated(opened: Open) -> None:
    db = await opened(keys=[OLD])
    await fill(db)
    damaged = b"\x01" + Keyring([OLD]).prefix[1:] + b"x" * 60
    await change(db, "UPDATE store_items SET value = :v WHERE key = 'one'", v=damaged)

    report = await rotate_keys(await opened(keys=[NEW, OLD]))

    assert (report.damaged, report.left, report.rotated) == (1, 1, ROWS + ITEMS - 1)
    with pytest.raises(Corrupt):
        await Store(await opened(keys=[NEW, OLD])).get(SPACE, "one")


async def test_a_save_on_a_base_that_was_rotated_since_looks_again(opened: Open) -> None:
    old = await opened(keys=[OLD, NEW])
    agent = Checkpointer(old)
    long = {"long": "x" * 3000, "more": list(range(300))}
    trips: list[int] = []
    unsubscribe = subscribe(
        lambda event: trips.append(event.round_trips) if event.name == "checkpoint.save" else None
    )
    for step in range(4):
        await agent.save(long | {"step": step}, "t", f"c{step}")

    await rotate_keys(await opened(keys=[NEW, OLD]))
    await agent.save(long | {"step": 4}, "t", "c4")
    await agent.save(long | {"step": 5}, "t", "c5", expected_parent="c4")
    unsubscribe()
    first, *cached, noticed, again = trips
    assert {*cached} == {again}, "what was saved is a base as it is cached"
    assert noticed > again
    assert first >= again
    await rotate_keys(await opened(keys=[NEW, OLD]))
    await agent.save(long | {"step": 6}, "t", "c6", expected_parent="c5")
    await rotate_keys(await opened(keys=[NEW, OLD]))
    await agent.save(long | {"step": 7}, "t", "c7", parent_id="c6")

    await rotate_keys(await opened(keys=[NEW, OLD]))
    db = await opened(keys=[NEW])
    assert (await verify(db)).findings == ()
    for step in range(8):
        assert (await Checkpointer(db).load("t", f"c{step}"))["step"] == step
    kinds = [row["kind"] for row in await rows(db, "deltas")]
    assert kinds.count("snapshot") == 1, "the base was read again, not done without"


async def test_two_rotations_at_once_do_not_disturb_each_other(opened: Open) -> None:
    await fill(await opened(keys=[OLD]))
    databases = [await opened(keys=[NEW, OLD]) for _ in range(2)]

    reports = await asyncio.gather(*(rotate_keys(db) for db in databases))

    assert [report.left for report in reports] == [0, 0]
    await check_contents(await opened(keys=[NEW]))


async def test_what_is_written_between_reading_and_writing_a_row_stays(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await opened(keys=[OLD, NEW])
    agent, store = Checkpointer(old), Store(old)
    long = {"long": "x" * 3000, "more": list(range(300))}
    for step in range(4):
        await agent.save(long | {"step": step}, "t", f"c{step}")
    await store.put(SPACE, "k", "older")
    write = KeyRotation._write_changes
    meanwhile: list[str] = []

    async def late(rotation: KeyRotation, changes: Any) -> Any:
        if not meanwhile:
            meanwhile.append("states")
            await agent.delete("t", "c0")
            await agent.rewrite("t")  # the same positions, on other bases
        elif len(meanwhile) == 1:
            meanwhile.append("items")
            await store.put(SPACE, "k", "newer")
        return await write(rotation, changes)

    monkeypatch.setattr(KeyRotation, "_write_changes", late)
    report = await rotate_keys(await opened(keys=[NEW, OLD]))

    assert (report.left, meanwhile) == (0, ["states", "items"])
    db = await opened(keys=[NEW])
    assert await Store(db).get(SPACE, "k") == "newer"
    assert (await verify(db)).findings == ()
    for step in range(1, 4):
        assert await Checkpointer(db).load("t", f"c{step}") == long | {"step": step}


async def test_a_rotation_beside_puts_loses_none_of_them(opened: Open) -> None:
    store = Store(await opened(keys=[OLD, NEW]))
    both = await opened(keys=[NEW, OLD])

    async def count(key: str) -> None:
        for n in range(25):
            await store.put(SPACE, key, {"n": n})

    async def rotate() -> None:
        for _ in range(6):
            await rotate_keys(both)

    await asyncio.gather(rotate(), *(count(f"k{n}") for n in range(4)))

    for n in range(4):
        item = await store.get_item(SPACE, f"k{n}")
        assert item is not None
        assert (item.value, item.version) == ({"n": 24}, 25)
    assert (await rotate_keys(both)).left == 0
    assert (await verify(await opened(keys=[NEW]))).findings == ()


async def test_it_needs_keys(opened: Open) -> None:
    with pytest.raises(ValueError, match="keys="):
        await rotate_keys(await opened(keys=None))


async def test_verify_says_what_it_cannot_look_into(opened: Open) -> None:
    await fill(await opened(keys=[OLD]))

    with_key = await verify(await opened(keys=[OLD]))
    without: Any = await verify(await opened(keys=None))
    wrong = await verify(await opened(keys=[NEW]))

    assert (with_key.ok, with_key.findings) == (True, ())
    assert with_key.states == ROWS
    assert without.ok
    (note,) = without.findings
    assert (note.code, note.severity) == ("unchecked", "note")
    assert note.sentence.startswith(f"{ROWS + ITEMS} rows are encrypted")
    assert not wrong.ok
    (finding,) = wrong.findings
    assert (finding.code, wrong.errors) == ("key", 1)
    assert finding.sentence.startswith(f"{ROWS + ITEMS} rows encrypted with the key ")
    assert finding.affected_count >= ITEMS


async def test_the_remedy_of_plaintext_names_its_tenant(opened: Open) -> None:
    plain = (await opened(keys=None)).for_tenant("acme")
    await Store(plain).put(SPACE, "plain", 1)
    await Store(plain).delete(SPACE, "plain")
    await Store((await opened(keys=[OLD])).for_tenant("acme")).put(SPACE, "first", 1)
    await Store(plain).put(SPACE, "plain", 1)

    report = await verify(await opened(keys=[OLD]), all_tenants=True)
    (finding,) = report.findings
    assert finding.remedy is not None
    assert finding.remedy.count("memalchemy --tenant acme rotate-keys --") == 2


@pytest.mark.parametrize("sample", [None, 1])
async def test_a_tenant_that_was_never_encrypted_has_one_finding(
    opened: Open, sample: int | None
) -> None:
    plain = (await opened(keys=None)).for_tenant("acme")
    await fill(plain)
    db = await opened(keys=[OLD])
    await Store(db).put(SPACE, "first", 1)

    report = await verify(db, all_tenants=True, sample=sample)

    (finding,) = report.findings
    assert (finding.code, finding.tenant) == ("plaintext", "acme")
    assert finding.sentence.startswith("no key is registered for the tenant, and ")
    assert finding.remedy == "memalchemy --tenant acme rotate-keys encrypts it"
    if sample is None:
        assert f"{ROWS + ITEMS} rows not encrypted" in finding.sentence
        await rotate_keys(db.for_tenant("acme"), drop_words=True)
        assert (await verify(db, all_tenants=True)).ok


async def test_verify_finds_damaged_bytes_without_a_key_and_what_is_not_encrypted_with_one(
    opened: Open,
) -> None:
    plain = await opened(keys=None)
    await Store(plain).put(SPACE, "first", "plain")  # and goes on without keys from then on
    await Store(plain).delete(SPACE, "first")
    db = await opened(keys=[OLD])
    await fill(db)
    await Store(plain).put(SPACE, "slipped in", "plain")
    found = {f.key: f for f in (await verify(db)).findings}
    assert found.keys() == {"slipped in"}
    assert (found["slipped in"].code, found["slipped in"].remedy) == (
        "plaintext",
        "see who wrote it: memalchemy rotate-keys --dry-run lists all such rows; if it is "
        "genuine, memalchemy rotate-keys --encrypt-plaintext",
    )
    await change(db, "UPDATE store_items SET checksum = checksum + 1 WHERE key = 'one'")
    await change(db, f"UPDATE deltas SET checksum = checksum + 1 WHERE {of_thread('forked')}")

    report = await verify(await opened(keys=None))

    errors = [finding for finding in report.findings if finding.severity == "error"]
    assert {(f.code, f.key or f.thread_id) for f in errors} == {
        ("payload", "one"),
        ("payload", "forked"),
    }
    wrong = await verify(await opened(keys=[NEW]))
    (asked,) = [finding for finding in wrong.findings if finding.code == "key"]
    assert asked.remedy == "run verify with the key in MEMALCHEMY_KEYS, too"


async def forge(db: Database, tenant: str = "default") -> None:
    """Put rows of one who may write to the tables, and has no key, in the place of encrypted ones:
    a state, an entry, and an item.
    """
    aside = await _plain_rows(db)
    for table, name in (
        ("deltas", "forged"),
        ("deltas", "log"),
        ("store_items", "forged"),
    ):
        column = "payload" if table == "deltas" else "value"
        row = next(row for row in aside[table] if name in row.values())
        where = of_thread(name) if table == "deltas" else f"key = '{name}'"
        await change(
            db,
            f"UPDATE {table} SET codec = :codec, checksum = :checksum, {column} = :payload "
            f"WHERE tenant = '{tenant}' AND {where}",
            codec=row["codec"],
            checksum=row["checksum"],
            payload=bytes(row[column]),
        )


async def _plain_rows(db: Database) -> dict[str, list[dict[str, Any]]]:
    return {
        table: [row for row in await rows(db, table) if row["tenant"] == "aside"]
        for table in ("deltas", "store_items")
    }


async def _write_some(db: Database, said: str) -> None:
    await Checkpointer(db).save({"said": said}, "forged", "c")
    await ThreadLog(db).append("log", [said])
    await Store(db).put(SPACE, "forged", said)


@pytest.fixture
async def forged(opened: Open) -> Database:
    """A tenant of which a state, an entry and an item were forged in plaintext."""
    await _write_some(await opened(keys=[OLD]), "genuine")
    await Store(await opened(keys=[OLD])).put(SPACE, "genuine", 1)
    plain = await opened(keys=None)
    await _write_some(plain.for_tenant("aside"), "forged")
    await forge(plain)
    return await opened(keys=[NEW, OLD])  # type: ignore[no-any-return]


FORGED = {
    "item 'forged' in /users/ada of tenant 'default'",
    "position 1 of thread 'forged' in / of tenant 'default'",
    "position 1 of thread 'log' in /log of tenant 'default'",
}


@pytest.mark.parametrize("all_tenants", [False, True])
@pytest.mark.own_signing_keys  # what it forges has no signature
async def test_what_is_not_encrypted_in_an_encrypted_tenant_is_left_and_named(
    opened: Open, forged: Database, all_tenants: bool
) -> None:
    report = await rotate_keys(forged, all_tenants=all_tenants, drop_words=all_tenants)

    assert {str(row) for row in report.refused} == FORGED
    assert (report.adopted, report.left) == ((), 3)
    for keys in ([NEW, OLD], [NEW]):
        db = await opened(keys=keys)
        with pytest.raises(NotEncrypted):
            await Checkpointer(db).load("forged")
        with pytest.raises(NotEncrypted):
            await ThreadLog(db).range("log")
        with pytest.raises(NotEncrypted) as refused:
            await Store(db).get(SPACE, "forged")
        assert "may be forged" in str(refused.value)
        assert "--dry-run" in str(refused.value)
        assert await Store(db).get(SPACE, "genuine") == 1


@pytest.mark.own_signing_keys  # what it forges has no signature
async def test_it_is_encrypted_where_that_is_asked_for_and_named_then(forged: Database) -> None:
    dry = await rotate_keys(forged, encrypt_plaintext=True, dry_run=True)
    assert ({str(row) for row in dry.adopted}, dry.refused) == (FORGED, ())

    report = await rotate_keys(forged, encrypt_plaintext=True)

    assert ({str(row) for row in report.adopted}, report.refused, report.left) == (FORGED, (), 0)
    assert await Store(forged).get(SPACE, "forged") == "forged"
    assert (await rotate_keys(forged, encrypt_plaintext=True)).adopted == ()


async def test_a_dry_run_names_what_would_be_left(forged: Database) -> None:
    report = await rotate_keys(forged, dry_run=True)

    assert ({str(row) for row in report.refused}, report.adopted) == (FORGED, ())


async def test_no_other_key_takes_over_what_is_not_encrypted(
    opened: Open, forged: Database
) -> None:
    report = await rotate_keys(await opened(keys=[THIRD]), encrypt_plaintext=True)

    assert {str(row) for row in report.refused} == FORGED
    assert (report.rotated, report.adopted) == (0, ())


async def test_what_is_not_encrypted_is_held_to_its_checksum_first(
    opened: Open, forged: Database
) -> None:
    for table, ours in (("deltas", ""), ("store_items", "AND namespace NOT LIKE '/~%'")):
        await change(
            forged,
            f"UPDATE {table} SET checksum = checksum + 1 "
            f"WHERE tenant = 'default' AND codec NOT LIKE '%+gcm2' {ours}",
        )

    report = await rotate_keys(forged, encrypt_plaintext=True)

    assert (report.damaged, report.left, report.adopted) == (3, 3, ())


@pytest.mark.own_signing_keys  # what it forges has no signature
async def test_plaintext_that_comes_between_looking_and_reading_is_left_too(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _write_some(await opened(keys=[OLD]), "genuine")
    plain = await opened(keys=None)
    await _write_some(plain.for_tenant("aside"), "forged")
    forging = [True]
    read = KeyRotation._read_rows

    async def late(rotation: KeyRotation, batch: Any) -> Any:
        if forging and forging.pop():
            await forge(plain)
        return await read(rotation, batch)

    monkeypatch.setattr(KeyRotation, "_read_rows", late)
    report = await rotate_keys(await opened(keys=[NEW, OLD]))

    assert {str(row) for row in report.refused} == FORGED
    with pytest.raises(NotEncrypted):
        await Checkpointer(await opened(keys=[NEW])).load("forged")
