"""LangGraph's methods without ``await`` are those with it, and its savers' own calls work here."""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest

from memalchemy.integrations import langgraph
from memalchemy.integrations.langgraph._adapter import LangGraphAdapter


def own(cls: type, name: str) -> Any:
    """Return a method that the class, or the base of LangGraph's adapters, defines."""
    return (vars(LangGraphAdapter) | vars(cls)).get(name)


def test_twins_without_await_have_the_arguments_of_the_asynchronous_methods() -> None:
    twins = [
        (cls, name)
        for cls in (langgraph.MemalchemySaver, langgraph.MemalchemyStore)
        for name in vars(cls) | vars(LangGraphAdapter)
        if inspect.iscoroutinefunction(own(cls, f"a{name}"))
        or inspect.isasyncgenfunction(own(cls, f"a{name}"))
    ]
    assert len(twins) >= 15
    for cls, name in twins:
        if name in ("batch", "close", "setup", "stop_ttl_sweeper"):  # written by hand
            continue
        twin, method = (inspect.signature(getattr(cls, one)) for one in (name, f"a{name}"))
        assert twin.parameters == method.parameters
        assert "Async" not in str(twin.return_annotation)
        assert getattr(cls, name).__doc__ == getattr(cls, f"a{name}").__doc__


@pytest.mark.parametrize("cls", [langgraph.MemalchemySaver, langgraph.MemalchemyStore])
def test_they_are_opened_and_set_up_as_langgraphs_own_with_and_without_await(
    cls: Any, tmp_path: Path
) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"
    with cls.from_conn_string(url, pipeline=True) as opened:
        opened.setup()
        assert (tmp_path / "agent.db").exists()

    async def run() -> None:
        async with cls.from_conn_string(url) as opened:
            await opened.setup()
            opened.setup()  # never awaited, as in code that calls SqliteSaver in a notebook
            await opened.asetup()

    asyncio.run(run())
