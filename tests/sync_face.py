"""The synchronous face under asynchronous tests: `--face sync` runs the behavioural suite on it.

Every call is made in a thread of its own, as programs with threads make it, in the context of the
task that awaits it. A connection of a host's is asynchronous in those tests; its synchronous twin
is used where SQLAlchemy allows that, in `run_sync`.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from contextvars import copy_context
from typing import Any

from sqlalchemy.ext.asyncio import AsyncConnection, AsyncSession

import memalchemy
from memalchemy import sync
from memalchemy.sync.face import Face

# As many as a test has tasks: one that waits for the writer must not keep another from working.
_threads = ThreadPoolExecutor(256, thread_name_prefix="test-caller")


async def in_a_thread(work: Callable[[], Any]) -> Any:
    """Run *work* in a thread; what it sets in its context is set in the task's."""
    context = copy_context()
    before = dict(context)
    try:
        return await asyncio.get_running_loop().run_in_executor(_threads, context.run, work)
    finally:
        for variable, value in context.items():
            if before.get(variable, variable) is not value:
                variable.set(value)


async def on(connection: Any, call: Callable[..., Any]) -> Any:
    """Call with what stands for *connection* on the synchronous face, if there is one."""
    if isinstance(connection, AsyncSession | AsyncConnection):
        return await connection.run_sync(lambda theirs: call(connection=theirs))
    given = {} if connection is None else {"connection": _face(connection)}
    return await in_a_thread(lambda: call(**given))


class Shim:
    """An asynchronous class over a synchronous one."""

    _class: Any

    def __init__(self, *args: Any, **kw: Any) -> None:
        self._face = self._class(*map(_face, args), **{k: _face(v) for k, v in kw.items()})

    def __getattr__(self, name: str) -> Any:
        # What a test reaches for behind the public names is the asynchronous object's.
        return _shim(getattr(self._face._async if name.startswith("_") else self._face, name))

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "_face":
            object.__setattr__(self, name, value)
        else:
            setattr(self._face._async, name, value)

    def __repr__(self) -> str:
        return repr(self._face)

    async def __aenter__(self) -> Any:
        await in_a_thread(self._face.__enter__)
        return self

    async def __aexit__(self, *error: Any) -> Any:
        return await in_a_thread(lambda: self._face.__exit__(*error))


class Transaction:
    """A `sync.Transaction`, or a savepoint of one, as the `AsyncConnection` that tests expect."""

    def __init__(self, face: Any) -> None:
        self._face = face

    def __getattr__(self, name: str) -> Any:
        async def method(*args: Any, **kw: Any) -> Any:
            result = await in_a_thread(lambda: getattr(self._face, name)(*args, **kw))
            return Transaction(result) if isinstance(result, sync.Savepoint) else result

        return method


def shim(synchronous: Any) -> Any:
    """The asynchronous class over *synchronous*."""
    of = synchronous._of
    members: dict[str, Any] = {"_class": synchronous, "__doc__": of.__doc__}
    members["__class__"] = property(lambda self: of)  # `isinstance` goes by it
    members["__module__"] = of.__module__
    for name in dir(of):
        member = inspect.getattr_static(of, name)
        if name.startswith("_"):
            continue
        if not inspect.isfunction(member):
            members[name] = property(lambda self, name=name: _shim(getattr(self._face, name)))
        elif inspect.iscoroutinefunction(member):
            members[name] = _coroutine(name)
        elif inspect.isasyncgenfunction(member):
            members[name] = _generator(name)
        elif name in ("transaction", "snapshot"):
            members[name] = _block(name)
        else:
            members[name] = _plain(name)
        if inspect.isfunction(member):
            # Tests ask methods what parameters they take.
            functools.update_wrapper(members[name], member)
    return type(of.__name__, (Shim,), members)


def _coroutine(name: str) -> Any:
    async def method(self: Shim, *args: Any, connection: Any = None, **kw: Any) -> Any:
        call = functools.partial(getattr(self._face, name), *args, **kw)
        return _shim(await on(connection, call))

    return method


def _generator(name: str) -> Any:
    async def method(self: Shim, *args: Any, connection: Any = None, **kw: Any) -> Any:
        end = object()
        items = await on(connection, functools.partial(getattr(self._face, name), *args, **kw))
        while (item := await on(connection, lambda **_: next(items, end))) is not end:
            yield item

    return method


def _plain(name: str) -> Any:
    def method(self: Shim, *args: Any, **kw: Any) -> Any:
        return _shim(getattr(self._face, name)(*args, **kw))

    return method


def _block(name: str) -> Any:
    @asynccontextmanager
    async def method(self: Shim) -> AsyncIterator[Transaction]:
        block = getattr(self._face, name)()
        tx = await in_a_thread(block.__enter__)
        try:
            yield Transaction(tx)
        except BaseException as error:
            leave = functools.partial(block.__exit__, type(error), error, error.__traceback__)
            await in_a_thread(leave)
            raise
        else:
            await in_a_thread(lambda: block.__exit__(None, None, None))

    return method


def _face(value: Any) -> Any:
    return value._face if isinstance(value, Shim | Transaction) else value


def _shim(value: Any) -> Any:
    if not isinstance(value, Face):
        return value
    made = object.__new__(_shims[type(value)])
    made._face = value
    return made


_shims: dict[type, Any] = {}


def put_under_the_tests() -> None:
    """Let `memalchemy` give the shims, to whoever imports from it afterwards."""
    for name in sync.__all__:
        synchronous = getattr(sync, name)
        if isinstance(synchronous, type) and issubclass(synchronous, Face):
            _shims[synchronous] = shim(synchronous)
            setattr(memalchemy, name, _shims[synchronous])
