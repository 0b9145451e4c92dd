"""The box for SQL: answers, whom it lets in, and what a query can neither reach nor take."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from inspector_requests import TOKEN, asking

from memalchemy import Checkpointer, Database, Store
from memalchemy.analysis import TABLES, isolated
from memalchemy.errors import DriverMissing
from memalchemy.http import Grant, app
from memalchemy.http.inspector import _sql
from memalchemy.http.inspector._application import inspector_app

pytest.importorskip("duckdb")

COUNT = "select thread, count(*) as messages from messages group by all order by thread"


async def save(db: Database, thread: str, *texts: str) -> None:
    said = [{"role": "user", "content": text} for text in texts]
    await Checkpointer(db).save({"messages": said}, thread)


async def test_a_query_is_answered_with_columns_and_rows(db: Database) -> None:
    await save(db, "a", "one", "two")
    await save(db, "b", "three")
    await Store(db).put(("users",), "ada", {"text": "tea"})
    async with asking(inspector_app(db, tokens={TOKEN: db.tenant})) as ask:
        found = await ask("sql", q=COUNT)
        values = await ask(
            "sql",
            q="select [1, null] as list, 1.5::decimal as price, 'a' || chr(0) as text, "
            "null as nothing, 'nan'::double as nan, date '2026-11-29' as day, 2::hugeint * 7 as n",
        )
        items = await ask("sql", q="select key from items")

    assert found["columns"] == [
        {"name": "thread", "kind": "text"},
        {"name": "messages", "kind": "number"},
    ]
    assert found["rows"] == [["a", 2], ["b", 1]]
    assert (found["more"], found["cut"], found["unreadable"]) == (False, False, [])
    assert values["rows"] == [["[1, null]", 1.5, "a\0", None, "nan", "2026-11-29", 14]]
    assert items["rows"] == [["ada"]]


async def test_the_tables_and_ten_questions_are_described_and_each_question_runs(
    db: Database,
) -> None:
    await save(db, "a", "one")
    async with asking(inspector_app(db, tokens={TOKEN: db.tenant})) as ask:
        found = await ask("tables")
        assert found["missing"] is None
        assert [one["name"] for one in found["tables"]] == list(TABLES)
        assert len(found["questions"]) == 10
        for question in found["questions"][::3]:
            assert (await ask("sql", q=question["sql"]))["columns"], question["text"]


async def test_a_long_answer_is_cut_and_says_so(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with asking(inspector_app(db, tokens={TOKEN: db.tenant})) as ask:
        found = await ask("sql", q="select i from range(5000) as t(i)")
        assert (len(found["rows"]), found["more"]) == (1_000, True)
        found = await ask("sql", q="select repeat('x', 1000000) from range(500)")
        assert (found["more"], found["cut"]) == (True, True)
        assert sum(len(row[0]) for row in found["rows"]) <= 2_000_000


REFUSED = {
    "a file": "select * from read_text('/etc/passwd')",
    "a file by its name": "from '/etc/passwd'",
    "a glob": "select * from glob('/*')",
    "the network": "select * from read_csv('https://example.org/a.csv')",
    "a file to write": "copy (select 1) to '/tmp/inspector-was-here'",
    "another database": "attach 'other.db'",
    "an extension": "install httpfs",
    "a setting": "set enable_external_access = true",
    "a table": "create table mine as select 1",
    "a change": "delete from messages",
    "two queries": "select 1; select 2",
    "no query": "--",
    "nonsense": "selekt",
    "no such table": "select * from secrets",
}


@pytest.mark.parametrize("what", REFUSED)
async def test_what_is_no_query_of_the_tables_is_refused_as_the_command_refuses_it(
    db: Database, what: str
) -> None:
    async with asking(inspector_app(db, tokens={TOKEN: db.tenant})) as ask:
        found = await ask("sql", q=REFUSED[what], status=422)

    assert (found["error"], found["code"]) == ("InvalidArgument", "MA-ARGUMENT")
    assert found["detail"].startswith(("the query cannot be run: ", "only queries", "one query"))


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("select count(*) from range(1000000000000) as t(i) where i % 7 = 3", "was stopped"),
        ("select sum(length(repeat(md5(i::text), 90000000))) from range(9) as t(i)", ""),
        ("select list(range(100000000)) from range(10)", ""),
    ],
    ids=["long", "large texts", "large lists"],
)
async def test_a_query_that_takes_too_much_is_stopped_and_leaves_no_process(
    db: Database, monkeypatch: pytest.MonkeyPatch, query: str, said: str
) -> None:
    started: list[asyncio.subprocess.Process] = []
    start = isolated._start

    async def noting() -> asyncio.subprocess.Process:
        started.append(await start())
        return started[-1]

    monkeypatch.setattr(isolated, "_start", noting)
    monkeypatch.setattr(_sql, "SECONDS", 3.0)
    async with asking(inspector_app(db, tokens={TOKEN: db.tenant})) as ask:
        found = await ask("sql", q=query, status=422)
        assert (await ask("sql", q="select 1 as one"))["rows"] == [[1]]

    assert found["code"] == "MA-STATEMENT-FAILED"
    assert said in found["detail"]
    assert [one.returncode is None for one in started] == [False, False]


async def test_a_query_sees_the_tenant_of_its_token_alone(db: Database) -> None:
    other = db.for_tenant(f"{db.tenant}-other")
    await save(db, "mine", "one")
    await save(other, "theirs", "two")
    tokens = {TOKEN: db.tenant, TOKEN * 2: other.tenant}
    application = app(db, tokens=tokens, inspector=True)
    for token, expected in ((TOKEN, "mine"), (TOKEN * 2, "theirs")):
        async with asking(application, token, prefix="/inspector") as ask:
            assert (await ask("sql", q=COUNT))["rows"] == [[expected, 1]]
            everyone = await ask("sql", q="select distinct tenant from messages")
            assert everyone["rows"] == [[db.tenant if token == TOKEN else other.tenant]]
    async with asking(application, prefix="/inspector") as ask:
        await ask("sql", q=COUNT, tenant=db.tenant)
        for view in ("sql", "threads", "tables"):
            asked = {"q": COUNT} if view == "sql" else {}
            await ask(view, tenant=other.tenant, status=403, **asked)


async def test_a_token_that_may_not_read_all_of_a_tenant_may_not_ask(db: Database) -> None:
    tokens: dict[str, Any] = {
        "a-token-that-writes-only": Grant(db.tenant, frozenset({"write", "admin"})),
        "a-token-of-a-namespace": Grant(db.tenant, namespaces=(("users", "ada"),)),
    }
    application = app(db, tokens=tokens, inspector=True)
    for token in tokens:
        async with asking(application, token, prefix="/inspector") as ask:
            await ask("sql", q="select 1", status=403)
            await ask("tables", status=403)
    async with asking(application, "a-token-that-is-unknown", prefix="/inspector") as ask:
        await ask("sql", q="select 1", status=401)


async def test_without_the_packages_the_page_says_how_to_install_them(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing() -> None:
        raise DriverMissing("duckdb", "analysis", what="package")

    monkeypatch.setattr("memalchemy.http.inspector._sql.import_duckdb", missing)
    monkeypatch.setattr("memalchemy.analysis.isolated.import_duckdb", missing)
    async with asking(inspector_app(db, tokens={TOKEN: db.tenant})) as ask:
        assert "'duckdb' is not installed. Run: pip install" in (await ask("tables"))["missing"]
        found = await ask("sql", q="select 1", status=501)
    assert found["code"] == "MA-DRIVER-MISSING"
