"""Calls of one moment of an event loop, made one batch. Knows no database."""

from __future__ import annotations

import asyncio
import contextvars
import weakref
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from langgraph.store.base import Op

Run = Callable[[Sequence[Op]], Awaitable[list[Any]]]


class Call(NamedTuple):
    """An operation that somebody waits for."""

    op: Op
    future: asyncio.Future[Any]
    context: contextvars.Context


class Ticks:
    """Gathers the calls of each event loop, and runs those that came meanwhile as one batch.

    Batches of a loop run one after another, so what was called later sees what was called before,
    and of a thousand `aput` in an `asyncio.gather` one transaction is made.
    """

    def __init__(self, run: Run) -> None:
        self._run = run
        self._waiting: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, list[Call]]
        self._waiting = weakref.WeakKeyDictionary()
        self._workers: set[asyncio.Task[None]] = set()  # a loop itself may forget them

    async def call(self, op: Op) -> Any:
        """What *op* gives."""
        loop = asyncio.get_running_loop()
        call = Call(op, loop.create_future(), contextvars.copy_context())
        waiting = self._waiting.get(loop)
        if waiting is not None:
            waiting.append(call)
        else:
            waiting = self._waiting[loop] = [call]
            worker = loop.create_task(self._work(loop, waiting))
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)
        return await call.future

    async def _work(self, loop: asyncio.AbstractEventLoop, waiting: list[Call]) -> None:
        try:
            while waiting:
                calls = [call for call in waiting if not call.future.done()]
                waiting.clear()
                await self._together(calls)
        finally:
            del self._waiting[loop]
            for call in waiting:  # the loop is being closed
                call.future.cancel()

    async def _together(self, calls: list[Call]) -> None:
        if not calls:
            return
        try:
            results = await self._run([call.op for call in calls])
        except (TypeError, ValueError) as error:
            if len(calls) == 1:
                _fail(calls[0], error)
            else:  # somebody's mistake, which is not to be the others'
                for call in calls:
                    await self._alone(call)
        except Exception as error:  # noqa: BLE001 - handed to those who wait
            for call in calls:
                _fail(call, error)
        except BaseException:
            for call in calls:
                call.future.cancel()
            raise
        else:
            for call, result in zip(calls, results, strict=True):
                if not call.future.done():
                    call.future.set_result(result)

    async def _alone(self, call: Call) -> None:
        try:
            (result,) = await asyncio.create_task(self._awaited([call.op]), context=call.context)
        except Exception as error:  # noqa: BLE001 - handed to who waits
            _fail(call, error)
        else:
            if not call.future.done():
                call.future.set_result(result)

    async def _awaited(self, ops: Sequence[Op]) -> list[Any]:
        return await self._run(ops)


def _fail(call: Call, error: Exception) -> None:
    if not call.future.done():
        call.future.set_exception(error)
