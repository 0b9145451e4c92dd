"""`MemalchemySessionService`: ADK's sessions as logs of events, and their state as items."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Any
from weakref import WeakValueDictionary

from google.adk.errors import StaleSessionError
from google.adk.errors.already_exists_error import AlreadyExistsError
from google.adk.errors.session_not_found_error import SessionNotFoundError
from google.adk.events import Event
from google.adk.platform import time as platform_time
from google.adk.platform import uuid as platform_uuid
from google.adk.sessions import BaseSessionService, Session, State
from google.adk.sessions.base_session_service import GetSessionConfig, ListSessionsResponse

from memalchemy.contracts import MAX_LIMIT, NewItem, StoreItem
from memalchemy.database import HostConnection
from memalchemy.errors import Conflict
from memalchemy.integrations._base import AnyDatabase
from memalchemy.integrations._stored_forms import StoredForm
from memalchemy.integrations._values import dumped, storable
from memalchemy.integrations.google_adk._adapter import GoogleADKAdapter
from memalchemy.keys import MAX_ENTRY_KEY_CHARACTERS, check_thread_id, encode_id
from memalchemy.store import Store
from memalchemy.threads import ThreadLog

SESSION = "session"
"""The key of a session's own item; those of its state begin with ``:``."""

STALE = (
    "The session has been modified in storage since it was loaded. Reload it before appending "
    "more events."
)
_SESSION = StoredForm("session of Google ADK")
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EARLIEST, LATEST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)


class MemalchemySessionService(GoogleADKAdapter, BaseSessionService):
    """Sessions that any number of processes share.

    An event is appended with its changes of state in one transaction, whole or not at all. It is
    refused if another process has appended to the session since it was loaded. Events are in the
    order in which they were appended. State of an app and of a user has no owner: changes of
    different keys do not wait for each other, and of two changes of one key the later one counts.
    Every read builds new objects. Values that memalchemy stores, such as bytes, tuples, datetimes
    and NaN, come back as they are; others, such as enums and models, as JSON has them.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        namespace: keeps the sessions of several services apart in one database.
        index_text: make the words of events findable with `search` of the log.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        TooLarge: the id of a session is over 255 characters, a key of state over 254, or the names
            of app, user and session have over 450 bytes together.
    """

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        namespace: Iterable[str] = (),
        index_text: bool = True,
    ) -> None:
        super().__init__(db, namespace=namespace)
        # A session is read as a list of items: from the primary, which has what was just written.
        self.store: Store = Store(
            self.db.primary(), index_text=False, index_metadata=("update_time",)
        )
        """The sessions and their state, and that of apps and users."""
        self._index_text = index_text
        self._turns: WeakValueDictionary[int, asyncio.Lock] = WeakValueDictionary()

    def log(self, app_name: str, user_id: str) -> ThreadLog:
        """Return the log with the events of a user's sessions: a thread for each session."""
        namespace = (*self.namespace, "events", app_name, user_id)
        return ThreadLog(self.db, namespace=namespace, index_text=self._index_text)

    async def create_session(
        self,
        *,
        app_name: str,
        user_id: str,
        state: dict[str, Any] | None = None,
        session_id: str | None = None,
    ) -> Session:
        """Create a session, and apply *state* to the app, the user and the session.

        Without *session_id*, or if it is blank, the id is a new one. Spaces around it are removed.

        Raises:
            AlreadyExistsError: ADK's: the user has a session with that id; nothing was changed.
        """
        id_ = check_thread_id((session_id or "").strip() or platform_uuid.new_uuid())
        now = platform_time.get_time()
        delta = _storable_state(state or {})
        namespace = self._namespace_of_session(app_name, user_id, id_)
        try:
            async with self.db.transaction() as tx:
                await self.store.put(
                    namespace, SESSION, {"update_time": now}, expected_version=None, connection=tx
                )
                await self._change_state((app_name, user_id, id_), delta, tx)
        except Conflict as conflict:
            raise AlreadyExistsError(f"Session with id {id_} already exists.") from conflict
        created = await self.get_session(app_name=app_name, user_id=user_id, session_id=id_)
        if created is None:
            raise SessionNotFoundError(f"Session {id_} not found.")
        return created

    async def get_session(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        config: GetSessionConfig | None = None,
    ) -> Session | None:
        """Return a session with its events and its merged state, or ``None``.

        Of *config*, ``num_recent_events`` selects the newest events, and ``after_timestamp`` those
        of them that are not older.
        """
        id_ = session_id.strip()
        namespace = self._namespace_of_session(app_name, user_id, id_)
        # The session comes first: if another process appends meanwhile, the session that is
        # returned counts as stale, because its marker is the earlier one.
        items = await self.store.list_items(namespace, limit=MAX_LIMIT, order="key")
        own = next((item for item in items if item.key == SESSION), None)
        if own is None:
            return None
        events = await self._read_events(
            self.log(app_name, user_id), id_, config or GetSessionConfig()
        )
        app, user = await self._read_shared_state(app_name, user_id)
        return _to_session(own, _own_state(items) | app | user, events)

    async def list_sessions(
        self, *, app_name: str, user_id: str | None = None
    ) -> ListSessionsResponse:
        """Return the sessions of a user, or of all, with their state and without events.

        The session that was updated last is the last one.
        """
        users = () if user_id is None else (user_id,)
        top = (*self.namespace, "sessions", app_name, *users)
        found: dict[tuple[str, ...], list[StoreItem]] = {}
        async for item in self.store.iter_items(top, prefix=True, order="key"):
            found.setdefault(item.namespace, []).append(item)
        app = await self._read_state(("apps", app_name), State.APP_PREFIX)
        user_states: dict[str, dict[str, Any]] = {}
        of_users = (*self.namespace, "users", app_name, *users)
        async for item in self.store.iter_items(of_users, prefix=True, order="key"):
            state = user_states.setdefault(item.namespace[-1], {})
            state[State.USER_PREFIX + item.key] = item.value
        sessions = [
            _to_session(own, _own_state(items) | app | user_states.get(own.namespace[-2], {}), [])
            for items in found.values()
            for own in items
            if own.key == SESSION
        ]
        sessions.sort(key=lambda one: (one.last_update_time, one.user_id, one.id))
        return ListSessionsResponse(sessions=sessions)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session with its events and its own state, if it is there."""
        id_ = session_id.strip()
        async with self.db.transaction() as tx:
            await self.store.clear_namespace(
                self._namespace_of_session(app_name, user_id, id_), connection=tx
            )
            await self.log(app_name, user_id).delete(id_, connection=tx)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """Return the state of a user, without the prefix ``user:``."""
        return await self._read_state(("users", app_name, user_id), "")

    async def append_event(self, session: Session, event: Event) -> Event:
        """Append an event to a session, and its changes of state to their three scopes.

        A partial event is returned as it is. State with the prefix ``temp:`` reaches the session in
        memory alone. An event that the session has already, by its id, is not appended again, nor
        are its changes of state applied, however much of the session was loaded. Calls for one
        session object take turns.

        Raises:
            AlreadyExistsError: ADK's: the session has another event with that id; nothing was
                changed.
            StaleSessionError: ADK's: *session* is not what is stored; nothing was changed.
            SessionNotFoundError: ADK's: there is no such session.
            NotSerialisable, TooLarge: the event cannot be stored; nothing was changed.
        """
        if event.partial:
            return event
        async with self._turn(session):
            try:
                for one in session.events:
                    if one.id == event.id:
                        raise _AlreadyStored(to_stored(one))
                await self._store_event(session, event)
            except _AlreadyStored as known:
                _check_same(event, known.value)
                session.state.update(_temporary_state(event))
                return event
            return await super().append_event(session, event)

    async def _store_event(self, session: Session, event: Event) -> None:
        id_ = session.id.strip()
        app_name, user_id = session.app_name, session.user_id
        stored = to_stored(event)
        log = self.log(app_name, user_id)
        namespace = self._namespace_of_session(app_name, user_id, id_)
        update = {"update_time": event.timestamp}
        try:
            async with self.db.transaction() as tx:
                expected = _expected_item(session) or await self._item_without_marker(
                    session, log, tx
                )
                version = await self.store.put(
                    namespace, SESSION, update, expected_version=expected, connection=tx
                )
                await self._append_event(log, id_, event, stored, tx)
                delta = stored["actions"]["state_delta"]
                await self._change_state((app_name, user_id, id_), delta, tx)
        except Conflict as conflict:
            if conflict.current is None:
                raise SessionNotFoundError(f"Session {id_} not found.") from conflict
            raise StaleSessionError(STALE) from conflict
        session.last_update_time = event.timestamp
        session._storage_update_marker = _marker_of(version, expected.created_at)

    async def _append_event(
        self, log: ThreadLog, id_: str, event: Event, stored: dict[str, Any], tx: HostConnection
    ) -> None:
        """Append an event under its id.

        Raises:
            _AlreadyStored: the session has an event with that id.
        """
        key = event_key(event.id)
        at = moment(event.timestamp)
        try:
            await log.append(
                id_, [stored], keys=[key], new_keys=True, occurred_at=at, connection=tx
            )
        except Conflict:
            found = await log.find(key, thread_id=id_, connection=tx)
            raise _AlreadyStored(found[id_].value) from None

    async def _item_without_marker(
        self, session: Session, log: ThreadLog, tx: HostConnection
    ) -> StoreItem:
        """Return the stored item of a session that this service did not load.

        Raises:
            StaleSessionError: it was updated later than *session*, and has another newest event.
        """
        id_ = session.id.strip()
        namespace = self._namespace_of_session(session.app_name, session.user_id, id_)
        item = await self.store.get_item(namespace, SESSION, connection=tx)
        if item is None:
            raise SessionNotFoundError(f"Session {id_} not found.")
        stored = _SESSION.fields_of(item.value, update_time=int | float)
        if stored["update_time"] > session.last_update_time:
            newest = [_to_event(one.value).id for one in await log.tail(id_, 1, connection=tx)]
            if newest != [event.id for event in session.events[-1:]]:
                raise StaleSessionError(STALE)
        return item

    async def _change_state(
        self, place: tuple[str, str, str], delta: Mapping[str, Any], tx: HostConnection
    ) -> None:
        app_name, user_id, _ = place
        items = []
        for name, value in delta.items():
            if name.startswith(State.APP_PREFIX):
                namespace: tuple[str, ...] = (*self.namespace, "apps", app_name)
                key = name.removeprefix(State.APP_PREFIX)
            elif name.startswith(State.USER_PREFIX):
                namespace = (*self.namespace, "users", app_name, user_id)
                key = name.removeprefix(State.USER_PREFIX)
            elif name.startswith(State.TEMP_PREFIX):
                continue
            else:
                namespace, key = self._namespace_of_session(*place), f":{name}"
            items.append(NewItem(namespace, key, value))
        if items:
            await self.store.put_batch(items, connection=tx)

    async def _read_events(self, log: ThreadLog, id_: str, config: GetSessionConfig) -> list[Event]:
        recent, after = config.num_recent_events, config.after_timestamp
        if recent is None and after is None:
            _, events = await log.scan(id_, lambda _at, value, _mark: _to_event(value))
            return events
        if recent is not None:
            entries = await log.tail(id_, recent)
        else:
            assert after is not None
            entries = await log.range(id_, since=moment(after))
        events = [_to_event(entry.value) for entry in entries]
        # Stored times are in microseconds.
        return [event for event in events if after is None or event.timestamp >= after]

    async def _read_shared_state(
        self, app_name: str, user_id: str
    ) -> tuple[dict[str, Any], dict[str, Any]]:
        app = await self._read_state(("apps", app_name), State.APP_PREFIX)
        return app, await self._read_state(("users", app_name, user_id), State.USER_PREFIX)

    async def _read_state(self, place: tuple[str, ...], prefix: str) -> dict[str, Any]:
        items = await self.store.list_items((*self.namespace, *place), limit=MAX_LIMIT, order="key")
        return {prefix + item.key: item.value for item in items}

    def _namespace_of_session(
        self, app_name: str, user_id: str, session_id: str
    ) -> tuple[str, ...]:
        return (*self.namespace, "sessions", app_name, user_id, session_id)

    @asynccontextmanager
    async def _turn(self, session: Session) -> AsyncIterator[None]:
        """Wait until no other call works with the same object."""
        lock = self._turns.setdefault(id(session), asyncio.Lock())
        async with lock:
            yield


class _AlreadyStored(Exception):
    """Rolls back an append of an event whose id the session has; *value* is what is stored."""

    def __init__(self, value: dict[str, Any]) -> None:
        self.value = value


def event_key(event_id: str) -> str:
    """Return the key of an event's entry in the log: its id, or the digest of one that is long."""
    if event_id and len(encode_id(event_id)) <= MAX_ENTRY_KEY_CHARACTERS:
        return event_id
    return f"sha256:{sha256(event_id.encode('utf-8', 'surrogatepass')).hexdigest()}"


def to_stored(event: Event) -> dict[str, Any]:
    """Return an event as it is stored: without the state of its invocation alone.

    Raises:
        NotSerialisable: it holds what cannot be stored.
    """
    fields = dumped(event)
    actions = fields["actions"]
    for name in ("state_delta", "agent_state"):
        if name in actions:
            actions[name] = _storable_state(actions[name])
    stored: dict[str, Any] = storable(fields)
    delta = stored["actions"]["state_delta"]
    stored["actions"]["state_delta"] = {
        name: value for name, value in delta.items() if not name.startswith(State.TEMP_PREFIX)
    }
    return stored


def _storable_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return state as it is stored: as ADK does, with texts in place of functions and the like."""
    found: dict[str, Any] = storable(state, unknown=str)
    return found


def _temporary_state(event: Event) -> dict[str, Any]:
    delta = event.actions.state_delta
    return {name: value for name, value in delta.items() if name.startswith(State.TEMP_PREFIX)}


def _check_same(event: Event, stored: dict[str, Any]) -> None:
    """Raise ADK's `AlreadyExistsError` unless *event* is the one that is *stored* under its id.

    They are compared as they are stored: an event that was read differs from the one that was
    appended where it held a model or an enum.
    """
    if _comparable(to_stored(event)) != _comparable(stored):
        raise AlreadyExistsError(f"Another event with id {event.id} already exists.")


def _comparable(value: Any) -> Any:
    """Return a value with texts of what it holds, so that NaN equals NaN, and 1 is not True."""
    if isinstance(value, dict):
        return {name: _comparable(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value), [_comparable(one) for one in value]
    if isinstance(value, set | frozenset):
        return type(value), sorted(repr(_comparable(one)) for one in value)
    return repr(value)


@StoredForm("event of Google ADK")
def _to_event(stored: Any) -> Event:
    return Event.model_validate(stored)


@_SESSION
def _to_session(own: StoreItem, state: dict[str, Any], events: list[Event]) -> Session:
    app_name, user_id, id_ = own.namespace[-3:]
    session = Session(
        app_name=app_name,
        user_id=user_id,
        id=id_,
        state=state,
        events=events,
        last_update_time=own.value["update_time"],
    )
    session._storage_update_marker = _marker_of(own.version, own.created_at)
    return session


def _own_state(items: Iterable[StoreItem]) -> dict[str, Any]:
    return {item.key[1:]: item.value for item in items if item.key != SESSION}


def _marker_of(version: int, created_at: datetime) -> str:
    """Return the revision of a session: a session that was deleted and made anew has another.

    It is kept in `Session._storage_update_marker`, as by ADK's own services: a session is no field
    wider, and a copy of it is as stale as the original.
    """
    return f"{version} {created_at.isoformat()}"


def _expected_item(session: Session) -> StoreItem | None:
    """Return the item that was read with *session*; ``None`` if this service did not load it."""
    version, _, born = (session._storage_update_marker or "").partition(" ")
    if not (version.isdecimal() and born):
        return None
    created_at = datetime.fromisoformat(born)
    return StoreItem((), SESSION, None, {}, created_at, created_at, int(version))


def moment(timestamp: float) -> datetime:
    """Return seconds since 1970 as a datetime: the nearest one that a database stores."""
    if math.isnan(timestamp):
        return EPOCH
    try:
        return min(max(EPOCH + timedelta(seconds=timestamp), EARLIEST), LATEST)
    except OverflowError:
        return EARLIEST if timestamp < 0 else LATEST


__all__ = ["MemalchemySessionService"]
