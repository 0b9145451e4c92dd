"""Events for observers: one for each operation, one for each statement; never a value.

`subscribe` is enough for metrics, `observe` also tells when an operation begins, for tracing, and
`subscribe_statements` is for a log of SQL. Callbacks
run in the thread or task that did the work and should be quick. One that raises is logged and
misses that event only: an observer cannot break a save.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Event:
    """One finished operation.

    The names are ``checkpoint.`` and ``save``, ``load``, ``write`` (of pending writes),
    ``set_metadata``, ``delete``, ``search``, ``fork``, ``copy``, ``prune``, ``purge``, ``vacuum``,
    ``sweep``, ``rewrite``, ``forget`` or ``export``; ``store.`` and ``put``, ``get``, ``refresh``,
    ``delete``, ``list``, ``search``, ``clear``, ``sweep``, ``forget`` or ``reembed``; ``thread.``
    and ``append``, ``read``, ``pop``, ``replace``, ``remove``, ``edit``, ``clear``, ``delete``,
    ``fork`` or ``search``; ``memory.conversation.added``, ``.pruned`` and ``.purged``;
    ``memory.exchange.begun``, ``.committed`` and ``.aborted``; ``memory.compactor.triggered`` and
    ``.completed``; ``memory.manager.`` and ``memory.facts.``, each with ``injected``, ``extracted``
    or ``extract_failed``; ``database.`` and ``retry``, ``reclaim``, ``text_index_set_aside``,
    ``replica_lost`` or ``replica_back``; or ``http.retry``, ``http.request``, ``transfer.copy``,
    ``rotation``, ``words``, ``verify``.

    ``payload_bytes`` is what was stored or read, which is 0 where a load found the state in memory;
    ``state_bytes`` is the size of the decoded state,
    ``round_trips`` the number of requests to the database, ``seconds`` wall time. ``error`` is the
    class name of the exception that ended the operation, if one did; ``details`` has counts, such
    as how many were ``removed``. ``carrier`` is the headers in which a request to the HTTP server
    named the trace that it is a part of.
    """

    name: str
    tenant: str | None = None
    thread_id: str | None = None
    checkpoint_id: str | None = None
    payload_bytes: int = 0
    state_bytes: int = 0
    round_trips: int = 0
    cache_hit: bool | None = None
    seconds: float = 0.0
    error: str | None = None
    details: dict[str, object] = field(default_factory=dict)
    carrier: Mapping[str, str] | None = None


Subscriber = Callable[[Event], None]
_subscribers: tuple[Subscriber, ...] = ()


def subscribe(callback: Subscriber) -> Callable[[], None]:
    """Call *callback* with each `Event` of this process; return a function that ends this."""
    global _subscribers
    _subscribers = (*_subscribers, callback)

    def unsubscribe() -> None:
        global _subscribers
        _subscribers = tuple(s for s in _subscribers if s is not callback)

    return unsubscribe


Observer = Callable[[Event], Subscriber]
_observers: tuple[Observer, ...] = ()


def observe(begin: Observer) -> Callable[[], None]:
    """Call *begin* as each operation begins, and what it returns when that operation ends.

    Both are called with the same `Event`: at the beginning its names are known, the rest at the
    end. An event without a duration, such as a retry, begins and ends at once. Returns a function
    that ends this.
    """
    global _observers
    _observers = (*_observers, begin)

    def unsubscribe() -> None:
        global _observers
        _observers = tuple(s for s in _observers if s is not begin)

    return unsubscribe


def publish(event: Event) -> None:
    """Hand *event* to every subscriber, and to every observer as one that has ended."""
    _notify((*_tell_observers(event), *_subscribers), event, event.name)


def _tell_observers(event: Event) -> tuple[Subscriber, ...]:
    """Tell observers that an operation begins; return what they want to be called at its end."""
    ends: list[Subscriber] = []
    for observer in _observers:
        try:
            ends.append(observer(event))
        except Exception:  # noqa: BLE001 - logged: an observer must not break the operation it sees
            _log.exception("an observer raised at the beginning of %s", event.name)
    return tuple(ends)


@dataclass(frozen=True, slots=True)
class StatementEvent:
    """One SQL statement that memalchemy has sent, whichever way it went to the driver.

    ``sql`` is the text with placeholders, without the bound values. ``database`` is the name of
    SQLAlchemy's dialect, also for a third party's that builds on it; ``seconds`` the wall time
    until its rows were read, ``error`` the class name of the exception that it ended with.
    ``statement`` is SQLAlchemy's construct, if there was one. Statements that the host sends on its
    own connections are not included, and BEGIN and COMMIT only where memalchemy sends them itself,
    and not a driver.
    """

    sql: str
    database: str
    driver: str
    seconds: float
    error: str | None = None
    statement: Any = field(default=None, repr=False)


StatementSubscriber = Callable[[StatementEvent], None]

statement_subscribers: list[StatementSubscriber] = []
"""The callbacks that get each statement. While there is none, no event is made."""


def subscribe_statements(callback: StatementSubscriber) -> Callable[[], None]:
    """Call *callback* with each `StatementEvent` of this process; return a function that ends this.

    SQLAlchemy's own hooks miss the statements that go straight to a driver; this one does not.
    """
    statement_subscribers.append(callback)

    def unsubscribe() -> None:
        statement_subscribers[:] = [s for s in statement_subscribers if s is not callback]

    return unsubscribe


def publish_statement(event: StatementEvent) -> None:
    """Hand *event* to every subscriber to statements."""
    _notify(tuple(statement_subscribers), event, "a statement")


def _notify(subscribers: tuple[Callable[[Any], None], ...], event: Any, name: str) -> None:
    for subscriber in subscribers:
        try:
            subscriber(event)
        except Exception:  # noqa: BLE001 - logged: an observer must not break the operation it sees
            _log.exception("an event subscriber raised on %s", name)


class operation:  # noqa: N801 - called as a function is: ``with operation("store.put") as event``
    """Block that is timed; its event is published at its end, with the error that ended it."""

    __slots__ = ("_ends", "_event", "_started")

    def __init__(self, name: str, **known: Any) -> None:
        self._event = Event(name, **known)

    def __enter__(self) -> Event:
        self._ends = _tell_observers(self._event) if _observers else ()
        self._started = time.perf_counter()
        return self._event

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._ends or _subscribers:
            if kind is not None:
                self._event.error = kind.__name__
            self._event.seconds = time.perf_counter() - self._started
            _notify((*self._ends, *_subscribers), self._event, self._event.name)
