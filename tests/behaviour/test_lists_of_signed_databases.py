"""Lists of a signed database prove what they leave out, and are as full as those of another."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Table, delete, update

from memalchemy import Checkpointer, Corrupt, Database, Store, ThreadLog
from memalchemy.codec.secret_keys import generate_key
from memalchemy.database import WRITE
from memalchemy.inspection import Inspector
from memalchemy.log.heads import date_log
from memalchemy.log.listing import checkpoint_namespaces, entry_namespaces
from memalchemy.log.tables import Log
from memalchemy.maintenance import sign as signing
from memalchemy.rotation import rotate_keys
from memalchemy.schema import CheckpointRow, DeltaRow, EmbeddingRow, StoreItemRow, ThreadRow
from memalchemy.signing import sign
from memalchemy.verify import verify

pytestmark = [pytest.mark.own_signing_keys, pytest.mark.own_keys]

KEY, OTHER, SECRET = generate_key(), generate_key(), generate_key()
THREADS: Table = ThreadRow.__table__  # type: ignore[assignment]
ITEMS: Table = StoreItemRow.__table__  # type: ignore[assignment]
VECTORS: Table = EmbeddingRow.__table__  # type: ignore[assignment]
NAMED: Table = CheckpointRow.__table__  # type: ignore[assignment]
DELTAS: Table = DeltaRow.__table__  # type: ignore[assignment]
LONG_AGO = datetime.now(UTC).replace(microsecond=0) - timedelta(days=1)


@pytest.fixture
def opened(database_url: str) -> Callable[..., Database]:
    """Opens the database as another process would."""
    return lambda **given: Database(
        database_url, **{"migrate": "off", "signing_keys": [KEY]} | given
    )


@pytest.fixture(autouse=True)
def nobody_else_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing, "NOTICED_AFTER", 0)


async def edit(db: Database, statement: Any) -> None:
    await db.run_sync(lambda connection: connection.execute(statement))


async def test_a_list_is_full_beside_items_that_have_expired(
    opened: Callable[..., Database],
) -> None:
    async with opened() as db:
        await db.migrate()
        store = Store(db)
        for number in range(40):
            ttl = 1e-6 if number % 4 else None
            await store.put(("n",), f"k{number:02}", number, ttl=ttl)
        lasting = [f"k{number:02}" for number in range(0, 40, 4)]
        assert await store.list_keys(("n",), 4) == lasting[:4]
        assert [key async for key in store.iter_keys(("n",), page_size=3)] == lasting
        by_key = store.iter_items(("n",), order="key", page_size=3)
        assert [item.key async for item in by_key] == lasting
        newest = await store.list_items(("n",), limit=3)
        assert [item.key for item in newest] == lasting[:-4:-1]
        assert await store.get(("n",), "k01") is None
        assert not await store.exists(("n",), "k01")


async def test_a_list_of_threads_is_full_beside_those_that_were_deleted(
    opened: Callable[..., Database],
) -> None:
    async with opened() as db:
        await db.migrate()
        checkpointer = Checkpointer(db)
        for number in range(12):
            await checkpointer.save({"n": number}, f"t{number:02}")
            if number % 3:
                await checkpointer.delete(f"t{number:02}")
        assert await checkpointer.list_threads(3) == ["t09", "t06", "t03"]
        assert await checkpointer.list_threads(2, offset=1) == ["t06", "t03"]
        assert len(await checkpointer.list_logs(limit=4)) == 4


@pytest.mark.parametrize("what", ["expires_at", "deleted_at"])
async def test_a_thread_that_was_made_to_vanish_is_told_of(
    opened: Callable[..., Database], what: str
) -> None:
    async with opened() as db:
        await db.migrate()
        await Checkpointer(db).save({"n": 1}, "t")
        await ThreadLog(db).append("t", ["one"])
        await edit(db, update(THREADS).values({what: LONG_AGO}))
    async with opened() as db:
        for call in (
            Checkpointer(db).load("t"),
            Checkpointer(db).list_threads(),
            Checkpointer(db).list_checkpoints("t"),
            ThreadLog(db).tail("t"),
            ThreadLog(db).count("t"),
            ThreadLog(db).list_threads(),
        ):
            with pytest.raises(Corrupt):
                await call


LISTS = {
    "Checkpointer.list_threads": lambda db: Checkpointer(db).list_threads(),
    "Checkpointer.count_threads": lambda db: Checkpointer(db).count_threads(),
    "Checkpointer.list_logs": lambda db: Checkpointer(db).list_logs(below=True),
    "Checkpointer.list_with_metadata": lambda db: Checkpointer(db).list_with_metadata(),
    "Checkpointer.list_with_metadata(limit)": lambda db: Checkpointer(db).list_with_metadata(1),
    "Checkpointer.namespaces": lambda db: Checkpointer(db).namespaces("t"),
    "Checkpointer.search_data": lambda db: Checkpointer(db).search_data("n", 1),
    "Inspector.threads": lambda db: Inspector(db).threads(),
    "Inspector.threads(part)": lambda db: Inspector(db).threads("t"),
    "Inspector.thread": lambda db: Inspector(db).thread("t"),
    "entry_namespaces": lambda db: entry_namespaces(db, "t"),
    "checkpoint_namespaces": lambda db: checkpoint_namespaces(db, "t"),
}


@pytest.mark.parametrize("newest", [None, "gone", "c1"])
async def test_a_thread_whose_newest_checkpoint_is_hidden_is_told_of(
    opened: Callable[..., Database], newest: str | None
) -> None:
    async with opened() as db:
        await db.migrate()
        await Checkpointer(db).save({"n": 1}, "t", "c1")
        await Checkpointer(db).save({"n": 2}, "t", "c2")
        for thread in ("u", "v"):
            await Checkpointer(db).save({"n": 1}, thread, "c1")
        await ThreadLog(db).append("entries", ["one"])
        await ThreadLog(db, namespace=()).append("entries", ["one"])
        before = {name: await read(db) for name, read in LISTS.items()}
        assert before["Checkpointer.count_threads"] == 3
        assert len(before["Checkpointer.list_with_metadata"]) == 4
        await edit(db, update(THREADS).where(THREADS.c.thread_id == "t").values(head_id=newest))
    async with opened() as db:
        for name, read in LISTS.items():
            try:
                await read(db)
            except Corrupt:
                continue
            raise AssertionError(f"{name} believes it")
        assert "signature" in await findings(db)


async def test_a_thread_without_its_newest_checkpoint_is_told_of(
    opened: Callable[..., Database],
) -> None:
    async with opened() as db:
        await db.migrate()
        for thread in ("t", "u"):
            await Checkpointer(db).save({"n": 1}, thread, "c1")
            await Checkpointer(db).save({"n": 2}, thread, "c2")
        await edit(db, delete(NAMED).where(NAMED.c.checkpoint_id == "c2", NAMED.c.ordinal == 2))
        with pytest.raises(Corrupt, match="newest"):
            await Checkpointer(db).list_with_metadata(1)


async def test_a_log_whose_entries_were_removed_is_listed_still(
    opened: Callable[..., Database],
) -> None:
    async with opened() as db:
        await db.migrate()
        log = ThreadLog(db)
        for thread in ("t", "u", "empty"):
            await log.append(thread, ["one"])
        await log.clear("empty")
        await edit(db, delete(DELTAS))
        assert await log.list_threads() == ["u", "t"]
        assert await log.count_threads() == 2
        assert sorted(await log.last_written(["t", "u", "empty"])) == ["t", "u"]
        assert await entry_namespaces(db, "t") == [("log",)]
        with pytest.raises(Corrupt):
            await log.tail("t")


@pytest.mark.parametrize("column", ["active_at", "updated_at"])
@pytest.mark.parametrize("days", [-1, 1])
async def test_a_log_that_was_moved_in_a_list_is_told_of_on_some_page(
    opened: Callable[..., Database], column: str, days: int
) -> None:
    """Between pages, too, it cannot be hidden by the time that pages go on behind."""
    async with opened() as db:
        await db.migrate()
        for number in range(6):
            await Checkpointer(db).save({"n": number}, f"t{number}")
            moment = LONG_AGO + timedelta(minutes=number)
            await date(db, f"t{number}", moment)
        assert not await findings(db)
        for number in range(6):
            moment = LONG_AGO + timedelta(minutes=number)
            moved = update(THREADS).where(THREADS.c.thread_id == f"t{number}")
            await edit(db, moved.values({column: moment + timedelta(days=days)}))
            with pytest.raises(Corrupt, match=f"t{number}"):
                await pages_of(db)
            assert await findings(db)
            await edit(db, moved.values({column: moment}))
            assert sorted(await pages_of(db)) == [f"t{number}" for number in range(6)]


async def date(db: Database, thread: str, moment: datetime) -> None:
    """Date a thread, as an import does."""
    log = Log(db.tenant, thread, "/")
    now = datetime.now(UTC)
    await db.run(lambda: date_log(db.dialect, log, moment, moment, now), WRITE)


async def pages_of(db: Database) -> list[str]:
    """Return the threads that the inspector lists, page by page."""
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = await Inspector(db).threads(cursor=cursor, limit=2)
        found += [one["thread_id"] for one in page["threads"]]
        if (cursor := page["next"]) is None:
            return found


async def test_an_item_that_was_made_to_vanish_is_told_of(opened: Callable[..., Database]) -> None:
    async with opened() as db:
        await db.migrate()
        await Store(db).put(("n",), "k", "value")
        await edit(db, update(ITEMS).values(expires_at=LONG_AGO))
        for call in (
            Store(db).get(("n",), "k"),
            Store(db).exists(("n",), "k"),
            Store(db).list_keys(("n",)),
            Store(db).list_items(("n",)),
        ):
            with pytest.raises(Corrupt):
                await call


async def put_vectors(db: Database) -> None:
    store = Store(db)
    await store.put(("n",), "k", "value", embedding=[1.0, 0.5])
    await store.put_embedding(("n",), "k", [0.5, 1.0], model="other")
    await store.put(("n",), "without", "value")


async def findings(db: Database) -> list[str]:
    return [one.code for one in (await verify(db)).findings]


@pytest.mark.parametrize("job", ["nothing", "put again", "refresh", "sign", "rotate"])
async def test_a_removed_vector_is_told_of_after(opened: Callable[..., Database], job: str) -> None:
    async with opened() as db:
        await db.migrate()
        await put_vectors(db)
        if job == "put again":
            await put_vectors(db)
        elif job == "refresh":
            await Store(db).put(("n",), "k", "value", ttl=1000, embedding=[1.0, 0.5])
            await Store(db).refresh([(("n",), "k")])
    keys: dict[str, Any] = {"signing_keys": [OTHER, KEY]} if job == "sign" else {}
    if job == "rotate":
        keys = {"keys": [SECRET], "allow_plaintext": True, "readable": ("vectors",)}
    async with opened(**keys) as db:
        if job == "sign":
            assert (await sign(db)).signed
        elif job == "rotate":
            await rotate_keys(db, drop_words=True)
        assert not await findings(db)
        await edit(db, delete(VECTORS).where(VECTORS.c.model == "default"))
        assert await findings(db) == ["signature"]
        with pytest.raises(Corrupt, match="vectors"):
            await Store(db).get_embedding(("n",), "k")
        with pytest.raises(Corrupt, match="vectors"):
            await Store(db).put_embedding(("n",), "k", [1.0, 0.5])


@pytest.mark.parametrize(
    ("column", "value"), [("field", "other"), ("part", 1), ("model", "other"), ("key", "other")]
)
async def test_a_search_tells_of_a_vector_that_was_moved_since_the_last_one(
    opened: Callable[..., Database], column: str, value: object
) -> None:
    async with opened() as db:
        await db.migrate()
        store = Store(db)
        for key in ("k", "l"):
            await store.put(("n",), key, "value", embedding=[1.0, 0.5])
        await store.put(("n",), "other", "value")
        if not db.dialect.vectors.counts_changes:
            return  # vectors are not cached: nothing tells what an index does not have
        assert len(await store.search_by_embedding(("n",), [1.0, 0.5])) == 2
        moved = update(VECTORS).where(VECTORS.c.key == "k").values({column: value})
        await edit(db, moved)
        for _ in range(2):
            with pytest.raises(Corrupt, match="'k'"):
                await store.search_by_embedding(("n",), [1.0, 0.5])


@pytest.mark.parametrize("change", ["delete", "clear", "sweep", "put", "put again", "put vector"])
async def test_a_search_does_not_miss_a_vector_that_another_process_has_removed(
    opened: Callable[..., Database], change: str
) -> None:
    async with opened() as db, opened() as other:
        await db.migrate()
        store, there = Store(db), Store(other)
        for key in ("k", "l"):
            ttl = 1e-6 if (key, change) == ("k", "sweep") else None
            await store.put(("n",), key, "value", embedding=[1.0, 0.5], ttl=ttl)
        await store.search_by_embedding(("n",), [1.0, 0.5])
        match change:
            case "delete":
                await there.delete(("n",), "k")
            case "clear":
                await there.clear_namespace(("n",))
                await there.put(("n",), "l", "value", embedding=[1.0, 0.5])
            case "sweep":
                assert await there.sweep() == 1
            case "put":
                await there.put(("n",), "k", "another value")
            case "put again":
                await there.delete(("n",), "k")
                await there.put(("n",), "k", "value")
            case "put vector":
                await there.put(("n",), "k", "value", embedding={"other": [[-1.0, 0.5]]})
        found = await store.search(("n",), embedding=[1.0, 0.5])
        assert found[0].key == "l"
        assert len(found) == (2 if change == "put vector" else 1)


async def test_vectors_that_are_dropped_on_purpose_are_not_missed(
    opened: Callable[..., Database],
) -> None:
    async with opened() as db:
        await db.migrate()
        await put_vectors(db)
    async with opened(keys=[SECRET], allow_plaintext=True) as db:
        await rotate_keys(db, drop_vectors=True, drop_words=True)
        assert await Store(db).get_embedding(("n",), "k") is None
        assert not await findings(db)
