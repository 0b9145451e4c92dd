"""One set of fixtures for every database: tests name a database nowhere, they take ``db``.

``db`` is a migrated database with a tenant of its own, so tests share a server and see nothing of
each other; ``database_url`` is a database of the test's own, without a schema.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import logging
import os
import signal
import sys
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, TypeGuard

import pytest
import typer.testing

import drawn_examples
import memalchemy
import parallel_runs
import sync_face
import tiers
from capabilities import database_lacks
from clocks import Clock, set_clock
from garbage import freeze_heap
from golden.watch import never_seen
from memalchemy.codec import encryption
from memalchemy.errors import MemalchemyError
from memalchemy.maintenance import tenants
from oracle import strict
from servers import (
    CITUS_URL,
    Citus,
    Postgres,
    citus_cluster,
    give_rights,
    migrated_database,
    pgbouncer,
    pgbouncer_program,
    postgres_server,
)

# Typer's test client builds all commands anew for each call, which takes ten times as long as one.
typer.testing._get_command = functools.cache(typer.testing._get_command)

# Haystack reports its use to a server, and looks here when it is imported.
os.environ.setdefault("HAYSTACK_TELEMETRY_ENABLED", "False")

pytest_plugins = ["left_tasks"]

APPLICATION = "ma_application"
OF_APPLICATION = ("psycopg", "walled")
"""Those on which tests connect as an application does: with a role that has no right to any DDL."""
DATABASES = ("sqlite", "sqlite-memory", "postgresql", "psycopg")
SERVERS = ("postgresql", "psycopg", "walled")
"""Those on the PostgreSQL server. On ``walled`` row-level security is between the tenants; it is
chosen by ``--databases walled``, and by the mark of that name beside ``postgresql``.
"""
KEYS = pytest.StashKey[list[str]]()
"""The keys of every Database that names none."""
TOY = Path(__file__).parent / "dialects" / "toy"
TOYS = ("toy", "toy_reads_back")
"""Dialects of a third party, chosen by ``--databases toy``: see `memalchemy_toy`, and beside it the
one that brings a variant of its own.
"""
EMBEDDED = ("sqlite", "sqlite-memory", *TOYS)
"""Those without a server."""


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--threads",
        default=os.environ.get("MEMALCHEMY_THREADS"),
        help="a JSONL file of real agent threads to test on",
    )
    parser.addoption(
        "--databases",
        help="which databases to run the behavioural suite on, of "
        f"{', '.join(DATABASES)}, walled, oracle, {', '.join(TOYS)}, citus",
    )
    parser.addoption(
        "--server",
        choices=("any", "none", "only"),
        default="any",
        help="leave out the tests that need a PostgreSQL server, or run these only",
    )
    parser.addoption(
        "--tiers",
        help=f"run tests of these tiers only, of {', '.join(tiers.TIERS)}: see tests/tiers.py",
    )
    parser.addoption(
        "--sample",
        action="store_true",
        help="run a sample of the tests of some modules: see tests/tiers.py",
    )
    parser.addoption(
        "--strict-oracle",
        action="store_true",
        help="run the behavioural suite with Oracle's programs and habits, on "
        f"{' and '.join(strict.DATABASES)} unless --databases says: see tests/oracle/strict.py",
    )
    parser.addoption(
        "--face",
        choices=("async", "sync"),
        default="async",
        help="run the behavioural suite on the classes of memalchemy.sync instead",
    )
    parser.addoption(
        "--encrypted",
        action="store_true",
        help="run the behavioural suite with a key in every Database that names none",
    )
    parser.addoption(
        "--signed",
        action="store_true",
        help="run the behavioural suite with a signing key in every Database that names none",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "asyncio_only(reason): what --face sync does not have, or tests elsewhere"
    )
    config.addinivalue_line(
        "markers", "plaintext_only(reason, on=databases): what cannot be under --encrypted"
    )
    config.addinivalue_line("markers", "own_keys: says itself what is encrypted, and with what")
    config.addinivalue_line(
        "markers", "unsigned_only(reason): what cannot be under --signed, such as a forged row"
    )
    config.addinivalue_line("markers", "own_signing_keys: says itself what is signed, and how")
    config.addinivalue_line("markers", "walled: runs on PostgreSQL with walled tenants, too")
    config.addinivalue_line(
        "markers", "unwalled_only(reason): what the wall refuses, such as a row of another tenant"
    )
    config.addinivalue_line(
        "markers", "one_server_only(reason): what cannot be where Citus has distributed the tables"
    )
    config.addinivalue_line(
        "markers", "needs(capability): what cannot be where the dialect has it not: capabilities.py"
    )
    config.addinivalue_line(
        "markers", "own_programs(reason): what cannot be under --strict-oracle, such as a plan"
    )
    config.addinivalue_line(
        "markers", "alone: measures time or fills the machine; see parallel_runs"
    )
    # Test modules are imported after this.
    drawn_examples.draw(one_of=tiers.PART if config.getoption("--sample") else 1)
    parallel_runs.meet(config)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell that starts the suite in the background has Ctrl-C ignored, by children as well.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    strictly = config.getoption("--strict-oracle")
    if strictly:
        strict.install()
    if config.option.databases is None:
        config.option.databases = ",".join(strict.DATABASES if strictly else DATABASES)
    if "citus" in config.option.databases.split(",") and CITUS_URL not in os.environ:
        raise pytest.UsageError(f"--databases citus needs {CITUS_URL}, a cluster's coordinator")
    if {*TOYS} & {*config.option.databases.split(",")}:
        # Here and in the processes that tests start it is found as an installed package is.
        sys.path.insert(0, str(TOY))
        paths = [str(TOY), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    if config.getoption("--encrypted"):
        # All is readable beside it, so that every search is there to be tested, too.
        config.stash[KEYS] = [encryption.generate_key()]
        keys = {"keys": config.stash[KEYS], "readable": encryption.READABLE}
        memalchemy.Database.__init__.__kwdefaults__ |= keys
    if config.getoption("--signed"):
        signing = {"signing_keys": [encryption.generate_key()]}
        memalchemy.Database.__init__.__kwdefaults__ |= signing
    if config.getoption("--face") == "sync":
        sync_face.put_under_the_tests()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Import no test module of another tier, and no conftest of its own of such a directory."""
    chosen = config.getoption("--tiers")
    if chosen is None or not collection_path.is_relative_to(tiers.HERE):
        return None
    if collection_path.is_dir():
        found = tiers.tiers_in(collection_path)
    elif collection_path.name.startswith("test_"):
        found = tiers.tiers_of(collection_path)
    else:
        return None
    return (bool(found) and found.isdisjoint(chosen.split(","))) or None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Let the collector look at what tests make, and not at the modules and the tests each time."""
    gc.disable()
    try:
        return (yield)
    finally:
        freeze_heap()
        gc.enable()


def _database_of(item: pytest.Item) -> str | None:
    """The database that an item is parametrized with."""
    parameters: dict[str, Any] = getattr(getattr(item, "callspec", None), "params", {})
    return parameters.get("database")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--encrypted"):
        for item in items:
            mark = item.get_closest_marker("plaintext_only")
            if mark is not None and _database_of(item) in mark.kwargs.get(
                "on", (_database_of(item),)
            ):
                item.add_marker(pytest.mark.xfail(reason=mark.args[0], strict=True))
        _leave_out(config, items, "own_keys")
    for item in items:
        mark = item.get_closest_marker("one_server_only")
        if mark is not None and _database_of(item) == "citus":
            item.add_marker(pytest.mark.xfail(reason=mark.args[0], strict=True))
        for mark in item.iter_markers("needs"):
            if database_lacks(_database_of(item), mark.args[0]):
                why = f"this database has no {mark.args[0]}"
                item.add_marker(pytest.mark.xfail(reason=why, strict=True))
    if config.getoption("--strict-oracle"):
        _leave_out(config, items, "own_programs")
    if config.getoption("--signed"):
        _leave_out(config, items, "unsigned_only")
        _leave_out(config, items, "own_signing_keys")
    if config.getoption("--face") == "sync":
        _leave_out(config, items, "asyncio_only")
    _keep(config, items, lambda item: not _is_refused_by_the_wall(item))
    if (server := config.getoption("--server")) != "any":
        _keep(config, items, lambda item: needs_a_server(item) == (server == "only"))
    if config.getoption("--sample"):
        left_out = tiers.left_out_of_sample(map(_case, items))
        _keep(config, items, lambda item: item.nodeid not in left_out)


def _case(item: pytest.Item) -> tiers.Case:
    return tiers.Case(item.nodeid, item.path, needs_a_server(item), _names_a_server(item))


def _is_refused_by_the_wall(item: pytest.Item) -> bool:
    marked = item.get_closest_marker("unwalled_only") is not None
    return marked and _database_of(item) == "walled"


def needs_a_server(item: pytest.Item) -> bool:
    """Whether a test is of a PostgreSQL server; without its parameters it may need none."""
    return _names_a_server(item) or "postgres" in getattr(item, "fixturenames", ())


def _names_a_server(item: pytest.Item) -> bool:
    """Whether a parameter says that a test runs on a server, as it does on other databases."""
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    return bool({*SERVERS, "asyncpg"} & {p for p in parameters if type(p) is str})


def _leave_out(config: pytest.Config, items: list[pytest.Item], marker: str) -> None:
    _keep(config, items, lambda item: item.get_closest_marker(marker) is None)


def _keep(
    config: pytest.Config, items: list[pytest.Item], is_kept: Callable[[pytest.Item], bool]
) -> None:
    left_out = [item for item in items if not is_kept(item)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if is_kept(item)]


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "database" in metafunc.fixturenames:
        chosen = metafunc.config.getoption("--databases").split(",")
        strictly = metafunc.config.getoption("--strict-oracle")
        if os.environ.get("ORACLE_URL") and "oracle" not in chosen and not strictly:
            chosen.append("oracle")
        marks = metafunc.definition.iter_markers("walled")
        if "postgresql" in chosen and "walled" not in chosen and any(marks) and not strictly:
            chosen.append("walled")
        if {"reopen", "lasting"} & {*metafunc.fixturenames}:
            # A database in memory has one Database only.
            chosen = [name for name in chosen if name != "sqlite-memory"]
        metafunc.parametrize("database", chosen, scope="session")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not os.environ.get("ORACLE_URL"):
        terminalreporter.write_line(
            "ORACLE NOT VERIFIED ON A SERVER: compiled and driver-checked only; set ORACLE_URL"
        )
    if CITUS_URL not in os.environ:
        terminalreporter.write_line(f"CITUS NOT VERIFIED ON A CLUSTER: set {CITUS_URL}")
    if terminalreporter.config.getoption("--strict-oracle"):
        on = terminalreporter.config.getoption("--databases").split(",")[0]
        unseen = never_seen(on)
        terminalreporter.write_line(
            f"{len(unseen)} statements of Oracle's programs were not executed on {on}"
        )
        if terminalreporter.config.getoption("verbose") > 0:
            for name in unseen:
                terminalreporter.write_line(f"  {name}")
    skipped = terminalreporter.stats.get("skipped", [])
    terminalreporter.write_line(f"{len(skipped)} skipped, each named above")


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """What configures the logging of its process, as `memalchemy serve` and the files of Alembic's
    templates do, does so for its own test.
    """
    known = [logger for logger in logging.root.manager.loggerDict.values() if _is_ours(logger)]
    before = [(one, one.disabled, one.propagate, one.level, one.handlers[:]) for one in known]
    yield
    for logger, disabled, propagate, level, handlers in before:
        logger.disabled, logger.propagate, logger.handlers[:] = disabled, propagate, handlers
        logger.setLevel(level)


def _is_ours(logger: Any) -> TypeGuard[logging.Logger]:
    return isinstance(logger, logging.Logger) and logger.name.split(".")[0] == "memalchemy"


@pytest.fixture(scope="module")
def frozen_heap() -> None:
    """For modules that collect garbage often: the collector looks at their own objects alone."""
    freeze_heap()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """What every module of the library reads that asks for the time; it stands still."""
    return set_clock(monkeypatch)


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    with postgres_server() as server:
        yield server


@pytest.fixture(scope="session")
def citus() -> Citus:
    cluster = citus_cluster()
    if cluster is None:
        pytest.skip(f"{CITUS_URL} names no coordinator of a cluster")
    return cluster


@pytest.fixture(scope="module")
def name(postgres: Postgres) -> Iterator[str]:
    """A migrated database of the module's on the server."""
    with migrated_database(postgres) as database:
        yield database


@pytest.fixture(scope="session")
def bouncer(postgres: Postgres) -> Iterator[Postgres]:
    if pgbouncer_program() is None:
        pytest.skip("PgBouncer is not installed: apt-get install pgbouncer")
    with pgbouncer(postgres) as front:
        yield front


@pytest.fixture(scope="module")
def shared_url(
    database: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> str:
    """A migrated database of the kind under test, shared by the module; on a server by all."""
    if database in EMBEDDED:
        # A file has one index of words for all tenants: to verify it takes longer with each test.
        return _new_shared_url(database, tmp_path_factory, request)
    url: str = request.getfixturevalue("server_url")
    return url


@pytest.fixture(scope="session")
def server_url(
    database: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> str:
    """A migrated database on the server under test, shared by the session."""
    return _new_shared_url(database, tmp_path_factory, request)


def _new_shared_url(
    database: str, places: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> str:
    if database == "sqlite-memory":
        return "sqlite://"
    url = _new_url(database, places.mktemp("shared"), request)

    async def migrate() -> None:
        db = memalchemy.Database(url)
        await db.migrate()
        if database == "walled":
            await tenants.enforce(db)
        await db.close()
        if database == "citus":
            cluster: Citus = request.getfixturevalue("citus")
            cluster.distribute(_name_in(url))

    try:
        asyncio.run(migrate())
    except MemalchemyError as error:
        if database == "oracle":  # whoever asks for a live run must not get a list of skips
            pytest.exit(f"ORACLE_URL leads to no database to test on: {error}", returncode=1)
        raise
    if database not in OF_APPLICATION:
        return url
    server: Postgres = request.getfixturevalue("postgres")
    name = _name_in(url)
    give_rights(server, APPLICATION, name)
    return server.url(name, driver=_driver(database), user=APPLICATION)


@pytest.fixture
def owner_url(shared_url: str, database: str, request: pytest.FixtureRequest) -> str:
    """The shared database as the one who may create tables in it."""
    if database not in OF_APPLICATION:
        return shared_url
    server: Postgres = request.getfixturevalue("postgres")
    return shared_url.replace(f"//{APPLICATION}@", f"//{server.user}@")


@pytest.fixture
def database_url(database: str, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[str]:
    """A database of the test's own, empty and without a schema."""
    url = _new_url(database, tmp_path, request)
    yield url
    if database in (*SERVERS, "citus"):
        _server_of(database, request).drop_database(_name_in(url))


def _new_url(database: str, place: Path, request: pytest.FixtureRequest) -> str:
    if database == "sqlite-memory":
        return "sqlite://"
    if database in ("sqlite", *TOYS):
        return f"{database}:///{place}/agent.db"
    if database == "oracle":
        # Shared by all tests, so what needs a database of its own does not run on it.
        if "database_url" in request.fixturenames:
            pytest.skip("on Oracle an empty database needs a user of its own")
        return os.environ["ORACLE_URL"]
    server = _server_of(database, request)
    return server.url(server.create_database(), driver=_driver(database))


def _server_of(database: str, request: pytest.FixtureRequest) -> Postgres:
    server: Postgres = request.getfixturevalue("citus" if database == "citus" else "postgres")
    return server


def _name_in(url: str) -> str:
    return url.split("?")[0].rsplit("/", 1)[1]


def _driver(database: str) -> str:
    return "psycopg" if database == "psycopg" else ""


@pytest.fixture
def default_keys(pytestconfig: pytest.Config) -> list[str] | None:
    """The keys of every Database that names none: there are some under ``--encrypted``."""
    return pytestconfig.stash.get(KEYS, None)


@pytest.fixture
async def db(shared_url: str, database: str) -> AsyncIterator[memalchemy.Database]:
    """A database with a tenant that is this test's own; ends with no connection checked out.

    That of a cluster is not opened before, so that the first operation of each test is the one
    that learns what the server is.
    """
    made = memalchemy.Database(shared_url, tenant=f"t-{uuid.uuid4().hex[:16]}")
    async with closing(made) if database == "citus" else made:
        yield made
        if os.environ.get("ORACLE_URL") or os.environ.get("POSTGRES_URL"):
            await memalchemy.Checkpointer(made).forget(tenant=made.tenant)  # a server that lasts
        assert (await made.health())["checked_out"] == 0


@contextlib.asynccontextmanager
async def closing(db: memalchemy.Database) -> AsyncIterator[None]:
    try:
        yield
    finally:
        await db.close()


@pytest.fixture
def reopen(db: memalchemy.Database, shared_url: str) -> Callable[[], memalchemy.Database]:
    """Another `Database` on the same rows, as a second process has it: nothing cached."""
    return lambda: memalchemy.Database(shared_url, tenant=db.tenant)


@pytest.fixture
def lasting() -> None:
    """For tests that open a database twice: one in memory has one `Database` only, and is left out
    where tests are collected.
    """


@pytest.fixture
def checkpointer(db: memalchemy.Database) -> memalchemy.Checkpointer:
    return memalchemy.Checkpointer(db)
