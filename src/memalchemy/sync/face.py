"""Deriving a class without ``await`` from an asynchronous one. Knows no class by name.

A `Face` holds the asynchronous object and gives each public member of it in its blocking form: a
coroutine is waited for, an asynchronous iterator is pulled, an asynchronous context manager is a
plain one. Names, arguments, defaults and docstrings are those of the original.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import re
import weakref
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from types import GenericAlias, TracebackType
from typing import TYPE_CHECKING, Any, Generic, NoReturn, Self, TypeVar

from sqlalchemy import Engine
from sqlalchemy.ext.asyncio import AsyncConnection

from memalchemy.sync.host import HOSTS, Hosted, Transaction, runner_of
from memalchemy.sync.loop import Caller, Held, Loop, Runner, call

T = TypeVar("T")

AHEAD = 64
"""Items that an iterator asks for at once, at most, having given as many already."""

_WORDS: tuple[tuple[str, str | Callable[[re.Match[str]], str]], ...] = (
    (r"\basync (with|for|def)\b", r"\1"),
    (r"\bawait ", ""),
    (r"\*tx\* is an `AsyncConnection`", "*tx* is a `Transaction`"),
    (r"(an )?`Async(Connection|Session)`", lambda m: f"{'a ' if m[1] else ''}`{m[2]}`"),
)
_TYPES = (
    (r"\bAsync(Iterator|Generator)\b", "LazyIterator"),
    (r"\bAbstractAsyncContextManager\b", "AbstractContextManager"),
    (r"\bAsyncConnection\b", "Transaction"),
)

_faces: dict[type, type[Face]] = {}
_made: weakref.WeakValueDictionary[int, Face] = weakref.WeakValueDictionary()


class Face:
    """An object that works on an asynchronous one. Subclasses are made by `face`."""

    _of: type
    _async: Any
    _loop: Loop

    def __init__(self, *args: Any, **kw: Any) -> None:
        faces = [given for given in (*args, *kw.values()) if isinstance(given, Face)]
        made = self._of(*map(_to_async, args), **{k: _to_async(v) for k, v in kw.items()})
        self._attach_to(made, faces[0]._loop if faces else self._make_loop(made))

    def _attach_to(self, made: Any, loop: Loop) -> None:
        self._async, self._loop = made, loop
        _made[id(made)] = self

    def _make_loop(self, made: Any) -> Loop:
        name = type(self).__name__
        raise TypeError(f"{name} needs a Database of memalchemy.sync to work on")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return _to_face(getattr(self._async, name), self._loop)

    def __repr__(self) -> str:
        return repr(self._async)

    def _call(self, name: str, args: tuple[Any, ...], kw: dict[str, Any]) -> Any:
        """Call a method of the asynchronous object, and wait for what it gives."""
        connection = kw.get("connection")
        _check_connection(connection)
        caller = Caller()
        runner = runner_of(connection)
        result = getattr(self._async, name)(
            *(_to_async(a, caller) for a in args),
            **{k: _to_async(v, caller) for k, v in kw.items()},
        )
        if inspect.iscoroutine(result):
            return _to_face(wait(self._loop, runner, result, caller), self._loop)
        if isinstance(result, AsyncIterator):
            return LazyIterator(result, functools.partial(wait, self._loop, runner, caller=caller))
        if isinstance(result, AbstractAsyncContextManager) and type(result) not in _faces:
            return Block(result, self._loop)
        return _to_face(result, self._loop)


def wait(loop: Loop, runner: Runner | None, work: Coroutine[Any, Any, T], caller: Caller) -> T:
    """Run *work* on *runner*, or on the loop's present one."""
    return call(loop if runner is None else runner, work, caller)


class LazyIterator(Iterator[T], Generic[T]):
    """An asynchronous iterator, pulled as it is used: first one item, then as many as were used.

    `close` ends it early, and so does dropping it.
    """

    def __init__(self, items: AsyncIterator[T], run: Callable[[Coroutine[Any, Any, Any]], Any]):
        self._items = items
        self._run = run
        self._found: deque[T] = deque()
        self._count = 1
        self._has_more = True
        self._error: Exception | None = None

    def __next__(self) -> T:
        if not self._found and self._has_more:
            self._has_more = False  # unless what follows says otherwise
            found, self._has_more, self._error = self._run(_take_items(self._items, self._count))
            self._found.extend(found)
            self._count = min(2 * self._count, AHEAD)
        if self._found:
            return self._found.popleft()
        error, self._error = self._error, None
        raise StopIteration if error is None else error

    if not TYPE_CHECKING:  # a type checker says it better

        def __getitem__(self, index: object) -> NoReturn:
            raise TypeError(
                "this iterator reads while it is iterated, so it has no index: write list(…)[…]"
            )

    def close(self) -> None:
        """End it, and wait for what the asynchronous iterator still does then."""
        has_begun = self._count > 1  # each step doubles it
        is_open = has_begun and self._has_more
        self._found.clear()
        self._error = None
        self._has_more = False
        close = getattr(self._items, "aclose", None)
        if is_open and close is not None:
            self._run(_await(close()))


async def _take_items(
    items: AsyncIterator[T], count: int
) -> tuple[list[T], bool, Exception | None]:
    """Up to *count* items, whether there may be more, and the error that came after them."""
    found: list[T] = []
    try:
        while len(found) < count:
            found.append(await anext(items))
    except StopAsyncIteration:
        return found, False, None
    except Exception as error:  # noqa: BLE001 - raised after the items that came before it
        return found, False, error
    return found, True, None


async def _await(awaitable: Any) -> Any:
    return await awaitable


class Block(AbstractContextManager[Any]):
    """An asynchronous context manager, entered and left by a thread that waits."""

    _is_entered = _is_left = False

    def __init__(self, manager: AbstractAsyncContextManager[Any], loop: Loop) -> None:
        self._manager = manager
        self._loop = loop

    def __enter__(self) -> Any:
        self._held = Held(blocks=1)
        try:
            self._loop.hold(self._held)
            entered = self._run(self._enter())
            if isinstance(entered, AsyncConnection):
                return Transaction(entered, self._held.runner)
            return _to_face(entered, self._loop)
        except BaseException as error:
            if self._is_entered:  # interrupted behind it, and nobody calls __exit__
                self.__exit__(type(error), error, error.__traceback__)
            self._held.end()
            raise

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool | None:
        try:
            return bool(self._run(self._leave(kind, error, trace)))
        except BaseException as signal:
            if not self._is_left:  # interrupted before it
                self._run(self._leave(type(signal), signal, signal.__traceback__))
            raise
        finally:
            try:
                self._held.end()
            except BaseException:
                self._held.end()
                raise

    def __del__(self) -> None:
        """Leave what was entered, if a signal came with the call of `__exit__`."""
        if self._is_entered and not self._is_left:
            error = asyncio.CancelledError()
            self._held.runner.finalize(self._leave(type(error), error, None), self._held.end)

    async def _enter(self) -> Any:
        entered = await self._manager.__aenter__()
        self._is_entered = True
        return entered

    async def _leave(self, *error: Any) -> bool | None:
        self._is_left = True
        return await self._manager.__aexit__(*error)

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self._held.runner.run(work, Caller())


class Root(Face):
    """The face that others work on: the `Database`. It has the loop."""

    def _make_loop(self, made: Any) -> Loop:
        return Loop(functools.partial(made.identity.close, in_thread=False))

    def close(self) -> None:
        """Let running calls end, finish queued writes, close every connection and the thread.

        A later use opens anew.
        """
        self._loop.close(self._async.close)

    def __enter__(self) -> Self:
        try:
            self._call("__aenter__", (), {})
        except BaseException:
            self.close()  # nobody calls __exit__ after a failed __enter__
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


class Alone(Face):
    """The face of what works on no database."""

    def _make_loop(self, made: Any) -> Loop:
        return Loop(_do_nothing)


async def _do_nothing() -> None:
    pass


def face(of: type, base: type[Face] = Face) -> type[Any]:
    """The class without ``await`` of the asynchronous class *of*."""
    members: dict[str, Any] = {"_of": of}
    for name in dir(of):
        member = inspect.getattr_static(of, name)
        if name in ("__aenter__", "__aexit__"):
            members[name.replace("__a", "__")] = _make_method(of, member, calls=name)
        elif name.startswith("_") and name != "__init__":
            continue
        elif isinstance(member, property):
            members[name] = _make_property(member, name)
        elif inspect.isfunction(member):
            members[name] = _make_method(of, member, calls=name)
        else:
            members[name] = member
    members = {k: v for k, v in members.items() if k == "__init__" or k not in vars(base)}
    if hasattr(of, "__class_getitem__"):
        members["__class_getitem__"] = classmethod(GenericAlias)
    if getattr(of, "_is_container", False):
        members |= {"__contains__": _contains, "__len__": _count, "__iter__": _keys}
    home = {
        "__module__": __package__,
        "__qualname__": of.__name__,
        "__doc__": sync_docstring(of.__doc__),
    }
    made = type(of.__name__, (base,), members | home)
    _faces[of] = made
    return made


def _contains(self: Any, key: object) -> bool:
    """`exists`."""
    return bool(self.exists(key))


def _count(self: Any) -> int:
    """`count`."""
    return int(self.count())


def _keys(self: Any) -> Iterator[str]:
    """`keys`."""
    return iter(self.keys())


def sync_docstring(text: str | None) -> str | None:
    """A docstring as it reads where there is no ``await``."""
    for pattern, replacement in _WORDS:
        text = text and re.sub(pattern, replacement, text)
    return text


def plain_type(annotation: Any) -> Any:
    """The annotation of what was of an asynchronous type."""
    if isinstance(annotation, str):
        for pattern, replacement in _TYPES:
            annotation = re.sub(pattern, replacement, annotation)
    return annotation


def _make_method(of: type, function: Callable[..., Any], *, calls: str) -> Callable[..., Any]:
    if calls == "__init__":

        def method(self: Face, *args: Any, **kw: Any) -> Any:
            Face.__init__(self, *args, **kw)

    else:

        def method(self: Face, *args: Any, **kw: Any) -> Any:
            return self._call(calls, args, kw)

    given = inspect.signature(function)
    parameters = [p.replace(annotation=plain_type(p.annotation)) for p in given.parameters.values()]
    returned = plain_type(given.return_annotation)
    method.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        parameters, return_annotation=returned
    )
    method.__name__ = calls.replace("__ae", "__e")
    method.__qualname__ = f"{of.__name__}.{method.__name__}"
    method.__module__ = __package__
    method.__doc__ = sync_docstring(function.__doc__)
    return method


def _make_property(original: property, name: str) -> property:
    def read(self: Face) -> Any:
        return _to_face(getattr(self._async, name), self._loop)

    return property(read, doc=sync_docstring(original.__doc__))


def _to_async(value: Any, caller: Caller | None = None) -> Any:
    """Return *value* in the form that the asynchronous side takes."""
    if isinstance(value, Face):
        return value._async
    if isinstance(value, Transaction):
        return value._connection
    if caller is not None and isinstance(value, HOSTS):
        return Hosted(value, caller)
    if isinstance(value, Engine):
        raise TypeError("give the engine's URL, and its connections and sessions as connection=")
    return value


def _to_face(value: Any, loop: Loop) -> Any:
    """Return the face of *value* if its class has one, else *value*."""
    of = _faces.get(type(value))
    if of is None:
        return value
    found = _made.get(id(value))
    if found is None or found._async is not value:
        found = object.__new__(of)
        found._attach_to(value, loop)
    return found


def _check_connection(connection: Any) -> None:
    if connection is not None and not isinstance(connection, (*HOSTS, Transaction)):
        raise TypeError(
            "connection= takes a Connection or Session of SQLAlchemy's, or what db.transaction() "
            f"gives, not {type(connection).__name__}"
        )
