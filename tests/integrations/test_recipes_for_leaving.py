"""The loops of docs/integrations/leaving.md, on targets and data that the page does not show."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from agents.extensions.memory import SQLAlchemySession
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.postgres import PostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.types import Command
from sample_graphs import harvest, ledger, nested
from sqlalchemy.ext.asyncio import create_async_engine

from memalchemy.integrations.langgraph import MemalchemySaver
from memalchemy.integrations.openai_agents import MemalchemySessions
from pages import BLOCK, ROOT
from servers import Postgres

Saver = BaseCheckpointSaver[Any]

GRAPHS: dict[str, tuple[Callable[[Saver], Any], Any, Any]] = {
    "tasks at once, one of which asks": (harvest, {"fields": ["north", "?south"]}, "rye"),
    "deltas of a channel": (lambda saver: ledger(saver, asks=True), {"width": 3}, "mine"),
    "subgraphs": (nested, {"said": ["hello"]}, "answered"),
}


@pytest.fixture(params=["sqlite", "postgresql"])
def target(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Saver]:
    """One of LangGraph's own savers."""
    if request.param == "sqlite":
        with SqliteSaver.from_conn_string(str(tmp_path / "langgraph.db")) as saver:
            saver.setup()
            yield saver
        return
    server: Postgres = request.getfixturevalue("postgres")
    name = server.create_database()
    with PostgresSaver.from_conn_string(server.url(name)) as saver:
        saver.setup()
        yield saver
    server.drop_database(name)


def functions_of_the_page(name: str) -> dict[str, Any]:
    """The function *name* that the page defines, and those beside it, without what calls them."""
    page = ROOT / "docs" / "integrations" / "leaving.md"
    (block,) = [one for one in BLOCK.findall(page.read_text()) if f"def {name}(" in one]
    kinds = (ast.Import, ast.ImportFrom, ast.FunctionDef, ast.AsyncFunctionDef)
    tree = compile(block, name, "exec", flags=ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    assert isinstance(tree, ast.Module)
    tree.body = [one for one in tree.body if isinstance(one, kinds)]
    names: dict[str, Any] = {}
    exec(compile(tree, name, "exec"), names)
    return names


@pytest.mark.parametrize("kind", GRAPHS)
def test_a_graph_goes_on_where_it_stopped(kind: str, target: Saver, tmp_path: Path) -> None:
    make, given, answer = GRAPHS[kind]
    page = functions_of_the_page("copy_checkpoint")
    ours = MemalchemySaver(f"sqlite:///{tmp_path}/agent.db")
    graph = make(ours)
    config: Any = {"configurable": {"thread_id": "moved"}}
    graph.invoke(given, config)
    graph.invoke(Command(resume=answer), config)
    graph.invoke(given, config)  # stopped once more

    for _ in range(2):  # the second time changes nothing
        for one in reversed(list(ours.list(None))):
            page["copy_checkpoint"](one, target)
        assert page["in_order"](target) == page["in_order"](ours)

    assert len(page["in_order"](target)) > 5
    theirs = make(target)
    assert states(theirs, config) == states(graph, config)
    for made in (theirs, graph):
        made.invoke(Command(resume=answer), config)
    assert states(theirs, config) == states(graph, config)
    ours.close()


def states(graph: Any, config: Any) -> list[Any]:
    return [(one.values, one.next, one.interrupts) for one in graph.get_state_history(config)]


async def test_sessions_with_branches_move_to_sqlalchemy_sessions(tmp_path: Path) -> None:
    copy_session = functions_of_the_page("copy_session")["copy_session"]
    sessions = MemalchemySessions(f"sqlite:///{tmp_path}/agent.db")
    session = sessions.session("trip")
    for text in ("To Rome.", "In May."):
        await session.add_items([{"role": "user", "content": text}])
    await session.create_branch_from_turn(2, "autumn")
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/sessions.db")

    def open_session(id_: str) -> SQLAlchemySession:
        return SQLAlchemySession(id_, engine=engine, create_tables=True)

    for _ in range(2):
        await copy_session(session, open_session)

    for id_, count in (("trip", 2), ("trip/autumn", 1)):
        assert len(await open_session(id_).get_items()) == count
    await sessions.aclose()
    await engine.dispose()
