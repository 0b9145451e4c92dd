"""An encrypted database knows that it is: who has none of its keys does not write into it."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy.ext.asyncio import create_async_engine
from test_encryption import Open, change, dump, opened

from host_urls import async_url
from lifetimes import MOMENT
from memalchemy import Checkpointer, Database, KeyMissing, NotEncrypted, Store, ThreadLog
from memalchemy.codec.encryption import Keyring, generate_key
from memalchemy.database import known_keys
from memalchemy.rotation import rotate_keys
from memalchemy.store.jsonl import export_items, import_items
from memalchemy.transfer import copy
from waiting import A_WHILE

__all__ = ["opened"]

KEY, NEW, OTHER = generate_key(), generate_key(), generate_key()
SPACE = ("users", "ada")

pytestmark = [pytest.mark.own_keys, pytest.mark.usefixtures("lasting")]


def id_of(key: str) -> str:
    (id_,) = Keyring([key]).ids
    return id_


async def marks(db: Database) -> list[tuple[str, str]]:
    """Whose keys are noted, and which."""
    query = "SELECT tenant, key FROM store_items WHERE namespace = '/~keys/' ORDER BY tenant, key"
    found = await db.run_sync(lambda c: c.exec_driver_sql(query).all())
    return [(row[0], row[1]) for row in found]


async def save(db: Database) -> None:
    await Checkpointer(db).save({"n": 1}, "t", "c")


async def put(db: Database) -> None:
    await Store(db).put(SPACE, "k", 1)


async def put_batch(db: Database) -> None:
    await Store(db).put_batch([(SPACE, "k", 1)])


async def import_lines(db: Database) -> None:
    line = b'{"namespace": ["users", "ada"], "key": "k", "value": 1}'
    async for _ in import_items(Store(db), [line]):
        pass


async def append(db: Database) -> None:
    await ThreadLog(db).append("t", ["a"], keys=["k"])


async def append_without_keys(db: Database) -> None:
    await ThreadLog(db).append("t", ["a"])


async def edit(db: Database) -> None:
    await ThreadLog(db).edit("begun", 1, "a")


async def rewrite(db: Database) -> None:
    await Checkpointer(db).rewrite("saved")


WRITES = (save, put, put_batch, import_lines, append, append_without_keys, edit, rewrite)


@pytest.mark.parametrize("write", WRITES)
async def test_a_process_without_keys_does_not_write_into_an_encrypted_database(
    opened: Open, write: Any
) -> None:
    await Store(await opened(keys=[KEY])).put(SPACE, "before", "private")
    db = await opened(keys=None)

    for _ in range(2):
        with pytest.raises(KeyMissing, match="MEMALCHEMY_KEYS") as refused:
            await write(db)

    assert refused.value.key_id == id_of(KEY)
    assert await Store(db).list_keys(SPACE) == ["before"]
    assert await ThreadLog(db).count("t") == 0
    assert not await Checkpointer(db).exists("t")


async def test_a_process_with_other_keys_does_not_either(opened: Open) -> None:
    await put(await opened(keys=[KEY]))

    with pytest.raises(KeyMissing, match=id_of(KEY)) as refused:
        await save(await opened(keys=[OTHER, NEW]))

    assert "rotate-keys" in str(refused.value)
    assert OTHER not in str(refused.value)
    assert await marks(await opened()) == [("default", id_of(KEY))]


async def test_a_new_key_in_front_of_an_old_one_is_a_rotation(opened: Open) -> None:
    await put(await opened(keys=[KEY]))

    await put(await opened(keys=[NEW, KEY]))
    await put(await opened(keys=[NEW]))
    await put(await opened(keys=[KEY]))

    noted = sorted(("default", id_of(key)) for key in (KEY, NEW))
    assert await marks(await opened()) == noted


async def test_after_a_rotation_who_has_the_old_key_only_does_not_write(opened: Open) -> None:
    await put(await opened(keys=[KEY]))
    db = await opened(keys=[NEW, KEY])

    assert (await rotate_keys(db, dry_run=True)).left == 1
    assert await marks(db) == [("default", id_of(KEY))]
    assert (await rotate_keys(db)).left == 0

    assert await marks(db) == [("default", id_of(NEW))]
    with pytest.raises(KeyMissing):
        await put(await opened(keys=[KEY]))
    await put(await opened(keys=[NEW]))


async def test_a_rotation_that_leaves_something_keeps_the_keys_of_it(opened: Open) -> None:
    await put(await opened(keys=[KEY]))
    both = await opened(keys=[OTHER, KEY])
    await Store(both).put(SPACE, "other", 1)

    assert (await rotate_keys(await opened(keys=[NEW, KEY]))).left == 1

    noted = sorted(("default", id_of(key)) for key in (NEW, OTHER))
    assert await marks(both) == noted


async def test_a_rotation_notes_the_key_for_every_tenant_that_it_encrypts(opened: Open) -> None:
    plain = await opened(keys=None)
    for tenant in ("acme", "bolt"):
        await save(plain.for_tenant(tenant))

    await rotate_keys(await opened(keys=[KEY]), all_tenants=True)

    assert await marks(plain) == [("acme", id_of(KEY)), ("bolt", id_of(KEY))]
    with pytest.raises(KeyMissing):
        await put(await opened(keys=None, tenant="bolt"))


async def test_a_rotation_notes_the_key_of_what_was_written_before_there_were_marks(
    opened: Open,
) -> None:
    db = await opened(keys=[KEY])
    await put(db)
    erase = "DELETE FROM store_items WHERE namespace = '/~keys/'"
    await db.run_sync(lambda c: c.exec_driver_sql(erase).close())

    assert (await rotate_keys(await opened(keys=[KEY]))).rotated == 0

    assert await marks(db) == [("default", id_of(KEY))]


async def test_each_tenant_may_have_keys_of_its_own_or_none(opened: Open) -> None:
    await put(await opened(keys=[KEY], tenant="acme"))
    await put(await opened(keys=[OTHER], tenant="bolt"))
    plain = await opened(keys=None)

    await put(plain.for_tenant("open"))
    with pytest.raises(KeyMissing, match="'acme'"):
        await put(plain.for_tenant("acme"))
    with pytest.raises(KeyMissing, match="'bolt'"):
        await put((await opened(keys=[KEY])).for_tenant("bolt"))


async def test_a_database_that_was_not_encrypted_may_be_from_now_on(opened: Open) -> None:
    await Store(await opened(keys=None)).put(SPACE, "plain", 1)

    await put(await opened(keys=[KEY]))

    with pytest.raises(KeyMissing):
        await put(await opened(keys=None))


async def test_without_keys_one_may_delete_what_is_encrypted_and_copy_nothing(opened: Open) -> None:
    """A copy is sealed for its own place, which takes the key."""
    keyed = await opened(keys=[KEY])
    await save(keyed)
    await put(keyed)
    await ThreadLog(keyed).append("t", ["a", "b"])
    db = await opened(keys=None)

    for copying in (
        Checkpointer(db).fork("t", new_thread_id="forked"),
        Checkpointer(db).copy_thread("t", "copied"),
        ThreadLog(db).fork("t", new_thread_id="forked"),
    ):
        with pytest.raises(KeyMissing, match="nothing was written"):
            await copying
    assert await Store(db).delete(SPACE, "k")
    assert await ThreadLog(db).clear("t") == 2
    assert await Checkpointer(db).delete("t")
    assert await Checkpointer(keyed).list_threads() == []


@pytest.mark.parametrize("what", ["states", "entries", "items"])
async def test_a_removed_mark_lets_nobody_write_plaintext(opened: Open, what: str) -> None:
    keyed = await opened(keys=[KEY])
    filling: dict[str, Any] = {"states": save, "items": put}
    if what == "entries":
        await ThreadLog(keyed).append("t", ["a", "b"])
    else:
        await filling[what](keyed)
    await change(keyed, "DELETE FROM store_items WHERE namespace = '/~keys/'")
    before = await dump(keyed)
    db = await opened(keys=None)

    for writing in (
        Checkpointer(db).save({"n": 1}, "another"),
        ThreadLog(db).append("another", ["plain"]),
        Store(db).put(SPACE, "another", "plain"),
        Store(db).put_batch([(SPACE, "another", "plain")]),
    ):
        with pytest.raises(KeyMissing, match="the registration was removed"):
            await writing
    assert await dump(keyed) == before


async def test_a_mark_is_no_item_of_anybodys(opened: Open) -> None:
    db = await opened(keys=[KEY])
    await put(db)
    store = Store(db)

    assert await store.list_namespaces() == [SPACE]
    assert await store.count((), prefix=True) == 1
    assert [line["key"] async for line in export_items(store, prefix=True)] == ["k"]
    assert len(await marks(db)) == 1


async def test_the_marks_of_a_tenant_are_erased_with_it_and_come_again(opened: Open) -> None:
    db = await opened(keys=[KEY])
    await put(db)

    await Checkpointer(db).forget(tenant="default")
    assert await marks(db) == []
    await put(db)

    assert await marks(db) == [("default", id_of(KEY))]


async def test_it_costs_one_look_at_the_first_write_only(opened: Open, monkeypatch: Any) -> None:
    looks = []
    run = type((await opened(keys=None))._backend).run

    async def counted(self: Any, program: Any, *rest: Any, **more: Any) -> Any:
        looks.append(program)
        return await run(self, program, *rest, **more)

    for keys in ([KEY], [KEY], None):
        db = (await opened(keys=keys)).for_tenant("open" if keys is None else "default")
        await db.current()
        monkeypatch.setattr(type(db._backend), "run", counted)
        await asyncio.gather(*(Store(db).put(SPACE, str(n), n) for n in range(10)))
        for n in range(10):
            await Store(db).put(SPACE, str(n), n)
        monkeypatch.undo()
        assert len(looks) == 21
        looks.clear()


async def test_what_a_host_rolls_back_leaves_no_mark_that_is_believed(opened: Open) -> None:
    db = await opened(keys=[KEY])
    store = Store(db)
    async with db.transaction() as tx:
        await store.put(SPACE, "a", 1, connection=tx)
        await store.put(SPACE, "b", 1, connection=tx)
        await tx.rollback()
    # A server's is committed apart. Nothing is under it, and a rotation takes it away.
    assert await marks(db) == ([] if db.dialect.single_writer else [("default", id_of(KEY))])

    async with db.transaction() as tx:
        await store.put(SPACE, "a", 1, connection=tx)

    assert await marks(db) == [("default", id_of(KEY))]
    async with (await opened(keys=None)).transaction() as tx:
        with pytest.raises(KeyMissing):
            await put_on(await opened(keys=None), tx)


async def test_another_database_does_not_believe_a_mark_that_is_rolled_back(opened: Open) -> None:
    first, second = await opened(keys=[KEY]), await opened(keys=[KEY])
    async with first.transaction() as tx:
        await put_on(first, tx)
        await put_on(second, tx)
        await tx.rollback()

    await put(second)

    assert await marks(first) == [("default", id_of(KEY))]


async def second_transaction(db: Database) -> None:
    async with db.transaction() as tx:
        await Store(db).put(SPACE, "second", 2, connection=tx)


async def append_beside(db: Database) -> None:
    await ThreadLog(db).append("beside", ["a"])


async def save_beside(db: Database) -> None:
    await Checkpointer(db).save({"n": 2}, "beside")


async def write_in_a_transaction(db: Database, beside: Any) -> None:
    """The first write of a tenant, and *beside* before its transaction ends. On SQLite every other
    write waits for that end, whatever is in the transaction.
    """
    begun = asyncio.Event()

    async def wait_and_write() -> None:
        await begun.wait()
        await beside()

    other = asyncio.ensure_future(wait_and_write())
    async with asyncio.timeout(A_WHILE):
        async with db.transaction() as tx:
            await Checkpointer(db).save({"n": 1}, "t", connection=tx)
            begun.set()
            if not db.dialect.single_writer:
                await other
            await Store(db).put(SPACE, "again", 1, connection=tx)
        await other
    assert await Checkpointer(db).load("t") == {"n": 1}
    assert ("default", id_of(KEY)) in await marks(db)


@pytest.mark.parametrize("another", ["the same Database", "another Database", "another tenant"])
@pytest.mark.parametrize("write", [second_transaction, save_beside, put, append_beside])
async def test_a_first_write_in_a_transaction_stops_no_other_first_write(
    opened: Open, write: Any, another: str
) -> None:
    db = await opened(keys=[KEY])
    second = db if another == "the same Database" else await opened(keys=[KEY])
    if another == "another tenant":
        second = second.for_tenant("acme")

    await write_in_a_transaction(db, lambda: write(second))


@pytest.mark.parametrize("write", [second_transaction, save_beside])
async def test_neither_does_it_with_the_settings_of_pgbouncer(opened: Open, write: Any) -> None:
    db = await opened(keys=[KEY], pgbouncer=True)

    await write_in_a_transaction(db, lambda: write(db))


@pytest.mark.parametrize("write", [second_transaction, save_beside])
async def test_neither_does_one_on_a_connection_of_a_hosts(
    opened: Open, database_url: str, write: Any
) -> None:
    db = await opened(keys=[KEY])
    engine = create_async_engine(async_url(database_url))
    try:
        async with asyncio.timeout(A_WHILE):
            async with engine.begin() as connection:
                await put_on(db, connection)
                other = asyncio.ensure_future(write(db))
                if not db.dialect.single_writer:
                    await other
            await other
    finally:
        await engine.dispose()
    assert await marks(db) == [("default", id_of(KEY))]


async def test_a_pool_that_has_no_other_connection_does_not_stop_a_first_write(
    database_url: str, monkeypatch: Any
) -> None:
    monkeypatch.setattr(known_keys, "OWN_CONNECTION_TIMEOUT", 0.2)
    one = {} if database_url.startswith(("sqlite", "toy")) else {"pool_size": 1, "max_overflow": 0}
    async with Database(database_url, migrate="off", keys=[KEY], **one) as db:
        await db.migrate()
        async with db.transaction() as tx:
            await put_on(db, tx)
            await put_on(db, tx)

        assert await marks(db) == [("default", id_of(KEY))]
        assert await Store(db).count(SPACE) == 1


async def put_on(db: Database, connection: Any) -> None:
    await Store(db).put(SPACE, "k", 1, connection=connection)


async def test_a_hosts_own_connection_is_looked_at_and_marked(
    opened: Open, database_url: str
) -> None:
    db, plain = await opened(keys=[KEY]), await opened(keys=None)
    # As a host has it: another engine, which knows nothing of a `Database`.
    engine = create_async_engine(async_url(database_url))
    try:
        async with engine.connect() as connection:
            for _ in range(2):
                for _ in range(2):
                    await put_on(db, connection)
                await connection.commit()
        async with engine.begin() as connection:
            with pytest.raises(KeyMissing):
                await put_on(plain, connection)
    finally:
        await engine.dispose()
    assert await marks(db) == [("default", id_of(KEY))]


@pytest.mark.asyncio_only(reason="copy takes asynchronous databases")
async def test_a_copy_knows_the_keys_before_it_has_a_row(opened: Open, tmp_path: Path) -> None:
    source = await opened(keys=[KEY])
    await put(source)
    url = f"sqlite:///{tmp_path}/copied.db"
    async with Database(url) as target:
        for _ in range(2):
            report = await copy(await opened(keys=None), target)
        assert report.unchanged == 1
        assert await marks(target) == [("default", id_of(KEY))]
        with pytest.raises(KeyMissing):
            await put(target)
    async with Database(url, keys=[KEY]) as target:
        await put(target)
        assert (await copy(target, source)).updated == 1


@pytest.mark.asyncio_only(reason="copy takes asynchronous databases")
@pytest.mark.parametrize("write", [put, save, append])
async def test_a_copy_brings_nothing_unencrypted_into_an_encrypted_tenant(
    opened: Open, tmp_path: Path, write: Any
) -> None:
    keyed = await opened(keys=[KEY])
    await Store(keyed).put(SPACE, "before", 1)
    async with Database(f"sqlite:///{tmp_path}/plain.db") as source:
        await write(source)
        with pytest.raises(NotEncrypted, match="encrypted on the target"):
            await copy(source, await opened(keys=None))

    assert await Store(keyed).list_keys(SPACE) == ["before"]
    assert not await Checkpointer(keyed).exists("t")
    assert await ThreadLog(keyed).count("t") == 0


async def test_many_that_begin_at_once_all_write(opened: Open) -> None:
    dbs = [await opened(keys=[KEY]) for _ in range(5)]

    await asyncio.gather(*(Store(db).put(SPACE, str(n), n) for n, db in enumerate(dbs)))

    assert await marks(dbs[0]) == [("default", id_of(KEY))]
    assert await Store(dbs[0]).count(SPACE) == 5


async def test_a_backup_knows_the_keys(tmp_path: Path) -> None:
    async with Database(f"sqlite:///{tmp_path}/agent.db", keys=[KEY]) as db:
        await put(db)
        await db.backup(tmp_path / "backup.db")

    async with Database(f"sqlite:///{tmp_path}/backup.db") as restored:
        with pytest.raises(KeyMissing):
            await save(restored)


async def test_a_database_in_memory_is_marked_each_time_it_is_opened() -> None:
    db = Database("sqlite://", keys=[KEY])
    for _ in range(2):
        async with db:
            await put(db.for_tenant("acme"))
            assert await marks(db) == [("acme", id_of(KEY))]


@pytest.mark.own_signing_keys
@pytest.mark.parametrize("job", ["prune", "vacuum", "sweep"])
async def test_a_job_without_the_signing_key_says_so_and_not_that_something_is_damaged(
    opened: Open, job: str
) -> None:
    async def run(db: Database) -> int:
        if job == "prune":
            return await Checkpointer(db).prune(keep_last=1)
        return await (Checkpointer(db).vacuum(0) if job == "vacuum" else Store(db).sweep())

    with_key, without = await opened(signing_keys=[generate_key()]), await opened()
    for number in range(3):
        await Checkpointer(with_key).save({"n": number}, "thread")
    await Store(with_key).put(("notes",), "a", 1, ttl=MOMENT)

    with pytest.raises(KeyMissing) as told:
        await run(without)

    assert told.value.of_tenant
    assert await run(with_key) > 0
