"""Anchors: an older copy that is put back, and what is removed, is refused; what agents do is not.

Each attack here is one that signatures believe: every row of it was signed by the library itself.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import Connection, and_, delete, insert, select, update

from clocks import Clock
from lifetimes import MOMENT
from memalchemy import Checkpointer, Database, Store, ThreadLog
from memalchemy.anchors import Anchor, anchor
from memalchemy.codec import anchors as codec
from memalchemy.codec.secret_keys import generate_key
from memalchemy.errors import Corrupt, KeyMissing
from memalchemy.maintenance import anchor_reading
from memalchemy.protection import removals
from memalchemy.schema import Base
from memalchemy.signing import sign
from memalchemy.store.jsonl import import_items
from memalchemy.transfer import copy
from memalchemy.verify import verify

pytestmark = pytest.mark.own_signing_keys

KEY, OTHER_KEY = generate_key(), generate_key()
NS = ("notes",)
LOGS = ("threads", "checkpoints", "deltas")
TABLES: dict[str, Any] = {
    name: Base.metadata.tables[name] for name in (*LOGS, "store_items", "embeddings")
}


def signed(url: str, tenant: str, **options: Any) -> Database:
    options.setdefault("signing_keys", [KEY])
    return Database(url, tenant=tenant, **options)


@pytest.fixture
def tenant() -> str:
    return f"t-{uuid.uuid4().hex[:16]}"


@pytest.fixture(autouse=True)
def one_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """All is written by this process, so that its clock tells which of two lives was earlier."""
    monkeypatch.setattr(codec, "SKEW", timedelta(0))


@pytest.fixture
async def db(shared_url: str, tenant: str, lasting: None) -> AsyncIterator[Database]:
    """A thread, a log and an item, each with an equal one beside it."""
    async with signed(shared_url, tenant) as db:
        for place in ("mine", "beside"):
            await grow(db, place)
        yield db


async def grow(db: Database, place: str) -> None:
    """Write some states, entries and versions to a place."""
    for step in range(3):
        await Checkpointer(db).save({"step": step}, place, metadata={"of": place})
        await ThreadLog(db).append(place, [{"step": step}])
        await Store(db).put(NS, place, {"step": step}, {"of": place})


async def load(db: Database, place: str) -> Any:
    return await Checkpointer(db).load(place)


async def snapshot(db: Database, place: str) -> Any:
    return await Checkpointer(db).snapshot(place)


async def history(db: Database, place: str) -> Any:
    return [one async for one in Checkpointer(db).history(place)]


async def entries(db: Database, place: str) -> Any:
    return await ThreadLog(db).range(place)


async def tail(db: Database, place: str) -> Any:
    return await ThreadLog(db).tail(place, 2)


async def get(db: Database, place: str) -> Any:
    return await Store(db).get(NS, place)


async def get_items(db: Database, place: str) -> Any:
    return await Store(db).get_items([(NS, place)])


async def exists(db: Database, place: str) -> Any:
    return await Store(db).exists(NS, place)


async def list_items(db: Database, place: str) -> Any:
    return [one async for one in Store(db).iter_items(NS, filter={"$metadata": {"of": place}})]


async def search(db: Database, place: str) -> Any:
    return await Store(db).search(NS, filter={"$metadata": {"of": place}})


async def save(db: Database, place: str) -> Any:
    return await Checkpointer(db).save({"step": 99}, place)


async def append(db: Database, place: str) -> Any:
    return await ThreadLog(db).append(place, ["more"])


STATES, ENTRIES = (load, snapshot, history, save), (entries, tail, append)


async def put(db: Database, place: str) -> Any:
    return await Store(db).put(NS, place, "over it")


async def put_batch(db: Database, place: str) -> Any:
    return await Store(db).put_batch([(NS, "other", 1), (NS, place, "over it")])


ITEMS_FOUND = (put, put_batch, get, get_items, list_items, search)
ITEMS_MISSED = (put, put_batch, get, get_items, exists)
BY_FIELDS = (list_items, search)
EVERY = (load, snapshot, history, entries, tail, get, get_items, exists, list_items, search)

Rows = dict[str, list[dict[str, Any]]]


async def rows_of(db: Database) -> Rows:
    """Return all rows of a tenant, as somebody copies them who has a password and no key."""

    def job(connection: Connection) -> Rows:
        return {
            name: [dict(row) for row in connection.execute(_of(table, db.tenant)).mappings()]
            for name, table in TABLES.items()
        }

    return await db.run_sync(job)


def _of(table: Any, tenant: str) -> Any:
    query = select(*table.c).where(table.c.tenant == tenant)
    if table.name == "store_items":
        query = query.where(table.c.namespace == "/notes/")
    return query


def _is_of(row: dict[str, Any], place: str, logs: set[Any]) -> bool:
    return row.get("key") == place or row.get("log_id") in logs


async def put_back(db: Database, old: Rows, place: str, tables: tuple[str, ...] = LOGS) -> None:
    """Replace a place's rows by older ones of the same tables; with no older ones, remove them."""
    now = await rows_of(db)
    logs = {
        row["log_id"] for rows in (old, now) for row in rows["threads"] if row["thread_id"] == place
    }

    def job(connection: Connection) -> None:
        for name in reversed(tables):
            table = TABLES[name]
            for row in now[name]:
                if _is_of(row, place, logs):
                    keys = (table.c[key.name] == row[key.name] for key in table.primary_key)
                    connection.execute(delete(table).where(*keys))
        for name in tables:
            rows = [row for row in old[name] if _is_of(row, place, logs)]
            if rows:
                connection.execute(insert(TABLES[name]), rows)

    await db.run_sync(job)


NOTHING: Rows = {name: [] for name in TABLES}
ITEM = ("store_items",)


async def roll_back_states(db: Database, before: Rows) -> Anchor:
    await save(db, "mine")
    taken = await anchor(db)
    await put_back(db, before, "mine")
    return taken


async def roll_back_entries(db: Database, before: Rows) -> Anchor:
    await append(db, "mine")
    taken = await anchor(db)
    await put_back(db, before, "mine")
    return taken


async def roll_back_writes(db: Database, before: Rows) -> Anchor:
    newest = (await history(db, "mine"))[0].checkpoint_id
    await Checkpointer(db).put_writes([("channel", 1)], "mine", newest, "task")
    taken = await anchor(db)
    await put_back(db, before, "mine")
    return taken


async def remove_logs(db: Database, before: Rows) -> Anchor:
    taken = await anchor(db)
    await put_back(db, NOTHING, "mine")
    return taken


async def put_back_deleted_thread(db: Database, before: Rows) -> Anchor:
    """After another anchor: the one before does not know that it was deleted."""
    first = await anchor(db)
    await Checkpointer(db).delete("mine")
    taken = await anchor(db, first)
    await put_back(db, before, "mine")
    return taken


async def put_back_earlier_life_of_thread(db: Database, before: Rows) -> Anchor:
    await Checkpointer(db).forget(thread_id="mine")
    await save(db, "mine")
    await append(db, "mine")
    taken = await anchor(db)
    await put_back(db, before, "mine")
    return taken


async def roll_back_item(db: Database, before: Rows) -> Anchor:
    await Store(db).put(NS, "mine", {"step": 9}, {"of": "mine"})
    taken = await anchor(db)
    await put_back(db, before, "mine", ITEM)
    return taken


async def remove_item(db: Database, before: Rows) -> Anchor:
    taken = await anchor(db)
    await put_back(db, NOTHING, "mine", ITEM)
    return taken


async def put_back_deleted_item(db: Database, before: Rows) -> Anchor:
    first = await anchor(db)
    await Store(db).delete(NS, "mine")
    taken = await anchor(db, first)
    await put_back(db, before, "mine", ITEM)
    return taken


async def put_back_earlier_life_of_item(db: Database, before: Rows) -> Anchor:
    await Store(db).delete(NS, "mine")
    await Store(db).put(NS, "mine", {"step": 0}, {"of": "mine"})
    taken = await anchor(db)
    await put_back(db, before, "mine", ITEM)
    return taken


Attack = Callable[[Database, Rows], Awaitable[Anchor]]
Reads = tuple[Callable[[Database, str], Awaitable[Any]], ...]
ATTACKS: dict[Attack, Reads] = {
    roll_back_states: STATES,
    roll_back_entries: ENTRIES,
    roll_back_writes: (load, snapshot, save),
    remove_logs: (*STATES, *ENTRIES),
    put_back_deleted_thread: (*STATES, *ENTRIES),
    put_back_earlier_life_of_thread: (*STATES, *ENTRIES),
    roll_back_item: ITEMS_FOUND,
    remove_item: ITEMS_MISSED,
    put_back_deleted_item: ITEMS_FOUND,
    put_back_earlier_life_of_item: ITEMS_FOUND,
}


@pytest.mark.parametrize("attack", ATTACKS)
async def test_what_signatures_believe_is_refused_by_an_anchor_and_its_neighbours_are_not(
    db: Database, shared_url: str, attack: Attack
) -> None:
    taken = await attack(db, await rows_of(db))

    assert (await verify(db)).findings == ()
    report = await verify(db, anchor=taken)
    assert {one.code for one in report.findings} == {"anchor"}
    assert {one.thread_id or one.key for one in report.findings} <= {"mine", None}
    with pytest.raises(Corrupt, match="no new anchor was taken"):
        await anchor(db, taken, full=True)
    async with signed(shared_url, db.tenant, anchor=taken) as held:
        for read in ATTACKS[attack]:
            with pytest.raises(Corrupt, match="anchor"):
                await read(held, "mine")
        for read in EVERY:
            if read in BY_FIELDS and not held.dialect.text.indexes_fields:
                continue  # each item is read, the refused one as well, to see whether it fits
            assert await read(held, "beside"), read
        await save(held, "beside")
        await append(held, "beside")


@pytest.mark.parametrize("tables", [LOGS, ITEM])
async def test_verify_finds_what_was_removed_with_a_key_since_and_is_there_again(
    db: Database, tables: tuple[str, ...]
) -> None:
    before, taken = await rows_of(db), await anchor(db)
    await Checkpointer(db).delete("mine")
    await Store(db).delete(NS, "mine")
    await put_back(db, before, "mine", tables)
    report = await verify(db, anchor=taken)
    assert {one.code for one in report.findings} == {"anchor"}
    assert {one.thread_id or one.key for one in report.findings} == {"mine"}
    assert all("there again" in one.sentence for one in report.findings)


async def test_a_proof_of_one_life_does_not_excuse_the_removal_of_a_later_one(
    db: Database,
) -> None:
    first = await anchor(db)
    await Store(db).delete(NS, "mine")
    await Checkpointer(db).forget(thread_id="mine")
    await grow(db, "mine")
    taken = await anchor(db, first)
    await put_back(db, NOTHING, "mine")
    await put_back(db, NOTHING, "mine", ITEM)
    report = await verify(db, anchor=taken)
    assert [one.code for one in report.findings] == ["anchor"] * 3


# --- What agents do ------------------------------------------------------------------------------


async def change_everything(db: Database) -> None:
    await grow(db, "mine")
    await grow(db, "another")


async def delete_thread(db: Database) -> None:
    await Checkpointer(db).delete("mine")


async def delete_and_begin_thread_anew(db: Database) -> None:
    await Checkpointer(db).delete("mine")
    await grow(db, "mine")


async def forget_and_begin_thread_anew(db: Database) -> None:
    await Checkpointer(db).forget(thread_id="mine")
    await save(db, "mine")


async def forget_thread(db: Database) -> None:
    await Checkpointer(db).forget(thread_id="mine")


async def forget_metadata(db: Database) -> None:
    await Checkpointer(db).forget(metadata={"of": "mine"})


async def forget_namespace_of_threads(db: Database) -> None:
    await Checkpointer(db, namespace=("eu",)).save({"n": 1}, "mine")
    await Checkpointer(db).forget(namespace=("eu",))


async def forget_tenant(db: Database) -> None:
    await Checkpointer(db).forget(tenant=db.tenant)


async def forget_tenant_and_begin_anew(db: Database) -> None:
    await Checkpointer(db).forget(tenant=db.tenant)
    await grow(db, "mine")


async def expire_thread_and_begin_anew(db: Database) -> None:
    await Checkpointer(db).save({"short": 1}, "mine", ttl=MOMENT)
    await grow(db, "mine")


async def expire_thread_and_vacuum(db: Database) -> None:
    await Checkpointer(db).save({"short": 1}, "mine", ttl=MOMENT)
    await Checkpointer(db).vacuum(None)


async def vacuum_idle_threads(db: Database) -> None:
    await Checkpointer(db).vacuum(0)


async def rewrite(db: Database) -> None:
    await Checkpointer(db).rewrite("mine")


async def fork(db: Database) -> None:
    await Checkpointer(db).delete("mine")
    await Checkpointer(db).fork("beside", new_thread_id="mine")


async def replace_checkpoint(db: Database) -> None:
    newest = (await history(db, "mine"))[0].checkpoint_id
    await Checkpointer(db).save({"step": "again"}, "mine", newest)


async def set_thread_metadata(db: Database) -> None:
    await Checkpointer(db).set_thread_metadata("mine", {"title": "a thread"})


async def write_ahead(db: Database) -> None:
    await Checkpointer(db).put_writes([("channel", 1)], "mine", "later", "task")


async def change_entries(db: Database) -> None:
    log = ThreadLog(db)
    await log.edit("mine", 2, "edited")
    await log.pop("mine")
    await log.append("mine", ["one", "two"])
    await log.remove("mine", [1])


async def clear_entries(db: Database) -> None:
    await ThreadLog(db).clear("mine")


async def delete_item(db: Database) -> None:
    await Store(db).delete(NS, "mine")


async def delete_and_put_item_anew(db: Database) -> None:
    await Store(db).delete(NS, "mine")
    await Store(db).put(NS, "mine", "anew")


async def delete_items(db: Database) -> None:
    await Store(db).delete_batch([(NS, "mine"), (NS, "beside")])


async def delete_matching(db: Database) -> None:
    await Store(db).delete_matching(NS, {"$metadata": {"of": "mine"}})


async def clear_namespace(db: Database) -> None:
    await Store(db).clear_namespace(NS)


async def forget_namespace(db: Database) -> None:
    await Store(db).forget_namespace(NS)


async def expire_item_and_sweep(db: Database) -> None:
    await Store(db).put(NS, "mine", "short", ttl=MOMENT)
    await Store(db).sweep()


async def expire_item_and_put_anew(db: Database) -> None:
    await Store(db).put(NS, "mine", "short", ttl=MOMENT)
    await Store(db).put(NS, "mine", "anew")


async def expire_item_and_put_batch(db: Database) -> None:
    await Store(db).put(NS, "mine", "short", ttl=MOMENT)
    await Store(db).put_batch([(NS, "mine", "anew"), (NS, "new", 1)])


async def expire_item(db: Database) -> None:
    await Store(db).put(NS, "mine", "short", ttl=MOMENT)


async def extend_lifetime(db: Database) -> None:
    await Store(db).put(NS, "mine", "long", ttl=100)
    await Store(db).refresh([(NS, "mine")])


async def change_in_a_transaction(db: Database) -> None:
    async with db.transaction() as tx:
        await Store(db).delete(NS, "mine", connection=tx)
        await Checkpointer(db).delete("mine", connection=tx)
        await Store(db).put(NS, "mine", "anew", connection=tx)


async def import_lines(db: Database) -> None:
    lines = [b'{"namespace": ["notes"], "key": "line", "value": {"n": 1}}']
    [one async for one in import_items(Store(db), lines)]


LEGITIMATE = (
    change_everything,
    delete_thread,
    delete_and_begin_thread_anew,
    forget_and_begin_thread_anew,
    forget_thread,
    forget_metadata,
    forget_namespace_of_threads,
    forget_tenant,
    forget_tenant_and_begin_anew,
    expire_thread_and_begin_anew,
    expire_thread_and_vacuum,
    vacuum_idle_threads,
    rewrite,
    fork,
    replace_checkpoint,
    set_thread_metadata,
    write_ahead,
    change_entries,
    clear_entries,
    delete_item,
    delete_and_put_item_anew,
    delete_items,
    delete_matching,
    clear_namespace,
    forget_namespace,
    expire_item_and_sweep,
    expire_item_and_put_anew,
    expire_item_and_put_batch,
    expire_item,
    extend_lifetime,
    change_in_a_transaction,
    import_lines,
)


@pytest.mark.parametrize("change", LEGITIMATE)
async def test_what_agents_do_is_not_taken_for_a_rollback(
    db: Database, shared_url: str, change: Callable[[Database], Awaitable[None]]
) -> None:
    taken = await anchor(db)
    async with signed(shared_url, db.tenant, anchor=taken) as held:
        await change(held)
        for place in ("mine", "beside", "another"):
            for read in (*EVERY, save, append):
                await read(held, place)
    assert (await verify(db, anchor=taken)).findings == ()
    new, full = await anchor(db, taken), await anchor(db, taken, full=True)
    assert records(new) == records(full)
    assert (await verify(db, anchor=new)).findings == ()
    async with signed(shared_url, db.tenant, anchor=new) as held:
        for place in ("mine", "beside", "another"):
            for read in EVERY:
                await read(held, place)


def records(taken: Anchor) -> list[Any]:
    """Return the records of an anchor of one tenant."""
    (section,) = taken.sections
    return [(section.code(at), section.record(at)) for at in range(len(section))]


# --- Anchors as files, and their keys ------------------------------------------------------------


def files_in(directory: Path) -> list[str]:
    return [one.name for one in directory.iterdir()]


async def test_an_anchor_is_a_file_that_is_read_back(db: Database, tmp_path: Path) -> None:
    taken = await anchor(db)
    taken.write(tmp_path / "agent.anchor")
    assert files_in(tmp_path) == ["agent.anchor"]
    read = Anchor.read(tmp_path / "agent.anchor")
    assert (read.digest, read.to_bytes(), len(read)) == (taken.digest, taken.to_bytes(), 6)
    assert read.taken_at == taken.taken_at
    assert b"mine" not in read.to_bytes()
    assert KEY not in repr(read)


async def test_an_anchor_that_cannot_be_written_leaves_the_last_one(
    db: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "agent.anchor"
    first = await anchor(db)
    first.write(file)

    def full(_: int) -> None:
        raise OSError("no space left")

    await grow(db, "mine")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="no space left"):
        (await anchor(db, first)).write(file)
    assert files_in(tmp_path) == ["agent.anchor"]
    assert Anchor.read(file).digest == first.digest


@pytest.mark.parametrize("end", [0, 10, 40, 100, -33, -1])
async def test_an_anchor_that_was_cut_off_is_refused(db: Database, end: int) -> None:
    data = (await anchor(db)).to_bytes()
    for given in (data[:end], data + b"\0"):
        with pytest.raises(Corrupt, match="anchor"):
            Anchor.from_bytes(given)


async def test_an_anchor_in_which_a_bit_was_changed_is_refused(
    db: Database, shared_url: str
) -> None:
    taken = await anchor(db)
    for at in range(20, len(taken.to_bytes()), 7):
        changed = bytearray(taken.to_bytes())
        changed[at] ^= 1
        with pytest.raises((Corrupt, KeyMissing)):
            signed(shared_url, db.tenant, anchor=Anchor.from_bytes(bytes(changed)))


async def test_an_anchor_needs_the_key_that_it_was_made_with(db: Database, shared_url: str) -> None:
    taken = await anchor(db)
    with pytest.raises(KeyMissing):
        signed(shared_url, db.tenant, anchor=taken, signing_keys=[OTHER_KEY])
    with pytest.raises(ValueError, match="signing_keys"):
        Database(shared_url, anchor=taken)
    async with Database(shared_url, tenant=db.tenant) as unsigned:
        with pytest.raises(ValueError, match="signing_keys"):
            await anchor(unsigned)
        with pytest.raises(ValueError, match="signing_keys"):
            await verify(unsigned, anchor=taken)
    with pytest.raises(ValueError, match="sample"):
        await verify(db, anchor=taken, sample=3)


async def test_an_anchor_goes_over_to_a_new_key(db: Database, shared_url: str) -> None:
    before, taken = await rows_of(db), await anchor(db)
    async with signed(shared_url, db.tenant, signing_keys=[OTHER_KEY, KEY]) as both:
        await Store(both).delete(NS, "beside")
        assert (await verify(both, anchor=taken)).findings == ()
        await put_back(both, NOTHING, "mine", ITEM)
        with pytest.raises(Corrupt, match="not there"):
            await anchor(both, taken)
        await put_back(both, before, "mine", ITEM)
        new = await anchor(both, taken)
        assert new.key_id == both.signing.first_id
        assert (await verify(both, anchor=new)).findings == ()
        await sign(both)
    async with signed(shared_url, db.tenant, signing_keys=[OTHER_KEY]) as later:
        assert (await verify(later, anchor=new)).findings == ()
        assert len(await anchor(later, new, full=True)) == len(new)
        await put_back(later, NOTHING, "mine", ITEM)
        assert [one.code for one in (await verify(later, anchor=new)).findings] == ["anchor"]


async def test_an_anchor_of_another_database_is_refused(db: Database, database_url: str) -> None:
    taken = await anchor(db)
    async with signed(database_url, db.tenant, migrate="off") as other:
        await other.migrate()
        await copy(db, other)
        for there in (None, await anchor(other)):
            assert there is None or len(there) == len(taken)
            report = await verify(other, anchor=taken)
            assert [one.code for one in report.findings] == ["anchor"]
            assert "another database" in report.findings[0].sentence
            with pytest.raises(Corrupt, match="another database"):
                await anchor(other, taken)
        assert (await verify(db, anchor=taken)).findings == ()


async def test_a_copy_into_an_anchored_database_is_not_taken_for_a_rollback(
    db: Database, database_url: str
) -> None:
    async with signed(database_url, db.tenant, migrate="off") as other:
        await other.migrate()
        await grow(other, "theirs")
        first = await anchor(other)
        await copy(db, other)
        assert (await verify(other, anchor=first)).findings == ()
        await grow(db, "mine")
        await copy(db, other)
        new = await anchor(other, first, full=True)
        assert len(new) == len(first) + 6
        assert (await verify(other, anchor=new)).findings == ()


# --- Several tenants -----------------------------------------------------------------------------


async def test_an_anchor_of_all_tenants_misses_one_that_was_removed(database_url: str) -> None:
    async with signed(database_url, "a", migrate="off") as a:
        await a.migrate()
        b = a.for_tenant("b")
        await grow(a, "mine")
        await grow(b, "mine")
        taken = await anchor(a, all_tenants=True)
        assert len(taken.sections) == 2

        await grow(b, "mine")
        only_b = await anchor(b, taken)
        assert len(only_b) == len(taken)
        assert (await verify(a, anchor=only_b, all_tenants=True)).findings == ()

        def remove(connection: Connection) -> None:
            for table in reversed(TABLES.values()):
                connection.execute(delete(table).where(table.c.tenant == "b"))

        await b.run_sync(remove)
        assert (await verify(a, anchor=only_b)).findings == ()
        report = await verify(a, anchor=only_b, all_tenants=True)
        assert [one.code for one in report.findings] == ["anchor"]
        with pytest.raises(Corrupt, match="tenant of which the anchor has 3"):
            await anchor(a, only_b, all_tenants=True)


async def test_a_tenant_that_was_forgotten_is_not_missed(database_url: str) -> None:
    async with signed(database_url, "a", migrate="off") as a:
        await a.migrate()
        b = a.for_tenant("b")
        await grow(a, "mine")
        await grow(b, "mine")
        before = await rows_of(b)
        taken = await anchor(a, all_tenants=True)
        await Checkpointer(b).forget(tenant="b")
        assert (await verify(a, anchor=taken, all_tenants=True)).findings == ()
        new = await anchor(a, taken, all_tenants=True)
        assert (await verify(a, anchor=new, all_tenants=True)).findings == ()
        await put_back(b, before, "mine")
        report = await verify(a, anchor=new, all_tenants=True)
        assert {(one.code, one.tenant) for one in report.findings} == {("anchor", "b")}


# --- What is noted, and read ---------------------------------------------------------------------


async def notes(db: Database) -> list[str]:
    """Return the keys of what the registry tells of removals."""

    def job(connection: Connection) -> list[str]:
        items = TABLES["store_items"]
        rows = select(items.c.key).where(
            items.c.tenant == db.tenant, items.c.namespace == removals.REMOVALS_NAMESPACE
        )
        return list(connection.execute(rows).scalars())

    return await db.run_sync(job)


async def test_nothing_is_noted_before_the_first_anchor_nor_of_what_no_anchor_can_have(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await Store(db).delete(NS, "mine")
    assert await notes(db) == []
    await anchor(db)
    monkeypatch.setattr(codec, "TOLERANCE", timedelta(0))
    await Store(db).put(NS, "mine", "anew")
    await grow(db, "another")
    await Store(db).clear_namespace(NS)
    await Checkpointer(db).delete("another")
    assert len(await notes(db)) == 1, "the item beside, of before"


async def test_notes_are_deleted_a_month_after_an_anchor_has_taken_them_in(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = await anchor(db)
    await Store(db).delete(NS, "mine")
    second = await anchor(db, first)
    assert len(await notes(db)) == 1
    monkeypatch.setattr(anchor_reading, "KEPT", timedelta(0))
    monkeypatch.setattr(anchor_reading, "TOLERANCE", timedelta(0))
    third = await anchor(db, first)
    assert len(await notes(db)) == 1, "the first has not taken it in"
    await anchor(db, second)
    assert await notes(db) == []
    assert (await verify(db, anchor=third)).findings == ()


async def test_a_forged_note_excuses_nothing(db: Database) -> None:
    taken = await anchor(db)
    await Store(db).delete(NS, "mine")

    def forge(connection: Connection) -> None:
        items = TABLES["store_items"]
        there = and_(items.c.tenant == db.tenant, items.c.namespace == removals.REMOVALS_NAMESPACE)
        forged = update(items).where(there).values(version=items.c.version + 1)
        assert connection.execute(forged).rowcount == 1

    await db.run_sync(forge)
    assert [one.code for one in (await verify(db, anchor=taken)).findings] == ["anchor"]


async def test_a_rollback_that_was_accepted_is_not_refused_any_more(
    db: Database, shared_url: str
) -> None:
    before, first = await rows_of(db), await anchor(db)
    await grow(db, "mine")
    await Store(db).delete(NS, "beside")
    taken = await anchor(db, first)
    for place in ("mine", "beside"):
        await put_back(db, before, place)
        await put_back(db, before, place, ITEM)
    with pytest.raises(Corrupt, match="accept-rollback"):
        await anchor(db, taken, full=True)
    accepted = await anchor(db, taken, accept_rollback=True)
    assert len(accepted) == 6
    assert (await verify(db, anchor=accepted)).findings == ()
    assert records(await anchor(db, accepted)) == records(accepted)
    async with signed(shared_url, db.tenant, anchor=accepted) as held:
        for read in (*EVERY, save, append, put):
            await read(held, "mine")


async def test_the_next_anchor_reads_what_has_changed_alone(
    db: Database, monkeypatch: pytest.MonkeyPatch, clock: Clock
) -> None:
    async def now(self: Database) -> datetime:
        return clock.now

    monkeypatch.setattr(Database, "now", now)
    clock.now = datetime.now(UTC) + 2 * anchor_reading.TOLERANCE
    first = await anchor(db)
    clock.go_on(2 * anchor_reading.TOLERANCE)
    counts: list[int] = []
    await Store(db).put(NS, "mine", "more")
    await save(db, "mine")
    second = await anchor(db, first, progress=counts.append)
    assert counts[-1] <= 3
    assert len(second) == len(first)
    await anchor(db, second, full=True, progress=counts.append)
    assert counts[-1] == 6


async def test_a_row_that_is_not_what_was_signed_is_not_anchored(db: Database) -> None:
    def forge(connection: Connection) -> None:
        items = TABLES["store_items"]
        here = and_(items.c.tenant == db.tenant, items.c.key == "mine")
        connection.execute(update(items).where(here).values(version=99))

    await db.run_sync(forge)
    with pytest.raises(Corrupt, match="the item 'mine'"):
        await anchor(db)
    assert len(await anchor(db, accept_rollback=True)) == 5


async def test_one_thread_is_held_to_an_anchor(db: Database) -> None:
    before = await rows_of(db)
    await save(db, "mine")
    taken = await anchor(db)
    await put_back(db, before, "mine")
    assert (await verify(db, thread_id="beside", anchor=taken)).findings == ()
    report = await verify(db, thread_id="mine", anchor=taken)
    assert [(one.code, one.thread_id) for one in report.findings] == [("anchor", "mine")]


@pytest.mark.own_keys
async def test_an_encrypted_database_is_held_to_an_anchor(
    shared_url: str, tenant: str, lasting: None
) -> None:
    keys = [generate_key()]
    async with signed(shared_url, tenant, keys=keys) as db:
        await grow(db, "mine")
        before = await rows_of(db)
        await grow(db, "mine")
        taken = await anchor(db)
        await Store(db).put(NS, "mine", "newer")
        assert records(await anchor(db, taken)) == records(await anchor(db, taken, full=True))
        await put_back(db, before, "mine")
        await put_back(db, before, "mine", ITEM)
        assert len((await verify(db, anchor=taken)).findings) == 3
    async with signed(shared_url, tenant, keys=keys, anchor=taken) as held:
        for read in (load, entries, get, put, save, append):
            with pytest.raises(Corrupt, match="anchor"):
                await read(held, "mine")


async def test_what_is_removed_while_an_anchor_is_held_to_is_not_missed(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken = await anchor(db)
    read = anchor_reading.TenantReading._read_logs

    async def read_late(reading: Any, *given: Any) -> None:
        await Store(db).delete(NS, "mine")
        await Checkpointer(db).forget(thread_id="mine")
        await read(reading, *given)

    monkeypatch.setattr(anchor_reading.TenantReading, "_read_logs", read_late)
    assert (await verify(db, anchor=taken)).findings == ()
    new = await anchor(db, taken, full=True)
    monkeypatch.undo()
    assert (await verify(db, anchor=new)).findings == ()
    assert records(new) == records(await anchor(db, taken))


async def test_a_forgotten_tenant_that_is_restored_on_purpose_is_accepted(db: Database) -> None:
    before, taken = await rows_of(db), await anchor(db)
    await Checkpointer(db).forget(tenant=db.tenant)
    for place in ("mine", "beside"):
        await put_back(db, before, place)
        await put_back(db, before, place, ITEM)
    with pytest.raises(Corrupt):
        await anchor(db, taken, full=True)
    accepted = await anchor(db, taken, accept_rollback=True)
    assert (await verify(db, anchor=accepted)).findings == ()
