"""Base of the adapters: opens and closes their database, and serves callers without ``await``."""

from __future__ import annotations

import functools
import inspect
import os
import re
import weakref
from collections import OrderedDict
from collections.abc import (
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
    Iterator,
    Sequence,
)
from contextlib import contextmanager
from datetime import datetime
from typing import Any, ClassVar, Concatenate, ParamSpec, Self, TypeVar, overload

from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError
from sqlalchemy.ext.asyncio import AsyncEngine

from memalchemy import _fork_safe_locks, sync
from memalchemy._environment import URL_VARIABLE, schema_of_environment
from memalchemy.contracts import NewItem, StoreItem
from memalchemy.database import Database, HostConnection
from memalchemy.errors import DriverMissing
from memalchemy.keys import check_namespace
from memalchemy.store import Store
from memalchemy.sync.face import LazyIterator
from memalchemy.sync.face import wait as wait_on_loop
from memalchemy.sync.loop import Caller, Loop

A = TypeVar("A", bound="Adapter")
P = ParamSpec("P")
T = TypeVar("T")

IN_MEMORY = "sqlite://"
_IN_MEMORY_SPELLINGS = (IN_MEMORY, f"{IN_MEMORY}/:memory:", "sqlite::memory:")
PAGE = 500

AnyDatabase = Database | sync.Database | AsyncEngine | URL | str | os.PathLike[str]
"""The kinds of ``db`` that every adapter takes."""

_NOT_A_PATH = re.compile(r"[A-Za-z][\w+.-]+[:=]")
"""Beginning of a URL, of a mistyped one, or of libpq's ``host=… password=…``."""
_RELATIVE = re.compile(r"sqlite[^:]*:(?:///)?(?!/)")
"""Beginning of the URL of a SQLite file in the current directory, or below it."""

KEPT = 16
"""The most databases that stay open for the next object with their URL."""

_opened: weakref.WeakValueDictionary[object, Database] = weakref.WeakValueDictionary()
_kept: OrderedDict[object, tuple[Database, Loop]] = OrderedDict()
"""The databases of `_opened` that were used last: they outlive the objects of a request."""
_loops: weakref.WeakKeyDictionary[object, weakref.ref[Loop]] = weakref.WeakKeyDictionary()
_lock = _fork_safe_locks.create_lock()


class Adapter:
    """Base of the classes that replace a framework's own storage.

    Args:
        db: a URL (``sqlite:///agent.db``, ``postgresql://…``), the path of a SQLite file
            (``":memory:"`` means one in memory), a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        namespace: keeps this object's data apart from that of others of the same framework.

    Construction does no I/O and needs no event loop. An adapter owns the `Database` that it makes
    of a URL, a path, an engine or the default: it closes it, and opens it again on a later use. It
    never closes a `Database` that it was given, and never disposes of an engine. An engine whose
    pool serves one event loop only does not serve methods without ``await``, which run in another.
    """

    root: ClassVar[str]
    """First part of every namespace of the framework, as its `AdapterDeclaration` has it."""
    shares_databases: ClassVar[bool] = False
    """Share one `Database` among the objects with the same URL, path or engine, for classes of
    which an application makes one object per request. That of a URL or a path outlives them."""

    db: Database
    """The database, asynchronous."""
    namespace: tuple[str, ...]
    """``root`` and the namespace that was given."""

    def __init__(self, db: AnyDatabase | None = None, *, namespace: Iterable[str] = ()) -> None:
        self.namespace = (self.root, *check_namespace(namespace))
        self._owns_db = not isinstance(db, Database | sync.Database)
        if isinstance(db, sync.Database):
            given: Any = db
            self.db, self._loop = given._async, given._loop
        else:
            self.db = db if isinstance(db, Database) else self._open_database(db)
            self._loop = _loop_of(self.db, owned=self._owns_db)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.db!r})"

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end and return its result, for callers without ``await``.

        The coroutine runs in a thread that all adapters on one database share. This may be called
        from any thread; if the thread has a running event loop, the loop is blocked meanwhile.
        """
        return wait_on_loop(self._loop, None, work, Caller())

    async def aclose(self) -> None:
        """Close the database if this object owns it: the connections of this loop and of `wait`.

        A later use opens them again. A database in memory is gone.
        """
        if self._owns_db:
            await self.db.close()
            self._loop.close(self.db.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def translate(self, error: Exception) -> Exception | None:
        """Return the framework's exception for *error*, or ``None`` to let *error* through."""
        return None

    @contextmanager
    def translated_errors(self) -> Iterator[None]:
        """Raise the framework's exceptions in place of those that the block raises."""
        try:
            yield
        except Exception as error:
            translated = self.translate(error)
            if translated is None:
                raise
            raise translated from error

    def _open_database(self, given: object) -> Database:
        target = _target_of(given, type(self).__name__)
        schema = None
        if given is None and isinstance(target, str):
            schema = schema_of_environment(target)
        if not self.shares_databases or str(target) in _IN_MEMORY_SPELLINGS:
            return Database(target, schema=schema)
        # A relative path means another file in another directory.
        relative = _RELATIVE.match(str(target))
        key = (target, schema, os.getcwd() if relative else None)
        with _lock:
            found = _opened.get(key)
            if found is None:
                found = _opened[key] = Database(target, schema=schema)
        if not isinstance(target, AsyncEngine):  # a host may drop its engine
            _keep_open(key, found)
        return found


class SyncAdapter(Adapter):
    """Base of adapters whose framework calls them, and closes them, without ``await`` too."""

    def close(self) -> None:
        """Close the database if this object owns it: the connections of methods without ``await``.

        A later use opens them again. A database in memory is gone.
        """
        if self._owns_db:
            self._loop.close(self.db.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


@overload
def blocking(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[A, P], T]: ...
@overload
def blocking(
    method: Callable[Concatenate[A, P], AsyncIterator[T]],
) -> Callable[Concatenate[A, P], Iterator[T]]: ...
def blocking(method: Callable[..., Any]) -> Callable[..., Any]:
    """Derive the method without ``await`` from an asynchronous one: ``put = blocking(aput)``.

    It has the same arguments and the same result; an asynchronous iterator becomes a plain one,
    which reads as it is used. It follows an override of *method* in a subclass.

    A class that is no pydantic model declares it ``Final``: type checkers infer the type of such a
    name in the same way, and a subclass overrides *method* in its place.
    """
    name = method.__name__

    def call(self: Adapter, *args: Any, **options: Any) -> Any:
        result = getattr(self, name)(*args, **options)
        if isinstance(result, AsyncIterator):
            return LazyIterator(result, self.wait)
        return self.wait(result)

    signature = inspect.signature(method)
    returned = str(signature.return_annotation).replace("AsyncIterator", "Iterator")
    functools.update_wrapper(call, method)
    call.__signature__ = signature.replace(return_annotation=returned)  # type: ignore[attr-defined]
    return call


async def paged(read: Callable[[T | None, int], Awaitable[Sequence[T]]]) -> AsyncIterator[T]:
    """Iterate over a listing page by page.

    *read* is called with the last element of the page before, ``None`` at first, and with the size
    of a page.
    """
    page: Sequence[T] = await read(None, PAGE)
    while page:
        for element in page:
            yield element
        page = await read(page[-1], PAGE) if len(page) == PAGE else ()


async def end_items(
    store: Store, items: Iterable[StoreItem], end: datetime | None, connection: HostConnection
) -> None:
    """Let items that belong to a log end when the log does, or with ``None`` never.

    Their values, metadata and times stay. The transaction of *connection* holds the log.
    """
    later = [
        NewItem(
            item.namespace,
            item.key,
            item.value,
            item.metadata,
            index=False,
            created_at=item.created_at,
            updated_at=item.updated_at,
            expires_at=end,
        )
        for item in items
        if item.expires_at != end
    ]
    if later:
        await store.put_batch(later, connection=connection)


@contextmanager
def requires(package: str, *, extra: str, module: str) -> Iterator[None]:
    """Import a framework in the block; say which extra of memalchemy installs it if it is missing.

    Raises:
        DriverMissing: there is no *module*, which *package* has.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != module:
            raise
        raise DriverMissing(package, extra, what="package") from error


def text_without_password(given: object) -> str | None:
    """Return a URL or a path as text; ``None`` of a database, an engine, or a URL with a password.

    For frameworks that write their objects into files.
    """
    if isinstance(given, os.PathLike):
        return str(os.fspath(given))
    if not isinstance(given, str | URL):
        return None
    if isinstance(given, str) and re.match(r"sqlite(\+\w+)?:///", given):
        return given  # its path is not for SQLAlchemy to decode
    try:
        url = make_url(given)
    except ArgumentError:  # a path
        return str(given)
    has_password = url.password is not None or any("password" in name for name in url.query)
    return None if has_password else str(url)


def _target_of(given: object, adapter: str) -> str | URL | AsyncEngine:
    """Return what `Database` takes for *given*.

    Raises:
        TypeError: it names no database. Its value is not shown: there may be a password in it.
    """
    if given is None:
        return os.environ.get(URL_VARIABLE) or IN_MEMORY
    if given == ":memory:":
        return IN_MEMORY
    if isinstance(given, os.PathLike):
        return URL.create("sqlite", database=os.fspath(given))
    if isinstance(given, str) and given and not _NOT_A_PATH.match(given):
        return URL.create("sqlite", database=given)
    if isinstance(given, str | URL | AsyncEngine):
        return given
    raise TypeError(
        f"{adapter} takes a URL, a path, a memalchemy.Database, a memalchemy.sync.Database or an "
        f"AsyncEngine, not {type(given).__qualname__}"
    )


def _keep_open(key: object, db: Database) -> None:
    """Keep *db* open for the next object with its URL; drop the one that waits longest for one."""
    loop = _loop_of(db, owned=True)
    dropped: list[object] = []  # nothing ends under the lock
    with _lock:
        _kept[key] = db, loop
        _kept.move_to_end(key)
        while len(_kept) > KEPT:
            dropped.append(_kept.popitem(last=False))


def _loop_of(db: Database, *, owned: bool) -> Loop:
    """Return the loop on which all adapters on one database serve callers without ``await``."""
    with _lock:
        known = _loops.get(db.identity)
        loop = None if known is None else known()
        if loop is None:
            loop = Loop(functools.partial(_close_loop_connections, db, owned))
            _loops[db.identity] = weakref.ref(loop)
        return loop


async def _close_loop_connections(db: Database, is_owned: bool) -> None:
    """Close the connections of a loop that is about to end.

    Args:
        is_owned: the adapter has opened the database, so all of it is closed.
    """
    backend: Any = db.identity
    if is_owned:
        await backend.close(in_thread=False)  # a process that ends cannot start a thread
    elif not db.dialect.single_writer:  # SQLite's connections are those of the whole process
        await db.close()
