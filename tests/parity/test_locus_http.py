"""locus' files, HTTP and registry of checkpointers."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from httpserver import answering, running, saying
from memalchemy import (
    CapabilityMissing,
    Checkpointer,
    Conflict,
    Database,
    DatabaseUnreachable,
    HTTPCheckpointer,
    Store,
    get_checkpointer,
)
from memalchemy.checkpoints.export import file_name
from memalchemy.http import app
from memalchemy.http.blocking import HTTPCheckpointer as Blocking
from servers import free_port

AWKWARD = [
    "a/b", "a_b", "a-b", "A-B", "a.b", "a b", "c.1", "c_1", "..", ".", "", "con", "nul.txt", "a\\b",
    "ä", "Ä", "a\u0308", "\x00", "\ud800", "x" * 255, "x" * 254 + "y", "a:b", "-", "~", "a~b",
    "%2F",
]  # fmt: skip


async def test_l21_threads_and_checkpoints_of_any_ids_never_share_a_file(tmp_path: Path) -> None:
    async with get_checkpointer(f"file:{tmp_path}/store") as checkpointer:
        for thread_id in AWKWARD:
            for checkpoint_id in ("c.1", "c_1", "C.1", "c/1"):
                await checkpointer.save(
                    {"of": [thread_id, checkpoint_id]}, thread_id, checkpoint_id
                )
        nested = Checkpointer(checkpointer.db, namespace=("a", "b"))
        await nested.save({"of": ["a/b", "nested"]}, "a/b", "c.1")
        flat = Checkpointer(checkpointer.db, namespace=("a/b",))
        await flat.save({"of": ["a/b", "flat"]}, "a/b", "c.1")
        count = await checkpointer.export_files(tmp_path / "out")
        for thread_id in AWKWARD:
            assert (await checkpointer.load(thread_id, "c_1"))["of"] == [thread_id, "c_1"]

    files = [file for file in (tmp_path / "out").rglob("*") if file.is_file()]
    assert len(files) == count == len(AWKWARD) * 4 + 2
    assert len({str(file).casefold() for file in files}) == count, "nor where case is not told"
    states = {json.dumps(json.loads(file.read_text())["state"]) for file in files}
    assert len(states) == count


@given(st.lists(st.text(max_size=255), min_size=2, max_size=2, unique=True))
def test_l21_no_two_ids_have_one_file_name(ids: list[str]) -> None:
    first, second = map(file_name, ids)

    assert first.casefold() != second.casefold()
    for name in (first, second):
        assert 0 < len(name.encode()) < 200
        assert not set(name) & set('/\\:*?"<>|\x00')
        assert name not in (".", "..")


async def test_l21_an_export_is_whole_or_absent_and_replaces_nothing(tmp_path: Path) -> None:
    async with get_checkpointer("memory") as checkpointer:
        await checkpointer.save({}, "thread", "one")
        (tmp_path / "there").mkdir()
        (tmp_path / "there" / "mine.txt").write_text("mine")
        with pytest.raises(Conflict):
            await checkpointer.export_files(tmp_path / "there")

        def stop(count: int) -> None:
            raise KeyError("stop")

        with pytest.raises(KeyError):
            await checkpointer.export_files(tmp_path / "out", progress=stop)
        assert os.listdir(tmp_path) == ["there"]
        assert await checkpointer.export_files(tmp_path / "out", thread_id="thread") == 1


async def test_l23_an_outage_never_looks_like_a_new_thread(tmp_path: Path) -> None:
    db = Database(f"sqlite:///{tmp_path}/agent.db")
    with running(db) as url:
        async with HTTPCheckpointer(url) as client:
            await client.save({"history": "long"}, "thread", "one")
    asked: list[Any] = [
        lambda c: c.load("thread"),
        lambda c: c.load("thread", "one"),
        lambda c: c.list_checkpoints("thread"),
        lambda c: c.exists("thread"),
        lambda c: c.delete("thread"),
        lambda c: c.save({}, "thread"),
    ]
    gone = HTTPCheckpointer(f"http://127.0.0.1:{free_port()}", timeout=1)
    for ask in asked:
        with pytest.raises(DatabaseUnreachable):
            await ask(gone)
    await gone.close()
    with answering(saying(503, b"maintenance", "text/plain")) as away:
        client = HTTPCheckpointer(away, timeout=1)
        for ask in asked:
            with pytest.raises(DatabaseUnreachable):
                await ask(client)
        await client.close()
    with running(Database(f"sqlite:///{tmp_path}/agent.db")) as url:
        async with HTTPCheckpointer(url) as client:
            assert await client.load("thread") == {"history": "long"}


async def test_l8_a_capability_that_is_said_is_there_and_one_that_is_not_says_so(
    tmp_path: Path,
) -> None:
    db = Database(f"sqlite:///{tmp_path}/agent.db")
    with running(db) as url:
        async with HTTPCheckpointer(url) as client:
            assert client.capabilities == Checkpointer(db).capabilities
            await client.save({"word": "needle"}, "thread", metadata={"k": 1})
            assert len(await client.search("needle")) == 1
            assert len(await client.query_by_metadata("k", 1)) == 1
            assert await client.list_threads() == ["thread"]
            assert len(await client.list_with_metadata()) == 1
            assert await client.copy_thread("thread", "copy") is True
            assert await client.vacuum(0) == 2
    with answering(saying(404, b'{"detail": "Not Found"}')) as url:
        async with HTTPCheckpointer(url) as client:
            assert not client.capabilities.search
            with pytest.raises(CapabilityMissing):
                await client.search("needle")


def test_l14_the_hint_of_oracle_is_not_passed_over() -> None:
    assert "service_name=agents" in repr(get_checkpointer("oracle:db.example/agents"))
    with pytest.raises(TypeError, match="databse"):
        get_checkpointer("oracle:db.example/agents", databse="typo")


async def test_what_is_saved_over_http_is_in_the_database_and_either_way_round(
    db: Database,
) -> None:
    await Checkpointer(db).save({"n": 1}, "a/b", "c", {"k": "v"})
    with running(db) as url:
        async with HTTPCheckpointer(url, {}, None, 10.0) as client:
            assert await client.load("a/b") == {"n": 1}
            await client.save({"n": 2}, "a/b")
            (found,) = await client.query_by_metadata("k", "v", data=True)
            assert found["data"] == {"n": 1}
            assert await client.list_threads(1, offset=1) == []
            assert await Checkpointer(db).load("a/b") == {"n": 2}
        with Blocking(url) as waiting:
            assert waiting.list_threads() == ["a/b"]


async def test_the_server_is_an_application_that_a_host_can_mount(db: Database) -> None:
    await Checkpointer(db).save({"n": 1}, "a/b")
    await Store(db).put(("users", "ada"), "k", {"n": 1})
    transport = httpx.ASGITransport(app=app(db))
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as mounted:
        assert (await mounted.get("/v1/threads")).json() == {"threads": ["a/b"]}
        found = await mounted.get("/v1/store/users%2Fada/items/k")
    assert found.json()["value"] == {"n": 1}
