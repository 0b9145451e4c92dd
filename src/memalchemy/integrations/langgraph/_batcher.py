"""`OpBatcher`: runs store operations that tasks issue at the same time as one batch."""

from __future__ import annotations

import asyncio
import contextvars
import weakref
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, NamedTuple

from langgraph.store.base import Op

from memalchemy import _detached

RunBatch = Callable[[Sequence[Op]], Awaitable[list[Any]]]


class Call(NamedTuple):
    """An operation, the future of its result, and the context of its task."""

    op: Op
    future: asyncio.Future[Any]
    context: contextvars.Context


class OpBatcher:
    """Gathers the operations of each event loop and runs those that are waiting as one batch.

    The batches of a loop run one after another, so a later call sees the effects of an earlier one,
    and a thousand `aput` in an `asyncio.gather` are one transaction. LangGraph's own
    `AsyncBatchedBaseStore` belongs to one loop, and lets an invalid operation fail its neighbours.
    """

    def __init__(self, run: RunBatch) -> None:
        # The store has this object, so a reference to its method would be a cycle. While a call
        # waits, its task refers to the store.
        self._run_of_store: weakref.WeakMethod[RunBatch] = weakref.WeakMethod(run)
        self._waiting: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, list[Call]]
        self._waiting = weakref.WeakKeyDictionary()
        self._workers: set[asyncio.Task[None]] = set()  # a loop holds its tasks weakly

    async def call(self, op: Op) -> Any:
        """Return the result of *op*."""
        loop = asyncio.get_running_loop()
        call = Call(op, loop.create_future(), contextvars.copy_context())
        waiting = self._waiting.get(loop)
        if waiting is not None:
            waiting.append(call)
        else:
            waiting = self._waiting[loop] = [call]
            worker = _detached.create_task(self._run_waiting(loop, waiting))
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)
        return await call.future

    async def _run_waiting(self, loop: asyncio.AbstractEventLoop, waiting: list[Call]) -> None:
        try:
            while waiting:
                calls = [call for call in waiting if not call.future.done()]
                waiting.clear()
                await self._run_calls(calls)
        finally:
            del self._waiting[loop]
            for call in waiting:  # the loop is being closed
                call.future.cancel()

    async def _run_calls(self, calls: list[Call]) -> None:
        if not calls:
            return
        try:
            ops = [call.op for call in calls]
            results = await asyncio.create_task(self._run_ops(ops), context=calls[0].context)
        except (TypeError, ValueError) as error:
            if len(calls) == 1:
                _fail_call(calls[0], error)
            else:  # an invalid operation must not fail the others
                for call in calls:
                    await self._run_alone(call)
        except Exception as error:  # noqa: BLE001 - raised in the tasks that wait
            for call in calls:
                _fail_call(call, error)
        except BaseException:
            for call in calls:
                call.future.cancel()
            raise
        else:
            for call, result in zip(calls, results, strict=True):
                if not call.future.done():
                    call.future.set_result(result)

    async def _run_alone(self, call: Call) -> None:
        try:
            (result,) = await asyncio.create_task(self._run_ops([call.op]), context=call.context)
        except Exception as error:  # noqa: BLE001 - raised in the task that waits
            _fail_call(call, error)
        else:
            if not call.future.done():
                call.future.set_result(result)

    async def _run_ops(self, ops: Sequence[Op]) -> list[Any]:
        run = self._run_of_store()
        assert run is not None, "the store of a waiting call was dropped"
        return await run(ops)


def _fail_call(call: Call, error: Exception) -> None:
    if not call.future.done():
        call.future.set_exception(error)
