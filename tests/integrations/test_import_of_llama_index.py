"""Chats that LlamaIndex's own chat stores keep are imported, from tables and from JSON files."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator
from contextlib import aclosing, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, MessageRole, TextBlock
from llama_index.core.memory import Memory
from llama_index.core.storage.chat_store import SimpleChatStore
from llama_index.core.storage.chat_store.base_db import AsyncDBChatStore, MessageStatus
from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
from typer.testing import CliRunner

from memalchemy import Database, DatabaseUnreachable, NotFound, Store
from memalchemy.cli.app import app
from memalchemy.importers.sources import SOURCES
from memalchemy.importers.target import ImportOutcome, ImportTarget
from memalchemy.integrations.llama_index import MemalchemyChatStore
from servers import Postgres

SOURCE = SOURCES["llama-index"]
STATUSES = (MessageStatus.ACTIVE, MessageStatus.ARCHIVED, None)


@pytest.fixture
async def place(
    request: pytest.FixtureRequest, tmp_path: Path
) -> AsyncIterator[tuple[SQLAlchemyChatStore, str]]:
    """A chat store of LlamaIndex's own, and the place that the import is given."""
    if request.param == "sqlite":
        url, given = f"sqlite+aiosqlite:///{tmp_path}/chats.db", str(tmp_path / "chats.db")
    else:
        postgres: Postgres = request.getfixturevalue("postgres")
        given = postgres.url(postgres.create_database())
        url = given.replace("postgresql://", "postgresql+asyncpg://")
    store = SQLAlchemyChatStore("of my app", async_database_uri=url)
    yield store, given
    if store._async_engine is not None:
        await store._async_engine.dispose()


each_database = pytest.mark.parametrize("place", ["sqlite", "postgresql"], indirect=True)


def message(words: str, role: str = "user", **fields: Any) -> ChatMessage:
    return ChatMessage(role=MessageRole(role), content=words, **fields)


async def fill(store: AsyncDBChatStore) -> None:
    blocks = [TextBlock(text="Look é"), ImageBlock(image=b"\x89PNG", image_mimetype="image/png")]
    await store.add_message("ada", ChatMessage(role=MessageRole.USER, blocks=blocks))
    call = {"tool_calls": [{"id": "c", "n": 2**60}], "position": 1}
    await store.add_message("ada", message("", "assistant", additional_kwargs=call))
    await store.add_messages("ada", [message(f"m{number}") for number in range(5)])
    await store.archive_oldest_messages("ada", 3)
    await store.add_message("ada", message("archived at once"), MessageStatus.ARCHIVED)
    await store.add_message("ada", message("last"))
    await store.add_message("bob", message("hello"))


async def read_all(store: AsyncDBChatStore) -> dict[tuple[str, str], list[ChatMessage]]:
    return {
        (key, str(status)): await store.get_messages(key, status)
        for key in sorted(await store.get_keys())
        for status in STATUSES
    }


async def imported(place: str, db: Database, **options: Any) -> list[ImportOutcome]:
    target = ImportTarget(db, **options)
    async with aclosing(SOURCE.read(place)) as records:
        return [await target.write(record) async for record in records]


@each_database
async def test_chats_read_as_they_did(place: tuple[SQLAlchemyChatStore, str], db: Database) -> None:
    theirs, where = place
    started = datetime.now(UTC)
    await fill(theirs)
    dry = await imported(where, db, dry_run=True)
    assert not await Store(db).list_namespaces()
    done = await imported(where, db)
    assert done == dry
    assert [(one.name, one.status, one.written) for one in done] == [
        ("chat ada", "imported", 9),
        ("chat bob", "imported", 1),
    ]
    assert await SOURCE.count(where) == 2

    ours = MemalchemyChatStore(db)
    expected = await read_all(theirs)
    assert await read_all(ours) == expected
    assert len(expected["ada", "MessageStatus.ARCHIVED"]) == 4
    entries = await ours.log.range("ada") + await ours.archive.range("ada")
    limits = timedelta(minutes=5)
    assert all(abs(entry.occurred_at - started) < limits for entry in entries)
    again = await imported(where, db)
    assert {(one.status, one.written) for one in again} == {("unchanged", 0)}

    # Queue and archive go on as before.
    assert await ours.archive_oldest_messages("ada", 2) == await theirs.archive_oldest_messages(
        "ada", 2
    )
    assert await read_all(ours) == await read_all(theirs)


@each_database
async def test_a_later_import_adds_what_is_new_and_archives_what_was(
    place: tuple[SQLAlchemyChatStore, str], db: Database
) -> None:
    theirs, where = place
    await fill(theirs)
    await imported(where, db)
    await theirs.archive_oldest_messages("ada", 1)
    await theirs.add_message("ada", message("more"))
    ada, bob = await imported(where, db)
    assert (ada.status, ada.written, bob.status) == ("resumed", 1, "unchanged")
    ours = MemalchemyChatStore(db)
    assert await read_all(ours) == await read_all(theirs)

    # What went on here is left; what went on in both places is a conflict.
    await ours.archive_oldest_messages("ada", 2)
    await ours.add_message("ada", message("here"))
    mine = await read_all(ours)
    assert {one.status for one in await imported(where, db)} == {"unchanged"}
    await theirs.add_message("ada", message("there"))
    assert [one.status for one in await imported(where, db)] == ["conflict", "unchanged"]
    assert await read_all(ours) == mine
    done = await imported(where, db, on_conflict="replace")
    assert [one.status for one in done] == ["replaced", "unchanged"]
    assert await read_all(ours) == await read_all(theirs)


async def test_times_are_those_of_the_table_and_a_long_chat_is_whole(
    tmp_path: Path, db: Database
) -> None:
    theirs = SQLAlchemyChatStore("chats", f"sqlite+aiosqlite:///{tmp_path}/chats.db")
    await theirs.add_messages("ada", [message(f"m{number}") for number in range(1_203)])
    await theirs.archive_oldest_messages("ada", 700)
    assert theirs._async_engine is not None
    await theirs._async_engine.dispose()
    path = tmp_path / "chats.db"
    with closing(sqlite3.connect(path)) as raw, raw:
        raw.execute("UPDATE chats SET timestamp = 1600000000123456789 + id * 1000")
        raw.execute("UPDATE chats SET data = '{' WHERE id = 1203")
    before = path.read_bytes()
    (done,) = await imported(str(path), db)

    assert (done.status, done.written, done.unreadable) == ("imported", 1_202, 1)
    assert path.read_bytes() == before
    ours = MemalchemyChatStore(db)
    assert await ours.get_messages("ada", None) == [message(f"m{n}") for n in range(1_202)]
    assert await ours.count_messages("ada", MessageStatus.ARCHIVED) == 700
    first = datetime(2020, 9, 13, 12, 26, 40, 123_457, UTC)
    assert [one.occurred_at for one in await ours.archive.range("ada", limit=2)] == [
        first,
        first + timedelta(microseconds=1),
    ]


def persist(store: SimpleChatStore, path: Path) -> None:
    """Write the file that `SimpleChatStore.persist` writes; that fails on newer pydantic.

    Its own class reads the file below, so it is the one that LlamaIndex means.
    """
    chats = {
        key: [one.model_dump(mode="json") for one in chat] for key, chat in store.store.items()
    }
    path.write_text(json.dumps({"store": chats, "class_name": "SimpleChatStore"}))


async def test_the_file_of_a_simple_chat_store_is_imported(tmp_path: Path, db: Database) -> None:
    theirs, path = SimpleChatStore(), tmp_path / "chat_store.json"
    for words in ("Hello é", "again"):
        theirs.add_message("ada", message(words))
    theirs.add_message("bob", message("hi", additional_kwargs={"n": [1]}))
    theirs.set_messages("none", [])
    persist(theirs, path)
    done = await imported(str(path), db)

    assert [one.status for one in done] == ["imported", "imported", "unchanged"]
    assert len(done) == await SOURCE.count(str(path))
    ours = MemalchemyChatStore(db)
    read = SimpleChatStore.from_persist_path(str(path))
    for key in ("ada", "bob"):
        assert await ours.get_messages(key) == read.get_messages(key)
    theirs.add_message("ada", message("more"))
    persist(theirs, path)  # which changes the time of the file
    assert [one.status for one in await imported(str(path), db)] == [
        "resumed",
        "unchanged",
        "unchanged",
    ]
    memory = Memory.from_defaults(session_id="ada", chat_store=ours)
    assert [one.content for one in await memory.aget_all()] == ["Hello é", "again", "more"]


async def test_a_place_with_nothing_of_it_is_an_error_that_says_so(tmp_path: Path) -> None:
    with pytest.raises(DatabaseUnreachable, match="cannot be read"):
        await SOURCE.count(str(tmp_path / "none.db"))
    with closing(sqlite3.connect(tmp_path / "empty.db")) as raw:
        raw.execute("CREATE TABLE other (id int)")
    with pytest.raises(NotFound, match="no table of LlamaIndex"):
        await SOURCE.count(str(tmp_path / "empty.db"))
    for text in ('{"a": 1}', '{"store": 1}', "{"):
        (tmp_path / "other.json").write_text(text)
        with pytest.raises(NotFound, match="no JSON file of LlamaIndex"):
            await SOURCE.count(str(tmp_path / "other.json"))


@pytest.mark.parametrize("place", ["postgresql"], indirect=True)
async def test_the_command_imports_from_a_schema(
    place: tuple[SQLAlchemyChatStore, str], tmp_path: Path
) -> None:
    store, where = place
    theirs = SQLAlchemyChatStore(
        "chats", async_database_uri=store.async_database_uri, db_schema="llama"
    )
    await fill(theirs)
    assert theirs._async_engine is not None
    await theirs._async_engine.dispose()
    command = ["--db", f"sqlite:///{tmp_path}/ours.db", "--json", "import", "llama-index"]
    options = ["--from", where, "--from-schema", "llama", "--prefix", "old-"]
    done = await asyncio.to_thread(
        CliRunner().invoke, app, [*command, *options], catch_exceptions=False
    )
    assert done.exit_code == 0, done.stderr
    assert json.loads(done.stdout)["written"] == 10
    async with Database(f"sqlite:///{tmp_path}/ours.db") as db:
        assert await MemalchemyChatStore(db).get_keys() == ["old-bob", "old-ada"]
