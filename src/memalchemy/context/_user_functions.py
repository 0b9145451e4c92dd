"""Calls of functions that an application gives to a manager: plain ones, coroutines, agents."""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")


class AwaitNotPossible(RuntimeError):
    """Synchronous code in a running event loop called what has to be awaited."""


async def call_function(
    name: str, function: Callable[..., Any], *args: Any, may_await: bool, **kw: Any
) -> Any:
    """Call a function of the application and return its answer, awaited if need be.

    A plain function runs in a thread of its own, so that it does not block the event loop and a
    timeout holds for it too: if it is late, it is left running and its answer is dropped.

    Args:
        name: the argument by which the application gave the function, for the error.
        may_await: ``False`` for synchronous code in a running event loop: an asynchronous client
            may belong to that loop, which is blocked meanwhile.

    Raises:
        AwaitNotPossible: the answer has to be awaited, and *may_await* is false.
    """
    if is_asynchronous(function):
        if not may_await:
            raise _await_not_possible(name)
        return await function(*args, **kw)
    answer = await asyncio.wrap_future(run_in_thread(lambda: function(*args, **kw)))
    if not inspect.isawaitable(answer):
        return answer
    if not may_await:
        if inspect.iscoroutine(answer):
            answer.close()
        raise _await_not_possible(name)
    return await answer


def is_asynchronous(function: Any) -> bool:
    """Return whether a call of *function*, perhaps an object with ``__call__``, is a coroutine."""
    called = getattr(type(function), "__call__", None)  # noqa: B004 - read, not tested
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(called)


def run_coroutine(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end from synchronous code, in an event loop of its own."""
    return run_in_thread(lambda: asyncio.run(coroutine)).result()


def in_event_loop() -> bool:
    """Return whether this thread runs an event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def run_in_thread(work: Callable[[], T]) -> Future[T]:
    """Run *work* in a daemon thread: threads of asyncio's executor would delay the exit."""
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()
    context = contextvars.copy_context()

    def run() -> None:
        try:
            result = context.run(work)
        except BaseException as error:  # noqa: BLE001 - raised where the result is waited for
            done.set_exception(error)
        else:
            done.set_result(result)

    threading.Thread(target=run, name="memalchemy-manager", daemon=True).start()
    return done


def _await_not_possible(name: str) -> AwaitNotPossible:
    return AwaitNotPossible(
        f"{name} is asynchronous and apply() was called from a running event loop; "
        "use `await manager.async_apply(messages)`"
    )
