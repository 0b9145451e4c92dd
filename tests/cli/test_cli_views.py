"""The command views, on SQLite and on PostgreSQL."""

from __future__ import annotations

import re
import runpy
import sqlite3
from pathlib import Path

import pytest
from commandline import Call, lines, thread

from memalchemy.migrate.views import VIEWS
from pages import ROOT

NAMES = ", ".join(VIEWS)


def test_views_are_created_again_and_dropped(call: Call, url: str) -> None:
    assert call("--db", url, "upgrade").code == 0
    given = lines(thread("airline-1", 8, agent="planner", cost_usd=0.5))
    assert call("--db", url, "import", "-", stdin=given).code == 0
    assert call("--db", url, "views").out == f"created: {NAMES}\n"
    assert call("--db", url, "views", "--json").json == {"created": [*VIEWS]}
    assert call("--db", url, "check").code == 0
    assert call("--db", url, "upgrade").code == 0
    assert call("--db", url, "views", "--drop", "--json").json == {"dropped": [*VIEWS]}
    assert call("--db", url, "views", "--drop").out == "dropped: none was there\n"
    assert call("--db", url, "views").code == 0
    assert call("--db", url, "downgrade", "base", "--delete-rows").code == 0
    assert call("--db", url, "upgrade").code == 0


@pytest.mark.own_keys
def test_the_query_of_the_page_has_its_answer(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(ROOT / "examples" / "agency.py"), run_name="__main__")
    assert call("--db", "agency.db", "views").code == 0
    page = (ROOT / "docs" / "schema.md").read_text()
    ((query, answer),) = re.findall(r"^```sql\n(.*?)```\n\n```\n(.*?)```", page, re.M | re.S)

    connection = sqlite3.connect("agency.db")
    rows = connection.execute(query).fetchall()
    connection.close()

    assert "".join(f"{agent}|{steps}|{dollars}\n" for agent, steps, dollars in rows) == answer


def test_the_printed_script_makes_and_drops_the_views(call: Call, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"
    assert call("--db", url, "upgrade").code == 0
    with sqlite3.connect(tmp_path / "agent.db") as connection:
        connection.executescript(call("--db", url, "views", "--print").out)
        for view in VIEWS:
            assert connection.execute(f"SELECT count(*) FROM {view}").fetchone() == (0,)
        connection.executescript(call("--db", url, "views", "--print", "--drop").out)
        left = connection.execute("SELECT count(*) FROM sqlite_schema WHERE type = 'view'")
        assert left.fetchone() == (0,)
    connection.close()


@pytest.mark.parametrize("kind", ["postgresql", "oracle"])
def test_a_script_needs_no_server(call: Call, kind: str) -> None:
    printed = call(
        "--db", f"{kind}://nobody@nowhere/db", "--schema", "memory", "views", "--print", "--json"
    ).json

    assert len(printed["statements"]) == len(VIEWS)
    assert all("CREATE VIEW memory.memalchemy_" in one for one in printed["statements"])


def test_a_database_without_a_schema_says_so(call: Call, tmp_path: Path) -> None:
    (tmp_path / "empty.db").touch()
    answer = call("--db", f"sqlite:///{tmp_path}/empty.db", "views")

    assert answer.code == 1
    assert "upgrade" in answer.err
