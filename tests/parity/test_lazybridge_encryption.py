"""LazyBridge's `EncryptedStoreAdapter`, and the conversations that it cannot encrypt."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from cryptography.fernet import Fernet
from sqlalchemy import text

from memalchemy import (
    Checkpointer,
    Conflict,
    Conversation,
    Database,
    KeyMissing,
    KeyValue,
    NotEncrypted,
    Store,
)
from memalchemy.codec.encryption import Keyring
from memalchemy.protection.guard import guard_of
from parity.messages import user

SPACE = ("plan",)
KEY, OTHER = Fernet.generate_key(), Fernet.generate_key()


@pytest.fixture
async def db(database_url: str) -> AsyncIterator[Database]:
    async with Database(database_url, migrate="off", keys=[KEY]) as db:
        await db.migrate()
        yield db


async def stored(db: Database) -> bytes:
    """Every payload and value that the tables hold."""

    def read(connection: object) -> bytes:
        found = b""
        for query in ("SELECT payload FROM deltas", "SELECT value FROM store_items"):
            for (value,) in connection.execute(text(query)):  # type: ignore[attr-defined]
                found += bytes(value) + b"\n"
        return found

    return await db.run_sync(read)


async def test_b6_conversations_can_be_encrypted(db: Database) -> None:
    """There a Memory on an encrypted store is an AttributeError: it had no ``write_memory``."""
    turns = [{"role": "user", "content": f"a private matter, {n}"} for n in range(20)]
    agent = Checkpointer(db)
    for length in range(1, 21):
        await agent.save({"messages": turns[:length]}, "conversation")

    assert await agent.load("conversation") == {"messages": turns}
    assert b"private" not in await stored(db)


async def test_b6_no_kind_of_row_has_a_way_past_the_keys(db: Database) -> None:
    """It was an adapter round one class; a key here is the database's."""
    await Checkpointer(db).save({"n": "private"}, "t")
    await Store(db).put(SPACE, "k", "private")
    await Store(db.for_tenant("other")).put(SPACE, "k", "private")

    def codecs(connection: object) -> set[str]:
        items = "SELECT codec FROM store_items WHERE namespace = '/plan/'"
        query = f"SELECT codec FROM deltas UNION {items}"
        return {codec for (codec,) in connection.execute(text(query))}  # type: ignore[attr-defined]

    assert all(codec.endswith("+gcm2") for codec in await db.run_sync(codecs))


async def test_fernet_keys_as_one_or_as_a_list_of_which_the_first_encrypts(db: Database) -> None:
    await Store(db).put(SPACE, "k", 1)

    both, other = Store(opened(db, [OTHER, KEY])), Store(opened(db, [OTHER]))
    assert await both.get(SPACE, "k") == 1
    await both.put(SPACE, "new", 2)
    assert await other.get(SPACE, "new") == 2
    with pytest.raises(KeyMissing):
        await other.get(SPACE, "k")


def opened(db: Database, keys: list[bytes] | None) -> Database:
    """The same rows with other keys; also of a database in memory, which has one engine only."""
    other = db.for_tenant(db.tenant)
    other._keyring = Keyring(keys)
    other._guard = guard_of(other._keyring)
    return other


@pytest.mark.parametrize("keys", [[], ["not a key"], [42], "not a key"])
def test_an_empty_list_or_what_is_no_key_is_a_value_error(keys: object) -> None:
    with pytest.raises(ValueError, match="key"):
        Database("sqlite://", keys=keys)  # type: ignore[arg-type]


async def test_keys_and_times_of_items_stay_readable(db: Database) -> None:
    await Store(db).put(SPACE, "step:1", {"private": True})

    def read(connection: object) -> list[str]:
        query = "SELECT key FROM store_items WHERE namespace = '/plan/' AND updated_at IS NOT NULL"
        return [key for (key,) in connection.execute(text(query))]  # type: ignore[attr-defined]

    assert await db.run_sync(read) == ["step:1"]
    assert await Store(db).list_keys(SPACE, prefix="step:") == ["step:1"]


async def test_a_plaintext_row_is_an_error_that_names_its_key_in_bulk_reads_too(
    db: Database,
) -> None:
    await Store(opened(db, None)).put(SPACE, "slipped in", "plain")

    store = Store(db)
    for read in (store.get(SPACE, "slipped in"), store.list_items(SPACE),
                 store.get_batch([(SPACE, "slipped in")]), store.search(SPACE)):  # fmt: skip
        with pytest.raises(NotEncrypted, match="'slipped in'"):
            await read


async def test_compare_and_swap_works_on_what_is_encrypted_though_equal_values_differ(
    db: Database,
) -> None:
    store = Store(db)
    first = await store.put(SPACE, "k", {"n": 1}, expected_version=None)
    assert await store.put(SPACE, "k", {"n": 2}, expected_version=first) == 2
    with pytest.raises(Conflict) as lost:
        await store.put(SPACE, "k", {"n": 3}, expected_version=first)
    assert lost.value.current is not None
    assert lost.value.current.value == {"n": 2}

    async def claim(n: int) -> bool:
        try:
            await store.put(SPACE, "claim", n, expected_version=None)
        except Conflict:
            return False
        return True

    assert sum(await asyncio.gather(*(claim(n) for n in range(8)))) == 1


async def test_b7_an_encrypted_none_is_told_from_nothing(db: Database) -> None:
    store = Store(db)
    await store.put(SPACE, "none", None)

    assert await store.get(SPACE, "none") is None
    assert await store.exists(SPACE, "none")
    with pytest.raises(Conflict):
        await store.put(SPACE, "none", 1, expected_version=None)


async def test_a_key_hides_values_and_messages_and_leaves_keys_and_agents_readable(
    tmp_path: Path,
) -> None:
    url, plain = f"sqlite:///{tmp_path}/sealed.db", f"sqlite:///{tmp_path}/plain.db"
    async with Database(url, keys=KEY.decode()) as db:
        kv = KeyValue(db, agent_id="scribe")
        await kv.write("the key", {"a": "zebrafish"})
        assert await kv.compare_and_swap("the key", {"a": "zebrafish"}, {"a": "okapi"}) is True
        await Conversation(db, "t").add(user("giraffe"))

    content = (tmp_path / "sealed.db").read_bytes()
    assert b"the key" in content
    assert b"scribe" in content
    assert not any(word in content for word in (b"zebrafish", b"okapi", b"giraffe"))
    async with Database(url, keys=[KEY, OTHER]) as db:
        assert await KeyValue(db).read("the key") == {"a": "okapi"}
    async with Database(plain) as db:
        await KeyValue(db).write("offending", 1)
    async with Database(plain, keys=OTHER) as db:
        with pytest.raises(NotEncrypted, match="offending"):
            await KeyValue(db).read_all()
