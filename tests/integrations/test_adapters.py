"""Behaviour that all adapters share: the databases that they take, own and close."""

from __future__ import annotations

import asyncio
import gc
import importlib
import inspect
import subprocess
import sys
import threading
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import create_async_engine
from subjects import FRAMEWORKS, INSTALLED

from memalchemy import Database, Store, UnknownURL, sync
from memalchemy.integrations._base import Adapter, AnyDatabase, SyncAdapter, blocking, paged
from memalchemy.integrations._declarations import BY_ADAPTER
from servers import Postgres, migrated_database
from waiting import A_WHILE

ADAPTERS: dict[type[Any], Callable[..., Any]] = {
    cls: make for module in INSTALLED.values() for cls, make in module.ADAPTERS.items()
}
DB = """
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone."""
HERE = ("test", "adapters")


def is_session_of_openai(cls: type) -> bool:
    """Return whether a class takes an id before the database, and refuses use once it is closed."""
    return name_of(cls) == "openai_agents.MemalchemySession"


def name_of(cls: type) -> str:
    return f"{cls.__module__.split('.')[2]}.{cls.__name__}"


each_adapter = pytest.mark.parametrize("cls", ADAPTERS, ids=name_of)


async def written(adapter: Adapter) -> list[str]:
    """Write a key to an adapter's database, and return the keys that are there."""
    store = Store(adapter.db)
    keys = await store.list_keys(HERE)
    await store.put(HERE, str(len(keys)), None)
    return await store.list_keys(HERE)


@pytest.mark.parametrize("name", INSTALLED)
def test_every_public_adapter_is_tested_here(name: str) -> None:
    module = importlib.import_module(f"memalchemy.integrations.{name}")
    public = {getattr(module, one) for one in module.__all__ if one.startswith("Memalchemy")}
    parts = INSTALLED[name].PARTS if hasattr(INSTALLED[name], "PARTS") else set()

    assert public - parts == set(INSTALLED[name].ADAPTERS)
    assert not [one for one in parts if issubclass(one, Adapter)]


@each_adapter
def test_every_adapter_is_declared_with_the_root_of_its_namespaces(cls: type[Any]) -> None:
    assert cls.root == BY_ADAPTER[cls.__module__.split(".")[2]].root


@each_adapter
def test_the_parameter_for_the_database_is_the_same_everywhere(cls: type) -> None:
    parameters = list(inspect.signature(cls).parameters.values())
    if is_session_of_openai(cls):
        assert parameters.pop(0).name == "session_id"
    assert parameters[0].name == "db"
    assert parameters[0].default is None
    assert parameters[0].annotation == "AnyDatabase | None"
    assert DB in str(cls.__doc__)


@each_adapter
async def test_every_adapter_takes_every_kind_of_database(cls: type, tmp_path: Path) -> None:
    make = ADAPTERS[cls]
    file = tmp_path / "agent.db"
    engine = create_async_engine(f"sqlite+aiosqlite:///{file}")
    kinds: list[AnyDatabase] = [
        f"sqlite:///{file}",
        str(file),
        file,
        URL.create("sqlite", database=str(file)),
        Database(f"sqlite:///{file}"),
        sync.Database(f"sqlite:///{file}"),
        engine,
    ]
    for count, kind in enumerate(kinds, start=1):
        adapter = make(kind)
        assert file.exists() is (count > 1), "construction does no I/O"
        assert len(await written(adapter)) == count
        await adapter.aclose()
        assert isinstance(adapter.db, Database)
    async with engine.connect() as connection:  # still the host's to use, and to dispose of
        assert connection.closed is False
    await engine.dispose()


@each_adapter
async def test_without_a_database_it_is_that_of_the_environment_or_one_in_memory(
    cls: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = ADAPTERS[cls]
    monkeypatch.setenv("MEMALCHEMY_URL", f"sqlite:///{tmp_path}/agent.db")
    assert await written(make()) == ["0"]
    assert await written(make()) == ["0", "1"]
    assert (tmp_path / "agent.db").exists()

    monkeypatch.setenv("MEMALCHEMY_URL", "")
    in_memory = [make(), make(), make(":memory:"), make("sqlite://")]
    in_memory += [make("sqlite::memory:"), make("sqlite::memory:")]
    monkeypatch.delenv("MEMALCHEMY_URL")
    for one in (*in_memory, make()):
        assert one.db.file_bytes is None
        assert await written(one) == ["0"]


@each_adapter
async def test_the_schema_of_the_environment_goes_with_its_url(
    cls: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = ADAPTERS[cls]
    monkeypatch.setenv("MEMALCHEMY_SCHEMA", "memory")
    url = "postgresql://ada@nowhere.invalid/agents"
    monkeypatch.setenv("MEMALCHEMY_URL", url)
    assert make().db.schema == "memory"
    assert make(url).db.schema is None

    monkeypatch.setenv("MEMALCHEMY_URL", f"sqlite:///{tmp_path}/agent.db")  # has no schemas
    assert make().db.schema is None
    monkeypatch.delenv("MEMALCHEMY_URL")
    assert await written(make()) == ["0"]


@each_adapter
@pytest.mark.parametrize(
    "mistake", ["postgresql:secret", "host=db password=secret", "me:secret@host"]
)
def test_a_mistyped_url_is_not_taken_for_a_path_and_shows_no_password(
    cls: type, mistake: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownURL) as raised:
        ADAPTERS[cls](mistake)
    assert "secret" not in str(raised.value)
    assert not list(tmp_path.iterdir())


@each_adapter
def test_what_is_no_database_is_refused_by_its_type(cls: type) -> None:
    for stranger in (3, b"secret", object(), ["sqlite://"]):
        with pytest.raises(TypeError, match="takes a URL, a path, a memalchemy") as raised:
            ADAPTERS[cls](stranger)
        assert str(raised.value).startswith(cls.__name__)
        assert "secret" not in str(raised.value)


@each_adapter
def test_a_password_is_in_no_repr(cls: type) -> None:
    adapter = ADAPTERS[cls]("postgresql://me:secret@nowhere.invalid/db")

    assert repr(adapter).startswith(cls.__name__)
    assert "secret" not in repr(adapter)


@each_adapter
async def test_a_database_that_was_given_stays_open_and_an_own_one_is_closed(cls: type) -> None:
    make = ADAPTERS[cls]
    async with Database("sqlite://") as db:
        async with make(db) as adapter:
            await written(adapter)
        await adapter.aclose()
        if not is_session_of_openai(cls):
            closing = adapter.close() if hasattr(adapter, "close") else None
            if inspect.isawaitable(closing):
                await closing
        assert await Store(db).list_keys(HERE) == ["0"]

    async with make("sqlite://") as own:
        await written(own)
    if cls.__module__.split(".")[2] == "locus":  # where closing loses nothing
        assert await written(own) == ["0", "1"]
    else:
        assert await written(own) == ["0"]


@each_adapter
@pytest.mark.parametrize("url", ["sqlite:///agent.db", "sqlite:agent.db"])
async def test_a_relative_path_is_another_file_in_another_directory(
    cls: type, url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = ADAPTERS[cls]
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "here")
    here, again = make(url), make(url)
    assert await written(here) == ["0"]
    monkeypatch.chdir(tmp_path / "there")
    there = make(url)
    assert await written(there) == ["0"]

    assert (here.db is again.db) is cls.shares_databases  # type: ignore[attr-defined]
    assert here.db is not there.db
    for adapter in (here, there):
        await adapter.aclose()


@each_adapter
async def test_a_coroutine_may_be_waited_for_in_any_thread(cls: type, tmp_path: Path) -> None:
    adapter = ADAPTERS[cls](tmp_path / "agent.db")

    assert adapter.wait(written(adapter)) == ["0"], "in a running event loop"
    assert await asyncio.to_thread(lambda: adapter.wait(written(adapter))) == ["0", "1"]
    assert await written(adapter) == ["0", "1", "2"]
    await adapter.aclose()


def sync_threads() -> set[threading.Thread]:
    return {one for one in threading.enumerate() if one.name == "memalchemy-sync"}


async def test_adapters_on_one_database_wait_in_one_thread(tmp_path: Path) -> None:
    before = sync_threads()
    async with Database(f"sqlite:///{tmp_path}/agent.db") as db:
        adapters = [make(db) for make in ADAPTERS.values()]
        for adapter in adapters:
            adapter.wait(written(adapter))
        (thread,) = sync_threads() - before
        del adapters, adapter
        gc.collect()
        await asyncio.to_thread(thread.join, 20)
        assert not thread.is_alive(), "it ends with the last adapter"
        assert len(await Store(db).list_keys(HERE)) == len(ADAPTERS)


def test_an_adapter_on_a_replica_may_be_used_without_await(postgres: Postgres) -> None:
    class Values(SyncAdapter):
        root = "test"

    before = sync_threads()
    with migrated_database(postgres) as name:
        url = postgres.url(name)
        adapter = Values(Database(url, read_url=url).replica())
        assert adapter.wait(Store(adapter.db).get(("none",), "none")) is None
        (thread,) = sync_threads() - before
        del adapter
        gc.collect()
        thread.join(A_WHILE)
        assert not thread.is_alive()


@pytest.mark.parametrize("name", INSTALLED)
def test_a_framework_that_is_not_installed_is_named_with_its_extra(name: str) -> None:
    missing = (
        f"import sys; sys.modules[{FRAMEWORKS[name]!r}] = None; import memalchemy.integrations."
    )
    done = subprocess.run(
        [sys.executable, "-c", missing + name],
        env={"PYTHONPATH": ":".join(path for path in sys.path if path)},
        capture_output=True,
        text=True,
    )

    extra = INSTALLED[name].EXTRA
    assert done.returncode == 1
    assert f"(the requirements of the extra memalchemy[{extra}])" in done.stderr
    project = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    assert extra in project["project"]["optional-dependencies"]


def test_a_twin_calls_the_override_of_a_subclass_and_reads_as_it_is_used() -> None:
    class Numbers(Adapter):
        root = "test"
        read: ClassVar[list[int]] = []

        async def acount(self, to: int) -> Any:
            for number in range(to):
                self.read.append(number)
                yield number

        async def adouble(self, number: int) -> int:
            return 2 * number

        count = blocking(acount)
        double = blocking(adouble)

    class Negative(Numbers):
        async def adouble(self, number: int) -> int:
            return -2 * number

    assert (Numbers().double(4), Negative().double(number=4)) == (8, -8)
    items = Numbers().count(1_000)
    assert [next(items), next(items), next(items)] == [0, 1, 2]
    assert len(Numbers.read) < 10


async def test_a_listing_is_read_page_by_page_and_no_further_than_it_is_used() -> None:
    calls: list[int | None] = []

    async def read(after: int | None, size: int) -> list[int]:
        calls.append(after)
        start = 0 if after is None else after + 1
        return list(range(start, min(start + size, 1_200)))

    assert [one async for one in paged(read)] == list(range(1_200))
    assert calls == [None, 499, 999]
    calls.clear()
    async for one in paged(read):
        if one == 100:
            break
    assert calls == [None]
