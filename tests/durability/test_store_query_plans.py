"""What the databases do for the store's statements: an index leads, never a scan of the items."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from planner import Planner
from sqlalchemy import Connection, Executable

from memalchemy import Database, Store
from memalchemy.codec.field_terms import FieldTerms
from memalchemy.codec.tokens import query_terms
from memalchemy.dialects import DIALECTS, Dialect
from memalchemy.search._vector_statements import live_items
from memalchemy.search.scope import key_lists, scope_binds
from memalchemy.search.text import narrowed_items, search_items
from memalchemy.store import read, write
from memalchemy.store.reembedding import count_items_without_vectors, list_places
from servers import Postgres

SPACES, EACH = 200, 100
NOW = datetime(2100, 1, 1, tzinfo=UTC)
BINDS: dict[str, Any] = scope_binds("default", "/space 7/", below=True) | {
    "k_key": "key 7",
    "p_now": NOW,
    "p_limit": 20,
    "p_offset": 0,
    "p_terms": 1,
    "p_most": 200,
    "p_beyond": 201,
    "p_after_key": "key 7",
    "p_key": "key 7",
    "p_namespace": "/space 7/",
    "p_after_updated_at": NOW,
    "p_after_namespace": "/space 7/",
    "p_low": "/space 7/",
    "p_high": "/space 70",
    "p_internal": "/~a",
    "p_internal_end": "/~{",
}


async def fill(url: str) -> None:
    db = Database(url)
    await db.migrate()
    async with db:
        store = Store(db)
        for space in range(SPACES):
            await store.put_batch(
                [
                    ((f"space {space}",), f"key {n}", {"n": n, "said": f"word{space} number{n}"})
                    for n in range(EACH)
                ]
            )


def statements(d: Dialect) -> dict[str, tuple[Executable, dict[str, Any]]]:
    """Statements that a user waits for, and what they bind."""
    (keys,) = key_lists(d, [("/space 7/", f"key {n}") for n in range(20)])
    fields = [FieldTerms.of("/n", [7])]
    terms = {"terms": d.text.terms(query_terms("number7"))}
    scope = dict(d.text.item_scope_binds("default", "/space 7/", False, []))
    narrowed = dict(d.text.item_scope_binds("default", "/space 7/", False, fields))
    few = [FieldTerms.between("/n", 7, 9)]
    within = dict(d.text.item_scope_binds("default", "/space 7/", False, few))
    return {
        "one item": (read.read_item(d), {}),
        "items by their keys": (read.read_items(d, words=False), keys),
        "keys of a namespace": (read.list_keys(d, after=True), {}),
        "the newest": (read.list_items(d, order="newest", below=False, after=True), {}),
        "items by key, below": (read.list_items(d, order="key", below=True, after=True), {}),
        **{
            f"{'a word' if one else 'words'}{', unranked' * (not weighed)}{', rare' * rare}": (
                search_items(d, below=False, weighed=weighed, one=one, rare=rare),
                terms | scope,
            )
            for one, weighed, rare in product((True, False), repeat=3)
        },
        "fields": (narrowed_items(d, below=False), narrowed),
        "a range": (narrowed_items(d, below=False), within),
        "namespaces": (read.list_paths(d), {}),
        "vectors to drop": (write.delete_vectors_of_items(d), keys),
        "which are alive": (live_items(d), keys),
        "names of vectors": (write.list_vector_names(d), keys),
        "items to embed": (list_places(d, below=True, after=True), {}),
        "items without vectors": (
            count_items_without_vectors(d, below=False),
            {"p_model": "a", "p_dimensions": 3},
        ),
    }


BY_KEY = ("vectors to drop", "names of vectors")
"""Statements that look up the vectors of items, each by its key."""

NAMES = list(statements(DIALECTS["sqlite"]))


@pytest.fixture(scope="module")
def planner(postgres: Postgres) -> Iterator[Planner]:
    name = postgres.create_database()
    url = postgres.url(name)
    asyncio.run(fill(url))
    postgres.execute("ANALYZE", name)
    planner = Planner(postgres, name, url, BINDS)
    yield planner
    planner.close()
    postgres.drop_database(name)


@pytest.mark.parametrize("mode", ["custom", "generic"])
@pytest.mark.parametrize("name", NAMES)
def test_postgresql_scans_no_items(planner: Planner, name: str, mode: str) -> None:
    statement, binds = statements(planner.memalchemy)[name]

    plan = planner.plan(statement, mode, **binds)

    # A table without a row is read as soon as its index.
    assert plan.scanned <= {"embeddings"}


@pytest.mark.parametrize("words", ["number7", "number7 number8 word7 word8"])
def test_postgresql_plans_a_search_by_words_once_however_often_one_searches(
    planner: Planner, words: str
) -> None:
    d = planner.memalchemy
    scope = d.text.item_scope_binds("default", "/space 7/", False, [])
    terms = d.text.terms(query_terms(words))

    for rare in (False, True):
        statement = search_items(d, below=False, weighed=True, one=" " not in words, rare=rare)

        plan = planner.plan(statement, "auto", terms=terms, **scope)

        assert plan.is_generic
        assert "ix_store_items_search" in plan.indexes
        assert not plan.scanned


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plans") / "agent.db"
    asyncio.run(fill(f"sqlite:///{path}"))
    return path


async def steps_on_sqlite(file: Path, name: str) -> list[str]:
    """Return the steps of SQLite's plan for a statement."""
    async with Database(f"sqlite:///{file}") as db:
        statement, binds = statements(db.dialect)[name]

        def explain(connection: Connection) -> list[str]:
            compiled: Any = statement.compile(dialect=connection.dialect)  # type: ignore[attr-defined]
            values = compiled.params | BINDS | binds
            given = tuple(
                None if isinstance(values[n], datetime) else values[n] for n in compiled.positiontup
            )
            asked = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {compiled}", given)
            return [row.detail for row in asked]

        return await db.run_sync(explain)


@pytest.mark.parametrize("name", NAMES)
async def test_sqlite_scans_no_items(file: Path, name: str) -> None:
    steps = await steps_on_sqlite(file, name)

    scanned = {m[1] for step in steps if (m := re.match(r"SCAN (\S+)", step))}
    assert not scanned & {"store_items", "embeddings", "later"}, steps
    wide = [step for step in steps if re.search(r"USING .*INDEX \S+ \(tenant=\?\)", step)]
    assert not wide, "an index that leads no further than to the tenant is a scan"


@pytest.mark.parametrize("name", BY_KEY)
async def test_sqlite_looks_up_the_vectors_of_items_by_their_keys(file: Path, name: str) -> None:
    steps = await steps_on_sqlite(file, name)

    looked_up = [step for step in steps if "embeddings" in step]
    assert looked_up
    assert all("key=?" in step for step in looked_up), steps
