"""The index commands on PostgreSQL, and their refusal on SQLite."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
from commandline import Answer, Call

from memalchemy import Database, Store
from memalchemy.migrate import TABLES, VERSION_TABLE
from servers import Postgres

NAME = "ix_embeddings_hnsw_3_cosine"
Run = Callable[..., Answer]


@pytest.fixture
def named(postgres: Postgres) -> Iterator[str]:
    """The name of a database on a server."""
    name = postgres.create_database()
    yield name
    postgres.drop_database(name)


@pytest.fixture
def server(postgres: Postgres, named: str, call: Call) -> str:
    """URL of that database, with the schema and a few vectors."""
    url = postgres.url(named)
    assert call("--db", url, "upgrade").code == 0

    async def fill() -> None:
        async with Database(url) as db:
            for n in range(1, 4):
                await Store(db).put(("n",), f"k{n}", n, embedding=[n, 1.0, 0.0])

    asyncio.run(fill())
    return url


@pytest.fixture
def run(server: str, call: Call) -> Run:
    return lambda *arguments: call("--db", server, "index", *arguments)


def test_an_index_is_built_shown_and_dropped(run: Run) -> None:
    assert run("show", "--json").json == []

    built = run("build", "--dimensions", "3", "--json")

    assert built.code == 0, built.err
    assert built.json | {"bytes": 0} == {
        "name": NAME, "dimensions": 3, "metric": "cosine", "state": "ready", "bytes": 0,
    }  # fmt: skip
    assert run("show", "--json").json == [built.json]
    assert NAME in run("show").out
    assert run("build", "--dimensions", "3").out.startswith(f"{NAME} is ready, ")
    assert run("build", "--dimensions", "3", "--metric", "l2", "--json").json["metric"] == "l2"
    assert len(run("show", "--json").json) == 2
    assert run("drop", NAME, "--json").json == {"dropped": NAME}
    assert [one["metric"] for one in run("show", "--json").json] == ["l2"]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("build",), 2),
        (("build", "--dimensions", "0"), 2),
        (("build", "--dimensions", "three"), 2),
        (("build", "--dimensions", "3", "--metric", "far"), 2),
        (("build", "--dimensions", "5000"), 4),
        (("drop",), 2),
        (("drop", "ix_embeddings_hnsw_7_cosine"), 1),
        (("drop", "store_items"), 1),
        (("drop", "x; DROP TABLE store_items"), 1),
    ],
)
def test_invalid_options_build_and_drop_nothing(
    run: Run, arguments: tuple[str, ...], code: int
) -> None:
    answer = run(*arguments)

    assert answer.code == code
    assert answer.out == ""
    assert answer.err
    assert run("show", "--json").json == []


def test_without_the_permission_the_error_names_the_statement(
    run: Run, server: str, named: str, postgres: Postgres, call: Call
) -> None:
    role = "ma_index"
    postgres.execute(f"CREATE ROLE {role} LOGIN")
    for grant in Database(server).dialect.maintenance.grants(role, None, (*TABLES, VERSION_TABLE)):
        postgres.execute(grant, named)
    url = postgres.url(named, user=role)

    refused = call("--db", url, "index", "build", "--dimensions", "3")

    assert refused.code == 3
    assert refused.err.startswith("error [MA-AUTHENTICATION]: ")
    assert "CREATE INDEX CONCURRENTLY" in refused.err
    assert run("show", "--json").json == []
    postgres.execute(f"DROP OWNED BY {role}", named)
    postgres.execute(f"DROP ROLE {role}")


@pytest.mark.parametrize("arguments", [("show",), ("build", "--dimensions", "3"), ("drop", NAME)])
def test_index_commands_are_refused_on_sqlite(
    call: Call, file_url: str, arguments: tuple[str, ...]
) -> None:
    assert call("--db", file_url, "upgrade").code == 0

    answer = call("--db", file_url, "index", *arguments)

    assert answer.code == 4
    assert answer.err.startswith("error [MA-CAPABILITY-MISSING]: vectors are compared exactly on")
