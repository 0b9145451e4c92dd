"""Items and vectors of a signed database: what was edited at rest is refused by the read that uses
it, and its neighbours are read as before.
"""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from sqlalchemy import Connection, and_, select, text, update

from lifetimes import MOMENT
from memalchemy import Database, Store
from memalchemy.codec.encryption import generate_key
from memalchemy.codec.payloads import encode_payload
from memalchemy.errors import Corrupt, KeyMissing, NotSigned
from memalchemy.rotation import rotate_keys
from memalchemy.schema import EmbeddingRow, StoreItemRow
from memalchemy.store.jsonl import export_items, import_items
from memalchemy.transfer import copy
from memalchemy.verify import verify

pytestmark = pytest.mark.own_signing_keys

ITEMS: Any = StoreItemRow.__table__
EMBEDDINGS: Any = EmbeddingRow.__table__
KEY = generate_key()
OTHER_KEY = generate_key()
NS = ("notes",)
PATH = "/notes/"
PAYLOAD = ("value", "checksum", "codec")
EAST, NORTH = [1.0, 0.0], [0.0, 1.0]

Edit = Callable[[Connection, str], None]
"""Edits the row of the item ``edited`` of a tenant."""


def signed(url: str, tenant: str, **options: Any) -> Database:
    return Database(url, tenant=tenant, signing_keys=[KEY], **options)


@pytest.fixture
def tenant() -> str:
    return f"t-{uuid.uuid4().hex[:16]}"


@pytest.fixture
async def store(shared_url: str, tenant: str) -> AsyncIterator[Store]:
    """Two items with words, fields and vectors; the first was written twice, and will be edited."""
    async with signed(shared_url, tenant) as db:
        store = Store(db)
        for version in (1, 2):
            value = {"text": f"parcel lost {'again' * version}", "n": version}
            await store.put(NS, "edited", value, {"who": "ada"}, embedding=EAST, ttl=3600)
        await store.put(NS, "beside", {"text": "parcel found", "n": 9}, {"who": "eve"})
        await store.put_embedding(NS, "beside", NORTH)
        yield store


async def edit(store: Store, work: Edit) -> None:
    tenant = store.db.tenant
    await store.db.run_sync(lambda connection: work(connection, tenant))


def here(table: Any, tenant: str, key: str = "edited") -> Any:
    return and_(table.c.tenant == tenant, table.c.namespace == PATH, table.c.key == key)


def setting(**values: Any) -> Edit:
    """Set columns of the item."""

    def work(connection: Connection, tenant: str) -> None:
        statement = update(ITEMS).where(here(ITEMS, tenant)).values(**values)
        assert connection.execute(statement).rowcount == 1

    return work


def taking(
    *names: str, table: Any = ITEMS, of: str = "beside", of_tenant: str = "", key: str = "edited"
) -> Edit:
    """Set columns to those of another item."""

    def work(connection: Connection, tenant: str) -> None:
        other = table.alias("other")
        is_other = here(other, of_tenant or tenant, of)
        taken = {name: select(other.c[name]).where(is_other).scalar_subquery() for name in names}
        changed = update(table).where(here(table, tenant, key)).values(**taken)
        assert connection.execute(changed).rowcount == 1

    return work


def forging(connection: Connection, tenant: str) -> None:
    """Write another value, with the checksum that it has."""
    payload, checksum = encode_payload({"text": "parcel forged", "n": 2})
    setting(value=payload, checksum=checksum)(connection, tenant)


Read = Callable[[Store], Awaitable[Any]]


async def get(store: Store) -> Any:
    return await store.get(NS, "edited")


async def get_items(store: Store) -> Any:
    return await store.get_items([(NS, "edited")])


async def list_items(store: Store) -> Any:
    return await store.list_items(NS)


async def search_words(store: Store) -> Any:
    return await store.search(NS, "parcel")


async def search_more_words(store: Store) -> Any:
    return await store.search(NS, "parcel lost")


async def search_below(store: Store) -> Any:
    return await store.search((), "parcel", prefix=True)


async def search_filter(store: Store) -> Any:
    return await store.search(NS, filter={"$metadata": {"who": "ada"}})


async def search_vector(store: Store) -> Any:
    return await store.search_by_embedding(NS, EAST)


async def search_hybrid(store: Store) -> Any:
    return await store.search(NS, "parcel", mode="hybrid", embedding=EAST, limit=1)


async def search_diverse(store: Store) -> Any:
    return await store.search(NS, embedding=EAST, mode="vector", mmr=0.5)


async def export(store: Store) -> Any:
    return [item async for item in export_items(store, NS)]


async def export_vectors(store: Store) -> Any:
    return [item async for item in export_items(store, NS, vectors=True)]


async def get_embedding(store: Store) -> Any:
    return await store.get_embedding(NS, "edited")


async def get_embeddings(store: Store) -> Any:
    return await store.get_embeddings([(NS, "edited")])


OF_ITEMS = (
    *(get, get_items, list_items, search_words, search_more_words, search_below),
    *(search_filter, search_vector, search_hybrid, search_diverse, export),
)
OF_WORDS = (search_words, search_more_words, search_below, search_hybrid)
OF_VECTORS = (
    *(search_vector, search_hybrid, search_diverse, export_vectors),
    *(get_embedding, get_embeddings),
)

LATER = datetime.now(UTC) + timedelta(days=9)
OF_AN_ITEM: dict[str, Edit] = {
    "forged value": forging,
    "value of another item": taking(*PAYLOAD),
    "value and signature of another item": taking(*PAYLOAD, "signature"),
    "signature of another item": taking("signature"),
    "no signature": setting(signature=None),
    "metadata": setting(meta={"who": "ada", "role": "admin"}),
    "version": setting(version=7),
    "earlier version": setting(version=1),
    "expiry": setting(expires_at=LATER),
    "no expiry": setting(expires_at=None, lifetime=None),
    "lifetime": setting(lifetime=1),
    "time of creation": setting(created_at=LATER),
    "time of the write": setting(updated_at=LATER),
}


async def refuses(store: Store, reads: Any) -> None:
    for read in reads:
        with pytest.raises((Corrupt, KeyMissing)) as caught:
            await read(store)
        assert "'edited'" in str(caught.value), read
    assert (await store.get(NS, "beside"))["n"] == 9
    assert await store.get_embedding(NS, "beside") == NORTH
    findings = (await verify(store.db)).findings
    # What cannot be decrypted at its place is told as that, and once.
    codes = {"signature", "payload"} if store.db.keyring.encrypts else {"signature"}
    assert {one.code for one in findings} & codes
    assert {one.key for one in findings} == {"edited"}


async def test_all_reads_read_what_was_not_edited(store: Store) -> None:
    for read in {*OF_ITEMS, *OF_VECTORS}:
        assert await read(store), read
    assert (await verify(store.db)).findings == ()


@pytest.mark.parametrize("edited", OF_AN_ITEM)
async def test_an_edited_item_is_refused_by_every_read(store: Store, edited: str) -> None:
    await search_vector(store)  # fills the cache of vectors, which is not believed either
    await edit(store, OF_AN_ITEM[edited])
    await refuses(store, OF_ITEMS)


@pytest.mark.unwalled_only("it reads the row of another tenant")
@pytest.mark.parametrize("taken", [PAYLOAD, (*PAYLOAD, "meta"), (*PAYLOAD, "signature")])
async def test_a_value_of_the_same_key_of_another_tenant_is_refused(
    store: Store, shared_url: str, tenant: str, taken: tuple[str, ...], database: str
) -> None:
    if database == "sqlite-memory":
        pytest.skip("a database in memory has one tenant at a time")
    async with signed(shared_url, f"{tenant}-b") as other:
        await Store(other).put(NS, "edited", {"text": "parcel of another tenant", "n": 2})
        await edit(store, taking(*taken, of="edited", of_tenant=other.tenant))
        await refuses(store, (get, list_items, search_words))


async def test_an_older_value_is_refused_as_the_current_version(store: Store) -> None:
    await store.put(NS, "old", {"n": 1})
    older = await row_of(store, "old")
    await store.put(NS, "old", {"n": 2})

    await restore(store, "old", {name: older[name] for name in PAYLOAD})
    with pytest.raises(Corrupt):
        await store.get(NS, "old")
    await restore(store, "old", {k: v for k, v in older.items() if k != "signature"})
    with pytest.raises(Corrupt):
        await store.get(NS, "old")

    await restore(store, "old", older)
    # A whole row that was signed proves itself: that it is not the newest tells an anchor.
    assert await store.get(NS, "old") == {"n": 1}


async def row_of(store: Store, key: str) -> dict[str, Any]:
    tenant = store.db.tenant
    query = select(ITEMS).where(here(ITEMS, tenant, key))
    return dict(await store.db.run_sync(lambda c: c.execute(query).one()._mapping))


async def restore(store: Store, key: str, values: dict[str, Any]) -> None:
    now = await row_of(store, key)
    values = {name: value for name, value in values.items() if now[name] != value}
    statement = update(ITEMS).where(here(ITEMS, store.db.tenant, key)).values(**values)
    await store.db.run_sync(lambda connection: connection.execute(statement))


ELSEWHERE = pytest.mark.one_server_only("Citus refuses an UPDATE that moves a row to another shard")


@pytest.mark.parametrize("name", ["key", pytest.param("namespace", marks=ELSEWHERE)])
async def test_an_item_that_was_moved_is_refused_where_it_is(store: Store, name: str) -> None:
    await store.put(NS, "moved", {"n": 3})
    place = {"key": "other", "namespace": "/elsewhere/"}
    await restore(store, "moved", {name: place[name]})
    namespace, key = (NS, "other") if name == "key" else (("elsewhere",), "moved")
    with pytest.raises(Corrupt):
        await store.get(namespace, key)
    assert await store.get(NS, "moved") is None


@pytest.mark.unwalled_only("it gives a row to another tenant")
async def test_an_item_that_was_given_to_another_tenant_is_refused_there(
    store: Store, shared_url: str, tenant: str, lasting: None
) -> None:
    async with signed(shared_url, f"{tenant}-b") as other:
        await Store(other).put(NS, "own", 1)
        await store.put(NS, "moved", {"n": 3})
        await restore(store, "moved", {"tenant": other.tenant})
        with pytest.raises(Corrupt):
            await Store(other).get(NS, "moved")
        assert await Store(other).get(NS, "own") == 1


@pytest.mark.parametrize("words", ["parcel lost of eve", "parcel", "zebra"])
async def test_edited_words_are_refused_by_the_search_that_finds_by_them(
    store: Store, words: str
) -> None:
    await edit(store, setting(search_text=words))
    assert (await get(store))["n"] == 2
    for query in words.split():
        with pytest.raises(Corrupt):
            await store.search(NS, query)
    assert [hit.key for hit in await store.search(NS, "found")] == ["beside"]
    report = await verify(store.db)
    assert [(one.code, one.key) for one in report.findings] == [("signature", "edited")]


async def test_edited_fields_are_refused_by_the_search_that_finds_by_them(store: Store) -> None:
    await edit(store, taking("field_terms"))
    assert (await get(store))["n"] == 2
    search = store.search(NS, filter={"$metadata": {"who": "eve"}})
    if store.db.dialect.text.indexes_fields:
        with pytest.raises(Corrupt):
            await search
    else:  # the fields themselves are compared
        assert [hit.key for hit in await search] == ["beside"]
    report = await verify(store.db)
    assert [(one.code, one.key) for one in report.findings] == [("signature", "edited")]


async def test_an_item_that_only_the_index_gives_a_word_is_not_found_by_it(
    store: Store, database: str
) -> None:
    if database not in ("sqlite", "sqlite-memory"):
        pytest.skip("elsewhere the index is the database's own")
    await edit(store, index_word)
    assert await store.search(NS, "zebra") == []
    assert [hit.key for hit in await store.search(NS, "zebra found")] == ["beside"]


def index_word(connection: Connection, tenant: str) -> None:
    """Add a word to what SQLite's index has of the item."""
    connection.execute(
        text(
            "INSERT INTO store_items_search (rowid, search_text, field_terms, scope) SELECT rowid, "
            "'zebra', '', 'x' || lower(hex(tenant || char(31) || namespace)) FROM store_items "
            "WHERE tenant = :tenant AND key = 'edited'"
        ),
        {"tenant": tenant},
    )


# --- Vectors -------------------------------------------------------------------------------------

OF_A_VECTOR: dict[str, Edit] = {
    "vector of another item": taking("vector", table=EMBEDDINGS),
    "vector and signature of another item": taking("vector", "signature", table=EMBEDDINGS),
    "signature of another item": taking("signature", table=EMBEDDINGS),
}


@pytest.mark.parametrize("edited", OF_A_VECTOR)
@pytest.mark.parametrize("cached", [False, True])
async def test_an_edited_vector_is_refused_by_the_reads_that_use_it(
    store: Store, edited: str, cached: bool
) -> None:
    if cached:
        await search_vector(store)
    await edit(store, OF_A_VECTOR[edited])
    await refuses(store, OF_VECTORS)
    assert (await get(store))["n"] == 2
    assert await search_words(store)


async def test_a_vector_without_a_signature_is_refused(store: Store) -> None:
    def work(connection: Connection, tenant: str) -> None:
        connection.execute(
            update(EMBEDDINGS).where(here(EMBEDDINGS, tenant)).values(signature=None)
        )

    await edit(store, work)
    with pytest.raises(NotSigned):
        await search_vector(store)


async def test_an_older_vector_is_refused_beside_a_newer_value(store: Store) -> None:
    names = ("vector", "signature")
    await store.put(NS, "stash", {"n": 0}, embedding=NORTH)
    await edit(store, taking(*names, table=EMBEDDINGS, of="edited", key="stash"))
    await store.put(NS, "edited", {"n": 3}, embedding=NORTH)
    await edit(store, taking(*names, table=EMBEDDINGS, of="stash"))
    for read in (get_embedding, get_embeddings):
        with pytest.raises(Corrupt):
            await read(store)
    await store.delete(NS, "stash")
    await refuses(store, OF_VECTORS)


async def test_a_vector_that_was_moved_to_another_item_is_refused(store: Store) -> None:
    await store.put(NS, "bare", {"text": "no vector"})

    def work(connection: Connection, tenant: str) -> None:
        moved = update(EMBEDDINGS).where(here(EMBEDDINGS, tenant)).values(key="bare")
        assert connection.execute(moved).rowcount == 1

    await edit(store, work)
    with pytest.raises(Corrupt):
        await search_vector(store)
    assert (await store.get(NS, "bare"))["text"] == "no vector"


# --- Writes --------------------------------------------------------------------------------------


async def test_vectors_that_a_put_keeps_stay_valid(store: Store) -> None:
    await store.put_batch([(NS, "edited", {"text": "parcel kept", "n": 3})], keep_vectors=True)
    await store.put_embedding(NS, "edited", NORTH, model="another")
    await store.put_batch([(NS, "edited", {"text": "parcel kept", "n": 4})], keep_vectors=True)

    assert [hit.item.value["n"] for hit in await search_vector(store)] == [4, 9]
    assert await store.get_embedding(NS, "edited", model="another") == NORTH
    assert (await verify(store.db)).findings == ()


async def test_a_put_does_not_keep_an_edited_vector(store: Store) -> None:
    await edit(store, taking("vector", table=EMBEDDINGS))
    with pytest.raises(Corrupt):
        await store.put_batch([(NS, "edited", {"n": 3})], keep_vectors=True)
    assert (await get(store))["n"] == 2


async def test_a_put_does_not_keep_vectors_of_an_item_that_has_expired(store: Store) -> None:
    await store.put(NS, "gone", {"n": 1}, embedding=EAST, ttl=MOMENT)
    await store.put_batch([(NS, "gone", {"n": 2})], keep_vectors=True)
    assert [hit.item.key for hit in await search_vector(store)] == ["edited", "beside"]
    assert await store.get(NS, "gone") == {"n": 2}


async def test_a_change_in_place_does_not_sign_an_edited_item(store: Store) -> None:
    await edit(store, setting(meta={"who": "eve"}))
    with pytest.raises(Corrupt):
        await store.refresh([(NS, "edited")])
    with pytest.raises(Corrupt):
        await get(store)


async def test_a_lifetime_that_a_read_extends_stays_signed(store: Store) -> None:
    before = await store.get_item(NS, "edited", refresh=False)
    after = await store.get_item(NS, "edited", refresh=True)
    again = await store.get_item(NS, "edited", refresh=False)
    assert before is not None
    assert after is not None
    assert after == again
    assert before.expires_at < after.expires_at  # type: ignore[operator]
    assert (await verify(store.db)).findings == ()


async def test_a_put_mends_an_edited_item(store: Store) -> None:
    await edit(store, forging)
    await store.put(NS, "edited", {"text": "parcel mended", "n": 5}, {"who": "ada"}, embedding=EAST)
    for read in {*OF_ITEMS, *OF_VECTORS}:
        assert await read(store), read


async def test_other_writes_work_beside_an_edited_item(store: Store) -> None:
    await edit(store, forging)
    await store.put_batch([(NS, f"k{n}", {"n": n}) for n in range(5)])
    assert await store.delete(NS, "edited")
    assert await store.count(NS) == 6
    assert await store.clear_namespace(NS) == 6


async def test_lines_are_imported_signed(store: Store) -> None:
    line = b'{"namespace": ["notes"], "key": "line", "value": {"n": 1}, "metadata": {"w": 1.0}}'
    [one async for one in import_items(store, [line])]
    assert await store.get(NS, "line") == {"n": 1}
    await edit(store, forging)
    bad = b'{"namespace": ["notes"], "key": "edited", "value": {"n": 1}}'
    with pytest.raises(Corrupt):
        [one async for one in import_items(store, [bad])]


# --- Keys ----------------------------------------------------------------------------------------


async def test_a_new_key_signs_what_is_written_and_the_old_one_is_still_checked(
    store: Store, shared_url: str, tenant: str, lasting: None
) -> None:
    async with Database(shared_url, tenant=tenant, signing_keys=[OTHER_KEY, KEY]) as db:
        new = Store(db)
        assert (await get(new))["n"] == 2
        await new.put(NS, "new", 1)
        await new.refresh([(NS, "edited")])
    async with Database(shared_url, tenant=tenant, signing_keys=[OTHER_KEY]) as db:
        only = Store(db)
        assert await only.get(NS, "new") == 1
        assert (await get(only))["n"] == 2
        with pytest.raises(KeyMissing):
            await only.get(NS, "beside")


async def test_unsigned_items_are_refused_until_they_are_allowed(
    shared_url: str, tenant: str, lasting: None
) -> None:
    async with Database(shared_url, tenant=tenant, signing_keys=None) as db:
        await Store(db).put(NS, "old", {"text": "parcel"}, ttl=3600, embedding=EAST)
    async with signed(shared_url, tenant) as db:
        for read in (
            Store(db).get(NS, "old"),
            Store(db).search(NS, "parcel"),
            search_vector(Store(db)),
        ):
            with pytest.raises(NotSigned):
                await read
    async with signed(shared_url, tenant, allow_unsigned=True) as db:
        store = Store(db)
        assert await store.get(NS, "old", refresh=True) == {"text": "parcel"}
        assert await store.search(NS, "parcel")
        assert await search_vector(store)
        await store.put_batch([(NS, "old", {"text": "parcel two"})], keep_vectors=True)
        assert await search_vector(store)


# --- Maintenance ---------------------------------------------------------------------------------


async def test_a_copy_has_the_signatures_and_takes_nothing_that_is_not_signed(
    store: Store, database_url: str
) -> None:
    async with signed(database_url, store.db.tenant, migrate="off") as target:
        await target.migrate()
        await copy(store.db, target)
        for read in {*OF_ITEMS, *OF_VECTORS}:
            assert await read(Store(target)), read
        assert (await verify(target)).findings == ()
        await store.put(NS, "forged", 1)
        await restore(store, "forged", {"meta": {"a": 1}})
        with pytest.raises(Corrupt, match="forged"):
            await copy(store.db, target)
        assert await Store(target).get(NS, "forged") is None


@pytest.mark.usefixtures("lasting")
async def test_a_rotation_of_encryption_keys_signs_what_it_proved_and_leaves_the_rest(
    database_url: str,
) -> None:
    old, new = generate_key(), generate_key()
    readable = ("text", "fields", "vectors")
    async with signed(database_url, "default", keys=[old], readable=readable, migrate="off") as db:
        await db.migrate()
        store = Store(db)
        for key in ("edited", "beside"):
            await store.put(NS, key, {"text": "parcel", "n": 9}, {"who": "ada"}, embedding=EAST)
        await edit(store, setting(meta={"who": "eve"}))
    async with signed(
        database_url, "default", keys=[new, old], readable=readable, migrate="off"
    ) as db:
        report = await rotate_keys(db)
        assert (report.rotated, report.left, report.damaged) == (1, 1, 1)
        with pytest.raises(Corrupt):
            await get(Store(db))
    async with signed(database_url, "default", keys=[new], readable=readable, migrate="off") as db:
        assert (await Store(db).get(NS, "beside"))["n"] == 9
        assert [one.key for one in (await verify(db)).findings if one.code == "signature"] == []
