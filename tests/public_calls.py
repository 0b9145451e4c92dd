"""Calls of every public method of memalchemy's classes, with arguments by parameters' names."""

from __future__ import annotations

import asyncio
import inspect
import random
from collections.abc import AsyncIterator, Callable
from typing import Any

from memalchemy import (
    Checkpointer,
    ConversationStore,
    Database,
    EpisodeStore,
    KeyValue,
    Store,
    ThreadLog,
    UserMemoryStore,
    VectorStore,
)
from waiting import A_WHILE

CLASSES: dict[str, Callable[[Database], Any]] = {
    "Checkpointer": Checkpointer,
    "ThreadLog": ThreadLog,
    "Store": Store,
    "KeyValue": KeyValue,
    "VectorStore": VectorStore,
    "UserMemoryStore": UserMemoryStore,
    "EpisodeStore": EpisodeStore,
    "ConversationStore": ConversationStore,
}
LEFT_OUT = {"export_files", "export_to", "vacuum", "rewrite", "close", "aclose"}
"""They write files, or take long on purpose."""


def methods_of(subject: Any) -> list[str]:
    """Return the names of the public methods of *subject* that are asynchronous."""
    found = []
    for name in dir(type(subject)):
        if name.startswith("_") or name in LEFT_OUT:
            continue
        member = inspect.getattr_static(type(subject), name)
        if inspect.iscoroutinefunction(member) or inspect.isasyncgenfunction(member):
            found.append(name)
    return found


def arguments(
    method: Any, rng: random.Random, argument: Callable[[str, random.Random], Any]
) -> tuple[list[Any], dict[str, Any]]:
    """Return arguments for *method*, of which *argument* makes each from its parameter's name."""
    given: list[Any] = []
    named: dict[str, Any] = {}
    for parameter in inspect.signature(method).parameters.values():
        if parameter.name in ("connection", "progress", "change", "tenant"):
            continue  # what is called back, or is another's, is tested elsewhere
        if parameter.kind is parameter.KEYWORD_ONLY:
            if rng.random() < 0.25:
                named[parameter.name] = argument(parameter.name, rng)
        elif parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
            if parameter.default is not parameter.empty and rng.random() < 0.6:
                break
            given.append(argument(parameter.name, rng))
    return given, named


async def error_of(call: Callable[[], Any]) -> Exception | None:
    """Return what a call of a method raises, if it does, with ``await`` or without."""

    async def awaited() -> Any:
        if inspect.iscoroutinefunction(call) or inspect.isasyncgenfunction(call):
            return await outcome(call)
        answer = await asyncio.to_thread(call)
        return await answer if inspect.isawaitable(answer) else answer

    try:
        async with asyncio.timeout(A_WHILE):
            await awaited()
    except Exception as error:  # noqa: BLE001 - what it is is the question
        return error
    return None


async def outcome(call: Callable[[], Any]) -> Any:
    """Return the result of *call*, or the first twenty of an iterator's."""
    result = call()
    if not isinstance(result, AsyncIterator):
        return await result
    found: list[Any] = []
    for _ in range(20):
        try:
            found.append(await anext(result))
        except StopAsyncIteration:
            return found
    if hasattr(result, "aclose"):
        await result.aclose()
    return found
