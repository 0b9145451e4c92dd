"""Threads that a framework keeps in several logs: what its adapter declares goes along."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from memalchemy import Checkpointer, Conflict, Database, NotFound


class Layout(NamedTuple):
    main: tuple[str, ...]
    parts: list[tuple[str, ...]]
    others: list[tuple[str, ...]]
    """Logs of the same thread id that belong to other things."""


def layouts(own: tuple[str, ...]) -> dict[str, Layout]:
    """The layout of each framework's thread for an adapter whose ``namespace=`` is *own*."""

    def at(root: str, *rest: str) -> tuple[str, ...]:
        return (root, *own, *rest)

    return {
        "strands": Layout(
            at("strands", "sessions"),
            [at("strands", "sessions", kind, "a") for kind in ("agents", "messages")],
            [("strands", "another", *own, "sessions"), at("strands", "storage")],
        ),
        "crewai": Layout(
            at("crewai", "flows"),
            [at("crewai", "flows", "pending")],
            [at("crewai", "checkpoints"), at("crewai", "flows", "flows"), at("crewai")],
        ),
        "claude_agent_sdk": Layout(
            at("claude_agent_sdk", "transcripts", "p"),
            [
                at("claude_agent_sdk", "transcripts", "p", "subagents", "agent-1"),
                at("claude_agent_sdk", "summaries", "p"),
            ],
            [
                at("claude_agent_sdk", "transcripts", "other"),
                at("claude_agent_sdk", "summaries", "other"),
            ],
        ),
        "pydantic_ai_harness": Layout(
            at("pydantic_ai_harness", "snapshots"),
            [at("pydantic_ai_harness", "events")],
            [("pydantic_ai_harness", "another", *own, "events")],
        ),
        "a2a": Layout(
            at("a2a", "tasks", "owner"),
            [at("a2a", "events")],
            [at("a2a", "tasks", "other"), ("a2a", "another", *own, "events")],
        ),
        "native": Layout(
            ("mine", *own), [], [("mine", *own, "below"), ("mine",) if own else (), ("langgraph",)]
        ),
    }


GRAPH = {
    "langgraph": Layout(("langgraph",), [("langgraph", "a"), ("langgraph", "a:1", "b")], [("a",)]),
    "openai": Layout(("openai",), [("openai", "branch", "b")], [("openai", "runs")]),
}
CASES = {
    f"{name} in {'/'.join(own) or 'no namespace'}": layout
    for own in ((), ("app",), ("app", "eu"))
    for name, layout in layouts(own).items()
} | GRAPH


async def fill(db: Database, layout: Layout) -> None:
    for namespace in (layout.main, *layout.parts, *layout.others):
        await Checkpointer(db, namespace=namespace).save({"in": list(namespace)}, "t", "c")


async def holding(db: Database, thread_id: str) -> set[tuple[str, ...]]:
    found = await Checkpointer(db).list_logs(thread_id, below=True)
    return {one.namespace for one in found}


@pytest.fixture(params=CASES.values(), ids=CASES)
async def layout(db: Database, request: pytest.FixtureRequest) -> Layout:
    found: Layout = request.param
    await fill(db, found)
    return found


async def test_a_fork_has_all_logs_of_the_thread(db: Database, layout: Layout) -> None:
    await Checkpointer(db, namespace=layout.main).fork("t", new_thread_id="fork")

    assert await holding(db, "fork") == {layout.main, *layout.parts}


async def test_a_copy_has_all_logs_of_the_thread(db: Database, layout: Layout) -> None:
    native = Checkpointer(db, namespace=layout.main)
    assert await native.copy_thread("t", "copy", all_namespaces=False)

    assert await holding(db, "copy") == {layout.main, *layout.parts}


async def test_a_deletion_leaves_nothing_of_the_thread_and_all_else(
    db: Database, layout: Layout
) -> None:
    native = Checkpointer(db, namespace=layout.main)
    assert await native.delete("t", all_namespaces=False)

    assert await holding(db, "t") == set(layout.others)
    assert not await native.delete("t", all_namespaces=False)


async def test_an_export_has_all_logs_of_the_thread(db: Database, layout: Layout) -> None:
    native = Checkpointer(db, namespace=layout.main)
    exported = native.export(thread_id="t", all_namespaces=False)

    assert {tuple(one["namespace"]) async for one in exported} == {layout.main, *layout.parts}


async def test_a_fork_to_a_thread_that_has_a_part_changes_nothing(
    db: Database, layout: Layout
) -> None:
    if not layout.parts:
        return
    await Checkpointer(db, namespace=layout.parts[-1]).save({"mine": 1}, "taken")
    native = Checkpointer(db, namespace=layout.main)

    with pytest.raises(Conflict, match="not empty"):
        await native.fork("t", new_thread_id="taken")
    assert await holding(db, "taken") == {layout.parts[-1]}
    with pytest.raises(NotFound):
        await native.fork("nobody")
