"""LangGraph's methods without ``await`` are those with it."""

from __future__ import annotations

import inspect

from memalchemy.integrations import langgraph


def test_twins_without_await_have_the_arguments_of_the_asynchronous_methods() -> None:
    twins = [
        (cls, name)
        for cls in (langgraph.MemalchemySaver, langgraph.MemalchemyStore)
        for name in vars(cls)
        if inspect.iscoroutinefunction(vars(cls).get(f"a{name}"))
        or inspect.isasyncgenfunction(vars(cls).get(f"a{name}"))
    ]
    assert len(twins) >= 15
    for cls, name in twins:
        if name in ("batch", "close", "stop_ttl_sweeper"):  # written by hand
            continue
        twin, method = (inspect.signature(getattr(cls, one)) for one in (name, f"a{name}"))
        assert twin.parameters == method.parameters
        assert "Async" not in str(twin.return_annotation)
        assert getattr(cls, name).__doc__ == getattr(cls, f"a{name}").__doc__
