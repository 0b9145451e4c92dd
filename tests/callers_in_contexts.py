"""Calls in contexts of their own, for tests that what such a context holds is free afterwards.

A run of a framework, a request, a trace: what a caller has in its context variables must not be
kept by what the call has started.
"""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Awaitable, Callable
from contextlib import suppress
from contextvars import Context, ContextVar
from typing import Any

from memalchemy import MemalchemyError
from public_calls import outcome

Errors = tuple[type[Exception], ...]

REFUSED: Errors = (MemalchemyError, TypeError, ValueError, LookupError)
"""Errors of a call that is refused. It lets its caller go as well."""


class Run:
    """What a framework keeps in a context variable."""


RUN: ContextVar[Run] = ContextVar("run")


def in_a_run(call: Callable[[], Any], refused: Errors = REFUSED) -> weakref.ref[Run]:
    """Make a call in a context with a `Run`, of which only that context knows."""

    def called() -> weakref.ref[Run]:
        run = Run()
        RUN.set(run)
        with suppress(*refused):
            result = call()
            for _ in zip(range(20), result if hasattr(result, "__next__") else (), strict=False):
                pass
        return weakref.ref(run)

    return Context().run(called)


async def in_a_run_of_a_task(
    call: Callable[[], Awaitable[Any]], refused: Errors = REFUSED
) -> weakref.ref[Run]:
    """Do the same with a call that is awaited, in a task of its own."""

    async def called() -> weakref.ref[Run]:
        run = Run()
        RUN.set(run)
        with suppress(*refused):
            await outcome(call)
        return weakref.ref(run)

    return await asyncio.get_running_loop().create_task(called(), context=Context())


def is_free(run: weakref.ref[Run]) -> bool:
    """Return whether nothing knows of a `Run` any more, once garbage is collected."""
    if run() is not None:
        gc.collect()
    return run() is None
