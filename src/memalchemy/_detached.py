"""Threads, tasks and event loops that outlive the call that starts them.

asyncio keeps the context of whoever starts a task, a loop or a connection for as long as that
lives: all that a caller had in its context variables, a request or a whole run of an agent, would
live as long. So what outlives a call is started here, in an empty context.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, TypeVar
from weakref import WeakSet

T = TypeVar("T")

_created_loops: WeakSet[asyncio.AbstractEventLoop] = WeakSet()


def create_task(work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
    """Run *work* in a task of the running loop that has none of the caller's context variables."""
    return asyncio.get_running_loop().create_task(work, context=Context())


def create_thread(work: Callable[..., object], *args: Any, name: str) -> threading.Thread:
    """Return a daemon thread that has none of the caller's context variables; it is not started."""
    # Free-threaded Python gives a thread a copy of the context of whoever starts it.
    return threading.Thread(target=Context().run, args=(work, *args), name=name, daemon=True)


def create_loop() -> asyncio.AbstractEventLoop:
    """Return a loop of the kind that every driver takes, whatever policy the host has set.

    A loop keeps the context in which it was made: that of the reader of its wake-up socket.
    """
    loop = Context().run(asyncio.SelectorEventLoop)
    _created_loops.add(loop)
    return loop


def runs_in_created_loop() -> bool:
    """Return whether the running loop is one of `create_loop`'s, in which no host runs anything."""
    return asyncio.get_running_loop() in _created_loops


async def create_connection(
    open_: Callable[..., Coroutine[Any, Any, Any]],
    *args: Any,
    terminate: Callable[[Any], object],
    **options: Any,
) -> Any:
    """Await a driver's function that opens a connection; a cancelled caller leaves none open.

    A transport of asyncio keeps the context in which it was connected. *terminate* closes a
    connection at once.
    """
    opening = create_task(open_(*args, **options))
    try:
        return await opening
    except asyncio.CancelledError:
        if opening.done() and not opening.cancelled() and opening.exception() is None:
            terminate(opening.result())  # it was open when the cancellation came
        raise
