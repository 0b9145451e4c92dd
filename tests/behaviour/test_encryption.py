"""Encrypted at rest: nothing readable is stored, everything works, and every wrong key is told.

The whole behavioural suite runs under a key with ``pytest --encrypted``; this is what only
encryption has.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from lifetimes import MOMENT
from memalchemy import (
    CapabilityMissing,
    Checkpointer,
    Corrupt,
    Database,
    KeyMissing,
    NotEncrypted,
    Store,
    StoreCapabilityError,
    ThreadLog,
    UserMemoryStore,
    VectorStore,
)
from memalchemy.codec import encryption
from memalchemy.codec.encryption import generate_key
from memalchemy.database import OFF_LOOP_BYTES, known_keys
from memalchemy.inspection import Inspector
from memalchemy.verify import verify
from rows import of_thread

pytestmark = pytest.mark.own_keys

KEY, OTHER = generate_key(), generate_key()
SPACE = ("users", "ada")

Open = Callable[..., Any]


@pytest.fixture
async def opened(database_url: str) -> AsyncIterator[Open]:
    """Opens a database of the test's own, again and again, each time as another process would."""
    async with AsyncExitStack() as stack:

        async def open_(**settings: Any) -> Database:
            settings.setdefault("keys", [KEY])
            db = Database(database_url, migrate="off", **settings)
            if not await db.current():
                await db.migrate()
            return await stack.enter_async_context(db)

        yield open_


async def rows(db: Database, table: str) -> list[dict[str, Any]]:
    """All rows of a table, as the database has them, with the names of logs; but our own."""
    query = f"SELECT * FROM {table}"
    if table in ("checkpoints", "deltas"):
        query = (
            f"SELECT {table}.*, threads.thread_id, threads.namespace "
            f"FROM {table} JOIN threads ON threads.log_id = {table}.log_id"
        )

    def read(connection: Any) -> list[dict[str, Any]]:
        found = connection.execute(text(query))
        every = [dict(row._mapping) for row in found]
        return [row for row in every if not row["namespace"].startswith("/~")]

    return await db.run_sync(read)


async def change(db: Database, sql: str, **values: Any) -> None:
    changed = await db.run_sync(lambda c: c.execute(text(sql), values).rowcount)
    assert changed != 0, "nothing was changed"


async def dump(db: Database) -> bytes:
    """Everything that is stored, readable as it may be: rows, and the file if it is one."""
    found: list[bytes] = []
    for table in ("threads", "checkpoints", "deltas", "store_items", "embeddings"):
        for row in await rows(db, table):
            for value in row.values():
                raw = isinstance(value, (bytes, memoryview))
                found.append(bytes(value) if raw else str(value).encode("utf-8", "surrogatepass"))
    path = repr(db).split(":///")
    if len(path) > 1 and (file := Path(path[1].split("'")[0])).exists():
        for part in file.parent.glob(f"{file.name}*"):
            found.append(part.read_bytes())
    return b"\n".join(found).lower()


STATE = {"messages": ["zebrastate", {"content": "quaggatext"}], "okapikey": b"tapirbytes"}
VALUE = {"text": "ibexvalue", "okapifield": "gnufield", "number": 8675309}
MARKERS = (b"zebrastate", b"quaggatext", b"okapikey", b"tapirbytes")
ITEM_MARKERS = (b"ibexvalue", b"okapifield", b"gnufield", b"8675309")


async def fill(db: Database) -> None:
    """States, deltas, branches, copies, items in a batch and alone, expired ones, imports."""
    agent = Checkpointer(db)
    state = dict(STATE)
    for step in range(6):
        state = state | {"messages": [*state["messages"], f"zebrastate {step}"]}
        await agent.save(state, "t", f"c{step}", {"step": step})
    await agent.save(STATE, "t", "branch", parent_id="c2")
    await agent.fork("t", "c3", new_thread_id="forked")
    await agent.copy_thread("t", "copied")
    await agent.rewrite("copied")
    store = Store(db)
    await store.put(SPACE, "one", VALUE, {"kind": "open"})
    await store.put_batch([(SPACE, f"many {n}", VALUE | {"n": n}) for n in range(3)])
    await store.put(SPACE, "short-lived", VALUE, ttl=MOMENT)


def found_in(stored: bytes, markers: Iterable[bytes]) -> list[bytes]:
    return [marker for marker in markers if marker in stored]


async def test_nothing_private_is_stored_and_all_of_it_loads(opened: Open) -> None:
    db = await opened()
    await fill(db)

    stored = await dump(db)
    assert found_in(stored, (*MARKERS, *ITEM_MARKERS)) == []
    assert b"open" in stored, "metadata is readable"
    agent, store = Checkpointer(db), Store(db)
    for thread in ("t", "copied"):
        assert (await agent.load(thread, "c5"))["messages"][-1] == "zebrastate 5"
        assert await agent.load(thread, "branch") == STATE
    assert (await agent.load("forked"))["messages"][-1] == "zebrastate 3"
    assert await store.get(SPACE, "one") == VALUE
    listed = await store.list_items(SPACE, order="key")
    assert [item.value.get("n") for item in listed] == [0, 1, 2, None]
    for row in [*await rows(db, "deltas"), *await rows(db, "store_items")]:
        assert row["codec"].endswith("+gcm2")
        assert row["search_text"] is None
    assert {row["field_terms"] for row in await rows(db, "store_items")} == {"fothers"}


async def test_without_keys_the_same_is_all_there_to_read(opened: Open) -> None:
    """So that the test above can fail."""
    db = await opened(keys=None)
    await fill(db)

    # Payloads are compressed: what is readable is the words, and short values.
    assert {*found_in(await dump(db), (*MARKERS, *ITEM_MARKERS))} >= {
        b"zebrastate",
        b"quaggatext",
        b"ibexvalue",
        b"gnufield",
    }


@pytest.mark.parametrize("what", ["text", "fields", "vectors"])
async def test_what_is_named_readable_is_stored_and_searched_and_nothing_else(
    what: str, opened: Open
) -> None:
    db = await opened(readable=(what,))
    agent, store = Checkpointer(db), Store(db)
    await agent.save(STATE, "t")
    await store.put(SPACE, "one", VALUE)
    if what == "vectors":
        await store.put_with_embedding(SPACE, "near", VALUE, [1.0, 0.5])

    items = await rows(db, "store_items")
    assert all((row["search_text"] is not None) == (what == "text") for row in items)
    assert all((row["field_terms"] != "fothers") == (what == "fields") for row in items)
    stored = await dump(db)
    assert bool(found_in(stored, (b"zebrastate", b"ibexvalue"))) == (what == "text")
    assert (agent.capabilities.search, store.capabilities.search) == (what == "text",) * 2
    assert store.capabilities.semantic_search == (what == "vectors")
    if what == "text":
        assert [hit["thread_id"] for hit in await agent.search("quaggatext")] == ["t"]
        assert [hit.key for hit in await store.search(SPACE, "ibexvalue")] == ["one"]
        equal = {"okapifield": "gnufield"}
        assert [h.key for h in await store.search(SPACE, "ibexvalue", filter=equal)] == ["one"]
    else:
        for search in (agent.search("quaggatext"), store.search(SPACE, "ibexvalue")):
            with pytest.raises(CapabilityMissing, match=r'readable=\("text",\)') as caught:
                await search
            assert caught.value.capability == "search"
    if what == "vectors":
        near = await store.search_by_embedding(SPACE, [1.0, 0.5])
        assert [hit.item.key for hit in near] == ["near"]


async def test_a_store_says_which_capability_it_lacks(opened: Open) -> None:
    store = Store(await opened())

    with pytest.raises(StoreCapabilityError) as caught:
        await store.search(SPACE, "word")

    assert isinstance(caught.value, CapabilityMissing)
    assert isinstance(caught.value, NotImplementedError)
    assert (caught.value.capability, caught.value.store_class) == ("search", "Store")
    assert 'readable=("text",)' in str(caught.value.hint)
    assert store.capabilities.search is False
    assert store.capabilities.semantic_search is False
    own = StoreCapabilityError("ttl", "MyStore", "Use another.")
    assert str(own) == "MyStore does not support 'ttl'. Use another."
    assert (own.capability, own.store_class, own.hint) == ("ttl", "MyStore", "Use another.")


@pytest.mark.usefixtures("lasting")
@pytest.mark.parametrize("key", [KEY, KEY.encode()], ids=["text", "bytes"])
async def test_one_key_is_given_without_a_list(opened: Open, key: Any) -> None:
    await Checkpointer(await opened(keys=key)).save(STATE, "t")

    assert await Checkpointer(await opened(keys=[KEY])).load("t") == STATE


async def test_vectors_are_refused_wherever_they_are_asked_for(opened: Open) -> None:
    db = await opened()
    store = Store(db)
    await store.put(SPACE, "one", VALUE)

    async def embedder(texts: list[str]) -> list[list[float]]:
        return [[1.0, 0.0] for _ in texts]

    embedding = Store(db, embedder=embedder, index=False)
    refused = [
        lambda: store.put(SPACE, "two", VALUE, embedding=[1.0, 0.0]),
        lambda: store.put_with_embedding(SPACE, "two", VALUE, [1.0, 0.0]),
        lambda: store.put_embedding(SPACE, "one", [1.0, 0.0]),
        lambda: store.search(SPACE, embedding=[1.0, 0.0]),
        lambda: store.search_by_embedding(SPACE, [1.0, 0.0]),
        lambda: embedding.put(SPACE, "two", VALUE, index=True),
        lambda: embedding.put_batch([(SPACE, "two", VALUE)], index=True),
        lambda: embedding.search(SPACE, "x", mode="vector"),
    ]
    for call in refused:
        with pytest.raises(StoreCapabilityError, match=r'readable=\("vectors",\)') as caught:
            await call()
        assert caught.value.capability == "semantic_search"
    with pytest.raises(StoreCapabilityError, match=r'readable=\("vectors",\)'):
        Store(db, embedder=embedder)
    assert await rows(db, "embeddings") == []
    assert await store.list_keys(SPACE) == ["one"], "what was refused wrote nothing"


async def test_filters_and_listings_answer_as_they_do_without_encryption(opened: Open) -> None:
    db = await opened()
    store = Store(db)
    for n in range(20):
        await store.put(SPACE, f"k{n:02d}", {"n": n, "even": n % 2 == 0}, {"third": n % 3})

    async def keys(**wanted: Any) -> list[str]:
        return sorted(hit.key for hit in await store.search(SPACE, filter=wanted, limit=100))

    assert await keys(n=7) == ["k07"]
    assert await keys(even=True) == [f"k{n:02d}" for n in range(0, 20, 2)]
    assert await keys(n={"$gt": 17}) == ["k18", "k19"]
    assert await keys(**{"$metadata": {"third": 2}, "even": False}) == ["k05", "k11", "k17"]
    assert await store.count(SPACE) == 20
    assert await store.list_keys(SPACE, 2) == ["k00", "k01"]
    assert len(await store.list_items(SPACE, filter={"n": {"$in": [3, 5]}})) == 2


async def test_forget_finds_items_by_their_metadata(opened: Open) -> None:
    """The index has no words of their fields, and must not be taken to have all."""
    db = await opened()
    store = Store(db)
    await store.put(SPACE, "hers", VALUE, {"customer": 42})
    await store.put(SPACE, "his", VALUE, {"customer": 43})

    assert await Checkpointer(db).forget(metadata={"customer": 42}) == 1
    assert await store.list_keys(SPACE) == ["his"]


@pytest.mark.usefixtures("lasting")
async def test_items_written_unreadable_are_found_once_fields_are_readable(opened: Open) -> None:
    await Store(await opened()).put(SPACE, "before", {"n": 1})

    store = Store(await opened(readable=("fields",)))
    await store.put(SPACE, "after", {"n": 1})
    await store.put(SPACE, "other", {"n": 2})

    found = await store.search(SPACE, filter={"n": 1})
    assert sorted(hit.key for hit in found) == ["after", "before"]


BLIND: dict[str, Callable[[Database], Awaitable[Any]]] = {
    "steps": lambda db: Checkpointer(db).search("zebrastate"),
    "steps below": lambda db: Checkpointer(db).search("zebrastate", below=True),
    "entries": lambda db: ThreadLog(db).search("ibexvalue"),
    "items by words": lambda db: Store(db).search(SPACE, "ibexvalue"),
    "items by meaning": lambda db: Store(db).search(SPACE, embedding=[1.0, 0.5], mode="vector"),
    "items by both": lambda db: Store(db).search(SPACE, "x", embedding=[1.0, 0.5], mode="hybrid"),
    "items of several": lambda db: Store(db).search_many([SPACE], "ibexvalue"),
    "nearest items": lambda db: Store(db).search_by_embedding(SPACE, [1.0, 0.5]),
    "facts": lambda db: UserMemoryStore(db).search("ada", "ibexvalue"),
    "documents": lambda db: VectorStore(db).search(embedding=[1.0, 0.5]),
    "everything": lambda db: Inspector(db).search("ibexvalue"),
}


@pytest.mark.usefixtures("lasting")
@pytest.mark.parametrize("road", BLIND)
async def test_a_search_without_a_key_is_an_error_where_there_may_be_something(
    opened: Open, road: str
) -> None:
    await fill(await opened())
    blind = await opened(keys=None)

    for _ in range(2):
        with pytest.raises(KeyMissing, match="nothing was found"):
            await BLIND[road](blind)
        assert asyncio.all_tasks() == {asyncio.current_task()}, "a part of the search goes on"
    found = await BLIND[road](blind.for_tenant("never encrypted"))
    assert not (found["hits"] if road == "everything" else found)


@pytest.mark.usefixtures("lasting")
async def test_what_is_readable_is_found_without_a_key(opened: Open) -> None:
    await Checkpointer(await opened(readable=("text",))).save(STATE, "t")

    blind = Checkpointer(await opened(keys=None))
    assert [hit["thread_id"] for hit in await blind.search("quaggatext")] == ["t"]
    assert await blind.search("") == []
    with pytest.raises(KeyMissing, match="nothing was found"):
        await blind.search("absent")


@pytest.mark.usefixtures("lasting")
async def test_a_process_without_keys_notices_that_somebody_begins_to_encrypt(
    opened: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    early = Checkpointer(await opened(keys=None))
    assert await early.search("zebrastate") == []
    await Checkpointer(await opened()).save(STATE, "t")

    monkeypatch.setattr(known_keys, "KNOWN_SECONDS", 0.0)
    with pytest.raises(KeyMissing, match="nothing was found"):
        await early.search("zebrastate")


@pytest.mark.usefixtures("lasting")
async def test_a_missing_or_wrong_key_is_named_with_what_it_is_missing_for(opened: Open) -> None:
    await fill(await opened())

    for settings, copy in (({"keys": None}, "forked"), ({"keys": [OTHER]}, "copied")):
        db = await opened(**settings)
        with pytest.raises(KeyMissing, match="checkpoint 'c3' of thread 't': ") as raised:
            await Checkpointer(db).load("t", "c3")
        with pytest.raises(KeyMissing, match="the item 'one' in /users/ada/: "):
            await Store(db).get(SPACE, "one")
        with pytest.raises(KeyMissing, match="the item 'many 0' in /users/ada/: "):
            await Store(db).list_items(SPACE, order="key")
        with pytest.raises(KeyMissing, match="the item"):
            await Store(db).get_batch([(SPACE, "one")])
        with pytest.raises(KeyMissing, match="of thread 't': "):
            await Checkpointer(db).save({"more": 1}, "t")
        with pytest.raises(KeyMissing):
            async for _ in Checkpointer(db).export(thread_id="t"):
                pass
        assert len(raised.value.key_id) == 16
        for key in (KEY, OTHER):
            assert key not in str(raised.value)
        # What needs no payload works.
        assert len(await Checkpointer(db).list_checkpoints("t")) == 7
        assert await Store(db).exists(SPACE, "one")
        assert await Checkpointer(db).delete(copy)


@pytest.mark.usefixtures("lasting")
async def test_plaintext_is_refused_and_named_unless_that_is_allowed(opened: Open) -> None:
    await fill(await opened(keys=None))

    db = await opened()
    with pytest.raises(NotEncrypted, match=r"checkpoint 'c3' of thread 't': .*rotate-keys"):
        await Checkpointer(db).load("t", "c3")
    with pytest.raises(NotEncrypted, match=r"the item 'many 0' in /users/ada/: .*allow_plaintext"):
        await Store(db).list_items(SPACE, order="key")
    with pytest.raises(NotEncrypted):
        await Checkpointer(db).save({"more": 1}, "t")

    db = await opened(allow_plaintext=True)
    agent = Checkpointer(db)
    assert (await agent.load("t", "c3"))["messages"][-1] == "zebrastate 3"
    await agent.save(STATE | {"more": 1}, "t", "new", parent_id="c3")
    codecs = {row["seq"]: (row["kind"], row["codec"]) for row in await rows(db, "deltas")
              if row["thread_id"] == "t"}  # fmt: skip
    assert codecs[max(codecs)] == ("delta", "splice+gcm2"), "a sealed row on one that is not"
    again = Checkpointer(await opened(allow_plaintext=True))
    assert await again.load("t", "new") == STATE | {"more": 1}


async def test_changed_bytes_are_corrupt(opened: Open) -> None:
    db = await opened()
    await Checkpointer(db).save(STATE, "t")
    await Store(db).put(SPACE, "one", VALUE)
    for table, column in (("deltas", "payload"), ("store_items", "value")):
        (row,) = await rows(db, table)
        stored = bytes(row[column])
        for at in (0, 1, 9, 25, len(stored) - 1):
            changed = stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :]
            for checksum in (row["checksum"], encryption.ciphertext_checksum(changed)):
                await change(
                    db, f"UPDATE {table} SET {column} = :b, checksum = :c", b=changed, c=checksum
                )
                fresh = await opened()  # which holds nothing
                states, items = Checkpointer(fresh), Store(fresh)
                with pytest.raises((Corrupt, KeyMissing)):
                    await (states.load("t") if table == "deltas" else items.get(SPACE, "one"))
        await change(
            db,
            f"UPDATE {table} SET {column} = :b, checksum = :c",
            b=stored,
            c=row["checksum"],
        )
    assert await Checkpointer(db).load("t") == STATE
    assert await Store(db).get(SPACE, "one") == VALUE


@pytest.mark.own_signing_keys  # what it forges has no signature
async def test_a_payload_opens_in_no_other_row(opened: Open) -> None:
    """Moved to another log, position, key, version, tenant or kind it is refused."""
    db = await opened()
    agent, log, store = Checkpointer(db), ThreadLog(db), Store(db)
    long = {"long": "x" * 2000, "more": list(range(500))}
    for thread in ("a", "b"):
        for step in range(3):
            await agent.save(long | {"thread": thread, "step": step}, thread, f"{thread}{step}")
        await log.append(f"{thread}-log", [f"{thread} one", f"{thread} two"])
    for step in (0, 1):
        await agent.put_writes([("channel", step)], "a", f"a{step}", f"task{step}")
    await store.put(SPACE, "hers", "her value")
    await store.put(SPACE, "his", "an older value")
    older = {row["key"]: row for row in await rows(db, "store_items")}["his"]
    await store.put(SPACE, "his", "his value")
    other = db.for_tenant("other")
    await Store(other).put(SPACE, "his", "a stranger's value")
    deltas = {(row["thread_id"], row["seq"]): row for row in await rows(db, "deltas")}
    items = {(row["tenant"], row["key"]): row for row in await rows(db, "store_items")}
    first_write, second_write = (deltas["a", seq] for seq in (4, 5))
    assert {first_write["kind"], second_write["kind"]} == {"write"}
    assert (deltas["a", 1]["kind"], deltas["a", 2]["kind"]) == ("snapshot", "delta")

    async def into_row(thread: str, seq: int, from_: dict[str, Any], payload: bytes) -> None:
        await change(
            db,
            "UPDATE deltas SET payload = :p, checksum = :c, codec = :k "
            f"WHERE {of_thread(thread)} AND seq = :s",
            p=payload, c=from_["checksum"], k=from_["codec"], s=seq,
        )  # fmt: skip

    async def into_item(from_: dict[str, Any], payload: bytes) -> None:
        await change(
            db,
            "UPDATE store_items SET value = :v, checksum = :c, codec = :k "
            "WHERE key = 'his' AND tenant = :t",
            v=payload, c=from_["checksum"], k=from_["codec"], t=db.tenant,
        )  # fmt: skip

    his = items[db.tenant, "his"]
    for source, payload in (
        (items[db.tenant, "hers"], "value"),
        (items["other", "his"], "value"),
        (older, "value"),
        (deltas["a-log", 1], "payload"),
    ):
        await into_item(source, source[payload])
        with pytest.raises(Corrupt, match="moved from another row"):
            await store.get(SPACE, "his")
        with pytest.raises(Corrupt, match="moved from another row"):
            await store.list_items(SPACE)
        assert [finding.key for finding in (await verify(db)).findings] == ["his"]
    await into_item(his, his["value"])
    assert await store.get(SPACE, "his") == "his value"

    for thread, seq, reading in (
        ("a", 1, lambda: agent.load("a", "a0")),
        ("a", 2, lambda: agent.load("a", "a1")),
        ("a", 4, lambda: agent.get_writes("a", "a0")),
        ("a-log", 2, lambda: log.tail("a-log", 10)),
    ):
        own = deltas[thread, seq]
        for other_row in deltas.values():
            if other_row is own:
                continue
            await into_row(thread, seq, other_row, other_row["payload"])
            with pytest.raises(Corrupt):
                await reading()
        await into_row(thread, seq, his, his["value"])
        with pytest.raises(Corrupt):
            await reading()
        await into_row(thread, seq, own, own["payload"])
        assert await reading()
    assert (await verify(db)).findings == ()


async def test_large_states_and_values_are_sealed_and_opened_off_the_loop(opened: Open) -> None:
    db = await opened()
    large = {"large": uuid.uuid4().hex * (OFF_LOOP_BYTES // 16)}

    await Checkpointer(db).save(large, "t")
    await Store(db).put(SPACE, "large", large)

    assert await Checkpointer(db).load("t") == large
    assert await Store(db).get(SPACE, "large") == large


async def test_a_tenant_has_the_keys_of_its_database(opened: Open) -> None:
    db = await opened()
    other = db.for_tenant("other")
    await Checkpointer(other).save(STATE, "t")

    assert other.keyring is db.keyring
    assert await Checkpointer(other).load("t") == STATE
    assert found_in(await dump(db), MARKERS) == []


async def test_no_key_is_in_the_repr_of_anything(opened: Open) -> None:
    db = await opened(keys=[KEY, OTHER])

    for shown in (db, db.keyring, Checkpointer(db), Store(db), db.for_tenant("x")):
        assert KEY not in repr(shown)
        assert OTHER not in str(shown)
    assert KEY not in str(await db.health())
    for wrong in ([KEY[:-2]], KEY[:-2], KEY.encode() + KEY.encode(), []):
        with pytest.raises(ValueError, match="key") as raised:
            Database("sqlite://", keys=wrong)
        assert KEY[:-2] not in str(raised.value)


async def test_writes_in_the_hosts_transaction_are_sealed(opened: Open) -> None:
    db = await opened()
    async with db.transaction() as tx:
        await Checkpointer(db).save(STATE, "t", connection=tx)
        await Store(db).put(SPACE, "one", VALUE, connection=tx)
        assert await Checkpointer(db).load("t", connection=tx) == STATE

    assert await Checkpointer(db).load("t") == STATE
    assert found_in(await dump(db), (*MARKERS, *ITEM_MARKERS)) == []
