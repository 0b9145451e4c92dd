"""Generated: MEMALCHEMY_REGENERATE=1 pytest tests/test_sync_stub.py."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager
from typing import Any, Literal, Self

from sqlalchemy import Connection
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncEngine

from memalchemy.contracts import (
    CheckpointerCapabilities,
    CheckpointInfo,
    Diff,
    Retention,
    Seconds,
    Unset,
)
from memalchemy.database import T
from memalchemy.dialects import Dialect
from memalchemy.events import Event
from memalchemy.statements import Program
from memalchemy.sync.face import LazyIterator as LazyIterator
from memalchemy.sync.host import HostConnection as HostConnection
from memalchemy.sync.host import Savepoint as Savepoint
from memalchemy.sync.host import Transaction as Transaction

__all__ = [
    "Checkpointer",
    "Database",
    "HostConnection",
    "LazyIterator",
    "Savepoint",
    "Transaction",
]

class Database:
    """A database that holds an agent's memory.

    Args:
        url: ``sqlite:///agent.db``, ``sqlite://`` (in memory), ``postgresql://…``, ``oracle://…``,
            or an `AsyncEngine` of the host's, which stays the host's to dispose.
        tenant: whose memory this is; every row carries it, and no operation crosses it.
        schema: the schema that holds the tables (PostgreSQL, Oracle).
        migrate: ``"auto"`` brings a SQLite file to this release's schema on first use and only
            checks a server's; ``"check"`` only ever checks; ``"off"`` does neither.
        pgbouncer: the URL leads to PgBouncer in transaction mode.
        durability: ``"full"``: what was acknowledged survives a power cut. ``"normal"`` (SQLite
            only): it survives a crash of the process; a power cut may lose the last commits.
        connect_timeout, statement_timeout: in seconds.
        engine_options: passed to SQLAlchemy's `create_async_engine`.

    Construction does no I/O and needs no running loop; one object serves several loops, one after
    another or in several threads, and survives a fork.
    """

    tenant: str
    def __init__(
        self,
        url: str | URL | AsyncEngine,
        *,
        tenant: str = "default",
        schema: str | None = None,
        migrate: Literal["auto", "check", "off"] = "auto",
        pgbouncer: bool = False,
        durability: Literal["full", "normal"] = "full",
        connect_timeout: float = 10.0,
        statement_timeout: float | None = None,
        **engine_options: Any,
    ) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...
    def check(self) -> None:
        """Compare the database's schema with this release; reads only.

        Raises:
            SchemaOutdated: it is older; the message names the command.
            SchemaTooNew: it is newer and does not declare itself compatible with this release.
        """

    def close(self) -> None:
        """Let running calls end, finish queued writes, close every connection and the thread.

        A later use opens anew.
        """

    def current(self) -> str | None:
        """The schema revision of the database; ``None`` without one. Reads only."""

    @property
    def dialect(self) -> Dialect:
        """The dialect, for its capabilities."""

    def for_tenant(self, tenant: str) -> Database:
        """The same engine and pool, another tenant."""

    def health(self) -> dict[str, Any]:
        """Reachability, server version, schema revision and pool use; raises if unreachable."""

    @property
    def identity(self) -> object:
        """What caches key by: the same for every tenant of one `Database`."""

    def migrate(self, *, revision: str = "head") -> list[str]:
        """Bring the schema to *revision*, under a lock; return the revisions that were applied.

        Safe to call from several processes at once. All or nothing, except on Oracle, where each
        DDL statement commits and the revisions can be run again.
        """

    def read(
        self,
        program: Callable[[], Program[T]],
        *,
        connection: HostConnection | None = None,
        event: Event | None = None,
    ) -> T:
        """Run a reading *program*; repeated if the connection is lost."""

    def run_sync(self, job: Callable[[Connection], T]) -> T:
        """Run a function of a synchronous `Connection` in one transaction, without a schema check.

        For migrations and for the host's own SQL; repeated if the connection is lost before COMMIT.
        """

    @property
    def schema(self) -> str | None:
        """The schema that holds the tables; ``None`` is the connection's default."""

    def transaction(self) -> AbstractContextManager[Transaction]:
        """``with db.transaction() as tx``: one transaction over several features.

        *tx* is a `Transaction`; pass it as ``connection=tx``. Commits at the end of the block,
        rolls back on an exception. On SQLite other writers of this process wait meanwhile.
        """

    def write(
        self,
        program: Callable[[], Program[T]],
        *,
        connection: HostConnection | None = None,
        event: Event | None = None,
        single: bool = False,
    ) -> T:
        """Run a writing *program* in one transaction, or in the host's.

        Repeated while that is safe: until COMMIT has been sent, or the statement, if *single* says
        that it is one and autocommit will do. After that a lost connection is an error with
        ``maybe_applied``.
        """

class Checkpointer:
    """Keeps every state an agent saves, and gives any of them back.

    A thread's checkpoints are ordered by the position they were saved at, never by a clock. Each
    save is whole or absent. A plain save appends to the newest checkpoint and never conflicts.

    Args:
        db: where to keep them.
        namespace: keeps several uses of one thread id apart; deleting a thread deletes them all.
        state_type: what `load` builds: a pydantic model, or a class with ``from_checkpoint``;
            without it, `load` returns the stored mapping.
        index_text: make what each step adds findable with `search`.
        retention: rules that every save keeps, without another round trip.
        ttl: how long a thread lives after its last save, in seconds or as a timedelta.
        max_chain_depth: saves between full snapshots, at most.
        compression_level: zstd's, 1 to 19.

    Every method takes ``connection=``, a `Connection` or `Session` of the host: the work
    is then part of the host's transaction, sees its own writes, and is gone after a rollback.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
    """

    capabilities: CheckpointerCapabilities
    db: Database
    deletes_single_checkpoints: bool
    namespace: tuple[str, ...]
    def __init__(
        self,
        db: Database,
        *,
        namespace: Iterable[str] = (),
        state_type: Any | None = None,
        index_text: bool = True,
        retention: Retention | None = None,
        ttl: Seconds | None = None,
        max_chain_depth: int = 1024,
        compression_level: int = 3,
    ) -> None: ...
    def close(self) -> None:
        """Nothing to do: connections are the database's. Part of the contract."""

    def copy_thread(
        self,
        source_thread_id: str,
        dest_thread_id: str,
        *,
        connection: HostConnection | None = None,
    ) -> bool:
        """Copy a thread with all its logs; checkpoint ids and order stay. ``False`` if it is empty.

        Raises:
            Conflict: the target holds something already; nothing was changed.
        """

    def delete(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        *,
        connection: HostConnection | None = None,
    ) -> bool:
        """Delete a checkpoint, or without an id the thread with all its logs; whether it was there.

        A deleted checkpoint's state stays in the database, without a name, while others are stored
        as differences from it; `rewrite` ends that.
        """

    def diff(
        self,
        thread_id: str,
        a: str,
        b: str,
        *,
        connection: HostConnection | None = None,
    ) -> Diff:
        """What changed from checkpoint *a* to *b*, as JSON pointers.

        Raises:
            NotFound: one of them is not there.
        """

    def exists(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        *,
        connection: HostConnection | None = None,
    ) -> bool:
        """Whether the checkpoint is there; without an id, whether the thread has any."""

    def export(
        self,
        *,
        tenant: str | None = None,
        thread_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        connection: HostConnection | None = None,
    ) -> LazyIterator[dict[str, Any]]:
        """Everything that `forget` would erase, as JSON objects, one for each checkpoint.

        Thread by thread, oldest checkpoint first. Values that JSON lacks are tagged objects such as
        ``{"~b": base64}``.
        """

    def forget(
        self,
        *,
        tenant: str | None = None,
        thread_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        connection: HostConnection | None = None,
    ) -> int:
        """Erase everything of a tenant, of a thread, or of every thread that carries *metadata*.

        Exactly one of the three. All logs and namespaces, expired ones too, leaving no tombstone,
        and no word of them in a text index. Returns how many checkpoints (and, of a tenant, store
        items) went. `export` with the same argument writes out the same checkpoints. What the
        database itself keeps (free pages, write-ahead logs, backups) is beyond it.
        """

    def fork(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        *,
        new_thread_id: str | None = None,
        connection: HostConnection | None = None,
    ) -> str:
        """Copy a thread up to a checkpoint (the newest without an id) into a new thread.

        Returns the new thread's id, ``THREAD-fork-xxxxxxxx`` if none is given. The two share
        nothing afterwards.

        Raises:
            NotFound: the checkpoint is not there.
            Conflict: the new thread holds something already.
            ValueError: the new thread is the old one.
        """

    def get_metadata(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        *,
        connection: HostConnection | None = None,
    ) -> dict[str, Any] | None:
        """What is known of a checkpoint without its state, the newest without an id.

        Keys: thread_id, checkpoint_id, parent_id, seq, metadata, created_at, raw_size, stored_size.
        """

    def get_storage_stats(
        self,
        thread_id: str,
        *,
        connection: HostConnection | None = None,
    ) -> dict[str, Any]:
        """What a thread takes: total_checkpoints, total_size (bytes of every state whole),
        compressed_size (bytes stored), compression_ratio, full_checkpoints, delta_checkpoints.
        """

    def history(
        self,
        thread_id: str,
        *,
        limit: int | None = None,
        before: str | None = None,
        connection: HostConnection | None = None,
    ) -> LazyIterator[CheckpointInfo]:
        """The thread's checkpoints, newest first; those older than checkpoint *before*, if given.

        Reads no payload, in pages of 500; a checkpoint deleted meanwhile may be missing.

        Raises:
            NotFound: *before* is not there.
        """

    def list_checkpoints(
        self,
        thread_id: str,
        limit: int = 10,
        *,
        connection: HostConnection | None = None,
    ) -> list[str]:
        """The ids of the thread's checkpoints, newest first, at most *limit*."""

    def list_threads(
        self,
        limit: int = 100,
        pattern: str = "*",
        *,
        connection: HostConnection | None = None,
    ) -> list[str]:
        """The ids of threads with a checkpoint, most recently saved first.

        *pattern* is a glob over the whole id, case-sensitive: ``*``, ``?``, ``[a-z]``.
        """

    def list_with_metadata(
        self,
        limit: int = 100,
        *,
        connection: HostConnection | None = None,
    ) -> list[dict[str, Any]]:
        """The newest checkpoints over all threads, as `get_metadata`, newest first."""

    def load(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        *,
        connection: HostConnection | None = None,
    ) -> Any:
        """The state of a checkpoint, the newest without an id; ``None`` if there is none.

        One round trip. Every call builds new objects.

        Raises:
            Corrupt: what is stored does not match its checksum.
        """

    def prune(
        self,
        thread_id: str | None = None,
        *,
        keep_last: int | None = None,
        keep_every: int | None = None,
        older_than: Seconds | None = None,
        connection: HostConnection | None = None,
    ) -> int:
        """Delete checkpoints that every given rule lets go (see `Retention`); how many.

        Of one thread, or of all, a thread at a time. The newest of a thread always stays.
        """

    def query_by_metadata(
        self,
        key: str,
        value: Any,
        limit: int = 100,
        *,
        connection: HostConnection | None = None,
    ) -> list[dict[str, Any]]:
        """Checkpoints whose metadata has *value* under *key*, newest first, as `get_metadata`.

        Numbers compare as numbers and booleans as booleans. Any key; answered by an index, but on
        Oracle, which has none over keys that are not known beforehand.
        """

    def rewrite(self, thread_id: str, *, connection: HostConnection | None = None) -> int:
        """Encode a thread's checkpoints anew, so that nothing of deleted states is left in them.

        One transaction. Returns how many nameless states were dropped. What the database itself
        keeps (free pages, write-ahead logs, backups) is beyond it.
        """

    def save(
        self,
        state: Any,
        thread_id: str,
        checkpoint_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        parent_id: str | None = None,
        expected_parent: str | Unset | None = ...,
        ttl: Seconds | None = None,
        connection: HostConnection | None = None,
    ) -> str:
        """Save *state* as the newest checkpoint of the thread; return its id.

        Args:
            state: a mapping, a pydantic model, or an object with ``to_checkpoint()``; see
                `memalchemy.codec.values` for the values it may hold.
            thread_id: any text of up to 255 characters.
            checkpoint_id: made up if not given. One that exists is replaced and becomes the
                newest; what was built on its old state still loads.
            metadata: small JSON, for `query_by_metadata` and listings.
            parent_id: branch off this checkpoint instead of the newest.
            expected_parent: raise `Conflict` unless this is the newest checkpoint (``None``:
                unless there is none). The check and the save are one.
            ttl: in place of the checkpointer's own. The last save counts: after one without any,
                the thread does not expire.

        Raises:
            NotSerialisable, TooLarge: the state or metadata cannot be stored; nothing was written.
            Conflict: *expected_parent* is not the newest.
            ThreadDeleted: a parent was named and the thread has been deleted since.
            NotFound: *parent_id* is not there.
        """

    def search(
        self,
        query: str,
        limit: int = 10,
        *,
        connection: HostConnection | None = None,
    ) -> list[dict[str, Any]]:
        """Checkpoints whose step added words of *query*, best first.

        As `get_metadata`, with ``score`` (0..1: the share of the query found, rare words counting
        more) and ``snippet``. Accents and case do not matter, Chinese, Japanese and Korean words
        are found, and nothing in *query* is an operator. A query without words finds nothing.
        """

    def vacuum(
        self,
        older_than_days: float = 30,
        *,
        connection: HostConnection | None = None,
    ) -> int:
        """Remove threads that were not saved for so long, expired threads, and old tombstones.

        Returns how many checkpoints went. Works in batches, each its own transaction.
        """
