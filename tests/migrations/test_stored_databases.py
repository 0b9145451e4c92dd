"""Real databases that releases wrote: upgraded to this one's schema, verified, read and written.

``tests/stored/make.py`` says how they were made. Those of adapters are read by their frameworks in
``tests/integrations/test_stored_adapters.py``.
"""

from __future__ import annotations

import json
import re
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from memalchemy import Checkpointer, Database, KeyMissing, Store, ThreadLog, migrate
from memalchemy._version import __version__
from memalchemy.anchors import Anchor
from memalchemy.integrations._declarations import BY_ADAPTER
from memalchemy.maintenance import tenants
from memalchemy.verify import verify
from servers import Postgres, give_rights
from stored.contents import BESIDE, FEATURES, TENANT, decoded_rows, readable
from stored.kinds import KINDS, Kind, directory_of, file_of, releases, unzipped

APPLICATION = "stored_application"
STORED = [
    (release, name, database)
    for release in releases()
    for name in KINDS
    for database in ("sqlite", "postgresql")
    if file_of(release, name, database).is_file()
]
ADAPTERS = [
    (release, file.name.removesuffix(".db.gz"))
    for release in releases()
    for file in sorted((directory_of(release) / "adapters").glob("*.db.gz"))
]
EMPTY = {"checkpoints": [], "entries": [], "items": []}

pytestmark = [pytest.mark.own_keys, pytest.mark.own_signing_keys]


def content_of(release: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((directory_of(release) / "contents.json").read_text())
    return found


@dataclass(frozen=True)
class StoredDatabase:
    """A copy of a stored database: its URLs for its owner and for an application."""

    kind: Kind
    content: dict[str, Any]
    url: str
    application_url: str

    @asynccontextmanager
    async def upgraded(self) -> AsyncIterator[Database]:
        """Upgrade it as its owner, and open it as an application does."""
        async with Database(self.url, migrate="off", **self.kind.options) as db:
            await db.migrate()
        options = self.kind.options
        async with Database(self.application_url, tenant=TENANT, migrate="check", **options) as db:
            yield db


@pytest.fixture(params=STORED, ids="-".join)
def stored(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[StoredDatabase]:
    release, name, database = request.param
    kind, content = KINDS[name], content_of(release)
    data = unzipped(file_of(release, name, database))
    if database == "sqlite":
        (tmp_path / "agent.db").write_bytes(data)
        url = f"sqlite:///{tmp_path}/agent.db"
        yield StoredDatabase(kind, content, url, url)
        return
    server: Postgres = request.getfixturevalue("postgres")
    made = server.create_database()
    server.execute(data.decode(), made)
    give_rights(server, APPLICATION, made)
    yield StoredDatabase(kind, content, server.url(made), server.url(made, user=APPLICATION))
    server.drop_database(made)


async def test_all_that_a_release_stored_is_there_and_sound_after_an_upgrade(
    stored: StoredDatabase,
) -> None:
    async with stored.upgraded() as db:
        await check_rows(db, stored)
        beside = db.for_tenant(BESIDE)
        for name in stored.kind.features:
            found = readable(await FEATURES[name].read(beside))
            assert found == stored.content["features"][name], name
        report = await verify(beside)
        # Of an encrypted item nobody knows whether it was stored without words on purpose.
        assert {finding.severity for finding in report.findings} <= {"note"}
        report = await verify(db)
        assert report.findings == ()
        assert (report.logs, report.entries) == (7, len(stored.content["entries"]))


async def test_this_release_writes_on_what_another_one_stored(stored: StoredDatabase) -> None:
    async with stored.upgraded() as db:
        await write_on(db, stored)
        beside = db.for_tenant(BESIDE)
        await FEATURES["values"].write(beside)
        await FEATURES["generated ids"].write(beside)
        ids = await FEATURES["generated ids"].read(beside)
        assert [state["number"] for state in ids] == [2, 1, 0, 2, 1, 0]
        assert (await verify(beside)).ok


async def test_what_protects_a_stored_database_protects_it_after_an_upgrade(
    stored: StoredDatabase,
) -> None:
    async with stored.upgraded():
        pass
    async with Database(stored.application_url, tenant=TENANT, migrate="check") as db:
        checkpointer = Checkpointer(db)
        if not stored.kind.options:
            assert await checkpointer.load("long") is not None
            assert await checkpointer.save({}, "new")
            if stored.kind.walled:
                assert (await tenants.status(db)).is_active
            return
        with pytest.raises(KeyMissing):
            await checkpointer.save({}, "new")
        if "keys" in stored.kind.options:
            with pytest.raises(KeyMissing):
                await checkpointer.load("long")


async def check_rows(db: Database, stored: StoredDatabase) -> None:
    """Hold what `fill` has written against the list of it."""
    content, searches = stored.content, stored.kind.searches
    checkpointer = Checkpointer(db)
    threads: dict[str, dict[str, Any]] = content["threads"]
    assert {*await checkpointer.list_threads()} == {*threads}
    for thread, states in threads.items():
        for name, state in states.items():
            assert await checkpointer.load(thread, name) == state
        newest = list(states)[-1]
        assert await checkpointer.load(thread) == states[newest]
        ids = [info.checkpoint_id async for info in checkpointer.history(thread)]
        assert ids == list(states)[::-1]
    for thread in content["deleted"]:
        assert await checkpointer.load(thread) is None
    (red,) = await checkpointer.query_by_metadata("colour", "red")
    assert threads["long"][red["checkpoint_id"]]["step"] == 7
    nested = Checkpointer(db, namespace=("graph", "sub"))
    for name, state in content["nested"].items():
        assert await nested.load("long", name) == state
    runs = await nested.find_runs(["run"])
    assert {place: {*ids} for place, ids in runs.items()} == {
        ("long", ("graph", "sub")): {*content["nested"]}
    }
    writes = await nested.get_writes("long", "nested 9")
    assert [[write.channel, write.value] for write in writes] == content["writes"]
    log = ThreadLog(db)
    assert [entry.value for entry in await log.range("long")] == content["entries"]
    store, space = Store(db), content["space"]
    for item in content["items"]:
        found = await store.get_item(space, item["key"])
        assert found is not None
        assert (found.value, found.metadata) == (item["value"], item["meta"])
    if not searches:
        return
    assert len(await checkpointer.search("lighthouses", limit=50)) == len(threads["long"])
    assert [entry.value for entry in await log.search("zebra")] == content["entries"][:1]
    for item in content["items"]:
        assert await store.get_embedding(space, item["key"]) == item["vector"]
    assert [hit.key for hit in await store.search(space, "giraffes")] == ["ada"]
    older = await store.search(space, filter={"age": {"$gt": 30}})
    assert [hit.key for hit in older] == ["ada"]
    (near,) = await store.search_by_embedding(space, [-0.2, 3.0], limit=1)
    assert near.item.key == ""


async def write_on(db: Database, stored: StoredDatabase) -> None:
    """Go on, branch off, delete, and find what is new."""
    content, searches = stored.content, stored.kind.searches
    threads, space = content["threads"], content["space"]
    checkpointer, log, store = Checkpointer(db), ThreadLog(db), Store(db)
    messages = list(threads["long"].values())[-1]["messages"]
    going_on = {"messages": [*messages, "zeppelin"]}
    name = await checkpointer.save(going_on, "long", metadata={"colour": "green"})
    assert await checkpointer.load("long", name) == going_on
    if searches:
        assert [hit["checkpoint_id"] for hit in await checkpointer.search("zeppelin")] == [name]
    root = next(iter(threads["branched"]))
    await checkpointer.save({"path": ["root", "middle"]}, "branched", parent_id=root)
    await checkpointer.prune("long", keep_last=2)
    assert len(await checkpointer.query_by_metadata("colour", "red")) == 0
    assert await log.append("long", ["more"], keys=["third"]) == [3]
    await store.put(space, "ada", "changed", embedding=[0.0, 1.0] if searches else None)
    assert await store.get(space, "ada") == "changed"
    if searches:
        assert await store.search(space, "giraffes") == []
    assert (await verify(db)).ok
    for thread in [*threads, *content["deleted"]]:
        await checkpointer.delete(thread)
    assert await checkpointer.list_threads() == []
    await checkpointer.save({"new": True}, "new")
    assert await checkpointer.load("new") == {"new": True}


@pytest.mark.parametrize("release", releases())
async def test_a_stored_anchor_proves_its_database_and_tells_of_what_is_removed(
    release: str, tmp_path: Path
) -> None:
    file = tmp_path / "agent.db"
    file.write_bytes(unzipped(file_of(release, "signed", "sqlite")))
    place = directory_of(release) / "signed.anchor"
    taken = Anchor.read(place)
    options: dict[str, Any] = {**KINDS["signed"].options, "anchor": place, "tenant": TENANT}
    async with Database(f"sqlite:///{file}", **options) as db:
        assert (await verify(db, anchor=taken)).findings == ()
        assert await Checkpointer(db).load("long") is not None
    with sqlite3.connect(file) as stranger:
        stranger.execute("DELETE FROM store_items WHERE key = 'ada'")
    stranger.close()
    async with Database(f"sqlite:///{file}", **options) as db:
        report = await verify(db, anchor=taken)
        assert {finding.code for finding in report.findings} == {"anchor"}


@pytest.mark.parametrize(("release", "name"), ADAPTERS)
async def test_what_an_adapter_stored_is_decoded_and_sound_without_its_framework(
    release: str, name: str, tmp_path: Path
) -> None:
    place = directory_of(release) / "adapters"
    (tmp_path / "agent.db").write_bytes(unzipped(place / f"{name}.db.gz"))
    content = json.loads((place / f"{name}.json").read_text())
    async with Database(f"sqlite:///{tmp_path}/agent.db") as db:
        assert await decoded_rows(db) == content["rows"]
        assert (await verify(db)).findings == ()
        assert content["rows"] != EMPTY


@pytest.mark.parametrize("release", releases())
def test_a_stored_oracle_script_holds_every_row_and_says_that_it_was_not_run(
    release: str, tmp_path: Path
) -> None:
    script = unzipped(directory_of(release) / "plain.oracle.sql.gz").decode()
    assert script.startswith("-- NOT RUN ON A SERVER")
    inserted = re.findall(r"^INSERT INTO (\w+) ", script, re.M)
    file = tmp_path / "agent.db"
    file.write_bytes(unzipped(file_of(release, "plain", "sqlite")))
    connection = sqlite3.connect(file)
    ours = "WHERE tenant <> '~' AND namespace NOT LIKE '/~%'"
    rows = {
        table: connection.execute(
            f"SELECT count(*) FROM {table} {ours if table == 'store_items' else ''}"
        ).fetchone()[0]
        for table in {*inserted}
    }
    connection.close()
    assert Counter(inserted) == rows
    assert {*rows} == {*migrate.TABLES}
    # Parents before their children.
    assert inserted == sorted(inserted, key=migrate.TABLES.index)


def test_every_revision_has_a_stored_database_and_those_before_the_head_their_code() -> None:
    stored = {release: content_of(release) for release in releases()}
    assert all(content["release"] == release for release, content in stored.items())
    chain = {script.revision for script in migrate.scripts().walk_revisions()}
    assert {content["revision"] for content in stored.values()} == chain
    for release, content in stored.items():
        if content["revision"] != migrate.head():
            assert (directory_of(release) / "code.zip").is_file()


def test_this_release_has_a_stored_database_of_each_kind_and_of_every_adapter() -> None:
    assert __version__ in releases(), "python -m tests.stored.make --write"
    for name, kind in KINDS.items():
        for database in kind.databases:
            assert file_of(__version__, name, database).is_file()
    assert {name for release, name in ADAPTERS if release == __version__} == {*BY_ADAPTER}
    for release in releases():
        for file in directory_of(release).rglob("*.gz"):
            assert file.stat().st_size < 100_000, file


def test_each_feature_is_in_a_stored_database_and_listed() -> None:
    content = content_of(__version__)
    assert {*content["features"]} == {*FEATURES}
