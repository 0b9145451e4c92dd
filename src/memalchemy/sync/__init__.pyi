"""Generated: MEMALCHEMY_REGENERATE=1 pytest tests/test_sync_stub.py."""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from os import PathLike
from typing import Any, Generic, Self, Unpack, overload

from sqlalchemy import Connection
from sqlalchemy.engine import URL
from sqlalchemy.ext.asyncio import AsyncEngine

from memalchemy.analysis.analysis import Row
from memalchemy.analysis.connection import SQLConnection
from memalchemy.checkpoints.checkpointer import CheckpointerOptions
from memalchemy.checkpoints.retention import ProgressCallback
from memalchemy.codec.anchors import Anchor
from memalchemy.codec.encryption import Keyring
from memalchemy.codec.signatures import SigningKeys
from memalchemy.collections import MemoryResult as MemoryResult
from memalchemy.collections.key_value import AgentMemory, KeyValueEntry
from memalchemy.context.manager import ConversationManager
from memalchemy.contracts import UNSET as UNSET
from memalchemy.contracts import (
    CheckpointerCapabilities,
    CheckpointHit,
    CheckpointMatch,
    CheckpointOrder,
    CheckpointRecord,
    CheckpointWithData,
    Durability,
    ExportRecord,
    Health,
    ItemOrder,
    Match,
    MigrateMode,
    PendingWrite,
    Progress,
    SearchMode,
    Seconds,
    Snapshot,
    State,
    StorageStats,
    Unset,
)
from memalchemy.contracts import CheckpointInfo as CheckpointInfo
from memalchemy.contracts import Diff as Diff
from memalchemy.contracts import Entry as Entry
from memalchemy.contracts import EntryHit as EntryHit
from memalchemy.contracts import LogInfo as LogInfo
from memalchemy.contracts import LogReading as LogReading
from memalchemy.contracts import NewItem as NewItem
from memalchemy.contracts import ReembedReport as ReembedReport
from memalchemy.contracts import Retention as Retention
from memalchemy.contracts import SearchHit as SearchHit
from memalchemy.contracts import SearchHits as SearchHits
from memalchemy.contracts import SearchPlan as SearchPlan
from memalchemy.contracts import SemanticSearchResult as SemanticSearchResult
from memalchemy.contracts import StoreCapabilities as StoreCapabilities
from memalchemy.contracts import StoreItem as StoreItem
from memalchemy.conversations._message_hit import MessageHit
from memalchemy.conversations.conversation_store import Hits, Ids, Messages
from memalchemy.conversations.tool_exchange import ToolExchange
from memalchemy.database.database import T, U
from memalchemy.database.executors.batching import BatchedRow
from memalchemy.database.intent import Intent
from memalchemy.database.program_runner import Decode
from memalchemy.database.tenant_wall import TenantWall
from memalchemy.dialects import Dialect, Distribution
from memalchemy.errors import AnsweredByWordsWarning as AnsweredByWordsWarning
from memalchemy.errors import AuthenticationFailed as AuthenticationFailed
from memalchemy.errors import CapabilityMissing as CapabilityMissing
from memalchemy.errors import Conflict as Conflict
from memalchemy.errors import Corrupt as Corrupt
from memalchemy.errors import DatabaseUnreachable as DatabaseUnreachable
from memalchemy.errors import DriverMissing as DriverMissing
from memalchemy.errors import EmbedderFailed as EmbedderFailed
from memalchemy.errors import EpisodeNotFoundError as EpisodeNotFoundError
from memalchemy.errors import KeyMissing as KeyMissing
from memalchemy.errors import MemalchemyError as MemalchemyError
from memalchemy.errors import NotEncrypted as NotEncrypted
from memalchemy.errors import NotFound as NotFound
from memalchemy.errors import NotSerialisable as NotSerialisable
from memalchemy.errors import NotSigned as NotSigned
from memalchemy.errors import ReadOnly as ReadOnly
from memalchemy.errors import SchemaOutdated as SchemaOutdated
from memalchemy.errors import SchemaTooNew as SchemaTooNew
from memalchemy.errors import StoreCapabilityError as StoreCapabilityError
from memalchemy.errors import ThreadDeleted as ThreadDeleted
from memalchemy.errors import TooLarge as TooLarge
from memalchemy.errors import UnknownURL as UnknownURL
from memalchemy.events import Event
from memalchemy.inspection._records import Record
from memalchemy.log import Head
from memalchemy.memory import Episode as Episode
from memalchemy.memory import Memory as Memory
from memalchemy.memory import MemoryFact as MemoryFact
from memalchemy.memory import MemoryScope as MemoryScope
from memalchemy.memory import MemoryType as MemoryType
from memalchemy.memory import RecallMode as RecallMode
from memalchemy.memory import remember as remember
from memalchemy.memory._fact_extraction import Extract
from memalchemy.memory._scopes import NamespaceResolver
from memalchemy.memory.episodes import BaseEpisodeStore, MetadataFunction
from memalchemy.memory.manager import ExtractFn, ExtractMode
from memalchemy.memory.user_memory import Facts, InjectedMessages
from memalchemy.protection.guard import NoGuard
from memalchemy.row_decoding import decode as decode
from memalchemy.search.vectors import Metric
from memalchemy.state import Message
from memalchemy.statements import Program
from memalchemy.store.compare_and_swap import Change
from memalchemy.store.embedding import Embedder, Index
from memalchemy.store.settings import Lifetimes, Namespace, Settings
from memalchemy.store.store import Batch, Name
from memalchemy.store.write import Expected
from memalchemy.sync.face import LazyIterator as LazyIterator
from memalchemy.sync.host import HostConnection as HostConnection
from memalchemy.sync.host import Savepoint as Savepoint
from memalchemy.sync.host import Transaction as Transaction
from memalchemy.tenants import tenant_scope as tenant_scope
from memalchemy.threads.thread_log import Made

__all__ = [
    "UNSET",
    "Analysis",
    "AnsweredByWordsWarning",
    "AuthenticationFailed",
    "CapabilityMissing",
    "CheckpointInfo",
    "Checkpointer",
    "Conflict",
    "Conversation",
    "ConversationStore",
    "ConversationView",
    "Corrupt",
    "Database",
    "DatabaseUnreachable",
    "Diff",
    "DriverMissing",
    "EmbedderFailed",
    "Entry",
    "EntryHit",
    "Episode",
    "EpisodeNotFoundError",
    "EpisodeStore",
    "EpisodicMemory",
    "HostConnection",
    "Inspector",
    "KeyMissing",
    "KeyValue",
    "LLMMemoryManager",
    "LazyIterator",
    "LogInfo",
    "LogReading",
    "MemalchemyError",
    "Memory",
    "MemoryFact",
    "MemoryResult",
    "MemoryScope",
    "MemoryType",
    "NamespacedStore",
    "NewItem",
    "NoopMemoryManager",
    "NotEncrypted",
    "NotFound",
    "NotSerialisable",
    "NotSigned",
    "ReadOnly",
    "RecallMode",
    "ReembedReport",
    "RetainedCheckpointer",
    "Retention",
    "Savepoint",
    "SchemaOutdated",
    "SchemaTooNew",
    "SearchHit",
    "SearchHits",
    "SearchPlan",
    "SemanticSearchResult",
    "Store",
    "StoreCapabilities",
    "StoreCapabilityError",
    "StoreContext",
    "StoreItem",
    "ThreadDeleted",
    "ThreadLog",
    "TooLarge",
    "ToolOutputs",
    "Transaction",
    "UnknownURL",
    "UserMemoryStore",
    "VectorStore",
    "decode",
    "remember",
    "tenant_scope",
]

class Database:
    """Database that holds an agent's memory.

        with Database("sqlite:///agent.db") as db:
            Checkpointer(db).save({"messages": []}, "thread-1")

    Args:
        url: ``sqlite:///agent.db`` or the path itself (see below), as text or a `Path`,
            ``sqlite://`` (in memory), ``postgresql://…``, ``oracle://…``, or an `AsyncEngine` of
            the host's, which stays the host's to dispose.
        read_url: a read replica of the database at *url*, as a URL or an `AsyncEngine`; PostgreSQL
            and Oracle. Listings, search and statistics are read from it; see below.
        tenant: the owner of the data; every row carries it, and no operation crosses it.
        schema: the schema that holds the tables (PostgreSQL, Oracle).
        migrate: ``"auto"`` brings a SQLite file to this release's schema on first use and only
            checks a server's; ``"upgrade"`` brings a server's there, too, under a lock, so several
            processes may start at once: for development and tests. ``"check"`` only ever checks;
            ``"off"`` does neither. A SQLite file that is not there is made by ``"auto"``,
            ``"upgrade"``, `migrate` and `run_sync` only.
        read_only: refuse every write with `ReadOnly`, create nothing, run no migration. A SQLite
            file is read as it is, also where neither it nor its directory may be written, and while
            another process writes it; ``?mode=ro`` in its URL says the same. A server's sessions
            are told to take no writes; an `AsyncEngine` of the host's stays as it is. The schema
            must be one that this release works with: `SchemaOutdated` otherwise.
        pgbouncer: the URL leads to PgBouncer in transaction mode; ``?pgbouncer=true`` in it says
            the same.
        durability: ``"full"``: what was acknowledged survives a power cut. ``"normal"`` (SQLite
            only): it survives a crash of the process; a power cut may lose the last commits.
        connect_timeout: seconds to wait for a connection, 10 if not given. SQLite: for a file that
            another process holds alone for a moment, 30 if not given.
        statement_timeout: seconds that a statement may take, waiting for locks included; without
            it, as long as the server lets it. SQLite: seconds that a statement may run, and that it
            waits for another process to end its transaction (30 if not given).
        keys: a Fernet key, or several: payloads and values are encrypted with the first and opened
            with any. See the page on encryption. Metadata, ids, namespaces and keys of items stay
            readable. A tenant that is written with keys is not written without one of them:
            `KeyMissing`.
        readable: what else is stored unencrypted beside them, because the database searches in it:
            ``"text"`` (words), ``"fields"`` (a word for each field, for filters), ``"vectors"``.
        allow_plaintext: with *keys*, read what is not encrypted, too, instead of refusing it.
        signing_keys: a key of the same form, or several: rows are signed with the first and held to
            the signature of any when they are read. See the page on signatures. A tenant that is
            signed is not written without one of its keys: `KeyMissing`.
        allow_unsigned: with *signing_keys*, read and change what is not signed, too, instead of
            refusing it.
        anchor: with *signing_keys*, an `Anchor` or the path of one, which is read at once. What is
            older than it, or is not there any more, is refused when it is read: `Corrupt`. See the
            page on anchors.
        engine_options: passed to SQLAlchemy's `create_async_engine`. An engine of the host's takes
            neither these nor the timeouts. For an ``oracle://`` URL also ``config_dir`` (the
            directory of tnsnames.ora), ``wallet_location``, ``wallet_password``,
            ``ssl_server_dn_match`` and ``ssl_server_cert_dn``, which go to python-oracledb.

    With *read_url*, what may be a moment old is read from the replica: of `Checkpointer`
    `list_checkpoints`, `history`, `list_threads`, `list_logs`, `list_with_metadata`,
    `query_by_metadata`, `search` and `get_storage_stats`. They may miss what this very process has
    just saved. Reading your own writes is the primary's: every write and what it rests on, `load`,
    `exists`, `get_metadata`, `diff`, `export`, and whatever is given ``connection=``. `primary`
    reads everything there, `replica` everything from the replica. While the replica is away its
    reads go to the primary; `memalchemy.database.replica` logs that once for each outage.

    A path stands for the SQLite file there if it can be nothing else: it ends in ``.db``,
    ``.sqlite`` or ``.sqlite3``, has a ``/`` or a backslash in it, or names a file that is there.
    After ``sqlite:`` any path does.

    Construction does no I/O, unless *anchor* is a path, and needs no running loop; one object
    serves several loops, one after another or in several threads, and survives a fork. The
    connections of a loop that has ended are closed when the next loop begins. One that is dropped
    without `close` closes its connections at once, and its threads of SQLite when they have done
    what they were given.
    """

    tenant: str
    def __init__(
        self,
        url: str | URL | PathLike[str] | AsyncEngine,
        *,
        read_url: str | URL | AsyncEngine | None = None,
        tenant: str = "default",
        schema: str | None = None,
        migrate: MigrateMode = "auto",
        read_only: bool = False,
        pgbouncer: bool = False,
        durability: Durability = "full",
        connect_timeout: float | None = None,
        statement_timeout: float | None = None,
        keys: str | bytes | Iterable[str | bytes] | None = None,
        readable: Iterable[str] = (),
        allow_plaintext: bool = False,
        signing_keys: str | bytes | Iterable[str | bytes] | None = None,
        allow_unsigned: bool = False,
        anchor: Anchor | str | PathLike[str] | None = None,
        **engine_options: Any,
    ) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...
    def backup(
        self,
        file: str | PathLike[str],
        *,
        force: bool = False,
        progress: Callable[[int, int], None] | None = None,
    ) -> int:
        """Copy a whole SQLite database, all tenants, into *file*; return its size in bytes.

        The copy is the database as of the moment of the call, while any process goes on writing. It
        is checked, it is on disk when this returns, and it appears under its name only when it is
        complete: a failed or killed backup leaves an existing file as it was. The schema is not
        looked at, so a backup is possible before an upgrade. *progress* is called with the number
        of pages done and of all, in the event loop.

        Raises:
            Conflict: *file* exists, and not *force*; or it is open in another program.
            CapabilityMissing: not SQLite; the message is the command to run instead.
            Corrupt: the copy does not pass SQLite's own check; it was removed.
            OSError: *file* cannot be written.
        """

    def check(self) -> None:
        """Compare the database's schema with this release, and look for its tables; reads only.

        Look whether the server takes writes, too, unless this is read-only: after a failover a
        connection may lead to a replica.
        Where row-level security is on, also look for the policy that shows a tenant its rows.

        Raises:
            SchemaOutdated: it is older; the message names the command.
            SchemaTooNew: it is newer and does not declare itself compatible with this release.
            SchemaIncomplete: it lacks a table.
            CapabilityMissing: the server takes no writes, and this was not opened read-only; or the
                type of its vectors is not in the search_path.
            WallIncomplete: it lacks the policy.
            VersionTableLost: it has the tables, and not the one that names their revision.
            ReplicationIncomplete: logical replication has not filled its tables.
        """

    def check_payloads(self, connection: HostConnection | None = None) -> None:
        """Check that payloads may be written into the tenant, as `run` does.

        For callers whose payloads are written by somebody else.

        Raises:
            ReadOnly: this was opened read-only or is a `replica`.
            KeyMissing: the tenant is encrypted with other keys than these.
        """

    def check_search(self, connection: HostConnection | None = None) -> None:
        """Check that a search that found nothing could have: the tenant is not encrypted unseen.

        The registry of keys is read, at most once in five seconds, by a process without keys.

        Raises:
            KeyMissing: the tenant is encrypted, and no key was given.
        """

    def check_sees_all_tenants(self, what: str) -> None:
        """Refuse *what*, which is about all tenants, if the role of this database sees only one.

        Raises:
            CapabilityMissing: row-level security walls the role; the message says what to do.
        """

    def check_writable(self) -> None:
        """Raise `ReadOnly` if it was opened read-only or is a `replica`, before a program does."""

    def close(self) -> None:
        """Let running calls end, finish queued writes, close every connection and the thread.

        A later use opens anew.
        """

    def current(self) -> str | None:
        """Return the schema revision of the database; ``None`` without one. Reads only."""

    @property
    def dialect(self) -> Dialect:
        """The dialect, for its capabilities."""

    def distribution(self) -> Distribution | None:
        """Read how the tables are spread over the nodes of a cluster. Reads only.

        ``None`` if the database is on no cluster. `memalchemy.maintenance.distribution` spreads
        them.
        """

    @property
    def file_bytes(self) -> int | None:
        """Size of a SQLite file with its write-ahead log; ``None`` if this is not a file."""

    def find_first_words(self) -> bool:
        """Return whether a row has words by the rules of an older release. Reads only.

        Where no note says so, all rows are read.
        """

    def for_scope(self) -> Database:
        """Return this database for the tenant of the `memalchemy.tenant_scope` around this call.

        The tenant is looked up once, here: objects that are made with the result keep it.

        Raises:
            LookupError: there is no such scope.
        """

    def for_tenant(self, tenant: str) -> Database:
        """Return this database for another tenant, with the same engine and pool."""

    def forget_known_keys(self) -> None:
        """Read the registered keys of a tenant again at the next write."""

    def forget_words_note(self) -> None:
        """Remove the note of `note_words`: rows of a database without it are about to be copied."""

    @property
    def guard(self) -> NoGuard:
        """Guard that every program passes through: it says what keys mean for a write."""

    @property
    def has_first_words(self) -> bool:
        """True if rows may have words by the rules of an older release.

        They are found as that release found them, until `memalchemy.words.rebuild_words` has made
        them anew.
        """

    def health(self) -> Health:
        """Return reachability, server version, schema revision and pool use; raise if unreachable.

        With a replica, its own are under ``replica``, with ``usable`` and ``error``: a replica that
        is unreachable does not raise.
        """

    @property
    def holds_writer(self) -> bool:
        """True while an open transaction of the running task holds SQLite's only writer.

        Every other write of the process waits for its end, so the task must wait for none.
        """

    @property
    def identity(self) -> object:
        """Key for caches: the same for all tenants of a `Database`; a replica's is another."""

    @property
    def keyring(self) -> Keyring:
        """Keys that encrypt and decrypt payloads, with those that sign and check rows.

        Without *keys* payloads stay as they are.
        """

    def migrate(self, *, revision: str = "head") -> list[str]:
        """Bring the schema to *revision*, under a lock; return the revisions that were applied.

        Safe to call from several processes at once. All or nothing, except on Oracle, where each
        DDL statement commits: a revision that fails half way is half there.
        """

    def note_words(self) -> bool:
        """Note that all rows have words by the rules of this release, if they have.

        Returns false, and notes nothing, if some have not, or if this role does not see all rows.
        """

    def now(self) -> datetime:
        """Return the time of the server's clock, on which all its clients agree.

        SQLite's is that of this machine.
        """

    def primary(self) -> Database:
        """Return this database with every read on the primary: it reads its own writes."""

    @property
    def read_only(self) -> bool:
        """True if it was opened read-only, and of a `replica`: every write is refused."""

    def replica(self, *, fallback: bool = True) -> Database:
        """Return this database read-only: every read is from the replica, however old its data.

        Recent writes may be missing from it. Writes, migrations and transactions are refused with
        `ReadOnly`. With ``fallback=False`` an unreachable replica is an error:
        `DatabaseUnreachable`, or `SchemaOutdated` while it does not have the primary's schema yet;
        otherwise the primary answers. Without a *read_url* it reads from the database itself, so
        that code can be the same where there is no replica.
        """

    @overload
    def run(
        self,
        program: Callable[[], Program[T]],
        intent: Intent,
        *,
        connection: HostConnection | None = None,
        event: Event | None = None,
        batch: Callable[[], BatchedRow[T]] | None = None,
    ) -> T:
        """Run *program* as its *intent* says; the one door through which programs run.

        A write is one transaction, or part of the host's. It is repeated while that is safe: until
        COMMIT, or the statement of a lone one, has been sent. After that a lost connection is an
        error with ``maybe_applied``. A read is always repeated.

        Args:
            connection: the host's, of whose transaction the program is a part.
            event: counts the round trips.
            decode: work on the result, done in a thread where it takes long.
            batch: returns the row that *program* writes; it may share a statement with others
                instead.

        Raises:
            ReadOnly: it writes, and this was opened read-only or is a `replica`.
            CapabilityMissing: it is maintenance, through PgBouncer or in memory.
            KeyMissing: it may write payloads, and the tenant is encrypted with other keys.
        """

    @overload
    def run(
        self,
        program: Callable[[], Program[T]],
        intent: Intent,
        *,
        connection: HostConnection | None = None,
        event: Event | None = None,
        decode: Decode[T, U],
    ) -> U: ...
    def run_sync(self, job: Callable[[Connection], T]) -> T:
        """Run a function of a synchronous `Connection` in one transaction, without a schema check.

        For migrations and for the host's own SQL; repeated if the connection is lost before COMMIT.
        """

    @property
    def schema(self) -> str | None:
        """The schema that holds the tables; ``None`` is the connection's default."""

    @property
    def signing(self) -> SigningKeys:
        """Keys that sign and check rows; without *signing_keys* rows have no signature."""

    def snapshot(self) -> Any:
        """Open a view of one moment, that of its first read: ``with db.snapshot() as then``.

        *then* is a `Connection`; pass it as ``connection=then``, to reads only. Writers go on
        meanwhile, and what they write is not seen; on a database in memory they wait.
        """

    def tenant_wall(self) -> TenantWall:
        """Read how row-level security walls the tenants for the role of this database. Reads only.

        See `memalchemy.maintenance.tenants`, which builds the wall.
        """

    def transaction(self) -> AbstractContextManager[Transaction]:
        """Open one transaction over several features: ``with db.transaction() as tx``.

        *tx* is a `Transaction`; pass it as ``connection=tx``. Commits at the end of the block,
        rolls back on an exception. On SQLite other writers of this process wait meanwhile.
        """

class Analysis:
    """Read the stored data of all frameworks as rows of the tables of `memalchemy.analysis.TABLES`.

        analysis = Analysis(db)
        for batch in analysis.rows("tool_calls", framework="langgraph"):
            for call in batch:
                print(call["name"], call["duration_ms"])

    Rows are read as the classes of memalchemy read them: with the keys of an encrypted database,
    held to the signatures of a signed one, and of the database's tenant alone. They come in batches
    as they are read, thread by thread, so that memory does not grow with the number of threads.
    Threads that are written meanwhile may be read before or after. What cannot be read is passed
    over, and `unreadable` says what it was.
    """

    def __init__(self, db: Database) -> None: ...
    def arrow(self, table: str, **selection: Any) -> LazyIterator[Any]:
        """Yield the rows of a table as record batches of Arrow, as `rows` does.

        Raises:
            DriverMissing: pyarrow is not installed; the extra ``analysis`` has it.
            InvalidArgument: there is no such table, or the selection makes no sense.
        """

    def connect(
        self,
        *,
        tables: Iterable[str] | None = None,
        cache: str | PathLike[str] | None = None,
        plaintext: bool = False,
        memory: str = "1GB",
        **selection: Any,
    ) -> SQLConnection:
        """Read the tables into a DuckDB, and return a connection for SQL.

        Args:
            tables: those that are filled; all by default.
            cache: a file that keeps the tables, which only its owner may read. Logs that have
                changed since the last time are read again, others are not; what was deleted, erased
                or has expired is removed from it. DuckDB, pandas and notebooks open it, too.
                Without a file everything is read into memory.
            plaintext: allow the cache of an encrypted database, which is not encrypted.
            memory: the most memory that DuckDB uses, such as ``"2GB"``.
            selection: arguments of `Selection`, without a cache.

        Raises:
            DriverMissing: duckdb or pyarrow is not installed; the extra ``analysis`` has them.
            InvalidArgument: an argument makes no sense.
            CapabilityMissing: a cache of an encrypted database, without *plaintext*.
            Conflict, DatabaseUnreachable: the file is another database's, or cannot be opened.
        """

    def rows(self, table: str, **selection: Any) -> LazyIterator[list[Row]]:
        """Yield the rows of a table, in batches of at most 1,000.

        Threads come in the order of their last write, the newest first; what a thread holds, in the
        order in which it was stored, but a call of a tool when its result is known.

        Args:
            selection: arguments of `Selection`.

        Raises:
            InvalidArgument: there is no such table, or the selection makes no sense.
        """

    @property
    def unreadable(self) -> list[str]:
        """Descriptions of what was passed over so far."""

class Checkpointer(Generic[State]):
    """Store every state that an agent saves, with history, branches, search and retention.

    A thread's checkpoints are ordered by the position they were saved at, never by a clock. Each
    save is whole or absent. A plain save appends to the newest checkpoint and never conflicts.

        checkpointer = Checkpointer(db, retention=Retention(keep_last=50))
        checkpointer.save({"messages": [], "step": 1}, "thread-1")
        state = checkpointer.load("thread-1")

    Args:
        db: the database.
        namespace: keeps several uses of one thread id apart; deleting a thread deletes them all.
        state_type: the class of what `load` returns: a pydantic model, a dataclass, or a class with
            ``from_checkpoint``; without it, `load` returns the stored mapping.
        index_text: let `search` find the text that each step adds; in an encrypted database only if
            it may hold readable words. Names of top-level keys restrict it to these.
        retention: rules that every save keeps, without another round trip.
        ttl: the lifetime of a thread after its last save, in seconds or as a timedelta.
        max_chain_depth: the largest number of saves between full snapshots.
        compression_level: zstd's, 1 to 19, for what is larger than 512 KB; what is smaller is
            compressed up to four levels higher.
        radix: 2 to 64, 4 by default. All saves but every *radix*-th are stored as the difference
            from the save before. A load of a long thread reads some 5 rows with 2, 7 with 4, and up
            to 40 with 32. Compared with 4, a history takes a quarter more bytes with 2, and as
            little as half with 32.

    Every method that reads or writes takes ``connection=``, a `Connection` or `Session`
    of the host: the work is then part of the host's transaction, sees its own writes, and is gone
    after a rollback.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
    """

    db: Database
    deletes_single_checkpoints: bool
    namespace: tuple[str, ...]
    @overload
    def __init__(
        self: Checkpointer[dict[str, Any]],
        db: Database,
        *,
        state_type: None = None,
        **options: Unpack[CheckpointerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        db: Database,
        *,
        state_type: type[State] | Callable[[dict[str, Any]], State],
        **options: Unpack[CheckpointerOptions],
    ) -> None: ...
    def cached_values(
        self,
        thread_id: str,
        checkpoint_id: str,
        keys: Iterable[str],
    ) -> dict[str, Any]:
        """Return the values of *keys* in a checkpoint's state, as far as they are cached.

        It does not ask the database. Only the newest checkpoint of a thread that this process has
        saved or loaded is cached; of any other the result is empty.
        """

    @property
    def capabilities(self) -> CheckpointerCapabilities:
        """Features of this checkpointer: all, but no `search` where no word may be readable."""

    def change(
        self,
        thread_id: str,
        function: Callable[[State | None], Any],
        metadata: Mapping[str, Any] | None = None,
        *,
        ttl: Seconds | None = None,
        connection: HostConnection | None = None,
    ) -> str | None:
        """Apply a function to the newest state and save the result; no save of others is lost.

        *function* takes the newest state as `load` returns it, or ``None`` if there is none. It
        returns the new state, which may be the one that it was given, or ``LEAVE`` to save nothing;
        it may be a coroutine function. If others save the thread meanwhile, the function is called
        again with their state, so it should have no side effects. For that call the thread is
        locked, unless the function is a coroutine function, which may take long. An exception that
        the function raises passes through, and nothing is saved.

        Returns the id of the newest checkpoint after the call; ``None`` if there is none.

        Args:
            metadata, ttl: as for `save`.

        Raises:
            InvalidArgument: the function returned ``None``; nothing was saved.
            NotSerialisable, TooLarge: the new state cannot be stored; nothing was saved.
            Conflict: others saved first 20 times, and the thread could not be locked; or the
                transaction of *connection* does not see what they have saved. Nothing was saved.
        """

    def close(self) -> None:
        """Do nothing: the connections are the database's. The contract has this method."""

    def copy_thread(
        self,
        source_thread_id: str,
        dest_thread_id: str,
        *,
        all_namespaces: bool = True,
        below: bool = False,
        connection: HostConnection | None = None,
    ) -> bool:
        """Copy a thread with all its logs; checkpoint ids and order stay. ``False`` if it is empty.

        The logs of every namespace are copied, whatever wrote them. Without *all_namespaces* only
        the log in this namespace is, with the others in which a framework keeps the same thread;
        with *below* the logs of this namespace and the ones under it.

        Raises:
            Conflict: the target holds something in a namespace that is copied; nothing was changed.
            ValueError: the target is the source.
        """

    def count_threads(self, pattern: str = "*", *, connection: HostConnection | None = None) -> int:
        """Count the threads with a checkpoint whose ids match the glob."""

    def delete(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        *,
        superseded: bool = False,
        all_namespaces: bool = True,
        below: bool = False,
        connection: HostConnection | None = None,
    ) -> bool:
        """Delete a checkpoint, or without an id the thread with all its logs.

        Returns whether it existed.

        The logs of every namespace are deleted, whatever wrote them. Without *all_namespaces* only
        the log in this namespace is, with its checkpoints and entries, and the others in which a
        framework keeps the same thread; with *below* the logs of this namespace and the ones under
        it.

        A checkpoint that another rests on (see `save`) is not deleted before that one.

        A deleted checkpoint's state stays in the database, with no id, while others are stored as
        differences from it; `rewrite` ends that. Searches no longer find its words, unless it is
        *superseded*, a mere step to the thread's next checkpoint: then they find that one.

        Raises:
            Conflict: another checkpoint rests on this one; nothing was deleted.
        """

    def delete_checkpoints(
        self,
        thread_id: str,
        checkpoint_ids: Iterable[str],
        *,
        connection: HostConnection | None = None,
    ) -> int:
        """Delete some checkpoints with their pending writes; return their number.

        One transaction.

        Those that others rest on (see `Checkpointer.save`) stay.
        """

    def diff(
        self,
        thread_id: str,
        a: str,
        b: str,
        *,
        connection: HostConnection | None = None,
    ) -> Diff:
        """Return the difference between the states of checkpoints *a* and *b*, as JSON pointers.

        Raises:
            NotFound: one of the checkpoints does not exist.
        """

    def exists(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        *,
        connection: HostConnection | None = None,
    ) -> bool:
        """Return whether the checkpoint exists; without an id, whether the thread has any."""

    def export(
        self,
        *,
        tenant: str | None = None,
        thread_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        all_namespaces: bool = True,
        connection: HostConnection | None = None,
    ) -> LazyIterator[ExportRecord]:
        """Yield every checkpoint and entry that `forget` would erase, as a JSON object.

        Thread by thread and log by log, oldest checkpoint first, then the entries in order, which
        have a ``position`` and a ``value``. Values that JSON lacks are tagged objects such as
        ``{"~b": base64}``. Without *all_namespaces* only those of threads in this namespace, with
        all logs of a framework's thread.

        Raises:
            ValueError: *tenant* is not that of this database.
        """

    def export_files(
        self,
        directory: str | PathLike[str],
        *,
        tenant: str | None = None,
        thread_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        all_namespaces: bool = True,
        progress: Callable[[int], object] | None = None,
        connection: HostConnection | None = None,
    ) -> int:
        """Write the records of `export` into *directory*, one JSON file each; return their number.

        Without a selector, everything of the database's tenant. Files are named after thread and
        checkpoint: ``THREAD/CHECKPOINT.json``, and ``THREAD/@NAMESPACE/CHECKPOINT.json`` in a
        namespace; an id that makes no good file name is followed by its SHA-256, so that no two
        collide. The directory appears when it is complete. *progress* is called with the number of
        files so far.

        Raises:
            Conflict: *directory* exists and is not empty.
            OSError: the files cannot be written.
            ValueError: *tenant* is not that of this database.
        """

    def find_runs(
        self,
        run_ids: Iterable[str],
        *,
        connection: HostConnection | None = None,
    ) -> dict[tuple[str, tuple[str, ...]], list[str]]:
        """Return the ids of the checkpoints saved with one of *run_ids*, by thread and namespace.

        Only checkpoints in this namespace and below it are found, each list in the order of saving.
        """

    def forget(
        self,
        *,
        tenant: str | None = None,
        thread_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        namespace: Iterable[str] | None = None,
        connection: HostConnection | None = None,
    ) -> int:
        """Erase everything of the tenant, of a thread, or of all threads and items with *metadata*.

        With *namespace*, erase what all threads have in that namespace and below it. It is the
        whole namespace as it is stored, not relative to this checkpointer's; frameworks put the
        names of users into it. What the threads have elsewhere stays, and items stay:
        `Store.forget_namespace` erases those.

        Give exactly one of the four; *tenant* must be that of this database, so that leaving an
        argument away never erases everything. It erases all logs and namespaces, expired ones too,
        and leaves no tombstone, and no word in a text index. A thread matches *metadata* if each
        pair is in its own metadata or in a checkpoint's, an item of a store if its metadata has all
        pairs; its vectors go too. Returns the number of erased checkpoints, entries and items.
        `export` with the same argument writes out the same checkpoints and entries; for *namespace*
        it is ``Checkpointer(db, namespace=…).export(tenant=…, all_namespaces=False)``, of one
        namespace.

        Free pages and the write-ahead log of a SQLite file are cleaned as well; if a reader
        prevents that, a warning is logged that names the command to run. On a server the pages keep
        dead rows until `memalchemy vacuum --full` rewrites them. Backups, archived logs and
        replicas are out of reach: see docs/erasure.md. Nothing of this is done for a host's
        *connection*.

        Raises:
            ValueError: *tenant* is not that of this database; or *namespace* is empty, which would
                be all threads of the tenant.
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

        If a framework keeps the thread in several logs, such as one for each subgraph, all are
        copied, each as it was at that checkpoint. The two threads share nothing afterwards.

        Returns the new thread's id, ``THREAD-fork-xxxxxxxx`` if none is given (a long THREAD is cut
        off to fit).

        Raises:
            NotFound: the checkpoint does not exist.
            Conflict: the new thread holds something in a namespace that is copied.
            ValueError: the new thread is the old one.
        """

    def get_metadata(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        *,
        connection: HostConnection | None = None,
    ) -> CheckpointRecord | None:
        """Return a checkpoint without its state, the newest without an id; ``None`` if none exists.

        The keys are the fields of `CheckpointInfo`.
        """

    def get_storage_stats(
        self,
        thread_id: str,
        *,
        connection: HostConnection | None = None,
    ) -> StorageStats:
        """Return the number and sizes of a thread's checkpoints.

        The keys are ``total_checkpoints``; ``total_size``, the bytes of every state whole;
        ``compressed_size``, the bytes stored; ``compression_ratio``, ``total_size`` over
        ``compressed_size``, or 1.0 of an empty thread; ``full_checkpoints`` and
        ``delta_checkpoints``.
        """

    def get_writes(
        self,
        thread_id: str,
        checkpoint_id: str,
        *,
        connection: HostConnection | None = None,
    ) -> list[PendingWrite]:
        """Return the pending writes of the step after a checkpoint.

        They are ordered by (task_path, task_id, index).
        """

    def get_writes_batch(
        self,
        thread_id: str,
        checkpoint_ids: Sequence[str],
        *,
        connection: HostConnection | None = None,
    ) -> dict[str, list[PendingWrite]]:
        """Return the pending writes of some checkpoints of a thread, each as `get_writes` does.

        Checkpoints without writes are not in the result. One round trip for each hundred or more.

        Raises:
            Corrupt, KeyMissing, NotEncrypted: as `Checkpointer.load`.
        """

    def history(
        self,
        thread_id: str | None,
        *,
        limit: int | None = None,
        before: str | None = None,
        below: bool = False,
        order: CheckpointOrder = "position",
        connection: HostConnection | None = None,
    ) -> LazyIterator[CheckpointInfo]:
        """Yield the thread's checkpoints, newest first; with *before*, only those older than it.

        Reads no payload, in pages of 500; a checkpoint that is deleted or replaced meanwhile may be
        missing.

        Args:
            order: ``"position"``: as they were saved. ``"id"``: by their ids, the highest first,
                for hosts whose ids are in order of time; *before* may be any id then, and a
                *thread_id* of ``None`` stands for all threads of the namespace.
            below: include the namespaces under this one; in the order of ids only.

        Raises:
            NotFound: in the order of positions, the checkpoint *before* does not exist.
        """

    def list_checkpoints(
        self,
        thread_id: str,
        limit: int = 10,
        *,
        connection: HostConnection | None = None,
    ) -> list[str]:
        """Return the ids of the thread's checkpoints, newest first, at most *limit*."""

    def list_logs(
        self,
        thread_id: str | None = None,
        *,
        limit: int = 100,
        pattern: str = "*",
        below: bool = False,
        connection: HostConnection | None = None,
    ) -> list[LogInfo]:
        """Return logs with a checkpoint or an entry, most recently written first, at most *limit*.

        They are those of all threads, of one thread, or of threads whose whole id matches the glob
        *pattern*, as in `list_threads`. A log is a thread in one namespace: in this checkpointer's,
        with *below* also in those under it. All logs are below the root: those of frameworks,
        conversations, event logs. `LogInfo` has the counts and sizes of what a log holds.
        """

    def list_threads(
        self,
        limit: int = 100,
        pattern: str = "*",
        *,
        offset: int = 0,
        connection: HostConnection | None = None,
    ) -> list[str]:
        """Return the ids of threads with a checkpoint, most recently written first.

        *pattern* is a glob over the whole id, case-sensitive: ``*``, ``?``, ``[a-z]``. *offset*
        skips as many of the first; a thread that is saved meanwhile moves to the front.
        """

    def list_with_metadata(
        self,
        limit: int = 100,
        *,
        connection: HostConnection | None = None,
    ) -> list[CheckpointRecord]:
        """Return the newest checkpoints of all threads, newest first, as `get_metadata`."""

    def load(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        *,
        connection: HostConnection | None = None,
    ) -> State | None:
        """Return the state of a checkpoint, the newest without an id; ``None`` if there is none.

        One round trip; on Citus two, but one if this process holds the state. It holds the newest
        state of a thread that it has saved or loaded: whether that is still the newest is looked
        up, no payload is read, and the bytes in memory are compared with their checksum. Every call
        builds new objects. It sees its own writes: it does not read from a replica, unless the
        checkpointer is on ``db.replica()``.

        Raises:
            Corrupt: the stored state does not match its checksum.
            KeyMissing, NotEncrypted: the database's keys are not those of the stored state.
        """

    def namespaces(
        self,
        thread_id: str,
        *,
        connection: HostConnection | None = None,
    ) -> list[tuple[str, ...]]:
        """Return the namespaces, from this one on down, in which the thread has a checkpoint."""

    def prune(
        self,
        thread_id: str | None = None,
        *,
        keep_last: int | None = None,
        keep_every: int | None = None,
        older_than: Seconds | None = None,
        all_namespaces: bool = False,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
        connection: HostConnection | None = None,
    ) -> int:
        """Delete the checkpoints that no given rule keeps (see `Retention`); return their number.

        It prunes one thread, or all; in this checkpointer's namespace, or in all. The newest of a
        thread always stays, and so do states that kept checkpoints are built on. Words of a deleted
        checkpoint that its next remaining descendant holds are found at that one from now on: in
        each branch, or in the hundred newest.

        If a framework keeps a thread in several logs, such as one for each subgraph, the rules are
        for the main log, and the others keep what its remaining checkpoints need.

        Over all threads it works in batches, each a transaction of its own of about 2,000 rows. A
        thread that somebody is saving into is skipped and tried again at the end, for some two
        seconds; then it is left, and `Progress.busy` counts it. A single thread is waited for. An
        interrupted prune is resumed by running it again.

        Args:
            dry_run: only count what would be deleted, exactly; nothing is written.
            progress: called after every batch.
        """

    def put_writes(
        self,
        writes: Sequence[tuple[str, Any]],
        thread_id: str,
        checkpoint_id: str,
        task_id: str,
        *,
        task_path: str = "",
        indexes: Sequence[int] | None = None,
        overwrite: bool = False,
        made_at: datetime | None = None,
        connection: HostConnection | None = None,
    ) -> None:
        """Store the pending writes of a task for the step after a checkpoint.

        The checkpoint may be saved later.

        One round trip on PostgreSQL. The writes live as long as their checkpoint.

        Args:
            writes: pairs of a channel and a value.
            indexes: the index of each write within its task; 0, 1, … by default. Of several writes
                with one index the first stays, with *overwrite* the last; below 0 the last in any
                case.
            made_at: the time at which the checkpoint was made. If it is after the thread's
                deletion, the checkpoint belongs to the thread's next life: the write is stored, and
                seen once a checkpoint has begun that life.

        Raises:
            NotSerialisable, TooLarge: a value cannot be stored; nothing was written.
            ThreadDeleted: the thread has been deleted.
            Conflict: others made the thread anew 20 times, and it expired each time; nothing was
                written.
        """

    def query_by_metadata(
        self,
        key: str,
        value: Any,
        limit: int = 100,
        *,
        data: bool = False,
        connection: HostConnection | None = None,
    ) -> list[CheckpointMatch]:
        """Return checkpoints whose metadata has *value* under *key*, newest first.

        Each is as `get_metadata` gives it.

        Numbers compare as numbers and booleans as booleans. Any key works; an index answers, except
        on Oracle, which has none over keys that are not known beforehand. With *data* each has its
        state under ``data``, as it is stored: one more read for each 100.
        """

    def rewrite(self, thread_id: str, *, connection: HostConnection | None = None) -> int:
        """Encode a thread's checkpoints anew, so that nothing of deleted states is left in them.

        One transaction. Returns the number of states that were dropped because no checkpoint has
        them. What the database itself keeps (free pages, write-ahead logs, backups) is out of
        reach.
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
        lineage: str | Unset | None = ...,
        rests_on_parent: bool = False,
        run_id: str | None = None,
        occurred_at: datetime | None = None,
        ttl: Seconds | None = None,
        connection: HostConnection | None = None,
    ) -> str:
        """Save *state* as the newest checkpoint of the thread; return its id.

        Args:
            state: a mapping, a pydantic model, an object with ``to_checkpoint()``, or a dataclass
                that is the ``state_type``; `memalchemy.codec.values` lists what it may hold.
            thread_id: any text of up to 255 characters.
            checkpoint_id: made up if not given. One that exists is replaced and becomes the
                newest; what was built on its old state still loads.
            metadata: small JSON, for `query_by_metadata` and listings.
            parent_id: branch off this checkpoint instead of the newest.
            expected_parent: raise `Conflict` unless this is the newest checkpoint (``None``:
                unless there is none). The check and the save are one.
            lineage: the parent to record, whether it exists or not (``None``: no parent), for a
                host that keeps track of parents itself; the state is appended to the newest.
            rests_on_parent: the state is incomplete without its parent: without the parent's state,
                its pending writes, or what the parent rests on in turn. *parent_id* or *lineage*
                names the parent, which has to exist. Neither retention nor a deletion removes it
                while this checkpoint stays.
            run_id: the run that made the checkpoint, for `find_runs`.
            occurred_at: the time of the step, an aware datetime, for imports; now by default.
                ``older_than`` of retention goes by it.
            ttl: in place of the checkpointer's own. The last save counts: after one without any,
                the thread does not expire.

        Raises:
            NotSerialisable, TooLarge: the state or metadata cannot be stored; nothing was written.
            Conflict: *expected_parent* is not the newest.
            ThreadDeleted: a parent was named and the thread has been deleted since.
            NotFound: *parent_id*, or a parent that the state rests on, does not exist.
            ValueError: both *parent_id* and *lineage* were given, or *rests_on_parent* without
                either; *occurred_at* has no time zone.

        *state* is saved as it is when the call begins to run, however it changes while the call
        waits.
        """

    def search(
        self,
        query: str,
        limit: int = 10,
        *,
        below: bool = False,
        match: Match = "any",
        data: bool = False,
        connection: HostConnection | None = None,
    ) -> list[CheckpointHit]:
        """Return checkpoints whose step added words of *query*, best first.

        Each is as `get_metadata` gives it, with ``snippet`` and ``score``, 0 to 1. The best scores
        the share of the query that it holds, rare words counting more; the others score in
        proportion to it, by BM25. Words are compared and ranked as `Store.search` compares them. A
        query without words finds nothing. The snippet is from a text of the state, as it was
        written, for which the states of the hits are read; of a state that cannot be read, and
        beyond 16 MiB of states, it has some of the stored words, each once.

        With the *match* ``all`` only checkpoints are found whose step added all words. With *below*
        the namespaces under this one are included, in one ranking:
        `Checkpointer(db).search(…, below=True)` finds what any framework has saved. With *data*
        each has its state under ``data``, as it is stored.

        Raises:
            CapabilityMissing: the database is encrypted, and holds no readable words;
                ``capability`` is ``search``.
            KeyMissing: nothing was found, the tenant is encrypted, and no key was given.
        """

    def search_data(
        self,
        path: str,
        value: Any,
        limit: int = 100,
        *,
        among: int | None = 1000,
        connection: HostConnection | None = None,
    ) -> list[CheckpointWithData]:
        """Return threads whose newest state has *value* under *path*, most recently saved first.

        Each is as `get_metadata` gives its newest checkpoint, with the state under ``data``, as it
        is stored. *path* is a top-level key of the state, or a JSON pointer such as ``/user/name``;
        values are equal as in `memalchemy.filters`. No index serves this: the newest states of the
        *among* threads saved last are read, 20 at once, and a thread beyond them is not
        found; ``among=None`` reads those of all. A value that is searched for often belongs in the
        metadata of a save, where `query_by_metadata` finds it by an index.

        Raises:
            Corrupt: a stored state that was read does not match its checksum.
        """

    def set_thread_metadata(
        self,
        thread_id: str,
        metadata: Mapping[str, Any],
        *,
        connection: HostConnection | None = None,
    ) -> None:
        """Replace the metadata of the thread itself, such as a title or an owner, as a whole.

        The metadata belongs to the thread in this namespace. `list_logs` returns it, `fork` copies
        it, `delete` and `forget` remove it, and ``forget(metadata=…)`` finds the thread by it. It
        is not the metadata of a checkpoint: see `save`. Setting it does not change the order of
        `list_threads`.

        Raises:
            NotFound: the thread has no log in this namespace, or it has expired.
        """

    def snapshot(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        *,
        newest_by: CheckpointOrder = "position",
        connection: HostConnection | None = None,
    ) -> Snapshot | None:
        """Return a checkpoint with its state and pending writes; ``None`` if it does not exist.

        One round trip.

        Args:
            newest_by: the checkpoint to return without a *checkpoint_id*: the last saved
                (``"position"``), or the one of the highest id (``"id"``), for hosts whose ids are
                in order of time.

        Raises:
            Corrupt, KeyMissing, NotEncrypted: as `Checkpointer.load`.
        """

    def snapshots(
        self,
        thread_id: str,
        checkpoint_ids: Sequence[str],
        *,
        connection: HostConnection | None = None,
    ) -> LazyIterator[Snapshot]:
        """Yield the given checkpoints as `snapshot` returns them, in order, without missing ones.

        Two round trips for each 20.
        """

    def snapshots_of(
        self,
        infos: Iterable[CheckpointInfo],
        *,
        connection: HostConnection | None = None,
    ) -> LazyIterator[tuple[CheckpointInfo, Snapshot]]:
        """Yield the checkpoints of a listing, in order, as `snapshot` returns them.

        They may be of any threads and namespaces. Two round trips for each 100, or fewer if their
        states are large; checkpoints that were deleted meanwhile are left out.

        Raises:
            Corrupt, KeyMissing, NotEncrypted: as `Checkpointer.load`.
        """

    def vacuum(
        self,
        older_than_days: float | None = 30,
        *,
        all_namespaces: bool = False,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
        connection: HostConnection | None = None,
    ) -> int:
        """Remove threads that were not saved for some days, expired threads, and old tombstones.

        A log stays while its thread is in use in a namespace above it, such as the log of a
        subgraph with a memory of its own. With ``older_than_days=None`` only expired threads and
        old tombstones are removed, which no reader sees. A thread is removed as a whole. Batches,
        busy threads, *dry_run* and *progress* are as in `prune`. Returns the number of removed
        checkpoints and entries. `memalchemy.space.reclaim` gives the space back.
        """

class Conversation:
    """Messages of a thread in order, and a policy that selects those which go to the model.

    All objects on the same thread see the same messages, in every process, and two that add at the
    same time lose none. Adding writes what is new and reads nothing. Reading what this process has
    read before asks the database for what is new, and whether the rest has changed.

    Args:
        db: the database.
        thread_id: the thread.
        manager: the policy of `messages`; without one it returns all messages.
        namespace: keeps several conversations of one thread apart.
        index_text: let `search` find the words of messages.
        ttl: how long the conversation lives after its last message, in seconds or as a timedelta.
        roles: roles of the application's own that messages may have, besides those that exist.

    ``log`` is the `ThreadLog` with the messages, for searching, forking and the rest. Every method
    takes ``connection=``, a `Connection` or `Session` of the host.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        Conflict: something else has written to ``log`` what is no message, and this reads it;
            `search` leaves it out.
    """

    log: ThreadLog
    thread_id: str
    def __init__(
        self,
        db: Database,
        thread_id: str,
        *,
        manager: ConversationManager | None = None,
        namespace: Iterable[str] = ("conversation",),
        index_text: bool = True,
        ttl: Seconds | None = None,
        roles: Iterable[str] = (),
    ) -> None: ...
    def abort_tool_exchange(
        self,
        *,
        connection: HostConnection | None = None,
    ) -> ToolExchange | None:
        """Remove the open exchange and return it, or ``None``; the conversation stays as it is."""

    def active_tool_exchange(
        self,
        *,
        connection: HostConnection | None = None,
    ) -> ToolExchange | None:
        """Return the open exchange, whoever began it, or ``None``."""

    def add(
        self,
        *messages: Any,
        keys: Sequence[str | None] | str | None = None,
        occurred_at: datetime | Sequence[datetime] | None = None,
        expected_version: int | Unset = ...,
        connection: HostConnection | None = None,
    ) -> list[int]:
        """Add messages, all or none, and return their positions.

        A message is a `Message`, a dict in OpenAI's format, or an object with role and content. A
        list of messages is accepted as well. Two texts are a message of the user and the
        assistant's answer; nothing is added if both are empty.

        Args:
            keys: for each message a key, or ``None``. A message whose key is there already is not
                added again.
            occurred_at: when the messages were said, one time for all or one for each; now by
                default.
            expected_version: add only if the log is at this version.

        Raises:
            TypeError, ValueError: one of them is not a message, or has a role that does not exist;
                nothing was added.
            NotSerialisable, TooLarge, Conflict, ThreadDeleted: as `ThreadLog.append`.
        """

    def add_tool_results(
        self,
        *results: Any,
        connection: HostConnection | None = None,
    ) -> ToolExchange:
        """Store results of the open exchange, all or none, and return the exchange.

        A result that is equal to one that is there is not added again.

        Raises:
            ValueError: a result belongs to no call of the exchange, or to one that has another.
            NotFound: no exchange is open.
        """

    def amend_last(
        self,
        content: str | list[Any],
        *,
        connection: HostConnection | None = None,
    ) -> bool:
        """Replace the content of the assistant's last message, and return whether there is one.

        Messages that others add meanwhile are not lost.
        """

    def begin_tool_exchange(
        self,
        message: Any,
        *,
        connection: HostConnection | None = None,
    ) -> ToolExchange:
        """Store an assistant's *message* with tool calls until all their results are there.

        `messages`, `history` and the rest do not show it before `commit_tool_exchange`. It survives
        a crash: `active_tool_exchange` returns it to whoever continues.

        Raises:
            ValueError: the message has no tool call, a call without an id, or two calls of one id.
            Conflict: another exchange is open.
            TypeError, NotSerialisable, TooLarge: as `add`.
        """

    def clear(self, *, connection: HostConnection | None = None) -> int:
        """Remove all messages, the summary and an open exchange; return how many messages went."""

    def commit_tool_exchange(
        self,
        *results: Any,
        connection: HostConnection | None = None,
    ) -> list[int]:
        """Move the open exchange into the conversation and return the positions of its messages.

        The calls come first. *results* are added before, as by `add_tool_results`. It is one
        transaction: either the conversation has all of the exchange, or it is still open.

        Raises:
            ValueError: a call has no result yet; or as `add_tool_results`.
            NotFound: no exchange is open.
        """

    def count(self, *, connection: HostConnection | None = None) -> int:
        """Return the number of messages, whatever the manager."""

    def delete(self, *, connection: HostConnection | None = None) -> bool:
        """Delete the conversation, not the thread's other logs; return whether it was there."""

    def history(
        self,
        *,
        after: int | None = None,
        limit: int | None = None,
        connection: HostConnection | None = None,
    ) -> list[Message]:
        """Return all messages as they were added, whatever the manager, oldest first.

        Args:
            after: only messages beyond this position.
            limit: only the newest so many.
        """

    def messages(self, *, connection: HostConnection | None = None) -> list[Message]:
        """Return the messages that go to the model, oldest first: all, or those of the manager.

        A summary that was set or restored is there whatever the manager, in place of the messages
        that it stands for. A summary that the manager writes is stored. No process writes it again
        until more messages were added than the manager allows, or until one of the summarised
        messages was changed. Several calls at once in one process ask for it once.

        Raises:
            Corrupt: what is stored does not match its checksum.
        """

    def purge_messages(self, older_than: Seconds, batch: int = 500) -> int:
        """Remove old messages and return how many; see `ConversationStore.purge_messages`."""

    def restore(
        self,
        snapshot: Mapping[str, Any] | Sequence[Any],
        *,
        occurred_at: datetime | None = None,
        connection: HostConnection | None = None,
    ) -> None:
        """Make the conversation equal to a `snapshot`, or to a list of messages; all or nothing.

        Only the difference is written: messages that are the same from the start on stay. A
        ``summary`` stands before all messages, or for the first ``summarized`` of them, of which
        system messages stay. With a list, a summary that is stored stays as long as the messages
        that it stands for do. *occurred_at* is the time of the messages that are new; now, if not
        given.

        Raises:
            TypeError, ValueError: it is no snapshot; nothing was written.
            NotSerialisable, TooLarge: it cannot be stored; nothing was written.
        """

    def search(
        self,
        query: str,
        limit: int = 10,
        *,
        match: Match = "any",
        all_conversations: bool = False,
        connection: HostConnection | None = None,
    ) -> list[MessageHit]:
        """Return messages that hold words of *query*, whatever the manager, the best first.

        Those of this conversation; with *all_conversations* of every one in the namespace. With the
        *match* ``all`` only messages that hold all words. The words are those that were said, also
        in calls and results of tools; an open exchange and summaries are not searched. Accents and
        case do not matter, and nothing in *query* is an operator. A query without words finds
        nothing, and a conversation with ``index_text=False`` has no words.

        Raises:
            CapabilityMissing: the database is encrypted, and holds no readable words.
            KeyMissing: nothing was found, the tenant is encrypted, and no key was given.
            Corrupt: what is stored does not match its checksum.
        """

    def set_summary(
        self,
        text: str | None,
        *,
        summarized: int = 0,
        connection: HostConnection | None = None,
    ) -> None:
        """Store *text* as the summary of what was said before the messages, or remove it.

        It replaces an earlier summary. With *summarized* it stands for the first so many messages,
        of which system messages stay. `messages` returns it first, whatever the manager. ``None``
        removes the summary.

        Raises:
            TypeError: *text* is no text; nothing was written.
        """

    def snapshot(self, *, connection: HostConnection | None = None) -> dict[str, Any]:
        """Return the whole conversation as plain values, for `restore`.

        Keys: ``messages`` (records), ``summary`` (a text or ``None``), ``summarized`` (for how many
        of the messages the summary stands), and any other keys that `restore` was given. Where the
        manager kept some of the summarised messages, such as system messages, ``beginning`` lists
        them together with the message that tells the summary.
        """

    def text(self, *, connection: HostConnection | None = None) -> str:
        """Return `messages` as text: ``User: …``, ``Assistant: …``, a blank line between turns."""

    def view(self) -> ConversationView:
        """Return a reader with a cursor of its own. There may be any number of them."""

class ConversationStore:
    """Loads and saves whole histories.

    A history that is saved again is compared with the stored one, and only the difference is
    written: usually the messages that are new.

    Args:
        db: the database.
        namespace, index_text, ttl, roles: as of `Conversation`.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
    """

    def __init__(
        self,
        db: Database,
        *,
        namespace: Iterable[str] = ("conversation",),
        index_text: bool = True,
        ttl: Seconds | None = None,
        roles: Iterable[str] = (),
    ) -> None: ...
    def clear(self) -> int:
        """Delete all conversations of the namespace, one by one, and return how many."""

    def conversation(
        self,
        conversation_id: str,
        *,
        manager: ConversationManager | None = None,
    ) -> Conversation:
        """Return the `Conversation` of an id, to add messages to it."""

    def count(self, pattern: str = "*", *, connection: HostConnection | None = None) -> int:
        """Return the number of conversations with a message whose ids match the glob."""

    def delete(self, conversation_id: str, *, connection: HostConnection | None = None) -> bool:
        """Delete a conversation, not the thread's other logs; return whether it was there."""

    def list(
        self,
        limit: int = 100,
        pattern: str = "*",
        *,
        connection: HostConnection | None = None,
    ) -> Ids:
        """Return the ids of conversations with a message, most recently written first.

        *pattern* is a glob over the whole id, case-sensitive: ``*``, ``?``, ``[a-z]``.
        """

    def list_conversations(self, *, connection: HostConnection | None = None) -> Ids:
        """Return the ids of all conversations with a message or a summary, in order."""

    def load(self, conversation_id: str, *, connection: HostConnection | None = None) -> Messages:
        """Return all messages, oldest first; ``[]`` if there are none.

        Raises:
            Corrupt: what is stored does not match its checksum.
        """

    def load_snapshot(
        self,
        conversation_id: str,
        *,
        connection: HostConnection | None = None,
    ) -> dict[str, Any] | None:
        """Return what `Conversation.snapshot` returns; ``None`` if nothing is stored."""

    def purge_messages(
        self,
        older_than: Seconds,
        thread_id: str | None = None,
        batch: int = 500,
    ) -> int:
        """Remove messages older than *older_than* from one conversation or all; return how many.

        Exchanges are removed whole: a user message and everything up to the next user message,
        once its newest message is old. Removal starts at the first message and ends at the first
        exchange that stays. System messages stay; summaries of removed messages do not. Each
        transaction removes about *batch* messages. An interrupted purge can be run again.

        Raises:
            Corrupt: conversations cannot be read or proven; they were left, and the others purged.
        """

    def save(
        self,
        conversation_id: str,
        messages: Mapping[str, Any] | Sequence[Any] | None = None,
        *,
        snapshot: Mapping[str, Any] | Sequence[Any] | None = None,
        occurred_at: datetime | None = None,
        connection: HostConnection | None = None,
    ) -> None:
        """Store a list of messages or a snapshot, ``{"messages": …, "summary": …}``, as a whole.

        Both parameters accept either. It takes the place of all that was stored: after a list, or a
        snapshot without a summary, there is none. Messages are as of `Conversation.add`; other keys
        of a snapshot are stored as they are. Of two that save at the same time the later wins, and
        what it wrote is complete. *occurred_at* is the time of the messages that are new; now, if
        not given.

        Raises:
            TypeError, ValueError: one of them is not a message; nothing was written.
            NotSerialisable, TooLarge: one of them cannot be stored; nothing was written.
        """

    def search(
        self,
        query: str,
        limit: int = 10,
        *,
        conversation_id: str | None = None,
        match: Match = "any",
        connection: HostConnection | None = None,
    ) -> Hits:
        """Return messages of all conversations, or of one, as `Conversation.search` does."""

class ConversationView:
    """Reader of a conversation with a cursor of its own; see `Conversation.view`.

    `refresh` reads only what was added since the last call. If messages were removed or changed
    meanwhile, it reads everything again, and ``restarted`` is set. Managers are not applied.
    """

    def __init__(self, conversation: Conversation) -> None: ...
    @property
    def messages(self) -> list[Message]:
        """All messages that were read, oldest first."""

    def refresh(self, *, connection: HostConnection | None = None) -> list[Message]:
        """Read and return the messages that are new; all, if ``restarted``. One round trip.

        With *connection* the view does not change: what a transaction sees may be rolled back.
        """

    @property
    def restarted(self) -> bool:
        """``True`` if the last `refresh` returned all messages in place of those read before."""

    @property
    def version(self) -> int:
        """Version of the conversation's log that was read; 0 before the first `refresh`."""

class EpisodeStore:
    """Episodes in the database. A write is complete or absent, and every process sees it.

    Args:
        db: the database.
        namespace: the owner of the episodes; those of other namespaces are never seen.
        max_results: maximum number of episodes that `recall` returns.
        recall_mode: by similarity, or by recency.
        embedder: as of `Store`. Similarity is then of words and meaning, without it of words.
        ttl: how long an episode is kept, in seconds or as a timedelta.

    In an encrypted database that holds nothing readable to search, `recall` returns the latest.
    Every method but `recall` takes ``connection=``, as those of `Store`; `recall` passes it to the
    search.

    Raises, from any method that takes an id:
        Conflict: its item is no episode. Lists and searches leave such items out.
    """

    def __init__(
        self,
        db: Database,
        *,
        namespace: Namespace = ("episodes",),
        max_results: int = 5,
        recall_mode: RecallMode | str = "search",
        embedder: Embedder | None = None,
        ttl: Seconds | None = None,
    ) -> None: ...
    def count(self, *, connection: HostConnection | None = None) -> int:
        """Return the number of episodes."""

    def delete(self, id_: str, *, connection: HostConnection | None = None) -> None:
        """Remove an episode.

        Raises:
            EpisodeNotFoundError: there is none with that id.
        """

    def get(self, id_: str, *, connection: HostConnection | None = None) -> Episode | None:
        """Return the episode with that id, or ``None``."""

    def oldest(self, *, connection: HostConnection | None = None) -> Episode | None:
        """Return the episode with the earliest ``completed_at``, or ``None``.

        It reads the keys of all episodes, a thousand in a round trip, and one episode.
        """

    def recall(self, query: str, **more: Any) -> list[Episode]:
        """Return at most ``max_results`` episodes, by recency or by similarity to *query*.

        *more* is passed to the search. By recency neither it nor *query* matters.
        """

    def recent(self, limit: int = 5, *, connection: HostConnection | None = None) -> list[Episode]:
        """Return at most *limit* episodes, the latest ``completed_at`` first, whatever the mode."""

    def summary(self, *, connection: HostConnection | None = None) -> str:
        """Describe the store for a person: its size and database, the newest and oldest episode.

        It reads as `oldest` does.
        """

    def update(self, episode: Episode, *, connection: HostConnection | None = None) -> None:
        """Replace the episode with the same ``id_``.

        Raises:
            EpisodeNotFoundError: there is none.
            NotSerialisable, TooLarge: it cannot be stored.
        """

    def write(self, episode: Episode, *, connection: HostConnection | None = None) -> None:
        """Store an episode; one with the same ``id_`` is replaced.

        Raises:
            NotSerialisable, TooLarge: it cannot be stored, or its ``id_`` has over 236 characters.
        """

class EpisodicMemory:
    """Episodic memory of an agent's loop: `recall` before a task, `record` after it.

    Args:
        store: a store of episodes.
        metadata_fns: functions that give a text about an episode, such as a reflection, by the
            name under which it is stored in the episode's metadata. They may be coroutines, or
            objects with an asynchronous ``__call__``.
    """

    def __init__(
        self,
        store: BaseEpisodeStore,
        metadata_fns: Mapping[str, MetadataFunction] | None = None,
    ) -> None: ...
    def delete(self, id_: str) -> None:
        """`BaseEpisodeStore.delete`."""

    def recall(self, task: Any, **more: Any) -> str:
        """Return episodes similar to *task* as text; ``""`` if there are none.

        *task* is a text, or an object with ``instruction``.
        """

    def record(self, episode: Episode) -> Episode:
        """Store *episode* with the texts of the metadata functions; return the stored episode."""

    def summary(self) -> str:
        """`BaseEpisodeStore.summary`."""

    def update(self, episode: Episode) -> None:
        """`BaseEpisodeStore.update`."""

class Inspector:
    """Pages of what a database holds, as plain JSON.

        inspector = Inspector(db)
        page = inspector.threads(query="support", limit=50)

    It reads the tenant of *db* and no other, and writes nothing. Times are texts in ISO 8601, sizes
    are bytes, and a ``next`` or ``previous`` is an opaque cursor, or ``None`` at the end. States
    that were read are kept in memory.

    Args:
        db: the database.
        cache_bytes: the encoded size of the states that are kept, at most.

    Raises, from any method:
        NotFound: there is no such thread, checkpoint, item or path.
        InvalidArgument: an argument or a cursor is malformed.
        KeyMissing, NotEncrypted, Corrupt: what is stored cannot be read.
        DatabaseUnreachable, SchemaOutdated, SchemaTooNew.
    """

    def __init__(self, db: Database, *, cache_bytes: int = 67108864) -> None: ...
    def added_messages(
        self,
        thread_id: str,
        namespace: Iterable[str] = (),
        *,
        at: str,
        limit: int = 100,
        whole: bool = False,
    ) -> Record:
        """Return the messages that a step added: those after the common beginning with its parent.

        Of more than *limit* they are the newest. For a step whose parent was deleted it is the last
        message alone. ``total`` counts all messages of the state, and ``waiting`` has the
        interrupts that the state itself holds; those of LangGraph are pending writes.
        """

    def changes(
        self,
        since: str | None = None,
        namespace: Iterable[str] = (),
        *,
        items: bool = False,
        below: bool = True,
    ) -> Record:
        """Return the threads that were written since a token, and a new token.

        Without *since*, only the token of now. It is one look into an index. With *items*, a
        namespace, ``items`` are those written in it, with *below* also in all below it, and
        ``count`` is the number of its items, up to 5,000, which shows deletions. Of a larger tree
        of namespaces no items are named: no index has them by time.
        """

    def diff(
        self,
        thread_id: str,
        namespace: Iterable[str] = (),
        *,
        a: str,
        b: str,
        raw: bool = False,
    ) -> Record:
        """Return what changed from the state of checkpoint *a* to that of *b*.

        LangGraph's bookkeeping, such as its versions, is left out and counted as ``hidden``, unless
        *raw*.
        """

    def entries(
        self,
        thread_id: str,
        namespace: Iterable[str] = (),
        *,
        before: int | None = None,
        limit: int = 100,
    ) -> Record:
        """Return the newest entries of a log below position *before*, the oldest of them first."""

    def entry(
        self,
        thread_id: str,
        namespace: Iterable[str] = (),
        *,
        position: int,
        path: str = "",
        offset: int = 0,
    ) -> Record:
        """Return a value within an entry, as a tree."""

    def interrupts(
        self,
        thread_id: str,
        namespace: Iterable[str] = (),
        *,
        at: str | None = None,
    ) -> list[Record]:
        """Return the interrupts that a checkpoint waits with: their ids and whole values."""

    def item(
        self,
        namespace: Iterable[str],
        key: str,
        *,
        path: str = "",
        offset: int = 0,
    ) -> Record:
        """Return an item with its value, or what is under *path* in it, as a tree."""

    def items(
        self,
        namespace: Iterable[str] = (),
        query: str = "",
        *,
        match: Match = "any",
        below: bool = True,
        internal: bool = False,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Record:
        """Return a page of items, the last written first; with *below* also of lower namespaces.

        Items of a large tree of namespaces are in the order of namespaces and keys: see ``order``.
        With a *query* they are those that hold its words, ``any`` of them or ``all`` as *match*
        says, the best first. Internal items are left
        out as `namespaces` does it.
        """

    def memories(
        self,
        kind: str,
        *,
        user: str = "",
        cursor: str | None = None,
        limit: int = 50,
    ) -> Record:
        """Return a page of facts, episodes, conversations or long-term memories.

        Args:
            kind: ``facts``, ``episodes``, ``conversations`` or ``long-term``.
            user: of facts, only those of this user.
        """

    def namespaces(
        self,
        namespace: Iterable[str] = (),
        *,
        internal: bool = False,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Record:
        """Return a page of the namespaces right below one, with the number of items in each.

        At most 1,000 items of each are counted: ``more`` says that there are others. Internal
        items, such as the index of episodes by time, are left out unless *internal* is set or
        *namespace* is one of theirs.
        """

    def neighbours(self, namespace: Iterable[str], key: str, *, limit: int = 10) -> Record:
        """Return the items of the namespace whose vectors are nearest to the item's first one."""

    def origins(
        self,
        thread_id: str,
        namespace: Iterable[str] = (),
        *,
        at: str | None = None,
    ) -> Record:
        """Return for each message of a state the step with which it came, if that is known.

        Steps are looked at as far as they are among the newest 200 of the thread.
        """

    def overview(self) -> Record:
        """Describe the database, and count what is in it.

        In a large database, where ``estimated`` is true, sizes are projected from a random sample.
        """

    def person(self, name: str) -> Record:
        """Return what is known of a person: what is named so, or has the name in its metadata.

        That is namespaces of the store, of up to 5,000; items with a ``user_id`` or ``user``; and
        threads, of the 500 written last and of all whose ids have the name in them.
        """

    def scope(
        self,
        namespace: Iterable[str] = (),
        *,
        agent: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> Record:
        """Return what is known of a namespace, an agent or a pair of metadata, as `person` does.

        Of a namespace that is the items and threads in it and below it; of an agent, what is named
        so or has the name in its metadata; of a pair, what has it in its metadata. Give one.
        """

    def search(
        self,
        query: str,
        *,
        limit: int = 30,
        match: Match = "any",
        kinds: Iterable[str] = ("step", "entry", "item"),
        namespace: Iterable[str] = (),
        below: bool = True,
        thread_id: str | None = None,
    ) -> Record:
        """Return the steps, entries and items that hold words of *query*, the best first.

        They are ``hits``. Each has ``kind``, ``framework``, ``namespace``, ``thread_id``,
        ``checkpoint_id``, ``position``, ``key``, ``score`` and ``occurred_at``; what a kind does
        not have is ``None``. Their ``snippet`` is pieces of ``text``, with ``hit`` for found words.

        A score is the share of the query that the best of its kind holds, rare words counting more;
        equal scores are ordered by time, the latest first. Internal items are left out as
        `namespaces` does it.

        Args:
            match: ``any``: what holds one of the words is found. ``all``: only what holds all.
            kinds: the kinds to look for: ``step``, ``entry``, ``item``.
            namespace: the namespace to look in, with *below* also those under it.
            thread_id: only steps and entries of this thread; no items, which have none.

        Raises:
            CapabilityMissing: the database is encrypted, and holds no readable words.
        """

    def space(self) -> Record:
        """Return the space that is taken, by framework, thread, kind of row and table.

        A large database is measured in the background: until that has ended, ``largest``,
        ``kinds`` and ``tables`` are empty, sizes are those of states, and ``measuring`` is true.
        """

    def state(
        self,
        thread_id: str,
        namespace: Iterable[str] = (),
        *,
        at: str | None = None,
        path: str = "",
        offset: int = 0,
    ) -> Record:
        """Return a value within a state, as a tree: everything of it, in pages of 100 children."""

    def text(
        self,
        thread_id: str,
        namespace: Iterable[str] = (),
        *,
        index: int,
        at: str | None = None,
    ) -> Record:
        """Return the uncut texts of one message of a transcript."""

    def thread(self, thread_id: str, namespace: Iterable[str] = ()) -> Record:
        """Describe a log and its content, and name the thread's logs in other namespaces.

        It has what `threads` says of a thread, the ``interrupts`` that the newest step waits with,
        and as ``branches`` the ends of the lines beside that of the newest step.
        """

    def threads(
        self,
        query: str = "",
        *,
        framework: str = "",
        about: str = "",
        metadata: Mapping[str, str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        waiting: bool = False,
        sort: str | None = None,
        descending: bool | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Record:
        """Return a page of threads, the last written first, with what each is about.

        A thread has its ``title``, which is that of its metadata or what the user said first, its
        ``agent`` and ``user``, ``messages``, ``errors``, tokens and cost, ``waiting`` with what is
        ``asked``, and ``happened_at``, the time of its newest step or entry, which an import keeps.
        They come from its newest state of up to 1 MiB, or its newest 300 entries: ``problem`` says
        why there are none, and ``partial`` that there are more. What the metadata of its newest 300
        steps states of tokens and cost takes precedence over what messages state; if that of the
        newest 20 states nothing, no others are looked at.

        No index has what threads hold. With *sort* or a filter a page looks through at most 500
        threads, in the order of their last writes, and sorts those: ``looked`` is their number, and
        ``window`` is 500 if there are more. A page may be empty while ``next`` is not. A thread
        whose content lacks a key or is damaged is not hidden by *about* and *waiting*.

        Args:
            query: a part of the threads' ids, in any case of ASCII letters.
            framework: the first part of the namespace; ``/`` stands for the root.
            about: a text in the id, the title, the agent, the user, a question or the metadata.
                Of many threads, those with it in their ids come first.
            metadata: pairs in the metadata of the thread, or of its newest step, as texts.
            since, until: the times from and before which the newest step or entry happened.
            waiting: only threads that wait for an answer.
            sort: ``happened``, ``written``, ``thread``, ``steps``, ``stored``, ``title``,
                ``agent``, ``user``, ``messages``, ``errors``, ``tokens`` or ``cost``.
            descending: by default true for numbers and times.
        """

    def timeline(
        self,
        thread_id: str,
        namespace: Iterable[str] = (),
        *,
        cursor: str | None = None,
        limit: int = 200,
    ) -> Record:
        """Return a page of the steps of a thread, the newest first, with the lanes of branches.

        ``is_branch`` is true of steps outside of lane 0, the line of the newest step, and of steps
        that several steps follow: where a line forks. ``digest`` says what a step did: the ``node``
        of a graph, the messages that it added, the tools that it called, and what it took.
        """

    def transcript(
        self,
        thread_id: str,
        namespace: Iterable[str] = (),
        *,
        at: str | None = None,
        before: int | None = None,
        after: int | None = None,
        around: int | None = None,
        find: str = "",
        limit: int = 100,
        whole: bool = False,
    ) -> Record:
        """Return a state's messages, or a log's entries as messages: the newest, or some others.

        Those *before* an index, *after* one, or *around* it. With *find*, words, the page is the
        one of the last message that holds the most of them: ``found`` has the indexes of such
        messages, and ``words`` what was found, as it is written.

        The messages of a state are looked for in whatever form a framework keeps it. A log of
        entries, or a thread whose newest state has no messages, is shown entry by entry; the index
        of an entry is its position. With *whole* no text is cut, and arguments and values are JSON
        in the place of trees: dates and decimals are texts, bytes base64, sets sorted lists.
        """

    def use(self, framework: str = "", *, cursor: str | None = None) -> Record:
        """Return tokens, cost and calls of tools by day, for 500 threads at a time.

        The first page is that of the threads written last. Messages without a time count on the day
        of their thread's newest step. ``unread`` says how many threads were not read, and why;
        ``partial``, of how many only the newest entries or steps were summed up.
        """

    def writes(
        self,
        thread_id: str,
        namespace: Iterable[str] = (),
        *,
        at: str | None = None,
    ) -> Record:
        """Return the pending writes of a checkpoint, and the interrupts that it waits with."""

class KeyValue:
    """Values under plain keys.

    A write is complete or absent, and every process sees it. Keys are ordered by code points. A
    value is any that the library stores; a pydantic model in it is stored as
    ``model_dump(mode="json")``. Every read creates new objects.

    Args:
        db: the database.
        namespace: keeps several of them apart.
        agent_id: the writer, where a call does not name one.
        index_text: make the words of the values findable with `Store.search`.

    Every method takes ``connection=``, as those of `Store`, and raises what they raise.
    """

    def __init__(
        self,
        db: Database,
        *,
        namespace: Namespace = ("kv",),
        agent_id: str | None = None,
        index_text: bool = False,
    ) -> None: ...
    def __contains__(self: Any, key: object) -> bool:
        """`exists`."""

    def __iter__(self: Any) -> Iterator[str]:
        """`keys`."""

    def __len__(self: Any) -> int:
        """`count`."""

    def clear(self, *, connection: HostConnection | None = None) -> int:
        """Remove every key, but no agent's memory, and return how many there were."""

    def close(self) -> None:
        """Do nothing: connections belong to the database."""

    def compare_and_swap(
        self,
        key: str,
        expected: Any,
        new: Any,
        *,
        agent_id: str | None = None,
        ttl: Seconds | None = None,
        connection: HostConnection | None = None,
    ) -> bool:
        """Set a key to *new* if it holds *expected*, and return whether it did.

        Of several that race, one wins.

        Args:
            expected: a value, which must be of the same types and digits; ``None``, which matches
                a missing key, too; ``ABSENT`` for a missing key; or an entry that was read, which
                matches until anybody writes the key again.
        """

    def count(self, *, connection: HostConnection | None = None) -> int:
        """Return the number of keys; ``len`` of the synchronous class."""

    def delete(self, key: str, *, connection: HostConnection | None = None) -> bool:
        """Remove a key and return whether it was there."""

    def delete_memory(
        self,
        agent_id: str,
        session_key: str = "default",
        *,
        connection: HostConnection | None = None,
    ) -> bool:
        """Remove the memory of a session and return whether it was there."""

    def exists(self, key: object, *, connection: HostConnection | None = None) -> bool:
        """Return whether the key is there, whatever its value; ``in`` of the synchronous class."""

    def items(
        self,
        *,
        prefix: str | None = None,
        connection: HostConnection | None = None,
    ) -> list[tuple[str, Any]]:
        """Return keys with their values, by key; the values of 500 keys are of one moment."""

    def keys(
        self,
        *,
        prefix: str | None = None,
        connection: HostConnection | None = None,
    ) -> list[str]:
        """Return all keys, or those that begin with *prefix*, ordered by code points."""

    def read(
        self,
        key: str,
        default: Any = None,
        *,
        connection: HostConnection | None = None,
    ) -> Any:
        """Return the value; *default* if the key is not there. A stored ``None`` is ``None``."""

    def read_all(self, *, connection: HostConnection | None = None) -> dict[str, Any]:
        """Return all values by their keys, in the order of the keys."""

    def read_entry(
        self,
        key: str,
        *,
        connection: HostConnection | None = None,
    ) -> KeyValueEntry | None:
        """Return the value with its writer, time and version, or ``None``."""

    def read_memory(
        self,
        agent_id: str,
        session_key: str = "default",
        *,
        connection: HostConnection | None = None,
    ) -> AgentMemory | None:
        """Return ``turns``, ``summary`` and ``updated_at`` of a session's memory, or ``None``."""

    def to_text(
        self,
        keys: Iterable[str] | None = None,
        *,
        connection: HostConnection | None = None,
    ) -> str:
        """Return lines of ``key: value``, the values as JSON, of all keys or of *keys*."""

    def write(
        self,
        key: str,
        value: Any,
        *,
        agent_id: str | None = None,
        ttl: Seconds | None = None,
        connection: HostConnection | None = None,
    ) -> int:
        """Set a key and return its version: 1 if it is new."""

    def write_memory(
        self,
        agent_id: str,
        *,
        turns: Iterable[Any],
        summary: str = "",
        session_key: str = "default",
        connection: HostConnection | None = None,
    ) -> int:
        """Set the memory of an agent's session, apart from the keys; return its version."""

class LLMMemoryManager:
    """Long-term memory in a `Store`: under ``(*namespace, type)``, by the key of the memory.

    Args:
        store: a `Store`, or a `Database`. With an embedder memories are found by meaning as well.
        extract_fn: function of a list of messages that returns memories, or mappings of their
            fields; plain or a coroutine. By default English keywords decide.
        namespace_prefix: the owner of the memories, such as ``("users", "ada")``.
        max_memories: how many are kept of each type; the oldest are removed. ``None`` for all.
        retrieve_limit: how many are recalled.
        extract_mode: ``inline`` saves the memories before the end of a session returns;
            ``background`` soon after, in the order of the sessions of one namespace. Call `drain`
            before the database is closed.
        max_concurrent_extractions: how many background extractions run at once.
        namespace_resolver: function of a `RunInfo` that returns the namespace or the `MemoryScope`
            of a run; plain or a coroutine. If it returns ``None``, raises, or returns no valid
            namespace, the run has no memory: nothing is read or written, and the error is logged.
            With a resolver there is no namespace outside of a session and of `scoped`.

    Every method takes ``connection=``, as those of `Store` do.

    Raises, from any method but `on_session_end`:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
    """

    extract_mode: ExtractMode
    max_concurrent_extractions: int
    def __init__(
        self,
        store: Store | Database,
        *,
        extract_fn: ExtractFn | None = None,
        namespace_prefix: Sequence[str] = ("memory",),
        max_memories: int | None = 50,
        retrieve_limit: int = 20,
        extract_mode: ExtractMode = "inline",
        max_concurrent_extractions: int = 4,
        namespace_resolver: NamespaceResolver | None = None,
    ) -> None: ...
    @property
    def active_namespace(self) -> tuple[str, ...]:
        """Namespace that is written to now.

        Raises:
            ValueError: there is a resolver, and this is neither a session nor `scoped`.
        """

    @property
    def active_recall(self) -> tuple[tuple[str, ...], ...]:
        """Namespaces that are read now: the active one, then those that are only read."""

    def drain(self) -> None:
        """Wait for all background extractions, also those that begin meanwhile.

        Call it before the database is closed. Cancelling the call cancels no extraction.
        """

    def extract(self, messages: list[Any]) -> list[Memory]:
        """Return the memories that the extract function gives, or those found by keywords.

        Raises:
            KeyError, TypeError, ValueError: the function gave something that is no memory.
        """

    def on_session_end(
        self,
        state: Any,
        *,
        metadata: Mapping[str, Any] | None = None,
        connection: HostConnection | None = None,
    ) -> None:
        """`BaseMemoryManager.on_session_end` in the namespace of the run."""

    def on_session_start(
        self,
        state: Any,
        *,
        metadata: Mapping[str, Any] | None = None,
        connection: HostConnection | None = None,
    ) -> Any:
        """`BaseMemoryManager.on_session_start` in the namespace of the run.

        The resolver gets *metadata* together with the metadata of *state*.
        """

    @property
    def pending_extractions(self) -> int:
        """Number of background extractions that have not ended yet."""

    def retrieve(
        self,
        limit: int | None = None,
        *,
        query: str | None = None,
        match: Match = "any",
        namespaces: Iterable[Sequence[str]] | None = None,
        connection: HostConnection | None = None,
    ) -> list[Memory]:
        """Return memories of every type, at most *limit*, the last saved first.

        With *query* those that match it come first, the most relevant before the others; of equal
        ones the types take turns. If there are not enough, the last saved follow. In an encrypted
        database that holds nothing readable to search, only the last saved are returned. Several
        namespaces take turns. Memories of two namespaces with one key are two memories, unless
        they have the same content.

        Args:
            limit: ``retrieve_limit`` by default.
            match: words of *query* find memories that hold ``any`` of them, or only those that hold
                ``all``.
            namespaces: the namespaces to read; the active ones by default.

        Raises:
            ValueError: *namespaces* are not all of one tenant, which is their first part.
        """

    def retrieve_relevant(
        self,
        query: str | None,
        limit: int | None = None,
        *,
        match: Match = "any",
        namespaces: Iterable[Sequence[str]] | None = None,
        connection: HostConnection | None = None,
    ) -> list[Memory]:
        """`retrieve` with a query."""

    def save(self, memories: Iterable[Memory], *, connection: HostConnection | None = None) -> None:
        """Store memories in the active namespace, all or none; then remove the oldest ones.

        A memory with the same type and key is replaced. Of memories that are saved together the
        last one is the newest.

        Raises:
            NotSerialisable, TooLarge: one of them cannot be stored.
        """

    def scoped(
        self,
        namespace_prefix: Sequence[str],
        *,
        recall: Iterable[Sequence[str]] = (),
    ) -> AbstractContextManager[None]:
        """Use a namespace for the calls in a block: ``with manager.scoped(("users", "ada")):``.

        The namespaces of *recall* are only read. One whose first part differs belongs to another
        tenant: it is left out, and that is logged. Each task has a scope of its own.
        """

class NamespacedStore:
    """Store in one namespace; options pass through. ``store`` is the whole store."""

    def __init__(self, store: Store, namespace: Namespace) -> None: ...
    def change(self, key: str, function: Change, **more: Any) -> Any | None:
        """`Store.change`."""

    def clear(self, **more: Any) -> int:
        """`Store.clear_namespace`."""

    def count(self, **more: Any) -> int:
        """`Store.count`."""

    def delete(self, key: str, **more: Any) -> bool:
        """`Store.delete`."""

    def exists(self, key: str, **more: Any) -> bool:
        """`Store.exists`."""

    def get(self, key: str, **more: Any) -> Any | None:
        """`Store.get`."""

    def get_embedding(self, key: str, **more: Any) -> list[float] | None:
        """`Store.get_embedding`."""

    def get_item(self, key: str, **more: Any) -> StoreItem | None:
        """`Store.get_item`."""

    def list_items(self, **more: Any) -> list[StoreItem]:
        """`Store.list_items`."""

    def list_keys(self, limit: int = 100, **more: Any) -> list[str]:
        """`Store.list_keys`."""

    def put(
        self,
        key: str,
        value: Any,
        metadata: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> int:
        """`Store.put`."""

    def scoped(self, *suffix: str) -> NamespacedStore:
        """Return a view of the namespace with *suffix* added."""

    def search(self, query: str | None = None, limit: int = 10, **more: Any) -> SearchHits:
        """`Store.search`."""

    def search_by_embedding(
        self,
        query_embedding: Any,
        limit: int = 10,
        **more: Any,
    ) -> list[SemanticSearchResult]:
        """`Store.search_by_embedding`."""

class NoopMemoryManager:
    """Memory manager that remembers nothing."""

    extract_mode: ExtractMode
    max_concurrent_extractions: int
    def __init__(self) -> None: ...
    def drain(self) -> None:
        """Wait for all background extractions, also those that begin meanwhile.

        Call it before the database is closed. Cancelling the call cancels no extraction.
        """

    def extract(self, messages: list[Any]) -> list[Memory]:
        """Return ``[]``."""

    def on_session_end(
        self,
        state: Any,
        *,
        metadata: Mapping[str, Any] | None = None,
        connection: HostConnection | None = None,
    ) -> None:
        """Do nothing."""

    def on_session_start(
        self,
        state: Any,
        *,
        metadata: Mapping[str, Any] | None = None,
        connection: HostConnection | None = None,
    ) -> Any:
        """Return *state* itself."""

    @property
    def pending_extractions(self) -> int:
        """Number of background extractions that have not ended yet."""

    def retrieve(self, limit: int = 20) -> list[Memory]:
        """Return ``[]``."""

    def retrieve_relevant(self, query: str | None, limit: int | None = None) -> list[Memory]:
        """Return memories for *query*; unless overridden, those of `retrieve`."""

    def save(self, memories: list[Memory]) -> None:
        """Do nothing."""

class RetainedCheckpointer(Generic[State]):
    """`Checkpointer` that removes old messages from the states that it saves.

    States have their messages under ``messages``; others are saved as they are. Each message gets
    the time of its first save, as ``stored_at`` in its metadata. The first save after *max_age*
    removes it, with its exchange as a whole, and a save with more than *keep_messages* messages
    removes the oldest. No answer loses its question, no tool call its result; system messages stay.
    A message that has a time, ``occurred_at``, keeps it. If an application drops the times from its
    messages, they are found again by the content of the messages.

    Earlier checkpoints keep the messages that they were saved with, so `Retention` is useful here,
    too.

    Args:
        max_age: how long a message is kept, in seconds or as a timedelta; ``None`` for ever.
        keep_messages: maximum number of messages of a state, as of `SlidingWindowManager`.
        clock: function that returns the time, an aware datetime.
        settings: the other arguments of `Checkpointer`.
    """

    db: Database
    deletes_single_checkpoints: bool
    namespace: tuple[str, ...]
    @overload
    def __init__(
        self: RetainedCheckpointer[dict[str, Any]],
        db: Database,
        max_age: Seconds | None = None,
        *,
        keep_messages: int | None = None,
        clock: Callable[[], datetime] | None = None,
        state_type: None = None,
        **settings: Unpack[CheckpointerOptions],
    ) -> None: ...
    @overload
    def __init__(
        self,
        db: Database,
        max_age: Seconds | None = None,
        *,
        keep_messages: int | None = None,
        clock: Callable[[], datetime] | None = None,
        state_type: type[State] | Callable[[dict[str, Any]], State],
        **settings: Unpack[CheckpointerOptions],
    ) -> None: ...
    def cached_values(
        self,
        thread_id: str,
        checkpoint_id: str,
        keys: Iterable[str],
    ) -> dict[str, Any]:
        """Return the values of *keys* in a checkpoint's state, as far as they are cached.

        It does not ask the database. Only the newest checkpoint of a thread that this process has
        saved or loaded is cached; of any other the result is empty.
        """

    @property
    def capabilities(self) -> CheckpointerCapabilities:
        """Features of this checkpointer: all, but no `search` where no word may be readable."""

    def change(
        self,
        thread_id: str,
        function: Callable[[State | None], Any],
        metadata: Mapping[str, Any] | None = None,
        *,
        ttl: Seconds | None = None,
        connection: HostConnection | None = None,
    ) -> str | None:
        """Apply a function to the newest state and save the result; no save of others is lost.

        *function* takes the newest state as `load` returns it, or ``None`` if there is none. It
        returns the new state, which may be the one that it was given, or ``LEAVE`` to save nothing;
        it may be a coroutine function. If others save the thread meanwhile, the function is called
        again with their state, so it should have no side effects. For that call the thread is
        locked, unless the function is a coroutine function, which may take long. An exception that
        the function raises passes through, and nothing is saved.

        Returns the id of the newest checkpoint after the call; ``None`` if there is none.

        Args:
            metadata, ttl: as for `save`.

        Raises:
            InvalidArgument: the function returned ``None``; nothing was saved.
            NotSerialisable, TooLarge: the new state cannot be stored; nothing was saved.
            Conflict: others saved first 20 times, and the thread could not be locked; or the
                transaction of *connection* does not see what they have saved. Nothing was saved.
        """

    def close(self) -> None:
        """Do nothing: the connections are the database's. The contract has this method."""

    def copy_thread(
        self,
        source_thread_id: str,
        dest_thread_id: str,
        *,
        all_namespaces: bool = True,
        below: bool = False,
        connection: HostConnection | None = None,
    ) -> bool:
        """Copy a thread with all its logs; checkpoint ids and order stay. ``False`` if it is empty.

        The logs of every namespace are copied, whatever wrote them. Without *all_namespaces* only
        the log in this namespace is, with the others in which a framework keeps the same thread;
        with *below* the logs of this namespace and the ones under it.

        Raises:
            Conflict: the target holds something in a namespace that is copied; nothing was changed.
            ValueError: the target is the source.
        """

    def count_threads(self, pattern: str = "*", *, connection: HostConnection | None = None) -> int:
        """Count the threads with a checkpoint whose ids match the glob."""

    def delete(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        *,
        superseded: bool = False,
        all_namespaces: bool = True,
        below: bool = False,
        connection: HostConnection | None = None,
    ) -> bool:
        """Delete a checkpoint, or without an id the thread with all its logs.

        Returns whether it existed.

        The logs of every namespace are deleted, whatever wrote them. Without *all_namespaces* only
        the log in this namespace is, with its checkpoints and entries, and the others in which a
        framework keeps the same thread; with *below* the logs of this namespace and the ones under
        it.

        A checkpoint that another rests on (see `save`) is not deleted before that one.

        A deleted checkpoint's state stays in the database, with no id, while others are stored as
        differences from it; `rewrite` ends that. Searches no longer find its words, unless it is
        *superseded*, a mere step to the thread's next checkpoint: then they find that one.

        Raises:
            Conflict: another checkpoint rests on this one; nothing was deleted.
        """

    def delete_checkpoints(
        self,
        thread_id: str,
        checkpoint_ids: Iterable[str],
        *,
        connection: HostConnection | None = None,
    ) -> int:
        """Delete some checkpoints with their pending writes; return their number.

        One transaction.

        Those that others rest on (see `Checkpointer.save`) stay.
        """

    def diff(
        self,
        thread_id: str,
        a: str,
        b: str,
        *,
        connection: HostConnection | None = None,
    ) -> Diff:
        """Return the difference between the states of checkpoints *a* and *b*, as JSON pointers.

        Raises:
            NotFound: one of the checkpoints does not exist.
        """

    def exists(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        *,
        connection: HostConnection | None = None,
    ) -> bool:
        """Return whether the checkpoint exists; without an id, whether the thread has any."""

    def export(
        self,
        *,
        tenant: str | None = None,
        thread_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        all_namespaces: bool = True,
        connection: HostConnection | None = None,
    ) -> LazyIterator[ExportRecord]:
        """Yield every checkpoint and entry that `forget` would erase, as a JSON object.

        Thread by thread and log by log, oldest checkpoint first, then the entries in order, which
        have a ``position`` and a ``value``. Values that JSON lacks are tagged objects such as
        ``{"~b": base64}``. Without *all_namespaces* only those of threads in this namespace, with
        all logs of a framework's thread.

        Raises:
            ValueError: *tenant* is not that of this database.
        """

    def export_files(
        self,
        directory: str | PathLike[str],
        *,
        tenant: str | None = None,
        thread_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        all_namespaces: bool = True,
        progress: Callable[[int], object] | None = None,
        connection: HostConnection | None = None,
    ) -> int:
        """Write the records of `export` into *directory*, one JSON file each; return their number.

        Without a selector, everything of the database's tenant. Files are named after thread and
        checkpoint: ``THREAD/CHECKPOINT.json``, and ``THREAD/@NAMESPACE/CHECKPOINT.json`` in a
        namespace; an id that makes no good file name is followed by its SHA-256, so that no two
        collide. The directory appears when it is complete. *progress* is called with the number of
        files so far.

        Raises:
            Conflict: *directory* exists and is not empty.
            OSError: the files cannot be written.
            ValueError: *tenant* is not that of this database.
        """

    def find_runs(
        self,
        run_ids: Iterable[str],
        *,
        connection: HostConnection | None = None,
    ) -> dict[tuple[str, tuple[str, ...]], list[str]]:
        """Return the ids of the checkpoints saved with one of *run_ids*, by thread and namespace.

        Only checkpoints in this namespace and below it are found, each list in the order of saving.
        """

    def forget(
        self,
        *,
        tenant: str | None = None,
        thread_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        namespace: Iterable[str] | None = None,
        connection: HostConnection | None = None,
    ) -> int:
        """Erase everything of the tenant, of a thread, or of all threads and items with *metadata*.

        With *namespace*, erase what all threads have in that namespace and below it. It is the
        whole namespace as it is stored, not relative to this checkpointer's; frameworks put the
        names of users into it. What the threads have elsewhere stays, and items stay:
        `Store.forget_namespace` erases those.

        Give exactly one of the four; *tenant* must be that of this database, so that leaving an
        argument away never erases everything. It erases all logs and namespaces, expired ones too,
        and leaves no tombstone, and no word in a text index. A thread matches *metadata* if each
        pair is in its own metadata or in a checkpoint's, an item of a store if its metadata has all
        pairs; its vectors go too. Returns the number of erased checkpoints, entries and items.
        `export` with the same argument writes out the same checkpoints and entries; for *namespace*
        it is ``Checkpointer(db, namespace=…).export(tenant=…, all_namespaces=False)``, of one
        namespace.

        Free pages and the write-ahead log of a SQLite file are cleaned as well; if a reader
        prevents that, a warning is logged that names the command to run. On a server the pages keep
        dead rows until `memalchemy vacuum --full` rewrites them. Backups, archived logs and
        replicas are out of reach: see docs/erasure.md. Nothing of this is done for a host's
        *connection*.

        Raises:
            ValueError: *tenant* is not that of this database; or *namespace* is empty, which would
                be all threads of the tenant.
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

        If a framework keeps the thread in several logs, such as one for each subgraph, all are
        copied, each as it was at that checkpoint. The two threads share nothing afterwards.

        Returns the new thread's id, ``THREAD-fork-xxxxxxxx`` if none is given (a long THREAD is cut
        off to fit).

        Raises:
            NotFound: the checkpoint does not exist.
            Conflict: the new thread holds something in a namespace that is copied.
            ValueError: the new thread is the old one.
        """

    def get_metadata(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        *,
        connection: HostConnection | None = None,
    ) -> CheckpointRecord | None:
        """Return a checkpoint without its state, the newest without an id; ``None`` if none exists.

        The keys are the fields of `CheckpointInfo`.
        """

    def get_storage_stats(
        self,
        thread_id: str,
        *,
        connection: HostConnection | None = None,
    ) -> StorageStats:
        """Return the number and sizes of a thread's checkpoints.

        The keys are ``total_checkpoints``; ``total_size``, the bytes of every state whole;
        ``compressed_size``, the bytes stored; ``compression_ratio``, ``total_size`` over
        ``compressed_size``, or 1.0 of an empty thread; ``full_checkpoints`` and
        ``delta_checkpoints``.
        """

    def get_writes(
        self,
        thread_id: str,
        checkpoint_id: str,
        *,
        connection: HostConnection | None = None,
    ) -> list[PendingWrite]:
        """Return the pending writes of the step after a checkpoint.

        They are ordered by (task_path, task_id, index).
        """

    def get_writes_batch(
        self,
        thread_id: str,
        checkpoint_ids: Sequence[str],
        *,
        connection: HostConnection | None = None,
    ) -> dict[str, list[PendingWrite]]:
        """Return the pending writes of some checkpoints of a thread, each as `get_writes` does.

        Checkpoints without writes are not in the result. One round trip for each hundred or more.

        Raises:
            Corrupt, KeyMissing, NotEncrypted: as `Checkpointer.load`.
        """

    def history(
        self,
        thread_id: str | None,
        *,
        limit: int | None = None,
        before: str | None = None,
        below: bool = False,
        order: CheckpointOrder = "position",
        connection: HostConnection | None = None,
    ) -> LazyIterator[CheckpointInfo]:
        """Yield the thread's checkpoints, newest first; with *before*, only those older than it.

        Reads no payload, in pages of 500; a checkpoint that is deleted or replaced meanwhile may be
        missing.

        Args:
            order: ``"position"``: as they were saved. ``"id"``: by their ids, the highest first,
                for hosts whose ids are in order of time; *before* may be any id then, and a
                *thread_id* of ``None`` stands for all threads of the namespace.
            below: include the namespaces under this one; in the order of ids only.

        Raises:
            NotFound: in the order of positions, the checkpoint *before* does not exist.
        """

    def list_checkpoints(
        self,
        thread_id: str,
        limit: int = 10,
        *,
        connection: HostConnection | None = None,
    ) -> list[str]:
        """Return the ids of the thread's checkpoints, newest first, at most *limit*."""

    def list_logs(
        self,
        thread_id: str | None = None,
        *,
        limit: int = 100,
        pattern: str = "*",
        below: bool = False,
        connection: HostConnection | None = None,
    ) -> list[LogInfo]:
        """Return logs with a checkpoint or an entry, most recently written first, at most *limit*.

        They are those of all threads, of one thread, or of threads whose whole id matches the glob
        *pattern*, as in `list_threads`. A log is a thread in one namespace: in this checkpointer's,
        with *below* also in those under it. All logs are below the root: those of frameworks,
        conversations, event logs. `LogInfo` has the counts and sizes of what a log holds.
        """

    def list_threads(
        self,
        limit: int = 100,
        pattern: str = "*",
        *,
        offset: int = 0,
        connection: HostConnection | None = None,
    ) -> list[str]:
        """Return the ids of threads with a checkpoint, most recently written first.

        *pattern* is a glob over the whole id, case-sensitive: ``*``, ``?``, ``[a-z]``. *offset*
        skips as many of the first; a thread that is saved meanwhile moves to the front.
        """

    def list_with_metadata(
        self,
        limit: int = 100,
        *,
        connection: HostConnection | None = None,
    ) -> list[CheckpointRecord]:
        """Return the newest checkpoints of all threads, newest first, as `get_metadata`."""

    def load(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        *,
        connection: HostConnection | None = None,
    ) -> State | None:
        """Return the state of a checkpoint, the newest without an id; ``None`` if there is none.

        One round trip; on Citus two, but one if this process holds the state. It holds the newest
        state of a thread that it has saved or loaded: whether that is still the newest is looked
        up, no payload is read, and the bytes in memory are compared with their checksum. Every call
        builds new objects. It sees its own writes: it does not read from a replica, unless the
        checkpointer is on ``db.replica()``.

        Raises:
            Corrupt: the stored state does not match its checksum.
            KeyMissing, NotEncrypted: the database's keys are not those of the stored state.
        """

    def namespaces(
        self,
        thread_id: str,
        *,
        connection: HostConnection | None = None,
    ) -> list[tuple[str, ...]]:
        """Return the namespaces, from this one on down, in which the thread has a checkpoint."""

    def prune(
        self,
        thread_id: str | None = None,
        *,
        keep_last: int | None = None,
        keep_every: int | None = None,
        older_than: Seconds | None = None,
        all_namespaces: bool = False,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
        connection: HostConnection | None = None,
    ) -> int:
        """Delete the checkpoints that no given rule keeps (see `Retention`); return their number.

        It prunes one thread, or all; in this checkpointer's namespace, or in all. The newest of a
        thread always stays, and so do states that kept checkpoints are built on. Words of a deleted
        checkpoint that its next remaining descendant holds are found at that one from now on: in
        each branch, or in the hundred newest.

        If a framework keeps a thread in several logs, such as one for each subgraph, the rules are
        for the main log, and the others keep what its remaining checkpoints need.

        Over all threads it works in batches, each a transaction of its own of about 2,000 rows. A
        thread that somebody is saving into is skipped and tried again at the end, for some two
        seconds; then it is left, and `Progress.busy` counts it. A single thread is waited for. An
        interrupted prune is resumed by running it again.

        Args:
            dry_run: only count what would be deleted, exactly; nothing is written.
            progress: called after every batch.
        """

    def purge_messages(
        self,
        older_than: Seconds,
        *,
        thread_id: str | None = None,
        history: bool = False,
        progress: Callable[[Progress], object] | None = None,
    ) -> int:
        """Remove old messages from the newest state of one thread or of all; return how many.

        It is for threads that nobody saves any more. A state with old messages is saved anew
        without them, with its metadata and ``"source": "purge_messages"``. The age of a message,
        and what stays whole, are as in `save`; a message without a time is as old as the
        checkpoint. What others save meanwhile is not lost. An interrupted purge can be run again.

        Args:
            history: also delete the earlier checkpoints of each thread that lost a message, and
                rewrite what is stored of them.
            progress: called after every thread; ``removed`` counts messages.

        Raises:
            Corrupt: threads cannot be read or proven; they were left, and the others purged.
        """

    def put_writes(
        self,
        writes: Sequence[tuple[str, Any]],
        thread_id: str,
        checkpoint_id: str,
        task_id: str,
        *,
        task_path: str = "",
        indexes: Sequence[int] | None = None,
        overwrite: bool = False,
        made_at: datetime | None = None,
        connection: HostConnection | None = None,
    ) -> None:
        """Store the pending writes of a task for the step after a checkpoint.

        The checkpoint may be saved later.

        One round trip on PostgreSQL. The writes live as long as their checkpoint.

        Args:
            writes: pairs of a channel and a value.
            indexes: the index of each write within its task; 0, 1, … by default. Of several writes
                with one index the first stays, with *overwrite* the last; below 0 the last in any
                case.
            made_at: the time at which the checkpoint was made. If it is after the thread's
                deletion, the checkpoint belongs to the thread's next life: the write is stored, and
                seen once a checkpoint has begun that life.

        Raises:
            NotSerialisable, TooLarge: a value cannot be stored; nothing was written.
            ThreadDeleted: the thread has been deleted.
            Conflict: others made the thread anew 20 times, and it expired each time; nothing was
                written.
        """

    def query_by_metadata(
        self,
        key: str,
        value: Any,
        limit: int = 100,
        *,
        data: bool = False,
        connection: HostConnection | None = None,
    ) -> list[CheckpointMatch]:
        """Return checkpoints whose metadata has *value* under *key*, newest first.

        Each is as `get_metadata` gives it.

        Numbers compare as numbers and booleans as booleans. Any key works; an index answers, except
        on Oracle, which has none over keys that are not known beforehand. With *data* each has its
        state under ``data``, as it is stored: one more read for each 100.
        """

    def rewrite(self, thread_id: str, *, connection: HostConnection | None = None) -> int:
        """Encode a thread's checkpoints anew, so that nothing of deleted states is left in them.

        One transaction. Returns the number of states that were dropped because no checkpoint has
        them. What the database itself keeps (free pages, write-ahead logs, backups) is out of
        reach.
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
        lineage: str | Unset | None = ...,
        rests_on_parent: bool = False,
        run_id: str | None = None,
        occurred_at: datetime | None = None,
        ttl: Seconds | None = None,
        connection: HostConnection | None = None,
    ) -> str:
        """Save *state* as the newest checkpoint of the thread; return its id.

        Args:
            state: a mapping, a pydantic model, an object with ``to_checkpoint()``, or a dataclass
                that is the ``state_type``; `memalchemy.codec.values` lists what it may hold.
            thread_id: any text of up to 255 characters.
            checkpoint_id: made up if not given. One that exists is replaced and becomes the
                newest; what was built on its old state still loads.
            metadata: small JSON, for `query_by_metadata` and listings.
            parent_id: branch off this checkpoint instead of the newest.
            expected_parent: raise `Conflict` unless this is the newest checkpoint (``None``:
                unless there is none). The check and the save are one.
            lineage: the parent to record, whether it exists or not (``None``: no parent), for a
                host that keeps track of parents itself; the state is appended to the newest.
            rests_on_parent: the state is incomplete without its parent: without the parent's state,
                its pending writes, or what the parent rests on in turn. *parent_id* or *lineage*
                names the parent, which has to exist. Neither retention nor a deletion removes it
                while this checkpoint stays.
            run_id: the run that made the checkpoint, for `find_runs`.
            occurred_at: the time of the step, an aware datetime, for imports; now by default.
                ``older_than`` of retention goes by it.
            ttl: in place of the checkpointer's own. The last save counts: after one without any,
                the thread does not expire.

        Raises:
            NotSerialisable, TooLarge: the state or metadata cannot be stored; nothing was written.
            Conflict: *expected_parent* is not the newest.
            ThreadDeleted: a parent was named and the thread has been deleted since.
            NotFound: *parent_id*, or a parent that the state rests on, does not exist.
            ValueError: both *parent_id* and *lineage* were given, or *rests_on_parent* without
                either; *occurred_at* has no time zone.

        *state* is saved as it is when the call begins to run, however it changes while the call
        waits.
        """

    def search(
        self,
        query: str,
        limit: int = 10,
        *,
        below: bool = False,
        match: Match = "any",
        data: bool = False,
        connection: HostConnection | None = None,
    ) -> list[CheckpointHit]:
        """Return checkpoints whose step added words of *query*, best first.

        Each is as `get_metadata` gives it, with ``snippet`` and ``score``, 0 to 1. The best scores
        the share of the query that it holds, rare words counting more; the others score in
        proportion to it, by BM25. Words are compared and ranked as `Store.search` compares them. A
        query without words finds nothing. The snippet is from a text of the state, as it was
        written, for which the states of the hits are read; of a state that cannot be read, and
        beyond 16 MiB of states, it has some of the stored words, each once.

        With the *match* ``all`` only checkpoints are found whose step added all words. With *below*
        the namespaces under this one are included, in one ranking:
        `Checkpointer(db).search(…, below=True)` finds what any framework has saved. With *data*
        each has its state under ``data``, as it is stored.

        Raises:
            CapabilityMissing: the database is encrypted, and holds no readable words;
                ``capability`` is ``search``.
            KeyMissing: nothing was found, the tenant is encrypted, and no key was given.
        """

    def search_data(
        self,
        path: str,
        value: Any,
        limit: int = 100,
        *,
        among: int | None = 1000,
        connection: HostConnection | None = None,
    ) -> list[CheckpointWithData]:
        """Return threads whose newest state has *value* under *path*, most recently saved first.

        Each is as `get_metadata` gives its newest checkpoint, with the state under ``data``, as it
        is stored. *path* is a top-level key of the state, or a JSON pointer such as ``/user/name``;
        values are equal as in `memalchemy.filters`. No index serves this: the newest states of the
        *among* threads saved last are read, 20 at once, and a thread beyond them is not
        found; ``among=None`` reads those of all. A value that is searched for often belongs in the
        metadata of a save, where `query_by_metadata` finds it by an index.

        Raises:
            Corrupt: a stored state that was read does not match its checksum.
        """

    def set_thread_metadata(
        self,
        thread_id: str,
        metadata: Mapping[str, Any],
        *,
        connection: HostConnection | None = None,
    ) -> None:
        """Replace the metadata of the thread itself, such as a title or an owner, as a whole.

        The metadata belongs to the thread in this namespace. `list_logs` returns it, `fork` copies
        it, `delete` and `forget` remove it, and ``forget(metadata=…)`` finds the thread by it. It
        is not the metadata of a checkpoint: see `save`. Setting it does not change the order of
        `list_threads`.

        Raises:
            NotFound: the thread has no log in this namespace, or it has expired.
        """

    def snapshot(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        *,
        newest_by: CheckpointOrder = "position",
        connection: HostConnection | None = None,
    ) -> Snapshot | None:
        """Return a checkpoint with its state and pending writes; ``None`` if it does not exist.

        One round trip.

        Args:
            newest_by: the checkpoint to return without a *checkpoint_id*: the last saved
                (``"position"``), or the one of the highest id (``"id"``), for hosts whose ids are
                in order of time.

        Raises:
            Corrupt, KeyMissing, NotEncrypted: as `Checkpointer.load`.
        """

    def snapshots(
        self,
        thread_id: str,
        checkpoint_ids: Sequence[str],
        *,
        connection: HostConnection | None = None,
    ) -> LazyIterator[Snapshot]:
        """Yield the given checkpoints as `snapshot` returns them, in order, without missing ones.

        Two round trips for each 20.
        """

    def snapshots_of(
        self,
        infos: Iterable[CheckpointInfo],
        *,
        connection: HostConnection | None = None,
    ) -> LazyIterator[tuple[CheckpointInfo, Snapshot]]:
        """Yield the checkpoints of a listing, in order, as `snapshot` returns them.

        They may be of any threads and namespaces. Two round trips for each 100, or fewer if their
        states are large; checkpoints that were deleted meanwhile are left out.

        Raises:
            Corrupt, KeyMissing, NotEncrypted: as `Checkpointer.load`.
        """

    def vacuum(
        self,
        older_than_days: float | None = 30,
        *,
        all_namespaces: bool = False,
        dry_run: bool = False,
        progress: ProgressCallback | None = None,
        connection: HostConnection | None = None,
    ) -> int:
        """Remove threads that were not saved for some days, expired threads, and old tombstones.

        A log stays while its thread is in use in a namespace above it, such as the log of a
        subgraph with a memory of its own. With ``older_than_days=None`` only expired threads and
        old tombstones are removed, which no reader sees. A thread is removed as a whole. Batches,
        busy threads, *dry_run* and *progress* are as in `prune`. Returns the number of removed
        checkpoints and entries. `memalchemy.space.reclaim` gives the space back.
        """

class Store:
    """Store values under a namespace and a key, and find them by key, field, words and meaning.

        store = Store(db)
        store.put(("users", "ada"), "city", {"name": "Oslo"}, {"source": "chat"})
        value = store.get(("users", "ada"), "city")
        hits = store.search(("users", "ada"), "oslo")

    A namespace is a tuple of strings; any strings, and any key, are told apart. A put is whole or
    absent. An item that has expired does not exist any more, for any method.

    Args:
        db: the database.
        embedder: a function of a list of texts that returns a vector for each. It may be a
            coroutine function, and should be if it waits for anything: a plain one runs on the
            event loop.
        model: the name under which its vectors are stored; vectors of several models lie side by
            side.
        index: the part of a value that is embedded where `put` does not say: all its texts, unless
            this names fields, or is false.
        metric: the measure that compares vectors: ``cosine``, ``dot`` or ``l2``.
        index_text: let `search` find the words of values and metadata.
        index_metadata: the only fields of value and metadata for which filters use an index:
            top-level keys, or JSON pointers. Without it each scalar field has one, up to 64 of an
            item; with it writes are cheaper, and items with more fields are found by these as well.
        ttl: the lifetime of an item after a write, in seconds or as a timedelta; or a mapping of
            namespaces to lifetimes, which hold for all below them.
        refresh_ttl: reading an item extends its life by its ttl from then on.

    Every method takes ``connection=``, a `Connection` or `Session` of the host: the work
    is then part of the host's transaction, sees its own writes, and is gone after a rollback.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
    """

    db: Database
    def __init__(
        self,
        db: Database,
        *,
        embedder: Embedder | None = None,
        model: str = "default",
        index: Index = None,
        metric: Metric = "cosine",
        index_text: bool = True,
        index_metadata: Iterable[str] = (),
        ttl: Lifetimes = None,
        refresh_ttl: bool = False,
    ) -> None: ...
    @property
    def capabilities(self) -> StoreCapabilities:
        """Features of this store: all, but no search in data that may not be stored readable."""

    def change(
        self,
        namespace: Namespace,
        key: str,
        function: Change,
        *,
        metadata: Mapping[str, Any] | Unset | None = ...,
        index: Index = None,
        ttl: Seconds | None = None,
        connection: HostConnection | None = None,
    ) -> Any | None:
        """Change an item with a function of its current state, and lose no write of others.

        *function* takes the `StoreItem`, or ``None`` if there is none. It returns the new value,
        ``LEAVE`` to change nothing, or ``DELETE``; it may be a coroutine function. If others write
        the item meanwhile it is called again, with what they wrote, so it should do nothing else.
        The item is locked then, and nobody else is faster again; it is not locked for a coroutine
        function or an embedder, which may take long. An exception that the function raises passes
        through, and nothing is changed.

        Returns the value that is there then; ``None`` without one.

        Args:
            metadata: the new metadata; without it the metadata stays.
            index, ttl: as for `put`.

        Raises:
            Conflict: others were faster 20 times, with an item that could not be locked; or the
                transaction of *connection* does not see what they have written. Nothing was
                changed.
        """

    def change_matching(
        self,
        namespace: Namespace,
        filter: Mapping[str, Any],
        work: Callable[[list[StoreItem], HostConnection], Awaitable[None]],
        *,
        prefix: bool = False,
        connection: HostConnection | None = None,
    ) -> int:
        """Let *work* change the items that *filter* accepts, in one transaction; return how many.

        *work* is called with up to 500 items at a time, by namespace and key, and the transaction,
        which it gives as ``connection=`` to the methods that it calls. The items are locked, and as
        they are then: no change of others is lost, and what does not match any more is left out.

        Raises:
            ValueError: the filter is empty.
        """

    def clear_namespace(
        self,
        namespace: Namespace,
        *,
        prefix: bool = False,
        connection: HostConnection | None = None,
    ) -> int:
        """Delete all items of the namespace, with *prefix* also those below it.

        Returns their number.
        """

    def close(self) -> None:
        """Do nothing: the connections are the database's. The contract has this method."""

    def count(
        self,
        namespace: Namespace,
        *,
        prefix: bool = False,
        connection: HostConnection | None = None,
    ) -> int:
        """Count the items of the namespace, with *prefix* also those below it."""

    def delete(
        self,
        namespace: Namespace,
        key: str,
        *,
        expected_version: int | StoreItem | Unset = ...,
        connection: HostConnection | None = None,
    ) -> bool:
        """Delete an item with its vectors; return whether it existed.

        Raises:
            Conflict: the item is not at *expected_version*, a version or the `StoreItem` that was
                read; ``current`` is the existing item, or ``None``.
        """

    def delete_batch(
        self,
        keys: Iterable[tuple[Namespace, str]],
        *,
        connection: HostConnection | None = None,
    ) -> int:
        """Delete items with their vectors, in one transaction; return the number that existed."""

    def delete_matching(
        self,
        namespace: Namespace,
        filter: Mapping[str, Any],
        *,
        prefix: bool = False,
        connection: HostConnection | None = None,
    ) -> int:
        """Delete the items of the namespace that *filter* accepts, and return their number.

        In one transaction. With *prefix* those below the namespace as well. An item that others
        change meanwhile is deleted if it still matches; one that they add meanwhile may stay.

        Raises:
            ValueError: the filter is empty: `clear_namespace` deletes everything.
        """

    @property
    def embedder(self) -> Embedder | None:
        """Function that makes vectors of texts, if there is one."""

    def exists(
        self,
        namespace: Namespace,
        key: str,
        *,
        connection: HostConnection | None = None,
    ) -> bool:
        """Return whether the item exists, whatever its value; does not extend its life."""

    def forget_namespace(
        self,
        namespace: Namespace,
        *,
        connection: HostConnection | None = None,
    ) -> int:
        """Erase all items of the namespace and of all below it, expired ones too.

        What `Checkpointer.forget` does for items with some metadata: their vectors go with them,
        and no word of them is left in a text index. In a SQLite file of memalchemy's own nothing of
        them is left then; on a server the pages keep dead rows until `memalchemy vacuum --full`
        rewrites them, and a host's *connection* only deletes the rows. Threads of the same
        namespace stay. Returns the number of erased items.

        Raises:
            ValueError: *namespace* is empty: that would be all items of the tenant, for which there
                is `Checkpointer.forget` with *tenant*.
        """

    def get(
        self,
        namespace: Namespace,
        key: str,
        *,
        refresh: bool | None = None,
        connection: HostConnection | None = None,
    ) -> Any | None:
        """The value, or ``None`` if there is none; `exists` tells a stored ``None`` from that.

        Every call builds new objects. With *refresh* the item's ttl begins again now, except on a
        read-only database.
        """

    def get_batch(
        self,
        keys: Iterable[tuple[Namespace, str]],
        *,
        connection: HostConnection | None = None,
    ) -> dict[Name, Any]:
        """The values of the given ``(namespace, key)`` that exist. Does not extend their lives."""

    def get_embedding(
        self,
        namespace: Namespace,
        key: str,
        *,
        field: str = "",
        part: int = 0,
        model: str | None = None,
        connection: HostConnection | None = None,
    ) -> list[float] | None:
        """Return a vector of an item, in the precision of float32; ``None`` if there is none.

        Without *field* that of the whole value. *part* counts from 0; without *model*, the store's.
        """

    def get_embeddings(
        self,
        keys: Iterable[tuple[Namespace, str]],
        *,
        model: str | None = None,
        connection: HostConnection | None = None,
    ) -> dict[Name, list[float]]:
        """Return the vectors of the whole values of items, as `get_embedding` returns one.

        An item without one is left out. Of a value with several texts it is the vector of the
        first.
        """

    def get_item(
        self,
        namespace: Namespace,
        key: str,
        *,
        refresh: bool | None = None,
        connection: HostConnection | None = None,
    ) -> StoreItem | None:
        """Return the item, with metadata, times and version, or ``None``.

        Raises:
            Corrupt: the stored value does not match its checksum.
            KeyMissing, NotEncrypted: the database's keys are not those of the stored value.
        """

    def get_items(
        self,
        keys: Iterable[tuple[Namespace, str]],
        *,
        refresh: bool | None = None,
        connection: HostConnection | None = None,
    ) -> dict[Name, StoreItem]:
        """Return the items of the given ``(namespace, key)`` that exist, in the order of *keys*.

        With *refresh* the ttl of each begins again now, as in `get_item`: nothing is extended on a
        read-only database.
        """

    def hold(self, keys: Iterable[tuple[Namespace, str]], connection: HostConnection) -> int:
        """Lock items until the transaction of *connection* ends; return the number that exist.

        Nobody else writes or deletes them meanwhile, so that what is read then in the transaction
        is what it changes. Items that do not exist are not locked.
        """

    def iter_items(
        self,
        namespace: Namespace,
        *,
        prefix: bool = False,
        filter: Mapping[str, Any] | None = None,
        order: ItemOrder = "newest",
        page_size: int = 500,
        connection: HostConnection | None = None,
    ) -> LazyIterator[StoreItem]:
        """Yield all items of the namespace; with *prefix* also those of the namespaces below it.

        *filter* and *order* are as in `list_items`. Each page of *page_size* items is a query of
        its own. By ``newest``, an item that others write meanwhile moves to the front and may be
        missed; by ``key`` it is yielded where it is.
        """

    def iter_keys(
        self,
        namespace: Namespace,
        *,
        prefix: str | None = None,
        page_size: int = 500,
        connection: HostConnection | None = None,
    ) -> LazyIterator[str]:
        """Yield all keys of exactly this namespace, in the order of their code points.

        *prefix* is as in `list_keys`. Each page of *page_size* keys is a query of its own: a key
        that others write meanwhile is seen if it comes after the keys that were yielded.
        """

    def list_items(
        self,
        namespace: Namespace,
        *,
        prefix: bool = False,
        filter: Mapping[str, Any] | None = None,
        limit: int = 100,
        after: StoreItem | None = None,
        order: ItemOrder = "newest",
        connection: HostConnection | None = None,
    ) -> list[StoreItem]:
        """Return items of the namespace, with *prefix* also of those below it, at most *limit*.

        ``newest``: by the time of the last write, then by namespace and key, both backwards.
        ``key``: by namespace and key. The next page comes *after* the last item of this one, and is
        right however many were written meanwhile.

        Raises:
            TooLarge: the values take over 256 MiB together; ask for fewer.
        """

    def list_keys(
        self,
        namespace: Namespace,
        limit: int = 100,
        *,
        prefix: str | None = None,
        after: str | None = None,
        connection: HostConnection | None = None,
    ) -> list[str]:
        """Return keys of exactly this namespace, in code point order, at most *limit*.

        With *prefix* those that begin with it; with *after* those beyond it, the last of a page.
        """

    def list_namespaces(
        self,
        prefix: Namespace | None = None,
        limit: int = 100,
        *,
        after: Namespace | None = None,
        connection: HostConnection | None = None,
    ) -> list[tuple[str, ...]]:
        """Return namespaces that hold an item, at most *limit*; those from *prefix* on down.

        In the order of their stored paths. The next page comes *after* the last of this one.
        """

    @property
    def metric(self) -> Metric:
        """Measure that compares vectors."""

    def put(
        self,
        namespace: Namespace,
        key: str,
        value: Any,
        metadata: Mapping[str, Any] | None = None,
        *,
        index: Index = None,
        embedding: Any | None = None,
        ttl: Seconds | None = None,
        expected_version: Expected = ...,
        updated_at: datetime | None = None,
        connection: HostConnection | None = None,
    ) -> int:
        """Write an item, and return its version: 1, or one more than before.

        An existing item gets a new value, metadata, vectors and lifetime; it keeps the time of its
        creation. Its earlier vectors, of any model, are removed.

        Args:
            index: embed the whole value (true), nothing (false), or these fields: top-level keys,
                or JSON pointers; a list of texts gives a vector each. A missing or misspelt field
                gives none, which is no error: the event counts the ``vectors``.
            embedding: a vector; or vectors by field, or lists of them.
            ttl: its lifetime, if not that of the store; ``math.inf`` is for ever.
            expected_version: write only if the item is at this version; ``None``: only if it does
                not exist; a `StoreItem` that was read: only if it is still that one, and no other
                that was made under its key since.
            updated_at: the time of the write, an aware datetime, if not now. Listings go by it; of
                a new item it is ``created_at``, too. The lifetime begins now all the same.

        Raises:
            Conflict: the item is not as expected; ``current`` is the existing item, or ``None``.
            NotSerialisable, TooLarge: value, metadata, key or namespace cannot be stored.
            ValueError: a vector is zero, not finite, or of over 16,000 dimensions; *updated_at* has
                no time zone.
            StoreCapabilityError: vectors are wanted, and the database is encrypted and may hold
                none.
        """

    def put_batch(
        self,
        items: Batch,
        *,
        ttl: Seconds | None = None,
        index: Index = None,
        if_exists: str = "replace",
        keep_vectors: bool = False,
        connection: HostConnection | None = None,
    ) -> list[int]:
        """Write items, all or none, as `put` writes one; return their versions, in the order given.

        Each is ``(namespace, key, value)``, ``(namespace, key, value, metadata)`` or a `NewItem`,
        which may have a lifetime, vectors and an *index* of its own. Of two with the same key the
        last counts. The embedder is called once for all items with the same *index*.

        Args:
            if_exists: ``replace`` an existing item, ``skip`` the new one, whose version is 0 then,
                or ``fail``. Of two of a batch with the same key, the second one is skipped or
                fails, too.
            keep_vectors: leave the vectors of existing items as they are, of values whose embedded
                text did not change; no item has vectors of its own then, and nothing is embedded.

        Raises:
            Conflict: *if_exists* is ``fail``, and an item exists; nothing was written.
            NotSerialisable, TooLarge, TypeError: one of them cannot be stored; nothing was written.
            StoreCapabilityError: *index* is given, and there is no embedder.
        """

    def put_embedding(
        self,
        namespace: Namespace,
        key: str,
        embedding: Any,
        *,
        model: str | None = None,
        expected_version: int | Unset = ...,
        connection: HostConnection | None = None,
    ) -> bool:
        """Give an existing item vectors of another model, or new ones; return whether it exists.

        Its vectors of that *model* are replaced, those of others stay, and so do its value and
        version. `put` removes them all: they were of the value before. *embedding* is as `put`
        takes it.

        Raises:
            Conflict: the item is not at *expected_version*, the one that the vectors were made of.
            ValueError: a vector is zero, not finite, or of over 16,000 dimensions.
        """

    def put_with_embedding(
        self,
        namespace: Namespace,
        key: str,
        value: Any,
        embedding: Any,
        metadata: Mapping[str, Any] | None = None,
        *,
        ttl: Seconds | None = None,
        connection: HostConnection | None = None,
    ) -> int:
        """Write an item with a vector, as `put`."""

    def reembed(
        self,
        namespace: Namespace,
        *,
        prefix: bool = False,
        index: Index = None,
        again: bool = False,
        only_embedded: bool = False,
        replace_model: str | None = None,
        batch_size: int = 100,
        dry_run: bool = False,
        progress: Callable[[Progress], object] | None = None,
    ) -> ReembedReport:
        """Give the items of the namespace the vectors of the store's model that they lack.

        These are items without vectors, such as imported ones, and those whose vectors are of
        another model, or of another size than the embedder makes. Values, versions and times stay.
        Others may read and write meanwhile: an item that they change is embedded as it is then.
        Each batch is one transaction. A run that ends early continues when it is run again, and
        several may work at once. An item that cannot be read, or that the embedder refuses, is left
        as it is and named; the others are embedded.

        Args:
            prefix: also embed the items below the namespace; of ``()`` these are all of the tenant.
            index: what is embedded of a value, as in `put`. Without it, of an item that has vectors
                the fields that they are of, and of another what the store embeds. With it all
                vectors of the model that an item has are replaced, otherwise those of the fields
                that have text.
            again: also embed items that have vectors of the model, because the embedder makes
                others now. A run that ends early continues, too, as long as the embedder makes the
                same vectors; one under another *model* compares no vectors of two embedders.
            only_embedded: leave items that have no vectors at all, which may be on purpose.
            replace_model: delete the vectors of this model from items that have those of the
                store's.
            batch_size: the largest number of texts of one call of the embedder, and of items of one
                transaction.
            dry_run: change nothing; say what would be done. The embedder is called once, for the
                size of its vectors.
            progress: called with items done, and in all, as they were at the start.

        Raises:
            StoreCapabilityError: there is no embedder, or the database is encrypted and may hold no
                vectors.
            EmbedderFailed: the embedder does not work, or refuses three items in a row.
            ReadOnly: the database was opened read-only, and this is no *dry_run*.
        """

    def refresh(
        self,
        keys: Iterable[tuple[Namespace, str]],
        *,
        connection: HostConnection | None = None,
    ) -> int:
        """Begin the ttl of the given items anew; return the number of items that have one.

        Of two that do so at once, the later end holds. Items without a ttl stay as they are.
        """

    def search(
        self,
        namespace: Namespace,
        query: str | None = None,
        limit: int = 10,
        *,
        prefix: bool = False,
        mode: SearchMode = "text",
        match: Match = "any",
        filter: Mapping[str, Any] | None = None,
        offset: int = 0,
        threshold: float | None = None,
        embedding: Any | None = None,
        model: str | None = None,
        alpha: float | None = None,
        mmr: float | None = None,
        explain: bool = False,
        connection: HostConnection | None = None,
    ) -> SearchHits:
        """Return items of the namespace, with *prefix* also of those below it, the best first.

        There are fewer than *limit* only where no more exist. Without *query* and *embedding* the
        newest come first, without a score, whatever *mode* and *threshold* say.

        Args:
            mode: ``text``: by words, rare ones counting more; the 500 best are ordered
                by BM25. The score of the first is the share of the query that it holds, those of
                the others are in proportion. ``vector``: by meaning, with the store's metric.
                ``hybrid``: by both rankings, in which a place near the top counts most. The best
                100 of both come first, then those up to the 500th, and then 500 at a time.
            match: ``any``: words find the items that hold one of them. ``all``: only those that
                hold all. In the mode ``hybrid`` the ranking by meaning adds others.
            filter: see `memalchemy.filters`.
            offset: the number of the best hits to skip. As long as nothing is written, pages fit
                together, whatever their sizes: together they are the hits of one large page.
            threshold: the least score.
            embedding: the vector to look for; otherwise the embedder makes one of *query*. Without
                *query* the mode ``text`` looks for it by meaning too.
            alpha: the weight of the ranking by meaning in a hybrid one, 0 to 1; that by words has
                the rest. Half each, if not given. With 1 it is a search by meaning, with 0 one by
                words, which calls no embedder, and the scores are those of that mode.
            mmr: 0 to 1: diverse hits, in the modes ``vector`` and ``hybrid``. Each next one is the
                best by ``mmr * score - (1 - mmr) * likeness`` to those before it; so they are not
                in the order of their scores. The first 25 are chosen from the best 100 hits, those
                up to the hundredth from 400, up to the thousandth from 4,000; later ones are in the
                order of their scores.
            explain: report in ``plans`` how the hits were found, and how many items a search by
                meaning passes over because they have no vector of the model and size.

        Accents and case do not matter, scripts without spaces need none, and nothing in *query* is
        an operator. Of a long query the 32 rarest words are looked for. Where few items are found,
        other forms of the words follow, with scores of at most .45. A query without words finds
        nothing by words.

        Raises:
            StoreCapabilityError: a vector of *query* is needed, and there is no embedder; or the
                database is encrypted, and holds no readable words or vectors to look in.
                ``capability`` is ``search`` for words, ``semantic_search`` for vectors.
            KeyMissing: nothing was found, the tenant is encrypted, and no key was given.
            TooLarge: the values take over 256 MiB together; ask for fewer.
            ValueError: there are vectors of the model, but none of this size, in the mode
                ``vector``; or *query* and *embedding* are both given, in the mode ``text``.

        Warns:
            AnsweredByWordsWarning: there are vectors of the model, but none of this size, and the
                mode is ``hybrid``: the answer is that of the mode ``text``. The event
                ``store.search`` then has the detail ``answered_by``, ``words``.
        """

    def search_by_embedding(
        self,
        namespace: Namespace,
        query_embedding: Any,
        limit: int = 10,
        threshold: float | None = None,
        metadata_filter: Mapping[str, Any] | None = None,
        *,
        filter: Mapping[str, Any] | None = None,
        offset: int = 0,
        prefix: bool = False,
        model: str | None = None,
        connection: HostConnection | None = None,
    ) -> list[SemanticSearchResult]:
        """Return items by the nearness of their vectors, the nearest first, each with its distance.

        An item of several vectors counts by the nearest of them. *filter* applies to value and
        metadata, *metadata_filter* to the metadata alone; *offset* skips as many of the nearest.
        Pages fit together as those of `search` do.
        """

    def search_many(
        self,
        namespaces: Iterable[Namespace],
        query: str | None = None,
        limit: int = 10,
        *,
        prefix: bool = False,
        mode: SearchMode = "text",
        match: Match = "any",
        filter: Mapping[str, Any] | None = None,
        threshold: float | None = None,
        embedding: Any | None = None,
        model: str | None = None,
        connection: HostConnection | None = None,
    ) -> list[SearchHit]:
        """Return the hits of each namespace, at most *limit* of each, in the order of *namespaces*.

        Otherwise as `search`; the embedder is called once.
        """

    @property
    def settings(self) -> Settings:
        """Settings by which it writes and searches."""

    def sweep(self, *, connection: HostConnection | None = None) -> int:
        """Delete the tenant's expired items, which no method returns any more; return their number.

        A few hundred at a time, each time in a transaction of its own. Those that memalchemy keeps
        for itself, such as old answers of the HTTP server, are among them.

        Raises:
            Corrupt: some items are damaged or not what was signed. They were left, the others were
                deleted.
        """

class StoreContext:
    """Store of a user and a session."""

    def __init__(
        self,
        store: Store,
        user_id: str | None = None,
        session_id: str | None = None,
    ) -> None: ...
    def for_session(self, session_id: str | None = None) -> NamespacedStore:
        """Return a view of a session's items; *session_id* stands in for the context's own."""

    def for_user(self, user_id: str | None = None) -> NamespacedStore:
        """Return a view of a user's items; *user_id* stands in for the context's own."""

    def forget(self, key: str, **more: Any) -> bool:
        """Remove a memory of the user; return whether it existed."""

    def get_global(self, key: str, **more: Any) -> Any | None:
        """Return the value that all share under *key*, or ``None``."""

    def get_user_memory(self, key: str, **more: Any) -> Any | None:
        """Return a memory of the user; ``None`` if there is none, or no user."""

    def remember(
        self,
        key: str,
        value: Any,
        metadata: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        """Store a memory of the user."""

    def remember_with_embedding(
        self,
        key: str,
        value: Any,
        embedding: Any,
        metadata: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        """Store a memory of the user, with a vector to find it by."""

    def search_memories(
        self,
        query: str | None = None,
        limit: int = 10,
        **more: Any,
    ) -> list[StoreItem]:
        """Return the user's memories that hold words of *query*, or the newest."""

    def search_memories_semantic(
        self,
        query_embedding: Any,
        limit: int = 10,
        threshold: float | None = None,
        **more: Any,
    ) -> list[SemanticSearchResult]:
        """Return the user's memories by nearness to a vector."""

    def set_global(
        self,
        key: str,
        value: Any,
        metadata: Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        """Store a value that all share."""

class ThreadLog:
    """Ordered log of a thread's entries: any values, appended, read, edited and removed.

        log = ThreadLog(db)
        log.append("thread-1", [{"role": "user", "content": "Hello"}])
        newest = log.tail("thread-1", 20)

    Order is that of positions, which are allotted one after another whoever appends, never that of
    a clock. Every write is whole or absent, and costs the same however long the log is. Writes take
    ``expected_version``: the log's `version` that the caller has seen, 0 for a log that does not
    exist; if it has moved on, `Conflict` is raised and nothing is changed.

    Args:
        db: the database.
        namespace: keeps several uses of one thread id apart.
        index_text: let `search` find the words of entries.
        ttl: the lifetime of a log after its last append, in seconds or as a timedelta.

    Every method takes ``connection=``, a `Connection` or `Session` of the host: the work
    is then part of the host's transaction, sees its own writes, and is gone after a rollback.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
    """

    db: Database
    namespace: tuple[str, ...]
    def __init__(
        self,
        db: Database,
        *,
        namespace: Iterable[str] = ("log",),
        index_text: bool = True,
        ttl: Seconds | None = None,
    ) -> None: ...
    def append(
        self,
        thread_id: str,
        entries: Any,
        *,
        keys: Sequence[str | None] | str | None = None,
        new_keys: bool = False,
        expected_version: int | Unset = ...,
        occurred_at: datetime | Sequence[datetime] | None = None,
        ttl: Seconds | None = None,
        connection: HostConnection | None = None,
    ) -> list[int]:
        """Append one entry, or a list of them, all or none; return their positions.

        It is one round trip on PostgreSQL; with *keys* that is so if they are new, outside of a
        transaction of the host. If the connection is lost in the middle of it, nobody knows whether
        it happened: the error says ``maybe_applied``. With *keys* such an append is repeated,
        because it is safe to.

        Args:
            entries: a value, or a list of values; see `memalchemy.codec.values` for the values it
                may hold. A list is several entries: put one that is itself a list into a list.
            keys: for each entry a key of up to 128 characters, or ``None``. An entry whose key is
                in the log is not appended again; its position is returned.
            new_keys: raise `Conflict` if one of the keys is in the log, and append nothing.
            occurred_at: the time of all entries, or of each; now, if not given.
            ttl: in place of the log's own. The last append counts: after one without any, the log
                does not expire.

        Raises:
            NotSerialisable, TooLarge: one of them cannot be stored; nothing was written.
            Conflict: the log is not at *expected_version*, or has one of the *new_keys*.
            ThreadDeleted: a version was expected, and the thread has been deleted since.
        """

    def clear(
        self,
        thread_id: str,
        *,
        expected_version: int | Unset = ...,
        connection: HostConnection | None = None,
    ) -> int:
        """Remove all entries; return their number. The log itself stays, and its versions go on."""

    def count(self, thread_id: str, *, connection: HostConnection | None = None) -> int:
        """Count the entries of the log one by one: this takes longer as there are more."""

    def count_threads(self, pattern: str = "*", *, connection: HostConnection | None = None) -> int:
        """Count the threads with an entry whose ids match the glob."""

    def delete(self, thread_id: str, *, connection: HostConnection | None = None) -> bool:
        """Delete this log of the thread; return whether it existed.

        The thread's other logs, its checkpoints too, stay: `Checkpointer.delete` deletes a thread
        with all its logs. For a day an append that expects a version gets `ThreadDeleted`.
        """

    def edit(
        self,
        thread_id: str,
        position: int,
        value: Any,
        *,
        expected_version: int | Unset = ...,
        connection: HostConnection | None = None,
    ) -> bool:
        """Change the value of the entry at *position*; return whether it existed.

        Its position, key and times stay.

        Raises:
            NotSerialisable, TooLarge, Conflict, ThreadDeleted: as `append`.
        """

    def find(
        self,
        key: str,
        *,
        thread_id: str | None = None,
        connection: HostConnection | None = None,
    ) -> dict[str, Entry]:
        """Return the entry with a key of each thread that has one, by thread, in the order of ids.

        With *thread_id* only that of this thread, which is one look into the index; without, the
        index is asked for every thread of the namespace, in one query.

        Raises:
            Corrupt: a stored entry does not match its checksum.
        """

    def fork(
        self,
        thread_id: str,
        position: int | None = None,
        *,
        new_thread_id: str | None = None,
        namespace: Iterable[str] | None = None,
        connection: HostConnection | None = None,
    ) -> str:
        """Copy the log up to *position* (the whole log, without) into a new thread; return its id.

        The id is ``THREAD-fork-xxxxxxxx`` if none is given (a long THREAD is cut off to fit).
        Positions, keys and times are those of the original; the two share nothing afterwards. With
        another *namespace* the copy goes there, and may be of the same thread.

        Raises:
            NotFound: there is no such entry, or none at all.
            Conflict: the new thread is not empty in that namespace.
            ValueError: the new log is the old one.
        """

    def hold(self, thread_id: str, connection: HostConnection) -> Head | None:
        """Lock the log until the transaction of *connection* ends; return its head, if it has one.

        Nobody else writes to the log meanwhile, so that other data can be kept in step with it.
        """

    def iter_entries(
        self,
        thread_id: str,
        *,
        after: int = 0,
        newest_first: bool = False,
        page_size: int = 100,
        connection: HostConnection | None = None,
    ) -> LazyIterator[Entry]:
        """Yield the entries beyond position *after*, in order, or with *newest_first* backwards.

        Each page of *page_size* entries is a query of its own.
        """

    def last_written(
        self,
        thread_ids: Sequence[str],
        *,
        connection: HostConnection | None = None,
    ) -> dict[str, datetime]:
        """Return the time of the last write of each of these threads that has an entry."""

    def list_older(
        self,
        cutoff: datetime,
        *,
        after: str | None = None,
        limit: int = 100,
    ) -> list[str]:
        """The ids of threads with an entry that occurred before *cutoff*, in the order of ids.

        A page of *limit*, beyond the id *after*.
        """

    def list_threads(
        self,
        limit: int = 100,
        pattern: str = "*",
        *,
        connection: HostConnection | None = None,
    ) -> list[str]:
        """Return the ids of threads with an entry, most recently written first.

        *pattern* is a glob over the whole id, case-sensitive: ``*``, ``?``, ``[a-z]``.
        """

    def pop(
        self,
        thread_id: str,
        *,
        expected_version: int | Unset = ...,
        connection: HostConnection | None = None,
    ) -> Entry | None:
        """Remove the newest entry and return it; ``None`` if there is none.

        Of several that pop at once, in whatever processes, no two are given the same entry.

        Raises:
            Corrupt: the stored entry does not match its checksum; it was not removed.
        """

    def range(
        self,
        thread_id: str,
        *,
        after: int | None = None,
        before: int | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int | None = None,
        connection: HostConnection | None = None,
    ) -> list[Entry]:
        """Return entries in order: the first *limit* that are within every given bound.

        Positions beyond *after* and below *before*; occurred at *since* or later, and earlier than
        *until*. Positions are looked up, times are compared entry by entry.
        """

    def read(
        self,
        thread_id: str,
        seen: LogReading | None = None,
        *,
        connection: HostConnection | None = None,
    ) -> LogReading:
        """Return all entries; after an earlier reading *seen*, only the new ones if that suffices.

        It suffices while nothing was removed or edited. Otherwise ``complete`` is set, and the
        entries are all that there are, in place of those that were read before. One round trip.
        """

    def read_columns(
        self,
        thread_id: str,
        make: Callable[[Sequence[int], Sequence[Any], Sequence[int]], Made],
        seen: LogReading | None,
        connection: HostConnection | None,
    ) -> tuple[LogReading, Made]:
        """Do as `scan` with a *make* that is called once, with all positions and their values."""

    def read_columns_beside(
        self,
        other: ThreadLog,
        thread_id: str,
        make: Callable[[Entry | None, Sequence[int], Sequence[Any], Sequence[int]], Made],
        seen: LogReading | None,
        connection: HostConnection | None,
    ) -> tuple[LogReading, Made]:
        """Do as `read_columns`, and read the newest entry of the thread's log *other* before that.

        *make* is called with that entry, or ``None``, and the columns. With an entry, *seen* is
        ignored and all entries are read.
        """

    def read_threads(
        self,
        thread_ids: Sequence[str],
        *,
        newest: bool = False,
        connection: HostConnection | None = None,
    ) -> dict[str, list[Entry]]:
        """Return all entries of each of these threads that has any, in the order of *thread_ids*.

        With *newest* only the newest entry of each. One round trip for some hundred threads; all
        entries are in memory at once.
        """

    def remove(
        self,
        thread_id: str,
        positions: Iterable[int],
        *,
        expected_version: int | Unset = ...,
        connection: HostConnection | None = None,
    ) -> int:
        """Remove the entries at *positions*, in one transaction; return the number that existed.

        Raises:
            Conflict, ThreadDeleted: as `append`.
        """

    def replace_suffix(
        self,
        thread_id: str,
        after: int,
        entries: Any,
        *,
        keys: Sequence[str | None] | str | None = None,
        expected_version: int | Unset = ...,
        occurred_at: datetime | Sequence[datetime] | None = None,
        ttl: Seconds | None = None,
        clearing: ThreadLog | None = None,
        connection: HostConnection | None = None,
    ) -> list[int]:
        """Replace all entries beyond position *after* (0: all); return the new positions.

        One transaction. Otherwise as `append`; without entries it cuts off the end.
        Another log of the thread, *clearing*, loses its entries in the same transaction.
        """

    def scan(
        self,
        thread_id: str,
        make: Callable[[int, Any, int], Made],
        seen: LogReading | None = None,
        *,
        connection: HostConnection | None = None,
    ) -> tuple[LogReading, list[Made]]:
        """Do as `read` without keys and times, which is some times as fast.

        *make* is called with each position, value and checksum, maybe in another thread; its
        results are returned beside the reading, which has no entries.
        """

    def search(
        self,
        query: str,
        limit: int = 10,
        *,
        thread_id: str | None = None,
        match: Match = "any",
        connection: HostConnection | None = None,
    ) -> list[EntryHit]:
        """Return entries that hold words of *query*, best first; of one thread, or of all.

        Words are compared and ranked as `Store.search` compares them. With the *match* ``all`` only
        entries that hold all words are found. A query without words finds nothing.

        Raises:
            CapabilityMissing: the database is encrypted, and holds no readable words.
            KeyMissing: nothing was found, the tenant is encrypted, and no key was given.
        """

    def tail(
        self,
        thread_id: str,
        limit: int = 100,
        *,
        before: int | None = None,
        connection: HostConnection | None = None,
    ) -> list[Entry]:
        """The newest *limit* entries, the oldest of them first; those below position *before*.

        Raises:
            Corrupt: a stored entry does not match its checksum. From every reading method.
        """

    def version(self, thread_id: str, *, connection: HostConnection | None = None) -> int:
        """Return the log's version, which every write moves; 0 if the log does not exist."""

class ToolOutputs:
    """Archive for `ContextCompactor`: ``ContextCompactor(archive=ToolOutputs(db).keep)``.

    The id of an output is a hash of it and of the ids of its calls. It is the key of a store item,
    which stays readable in an encrypted database, as all keys do.

    Args:
        store: a `Store`, or a `Database`.
        namespace: where the outputs are stored. Whoever has it and an id may recall the output.
        ttl: how long an output is kept, in seconds or as a timedelta.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
    """

    def __init__(
        self,
        store: Store | Database,
        *,
        namespace: Sequence[str] = ("tool_outputs",),
        ttl: Seconds | None = None,
    ) -> None: ...
    def clear(self, *, connection: HostConnection | None = None) -> int:
        """Remove all outputs of the namespace and return how many there were."""

    def keep(self, id: str, output: Any, *, connection: HostConnection | None = None) -> None:
        """Store an output under its id, in place of an earlier one.

        Raises:
            NotSerialisable, TooLarge: the output cannot be stored.
        """

    def recall(self, id: str, *, connection: HostConnection | None = None) -> Any | None:
        """Return the output as the tool gave it, a text or blocks; ``None`` if there is none."""

class UserMemoryStore:
    """Facts about users.

    The confidence of a fact fades by itself: every read computes it from what was stored and the
    time since. A fact of one user cannot be read, changed or removed under the name of another, and
    two users may have facts with the same id. Writers in any number of processes lose nothing of
    each other's changes.

    Args:
        store: a `Store`, or a `Database`. With an embedder facts are found by meaning as well.
        half_life: time after which the confidence is halved, in seconds or as a timedelta, unless
            the fact is seen again; ``None`` if it does not fade.
        namespace: facts are stored under ``(*namespace, user_id)``.

    Every method takes ``connection=``, as those of `Store` do.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        ValueError, TypeError: *user_id* is empty, or no text.
        Conflict: the item of a *memory_id* is no fact. Lists and searches leave such items out.
    """

    def __init__(
        self,
        store: Store | Database,
        *,
        half_life: Seconds | None = ...,
        namespace: Sequence[str] = ("facts",),
    ) -> None: ...
    def add(
        self,
        fact: MemoryFact | str,
        content: str | None = None,
        *,
        topics: Iterable[str] = (),
        confidence: float = 1.0,
        conversation_id: str | None = None,
        connection: HostConnection | None = None,
    ) -> MemoryFact:
        """Store a fact and return it: ``add(fact)``, or ``add(user_id, content)``.

        ``add(fact)`` replaces a fact with the same owner and id.

        ``add(user_id, content)`` makes a fact of a text, with the other arguments as its fields and
        an id made from its words. The same words again, whatever their case and punctuation, are
        not stored twice: the known fact was seen again. It is reinforced, to at least *confidence*,
        and gains *topics*.

        Raises:
            ValueError, TypeError: this is neither a fact, nor a user's id and a text.
            TooLarge: an id is too long to be a key.
        """

    def clear(self, user_id: str, *, connection: HostConnection | None = None) -> int:
        """Remove all facts of the user and return how many there were."""

    def count(self, user_id: str, *, connection: HostConnection | None = None) -> int:
        """Return the number of facts of the user."""

    def delete(
        self,
        user_id: str,
        memory_id: str,
        *,
        connection: HostConnection | None = None,
    ) -> bool:
        """Remove a fact of the user and return whether it was there."""

    def get(
        self,
        user_id: str,
        memory_id: str,
        *,
        connection: HostConnection | None = None,
    ) -> MemoryFact | None:
        """Return a fact of the user with its confidence now, or ``None``."""

    def learn(
        self,
        user_id: str,
        messages: Iterable[Any],
        *,
        extract: Extract | None = None,
        llm: Callable[[str], Any] | None = None,
        conversation_id: str | None = None,
        connection: HostConnection | None = None,
    ) -> Facts:
        """Extract facts about the user from the latest turn, store them, and return them.

        A fact whose words are known, whatever their case and punctuation, is reinforced instead.

        Args:
            extract: function of the messages, without injected blocks, that returns facts: texts,
                mappings with ``content``, ``topics`` and ``confidence``, or `MemoryFact` objects;
                plain or a coroutine.
            llm: function of a prompt that returns a model's answer; see `extract_facts`. Without
                either, English sentences of the prompt in which the user says "I" are taken.

        Raises:
            ValueError, TypeError: what was extracted is no fact, or belongs to another user.
        """

    def list(
        self,
        user_id: str,
        topic: str | None = None,
        *,
        connection: HostConnection | None = None,
    ) -> Facts:
        """Return all facts of the user, or those with a topic in any case; last seen first."""

    def recall(
        self,
        user_id: str,
        messages: Iterable[Any],
        top_k: int = 5,
        *,
        connection: HostConnection | None = None,
    ) -> InjectedMessages:
        """Return the messages with a block of the user's facts behind the latest prompt.

        At most *top_k* facts: first those that match the prompt, then those with the highest
        confidence. The block replaces an earlier one. In an encrypted database that holds nothing
        readable to search, only the confidence decides.
        """

    def reinforce(
        self,
        user_id: str,
        memory_id: str,
        by: float = 0.1,
        *,
        connection: HostConnection | None = None,
    ) -> MemoryFact | None:
        """Record that a fact was seen again now: its confidence grows by *by*.

        Returns the fact; ``None`` if it is not there.
        """

    def search(
        self,
        user_id: str,
        query: str = "",
        top_k: int = 10,
        *,
        match: Match = "any",
        connection: HostConnection | None = None,
    ) -> Facts:
        """Return at most *top_k* of the user's facts that hold words of *query*, the best first.

        Facts are ordered by their relevance, of which a lack of confidence takes up to 5 %. With
        the *match* ``all`` words find only facts that hold all of them. With an embedder facts are
        found by meaning as well, and the relevance is the mean of both. An empty query finds all
        facts, ordered by confidence. Of equal ones the last seen comes first.

        Raises:
            CapabilityMissing: there is a query, and the database is encrypted and holds neither
                readable words nor vectors to search.
        """

    def update(
        self,
        user_id: str,
        memory_id: str,
        *,
        content: str | None = None,
        topics: Iterable[str] | None = None,
        confidence: float | None = None,
        connection: HostConnection | None = None,
    ) -> MemoryFact | None:
        """Change the given fields of a fact and return it; ``None`` if it is not there.

        ``last_seen_at`` stays, and so do changes that others make to other fields meanwhile.
        """

class VectorStore:
    """Documents that are found by their words and, with an embedder, by their meaning as well.

    Args:
        store: a `Store`, or a `Database`.
        embedder: as of `Store`. For a `Database` only, because a `Store` has its own.
        namespace: where the documents are stored; other namespaces hold other documents.

    Every method takes ``connection=``, as those of `Store` do. Every process finds what one writes.
    What something else has written to the namespace, and is no document, is left out of searches
    with a warning.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
    """

    def __init__(
        self,
        store: Store | Database,
        *,
        embedder: Embedder | None = None,
        namespace: Sequence[str] = ("documents",),
    ) -> None: ...
    def clear(self, *, connection: HostConnection | None = None) -> int:
        """Remove all documents and return how many there were."""

    def count(self, *, connection: HostConnection | None = None) -> int:
        """Return the number of documents."""

    def delete(self, ids: Iterable[str], *, connection: HostConnection | None = None) -> int:
        """Remove documents, each by itself, and return how many were there."""

    def get(self, id: str, *, connection: HostConnection | None = None) -> MemoryResult | None:
        """Return a document, or ``None``.

        Raises:
            Conflict: something else has written the item of this id, and it is no document.
        """

    def search(
        self,
        query: str | None = None,
        *,
        k: int = 5,
        match: Match = "any",
        filter: Mapping[str, Any] | None = None,
        embedding: Any | None = None,
        threshold: float | None = None,
        alpha: float | None = None,
        mmr: float | None = None,
        connection: HostConnection | None = None,
    ) -> list[MemoryResult]:
        """Return at most *k* documents that match *query*, the best first.

        Without an embedder and without *embedding* documents are ranked by words, as by
        `Store.search`. Otherwise *alpha* says what counts. The score is that of the words or of the
        meaning where only one of them counts, and otherwise combines both rankings.
        Words find the documents that share one with the query; meaning finds those whose vector is
        at less than a right angle to the query's. A *k* of zero or less, or a blank query, finds
        nothing. In an encrypted database whose words are not readable only the meaning counts.

        Args:
            match: words find documents that hold ``any`` of them, or only those that hold ``all``.
                Meaning adds others.
            filter: what the metadata must hold: equal values by name, or a filter of
                `memalchemy.filters`.
            embedding: the vector to look for, in place of the embedder's for *query*.
            threshold: minimum score.
            alpha: weight of the meaning against the words, one half by default. 0 for words alone,
                which calls no embedder; 1 for the meaning alone, whose scores are similarities.
            mmr: 0 to 1, to prefer documents that differ, as of `Store.search`. It compares vectors,
                so it works only where the meaning counts.

        Raises:
            CapabilityMissing: the database is encrypted, and holds nothing readable to search.
            ValueError: there are vectors, but none of this size, and no words to go by.

        Warns:
            AnsweredByWordsWarning: there are vectors, but none of this size: words alone count.
        """

    def upsert(
        self,
        content: str,
        *,
        id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        embedding: Any | None = None,
        content_type: str = "text",
        raw_content: bytes | None = None,
        ttl: Seconds | None = None,
        connection: HostConnection | None = None,
    ) -> str:
        """Write a document and return its id, which is new unless given.

        A document with the same id is replaced, with its metadata and its vector.

        Args:
            embedding: a vector, in place of the embedder's. The document is found by its words all
                the same.
            content_type, raw_content: for what is not text, such as a picture: a type of your
                choice, and the bytes. *content* is then a text that describes it.

        Raises:
            NotSerialisable, TooLarge: content, metadata or id cannot be stored.
            ValueError: the vector is zero, not finite, or of over 16,000 dimensions.
        """
