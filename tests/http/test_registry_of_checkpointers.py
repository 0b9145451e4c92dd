"""`get_checkpointer`: every provider, its hints, and refused names."""

from __future__ import annotations

import inspect
import sys
from importlib import metadata
from pathlib import Path
from typing import Any

import oracledb
import pytest

from httpserver import TOKEN, running
from installed_packages import install_package
from memalchemy import (
    Checkpointer,
    Database,
    HTTPCheckpointer,
    UnknownURL,
    get_checkpointer,
    list_checkpointers,
    register_checkpointer,
    registry,
)
from memalchemy.dialects.urls import ORACLE_OPTIONS
from memalchemy.registry import OwningCheckpointer
from servers import Postgres


async def works(checkpointer: Any) -> None:
    """Save and load with a checkpointer, which its own ``async with`` closes."""
    async with checkpointer:
        made = await checkpointer.save({"n": 1}, "thread", metadata={"k": 1})
        assert await checkpointer.load("thread", made) == {"n": 1}


def test_the_providers_are_listed() -> None:
    assert list_checkpointers()[:6] == ["memory", "file", "http", "sqlite", "postgresql", "oracle"]


async def test_memory_is_gone_when_it_is_closed() -> None:
    checkpointer = get_checkpointer("memory")
    await works(checkpointer)

    assert await checkpointer.load("thread") is None
    await checkpointer.close()


@pytest.mark.parametrize(
    "form", ["sqlite:{}/a.db", "sqlite:///{}/a.db", "sqlite:sqlite:///{}/a.db"]
)
async def test_sqlite_is_a_file(form: str, tmp_path: Path) -> None:
    await works(get_checkpointer(form.format(tmp_path)))

    async with Database(f"sqlite:///{tmp_path}/a.db") as db:
        assert await Checkpointer(db).load("thread") == {"n": 1}


async def test_file_is_a_sqlite_file_in_a_directory_that_is_made(tmp_path: Path) -> None:
    await works(get_checkpointer(f"file:{tmp_path}/deep/er"))
    again = get_checkpointer("file", base_dir=str(tmp_path / "deep/er"))

    assert [file.name for file in (tmp_path / "deep/er").iterdir()] == ["memalchemy.db"]
    assert await again.load("thread") == {"n": 1}
    await again.close()


async def test_file_exports_one_readable_file_per_checkpoint(tmp_path: Path) -> None:
    async with get_checkpointer(f"file:{tmp_path}/store") as checkpointer:
        await checkpointer.save({"ä": 1}, "thread", "one")
        await checkpointer.save({"ä": 2}, "thread", "two")
        assert await checkpointer.export_files(tmp_path / "out") == 2

    files = sorted((tmp_path / "out").rglob("*.*"))
    assert [file.relative_to(tmp_path / "out").as_posix() for file in files] == [
        "thread/one.json",
        "thread/two.json",
    ]
    assert '  "state": {\n    "ä": 2\n  }' in files[1].read_text()


async def test_postgresql_is_a_database_or_a_url(postgres: Postgres, name: str) -> None:
    await works(get_checkpointer(postgres.url(name)))
    await works(get_checkpointer(f"postgresql:{postgres.url(name)}", pool_size=1))
    named = get_checkpointer(
        f"postgresql:{name}",
        host=postgres.host,
        port=postgres.port,
        user=postgres.user,
        password=postgres.password,
        tenant="acme",
    )
    await works(named)
    assert named.db.tenant == "acme"


@pytest.mark.parametrize(
    ("name", "options", "display"),
    [
        (
            "oracle:db.example:1522/agents",
            {"user": "ada", "password": "hush"},
            "oracle+oracledb_async://ada:***@db.example:1522?service_name=agents",
        ),
        ("oracle:agents_high", {"user": "ada"}, "oracle+oracledb_async://ada@agents_high"),
        (
            "oracle:agents",
            {"host": "h", "port": 1521},
            "oracle+oracledb_async://h:1521?service_name=agents",
        ),
        (
            "oracle://ada:hush@h:1/agents",
            {},
            "oracle+oracledb_async://ada:***@h:1/?service_name=agents",
        ),
    ],
)
def test_an_oracle_hint_becomes_a_url(name: str, options: dict[str, Any], display: str) -> None:
    assert display in repr(get_checkpointer(name, **options))


def options_of_a_wallet() -> dict[str, Any]:
    """Arguments of `Database` that python-oracledb's ``connect`` takes, by what it says of them."""
    parameters = inspect.signature(Database).parameters
    named = {*inspect.signature(oracledb.connect_async).parameters} & {*parameters, *ORACLE_OPTIONS}
    return {name: "/wallet" for name in sorted(named) if name in ORACLE_OPTIONS}


@pytest.mark.parametrize("name", ["oracle:agents_high", "oracle://ada@agents_high", "oracle"])
@pytest.mark.parametrize("option", options_of_a_wallet())
def test_what_database_takes_for_oracle_a_checkpointer_takes(name: str, option: str) -> None:
    where = {"dsn": "agents_high"} if name == "oracle" else {}

    assert get_checkpointer(name, **where, **{option: "/wallet"})


@pytest.mark.parametrize("option", options_of_a_wallet())
def test_no_other_database_takes_an_option_of_oracles(option: str, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match=option):
        get_checkpointer(f"sqlite:{tmp_path}/a.db", **{option: "/wallet"})


def test_a_service_of_oracle_may_be_an_option() -> None:
    given = {"host": "h", "port": 1522, "service_name": "agents", "user": "ada", "password": "x"}
    made = get_checkpointer("oracle", **given)

    assert "oracle+oracledb_async://ada:***@h:1522?service_name=agents" in repr(made)


def test_a_dsn_of_postgresql_is_a_url() -> None:
    made = get_checkpointer("postgresql", dsn="postgresql://ada@db.example/agents", tenant="acme")

    assert "ada@db.example/agents" in repr(made)
    with pytest.raises(ValueError, match="postgresql://"):
        get_checkpointer("postgresql", dsn="host=db.example dbname=agents")


@pytest.mark.parametrize("form", ["{}", "http:{}", "http:{bare}"])
async def test_http_is_a_client(form: str, tmp_path: Path) -> None:
    with running(Database(f"sqlite:///{tmp_path}/a.db"), tokens={TOKEN: "acme"}) as url:
        name = form.format(url, bare=url.removeprefix("http://"))
        checkpointer = get_checkpointer(name, token=TOKEN)
        assert type(checkpointer) is HTTPCheckpointer
        await works(checkpointer)


def test_options_reach_the_database_and_the_checkpointer(tmp_path: Path) -> None:
    checkpointer = get_checkpointer(
        f"sqlite:{tmp_path}/a.db", namespace=("a",), ttl=60, tenant="acme", migrate="check"
    )

    assert isinstance(checkpointer, OwningCheckpointer)
    assert checkpointer.namespace == ("a",)
    assert checkpointer.db.tenant == "acme"


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("memory", {"max_checkpoints": 3}),
        ("memory", {"pretty": True}),
        ("sqlite:a.db", {"pool_size": 3}),
        ("sqlite:a.db", {"host": "h"}),
        ("postgresql:agents", {"dsn": "x"}),
        ("oracle:h/s", {"wallet": "x"}),
        ("http:localhost", {"tenant": "acme"}),
    ],
)
def test_an_option_that_a_provider_does_not_have_is_an_error(
    name: str, options: dict[str, Any]
) -> None:
    with pytest.raises(TypeError, match=next(iter(options))):
        get_checkpointer(name, **options)


@pytest.mark.parametrize(
    "name",
    ["memory:hint", "sqlite", "sqlite:", "file", "postgresql", "oracle", "http", "file:///x"],
)
def test_a_hint_that_is_missing_or_makes_no_sense_is_an_error(name: str) -> None:
    with pytest.raises(ValueError, match=r"hint|say what|nothing after|directory"):
        get_checkpointer(name)
    with pytest.raises(ValueError, match=r"twice|one of"):
        get_checkpointer("sqlite:a.db", path="b.db")
    with pytest.raises(ValueError, match="twice"):
        get_checkpointer("oracle:h:1/s", host="other")
    with pytest.raises(UnknownURL):
        get_checkpointer("sqlite:sqlite://host/x")


@pytest.mark.parametrize("name", ["redis", "opensearch", "oci", "s3", "mysql"])
def test_an_unsupported_provider_names_its_replacement(name: str) -> None:
    with pytest.raises(ValueError, match="Unknown checkpointer provider: ") as caught:
        get_checkpointer(f"{name}:somewhere")

    said = str(caught.value)
    assert f"'{name}'. Available providers: ['memory', 'file', " in said
    assert "register_checkpointer(name, factory)" in said
    assert len(said.split("oracle'")[1]) > 120


def test_an_unknown_name_lists_the_providers() -> None:
    with pytest.raises(ValueError, match=r"Unknown checkpointer provider: 'x'\. Available"):
        get_checkpointer("x:y")


def test_a_provider_can_be_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_registered", {})
    register_checkpointer("custom", lambda **kw: kw)

    assert get_checkpointer("custom:a:b", c=1) == {"config_hint": "a:b", "c": 1}
    assert get_checkpointer("custom") == {}
    assert "custom" in list_checkpointers()
    with pytest.raises(ValueError, match="name"):
        register_checkpointer("a:b", lambda: None)
    with pytest.raises(TypeError):
        register_checkpointer("a", "not a function")  # type: ignore[arg-type]


def test_an_installed_package_provides_a_checkpointer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = "def make(**kw):\n    return ('theirs', kw)\n"
    install_package(tmp_path, "theirs", "memalchemy.checkpointers", "theirs", code, "make")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "theirs_module", raising=False)

    assert metadata.entry_points(group=registry.GROUP)
    assert list_checkpointers()[-1] == "theirs"
    assert get_checkpointer("theirs:there", n=1) == ("theirs", {"config_hint": "there", "n": 1})
