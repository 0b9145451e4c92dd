"""An event loop in a thread of its own, and the threads that wait for what runs on it.

Knows nothing of what it runs: coroutines come in, their results go out.

A signal may interrupt a waiting thread after any call. So what must not be half done is done on the
loop, where no signal comes, or in statements without a call between them; and what ends something
can be done twice.
"""

from __future__ import annotations

import asyncio
import atexit
import inspect
import os
import threading
import weakref
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any, TypeVar

from memalchemy import _detached
from memalchemy.database.sqlite import forks

T = TypeVar("T")

NAME = "memalchemy-sync"
LAST_SECONDS = 5.0
"""Seconds that the end of a process, or of a block, waits for connections."""


class Caller:
    """A thread that waits for an operation, and meanwhile does what only it may do."""

    def __init__(self) -> None:
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()

    async def ask(self, job: Callable[[], T]) -> T:
        """On the loop: have the waiting thread run *job*."""
        future: Future[T] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                result = job()
            except Exception as error:  # noqa: BLE001 - handed to the operation that asked
                future.set_exception(error)
            else:
                future.set_result(result)

        self._jobs.put(work)
        return await asyncio.wrap_future(future)

    def serve(self, operation: _Operation) -> None:
        """Do the jobs that come, until the operation has ended."""
        while not operation.is_over:
            job = self._jobs.get()
            if job is not None:
                job()

    def release(self, operation: _Operation) -> None:
        """The operation has ended."""
        operation.is_over = True
        self._jobs.put(None)


class _Operation:
    """Work that a thread waits for, and whether it has ended."""

    is_over = False


class Held:
    """A hold on a `Runner`: of a call, which ends by itself, or of a block (transaction)."""

    runner: Runner

    def __init__(self, *, calls: int = 0, blocks: int = 0) -> None:
        self.calls: int = calls
        self.blocks: int = blocks
        self.is_held: bool = False

    def end(self) -> None:
        """Hold it no longer. Whoever is interrupted in it calls it again.

        The signal may come with the call, before any statement that could see to it here.
        """
        if hasattr(self, "runner"):
            self.runner.release(self)


class Runner:
    """One event loop in one daemon thread, until it is retired and nothing holds it any more.

    *finish* is awaited on the loop at the end, if `retire` says so.
    """

    def __init__(self, finish: Callable[[], Awaitable[None]]) -> None:
        self._loop = _detached.create_loop()
        self._executor = ThreadPoolExecutor(thread_name_prefix=f"{NAME}-work")
        self._loop.set_default_executor(self._executor)
        self._finish = finish
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._calls = self._blocks = 0
        self._is_retired = self._finishes = self._is_exiting = False
        self._is_stopping = self._is_ending = False
        self._pid = os.getpid()
        self._thread = _detached.create_thread(self._run_loop, name=NAME)
        _running.add(self)
        self._thread.start()

    def hold(self, held: Held) -> None:
        """Count a call or a block: both keep the thread."""
        with self._lock:
            held.runner = self
            self._calls += held.calls
            self._blocks += held.blocks
            held.is_held = True
            self._changed.notify_all()

    def release(self, held: Held) -> None:
        """Count it no longer, if it still counts."""
        with self._lock:
            if held.is_held:
                held.is_held = False
                self._calls -= held.calls
                self._blocks -= held.blocks
            self._stop_if_free()
            self._changed.notify_all()

    def run(self, work: Coroutine[Any, Any, T], caller: Caller) -> T:
        """Run *work* on the loop in the context of the calling thread, and wait for its end.

        An exception that reaches the waiting thread, as a KeyboardInterrupt does, cancels the
        work, waits until it has ended, and goes on.
        """
        operation = _Operation()
        if refusal := self._reason_to_refuse():
            work.close()
            if self._is_exiting and threading.current_thread().daemon:
                threading.Event().wait()  # the process leaves it behind, as it does any daemon
            raise RuntimeError(refusal)
        context = copy_context()
        before = dict(context)
        task: asyncio.Task[T] | None = None

        def done(_: object) -> None:
            if not self._is_exiting:
                caller.release(operation)

        def start() -> None:
            nonlocal task
            if self._is_ending:  # handed over by a thread that the process leaves behind
                work.close()
                return
            task = self._loop.create_task(work, context=context)
            task.add_done_callback(done)

        def cancel() -> None:
            if task is None:  # interrupted before it was handed over
                work.close()
                caller.release(operation)
            else:
                task.cancel()

        try:
            try:
                self._loop.call_soon_threadsafe(start)
                caller.serve(operation)
            except BaseException:
                self._loop.call_soon_threadsafe(cancel)
                caller.serve(operation)
                if task is not None and not task.cancelled():
                    task.exception()  # asked for, so that asyncio does not report it as forgotten
                raise
            assert task is not None
            return task.result()
        finally:
            task = None  # an error keeps this frame: it would keep itself, and the database, alive
            _adopt_context(context, before)

    def finalize(self, work: Coroutine[Any, Any, object], then: Callable[[], object]) -> None:
        """Run *work* for a finalizer, which any thread may run; call *then* at its end.

        Waits for that, except on the loop, and not for ever: the thread may hold what it needs.
        """
        ended = threading.Event()

        def begin() -> None:
            if self._is_ending:
                work.close()
            else:
                self._loop.create_task(work).add_done_callback(end)

        def end(task: asyncio.Task[object]) -> None:
            if not task.cancelled():
                task.exception()  # nobody is there to be told
            then()
            ended.set()

        if self._pid != os.getpid() or self._is_stopping:
            work.close()
            return
        self._loop.call_soon_threadsafe(begin)
        if threading.get_ident() != self._thread.ident:
            ended.wait(LAST_SECONDS)

    def retire(self, *, finishing: bool) -> None:
        """End the thread as soon as nothing holds it; await *finish* before that if *finishing*."""
        with self._lock:
            self._is_retired = True
            self._finishes = self._finishes or finishing
            self._stop_if_free()

    def settle(self) -> None:
        """Wait until all calls have ended, unless a block is open: they may be waiting for it."""
        with self._lock:
            self._changed.wait_for(lambda: not self._calls or self._blocks)

    def join(self) -> None:
        """Wait for a thread that is ending."""
        if self._is_stopping:
            self._thread.join()

    def end(self) -> None:
        """End the thread with the process, whatever holds it; wait, but not for ever."""
        with self._lock:
            self._finishes = self._finishes or not self._is_retired
            self._is_exiting = True
            self._stop_loop()
        self._thread.join(LAST_SECONDS)

    def pause(self) -> Callable[[], object]:
        """Stop between two steps, where nothing of the loop's holds a lock; call it to go on."""
        reached, go_on = threading.Event(), threading.Event()

        def wait() -> None:
            reached.set()
            go_on.wait()

        if threading.get_ident() != self._thread.ident and not self._is_stopping:
            self._loop.call_soon_threadsafe(wait)
            reached.wait(1)
        return go_on.set

    def _reason_to_refuse(self) -> str | None:
        if self._pid != os.getpid():
            return "a transaction belongs to the process that began it"
        if self._is_stopping:
            return "the process or the transaction that this belongs to has ended"
        if threading.get_ident() == self._thread.ident:
            return (
                "this would wait for itself: it was called by an event subscriber or a function "
                "given to run_sync, in the thread that all calls of this Database run in"
            )
        return None

    def _stop_if_free(self) -> None:
        if self._is_retired and not self._calls and not self._blocks:
            self._stop_loop()

    def _stop_loop(self) -> None:
        if not self._is_stopping:
            self._is_stopping = True
            self._loop.call_soon_threadsafe(self._loop.stop)

    def _run_loop(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._end_tasks())
        finally:
            self._executor.shutdown(wait=True)
            asyncio.set_event_loop(None)
            self._loop.close()
            _running.discard(self)

    async def _end_tasks(self) -> None:
        self._is_ending = True
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            task.cancel()
        # What is cancelled may begin something yet: a driver calls off its query and says goodbye.
        while left := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(left)
        if self._finishes:
            await self._finish()


def call(held_by: Runner | Loop, work: Coroutine[Any, Any, T], caller: Caller) -> T:
    """Run *work* on a runner, or on the present one of a loop, and wait for its end."""
    held = Held(calls=1)
    try:
        held_by.hold(held)
        return held.runner.run(work, caller)
    except BaseException:
        if inspect.getcoroutinestate(work) == inspect.CORO_CREATED:  # interrupted before
            work.close()
        raise
    finally:
        try:
            held.end()
        except BaseException:
            held.end()
            raise


class Loop:
    """The event loop of one `Database`: a `Runner` from the first use on, a new one after `close`.

    Any number of threads may use it; a forked process has a runner of its own. Nothing that runs
    refers to it: when the last who uses it drops it, the runner awaits *finish* and ends.
    """

    def __init__(self, finish: Callable[[], Awaitable[None]]) -> None:
        self._finish = finish
        self._lock = threading.Lock()
        self._runner: Runner | None = None
        self._dropped: weakref.finalize[Any, Loop] | None = None
        _loops.add(self)

    def hold(self, held: Held) -> None:
        """Hold the runner for a call or for a block."""
        with self._lock:
            if self._runner is None:
                self._runner = Runner(self._finish)
                self._dropped = weakref.finalize(self, self._runner.retire, finishing=True)
                self._dropped.atexit = False
            self._runner.hold(held)

    def close(self, work: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Let running calls end, run *work* and end the thread. Without a thread: nothing."""
        with self._lock:
            runner, self._runner = self._runner, None
            dropped, self._dropped = self._dropped, None
        if runner is None or dropped is None:
            return
        try:
            runner.settle()
            call(runner, work(), Caller())
        except BaseException:
            with self._lock:
                if is_free := self._runner is None:  # not closed: it stays in use
                    self._runner, self._dropped = runner, dropped
            if not is_free:
                dropped.detach()
                runner.retire(finishing=False)
            raise
        dropped.detach()
        runner.retire(finishing=False)
        runner.join()

    def reset(self) -> None:
        """In a forked process: the thread and whoever held the lock are not here."""
        self._lock = threading.Lock()
        self._runner = None
        if self._dropped is not None:
            self._dropped.detach()
            self._dropped = None


def _adopt_context(context: Context, before: dict[Any, Any]) -> None:
    """Set what an operation has set, such as which transaction is open, in the caller's context."""
    for variable, value in context.items():
        if variable not in before or before[variable] is not value:
            variable.set(value)


_running: set[Runner] = set()
_loops: weakref.WeakSet[Loop] = weakref.WeakSet()

# An inherited loop shares its selector with the parent's: to close it would be to break theirs.
_left_to_the_parent: list[Runner] = []
_paused: list[Callable[[], object]] = []


def _before_fork() -> None:
    forks.settle()
    _paused.extend([runner.pause() for runner in list(_running)])


def _in_the_parent() -> None:
    while _paused:
        _paused.pop()()


def _in_the_child() -> None:
    _paused.clear()
    _left_to_the_parent.extend(_running)
    _running.clear()
    for loop in list(_loops):
        loop.reset()


def _at_exit() -> None:
    for runner in list(_running):
        runner.end()


os.register_at_fork(
    before=_before_fork, after_in_parent=_in_the_parent, after_in_child=_in_the_child
)
atexit.register(_at_exit)
