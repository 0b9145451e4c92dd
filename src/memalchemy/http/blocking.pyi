"""Generated: MEMALCHEMY_REGENERATE=1 pytest tests/test_sync_stub.py."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Generic, Self, overload

from memalchemy.contracts import (
    CheckpointerCapabilities,
    CheckpointHit,
    CheckpointInfo,
    CheckpointMatch,
    CheckpointRecord,
    CheckpointWithData,
    Diff,
    Entry,
    EntryHit,
    ItemOrder,
    LogInfo,
    Match,
    NewItem,
    SearchHit,
    SearchMode,
    Seconds,
    State,
    StorageStats,
    StoreItem,
    Unset,
)
from memalchemy.conversations import MessageHit
from memalchemy.conversations.tool_exchange import ToolExchange
from memalchemy.http.client._store import Name, Namespace
from memalchemy.http.client._transport import Transport
from memalchemy.state import Message
from memalchemy.sync import LazyIterator

__all__ = [
    "HTTPCheckpointer",
    "HTTPConversation",
    "HTTPStore",
    "HTTPThreadLog",
]

class HTTPCheckpointer(Generic[State]):
    """Save an agent's states on a server, and load any of them.

    An outage, a timeout, half an answer and an answer that makes no sense are exceptions: ``None``
    and ``[]`` mean that the server said so. Reads are sent up to three times within *timeout*, and
    so are writes that ``memalchemy serve`` does once, however often they come: saves, deletions,
    forks and copies. Other writes are sent once. `DatabaseUnreachable.maybe_applied` says whether
    one may have happened. Errors are those of `memalchemy.Checkpointer`.

    Args:
        base_url: the address of ``memalchemy serve``, or of any server with the documented
            endpoints.
        headers: sent with every request.
        auth: user and password, for a server that asks for them.
        timeout: seconds that a call may take as a whole, repetitions included.
        token: a bearer token.
        state_type: the type that `load` builds: a pydantic model, a dataclass, or a class with
            ``from_checkpoint``. Without it, `load` returns the stored mapping.

    Construction does no I/O; one object serves several loops and survives a fork.
    """

    deletes_single_checkpoints: bool
    @overload
    def __init__(
        self: HTTPCheckpointer[dict[str, Any]],
        base_url: str,
        headers: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None,
        timeout: float = 30.0,
        *,
        token: str | None = None,
        state_type: None = None,
    ) -> None: ...
    @overload
    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None,
        timeout: float = 30.0,
        *,
        token: str | None = None,
        state_type: type[State] | Callable[[dict[str, Any]], State],
    ) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...
    @property
    def base_url(self) -> str:
        """The server's address, without a password."""

    @property
    def capabilities(self) -> CheckpointerCapabilities:
        """The capabilities of the server, as far as they are known.

        The server is asked by `connect`, by ``with``, and by the first call that has to know.
        """

    def change(
        self,
        thread_id: str,
        function: Callable[[State | None], Any],
        metadata: Mapping[str, Any] | None = None,
        *,
        ttl: Seconds | None = None,
    ) -> str | None:
        """Apply a function to the newest state and save the result; no save of others is lost.

        *function* runs here, and is called again if others save the thread meanwhile. It takes the
        state, or ``None`` if there is none, and returns the new state, or ``LEAVE`` to save
        nothing, as for `memalchemy.Checkpointer.change`. A checkpoint that was replaced under its
        own id meanwhile may be taken for the one that was read.

        Returns the id of the newest checkpoint after the call; ``None`` if there is none.

        Raises:
            InvalidArgument: the function returned ``None``; nothing was saved.
            Conflict: others saved first 20 times; nothing was saved.
            CapabilityMissing: the server is somebody else's; nothing was sent.
        """

    def close(self) -> None:
        """Let running calls end, finish queued writes, close every connection and the thread.

        A later use opens anew.
        """

    def connect(self) -> CheckpointerCapabilities:
        """Ask the server for its capabilities, and return those of its checkpointer.

        Raises:
            DatabaseUnreachable, AuthenticationFailed: the server did not answer, or refused.
        """

    def copy_thread(self, source_thread_id: str, dest_thread_id: str) -> bool:
        """Copy a thread with all its logs; checkpoint ids and order stay. ``False`` if it is empty.

        Raises:
            Conflict: the target holds something in a namespace that is copied; nothing was changed.
        """

    def count_threads(self, pattern: str = "*") -> int:
        """Count the threads with a checkpoint whose ids match the glob."""

    def delete(self, thread_id: str, checkpoint_id: str | None = None) -> bool:
        """Delete a checkpoint, or the whole thread without an id; ``False`` if it was not there."""

    def delete_checkpoints(self, thread_id: str, checkpoint_ids: Iterable[str]) -> int:
        """Delete some checkpoints, in one transaction; return the number that existed."""

    def diff(self, thread_id: str, a: str, b: str) -> Diff:
        """Compare two checkpoints: what changed from *a* to *b*, by JSON pointer.

        Raises:
            NotFound: one of them is not there.
        """

    def exists(self, thread_id: str, checkpoint_id: str | None = None) -> bool:
        """Return whether the checkpoint is there; without an id, whether the thread has any."""

    def forget(
        self,
        *,
        thread_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> int:
        """Erase a thread, or every thread and item with *metadata*; return how much went."""

    def fork(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
        *,
        new_thread_id: str | None = None,
    ) -> str:
        """Copy a thread up to a checkpoint (the newest without an id) into a new thread.

        Returns the id of the new thread.

        Raises:
            NotFound: the checkpoint is not there.
            Conflict: the new thread holds something in a namespace that is copied.
        """

    def get_metadata(
        self,
        thread_id: str,
        checkpoint_id: str | None = None,
    ) -> CheckpointRecord | None:
        """Describe a checkpoint without its state, the newest without an id.

        ``None`` if it is not there.
        """

    def get_storage_stats(self, thread_id: str) -> StorageStats:
        """Measure what a thread takes, as `memalchemy.Checkpointer.get_storage_stats`."""

    def health_check(self) -> bool:
        """Return whether the server answers and is ready. Errors are ``False``."""

    def history(
        self,
        thread_id: str,
        *,
        limit: int | None = None,
        before: str | None = None,
    ) -> LazyIterator[CheckpointInfo]:
        """Yield the thread's checkpoints, newest first; if given, those older than *before*.

        They are read in pages of 500. A checkpoint that is deleted meanwhile may be missing.

        Raises:
            NotFound: *before* is not there.
        """

    @property
    def identity(self) -> Transport:
        """The holder of the connections, which can be closed when this object is gone."""

    def list_checkpoints(self, thread_id: str, limit: int = 10) -> list[str]:
        """Return the ids of the thread's checkpoints, newest first, at most *limit*."""

    def list_logs(
        self,
        thread_id: str | None = None,
        *,
        limit: int = 100,
        pattern: str = "*",
        below: bool = False,
    ) -> list[LogInfo]:
        """Describe at most *limit* logs, each a thread in one namespace, last written first.

        As `memalchemy.Checkpointer.list_logs`: with *below* also the logs of frameworks,
        conversations and entries.
        """

    def list_threads(self, limit: int = 100, pattern: str = "*", *, offset: int = 0) -> list[str]:
        """Return the ids of threads with a checkpoint, most recently saved first.

        *pattern* is a glob over the whole id; the first *offset* of them are left out.
        """

    def list_with_metadata(self, limit: int = 100) -> list[CheckpointRecord]:
        """Describe the newest checkpoints over all threads as `get_metadata` does, newest first."""

    def load(self, thread_id: str, checkpoint_id: str | None = None) -> State | None:
        """Return the state of a checkpoint, the newest without an id; ``None`` if it is not there.

        Raises:
            Corrupt: the state that the server has cannot be read.
        """

    def namespaces(self, thread_id: str) -> list[tuple[str, ...]]:
        """Return the namespaces in which the thread has a checkpoint."""

    def prune(
        self,
        thread_id: str | None = None,
        *,
        keep_last: int | None = None,
        keep_every: int | None = None,
        older_than: Seconds | None = None,
        all_namespaces: bool = False,
        dry_run: bool = False,
    ) -> int:
        """Delete checkpoints that no given rule keeps (see `Retention`); return their number."""

    def query_by_metadata(
        self,
        key: str,
        value: Any,
        limit: int = 100,
        *,
        data: bool = False,
    ) -> list[CheckpointMatch]:
        """Find checkpoints whose metadata has *value* under *key*, newest first.

        Each is described as by `get_metadata`; with *data*, its state is under ``data``.
        """

    def rewrite(self, thread_id: str) -> int:
        """Encode a thread anew, so that nothing of deleted states is left in it."""

    def save(
        self,
        state: Any,
        thread_id: str,
        checkpoint_id: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        *,
        parent_id: str | None = None,
        expected_parent: str | Unset | None = ...,
        occurred_at: datetime | None = None,
        ttl: Seconds | None = None,
    ) -> str:
        """Save *state* as the newest checkpoint of the thread; return its id.

        It works as `memalchemy.Checkpointer.save`. A server of somebody else's takes no
        *parent_id*, *expected_parent*, *occurred_at* and *ttl*.

        Raises:
            CapabilityMissing: the server does not take one of them; nothing was sent.
        """

    def search(
        self,
        query: str,
        limit: int = 10,
        *,
        match: Match = "any",
        data: bool = False,
    ) -> list[CheckpointHit]:
        """Find checkpoints whose step added words of *query*, ``any`` or ``all``, best first.

        Each has a score and a snippet; with *data*, its state too, under ``data``.
        """

    def search_data(
        self,
        path: str,
        value: Any,
        limit: int = 100,
        *,
        among: int | None = 1000,
    ) -> list[CheckpointWithData]:
        """Find threads whose newest state has *value* under *path*, most recently saved first.

        As `memalchemy.Checkpointer.search_data`: it looks at the *among* threads saved last, and
        each that is found has its state under ``data``.
        """

    def set_thread_metadata(self, thread_id: str, metadata: Mapping[str, Any]) -> None:
        """Replace the metadata of the thread itself as a whole; `list_logs` returns it.

        Raises:
            NotFound: the thread is not there.
        """

    def vacuum(
        self,
        older_than_days: float | None = 30,
        *,
        all_namespaces: bool = False,
        dry_run: bool = False,
    ) -> int:
        """Remove expired threads, and those that were not saved for *older_than_days*.

        With ``None`` only expired ones. Returns the number of removed checkpoints and entries.
        """

class HTTPConversation:
    """Messages of a thread in order, on ``memalchemy serve``, as in `memalchemy.Conversation`.

    A policy that selects messages for the model runs in the client: ``manager.async_apply`` with
    what `history` returns. Outages are exceptions, as of `HTTPCheckpointer`, whose arguments these
    are.

    Args:
        thread_id: the thread.
        namespace: keeps several conversations of one thread apart.
    """

    namespace: tuple[str, ...]
    thread_id: str
    def __init__(
        self,
        base_url: str,
        thread_id: str,
        headers: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None,
        timeout: float = 30.0,
        *,
        token: str | None = None,
        namespace: Iterable[str] = ("conversation",),
    ) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...
    def abort_tool_exchange(self) -> ToolExchange | None:
        """Remove the open exchange and return it, or ``None``."""

    def active_tool_exchange(self) -> ToolExchange | None:
        """Return the open exchange, whoever began it, or ``None``."""

    def add(
        self,
        *messages: Any,
        keys: Sequence[str | None] | str | None = None,
        occurred_at: datetime | Sequence[datetime] | None = None,
        expected_version: int | Unset = ...,
        ttl: Seconds | None = None,
    ) -> list[int]:
        """Add messages, all or none, and return their positions.

        A message is a `Message`, a dict in OpenAI's format, or an object with role and content. A
        list of messages is accepted as well. Two texts are a message of the user and the
        assistant's answer. It is repeated if its answer is lost, and done once.

        Raises:
            TypeError, ValueError: one of them is not a message; nothing was added.
            NotSerialisable, TooLarge, Conflict: as `memalchemy.Conversation.add`.
        """

    def add_tool_results(self, *results: Any) -> ToolExchange:
        """Store results of the open exchange, all or none, and return the exchange.

        Raises:
            ValueError: a result belongs to no call of the exchange, or to one that has another.
            NotFound: no exchange is open.
        """

    def amend_last(self, content: str | list[Any]) -> bool:
        """Replace the content of the assistant's last message; return whether there is one."""

    @property
    def base_url(self) -> str:
        """The server's address, without a password."""

    def begin_tool_exchange(self, message: Any) -> ToolExchange:
        """Store an assistant's *message* with tool calls until all their results are there.

        `history` does not show it before `commit_tool_exchange`. It survives a crash:
        `active_tool_exchange` returns it to whoever continues.

        Raises:
            ValueError: the message has no tool call, a call without an id, or two calls of one id.
            Conflict: another exchange is open.
        """

    def clear(self) -> int:
        """Remove all messages and the summary; return how many messages went."""

    def close(self) -> None:
        """Let running calls end, finish queued writes, close every connection and the thread.

        A later use opens anew.
        """

    def commit_tool_exchange(self, *results: Any) -> list[int]:
        """Move the open exchange into the conversation and return the positions of its messages.

        *results* are added before. It is one transaction.

        Raises:
            ValueError: a call has no result yet; or as `add_tool_results`.
            NotFound: no exchange is open.
        """

    def connect(self) -> CheckpointerCapabilities:
        """Ask the server for its capabilities, and return those of its checkpointer.

        Raises:
            DatabaseUnreachable, AuthenticationFailed: the server did not answer, or refused.
        """

    def count(self) -> int:
        """Return the number of messages."""

    def delete(self) -> bool:
        """Delete the conversation, not the thread's other logs; return whether it was there."""

    def history(self, *, after: int | None = None, limit: int | None = None) -> list[Message]:
        """Return all messages, oldest first.

        Args:
            after: only messages beyond this position.
            limit: only the newest so many; not together with *after*.

        Raises:
            ValueError: both are given.
        """

    @property
    def identity(self) -> Transport:
        """The holder of the connections, which can be closed when this object is gone."""

    def restore(
        self,
        snapshot: Mapping[str, Any] | Sequence[Any],
        *,
        occurred_at: datetime | None = None,
    ) -> None:
        """Make the conversation equal to a `snapshot`, or to a list of messages; all or nothing.

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
    ) -> list[MessageHit]:
        """Return messages that hold words of *query*, as `memalchemy.Conversation.search`."""

    def set_summary(self, text: str | None, *, summarized: int = 0) -> None:
        """Store *text* as the summary of what was said before the messages, or remove it.

        With *summarized* it stands for the first so many messages. `snapshot` returns it.

        Raises:
            TypeError: *text* is no text; nothing was written.
        """

    def snapshot(self) -> dict[str, Any]:
        """Return the whole conversation as plain values, for `restore`.

        The keys are those of `memalchemy.Conversation.snapshot`.
        """

class HTTPStore:
    """Items under namespaces and keys on ``memalchemy serve``, as `memalchemy.Store` has them.

    The server makes no vectors: they are given with an item and with a query. Writes are repeated
    if their answers are lost, and done once. Outages are exceptions, as of `HTTPCheckpointer`,
    whose arguments these are.
    """

    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None,
        timeout: float = 30.0,
        *,
        token: str | None = None,
    ) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...
    @property
    def base_url(self) -> str:
        """The server's address, without a password."""

    def change(
        self,
        namespace: Namespace,
        key: str,
        function: Callable[[StoreItem | None], Any],
        *,
        metadata: Mapping[str, Any] | Unset | None = ...,
        ttl: Seconds | None = None,
    ) -> Any | None:
        """Change an item with a function of its current state, and lose no write of others.

        *function* runs here, and is called again if others write the item meanwhile. It takes the
        `StoreItem`, or ``None`` if there is none, and returns the new value, ``LEAVE`` or
        ``DELETE``, as for `memalchemy.Store.change`. An item that was deleted and made anew
        meanwhile may be taken for the one that was read.

        Returns the value after the call; ``None`` if there is none.

        Raises:
            Conflict: others wrote first 20 times; nothing was changed.
        """

    def clear_namespace(self, namespace: Namespace, *, prefix: bool = False) -> int:
        """Delete all items of the namespace, with *prefix* also those below it; return how many."""

    def close(self) -> None:
        """Let running calls end, finish queued writes, close every connection and the thread.

        A later use opens anew.
        """

    def connect(self) -> CheckpointerCapabilities:
        """Ask the server for its capabilities, and return those of its checkpointer.

        Raises:
            DatabaseUnreachable, AuthenticationFailed: the server did not answer, or refused.
        """

    def count(self, namespace: Namespace, *, prefix: bool = False) -> int:
        """Count the items of the namespace, with *prefix* also those below it."""

    def delete(
        self,
        namespace: Namespace,
        key: str,
        *,
        expected_version: int | StoreItem | Unset = ...,
    ) -> bool:
        """Delete an item with its vectors; return whether it existed.

        Raises:
            Conflict: the item is not at *expected_version*, a version or the `StoreItem` that was
                read.
        """

    def delete_batch(self, keys: Iterable[tuple[Namespace, str]]) -> int:
        """Delete items with their vectors, in one transaction; return the number that existed."""

    def delete_matching(
        self,
        namespace: Namespace,
        filter: Mapping[str, Any],
        *,
        prefix: bool = False,
    ) -> int:
        """Delete the items that *filter* accepts, in one transaction, and return their number.

        Raises:
            ValueError: the filter is empty: `clear_namespace` deletes everything.
        """

    def exists(self, namespace: Namespace, key: str) -> bool:
        """Return whether the item exists; its value does not travel."""

    def forget_namespace(self, namespace: Namespace) -> int:
        """Erase all items of the namespace and of all below it; return their number.

        No word of them is left in a text index: see `memalchemy.Store.forget_namespace`.
        """

    def get(self, namespace: Namespace, key: str, default: Any = None) -> Any:
        """Return the value of an item, or *default* if it does not exist."""

    def get_batch(self, keys: Iterable[tuple[Namespace, str]]) -> dict[Name, Any]:
        """Return the values of the given ``(namespace, key)`` that exist."""

    def get_embedding(
        self,
        namespace: Namespace,
        key: str,
        *,
        field: str = "",
        part: int = 0,
        model: str | None = None,
    ) -> list[float] | None:
        """Return a vector of an item, in the precision of float32; ``None`` if there is none."""

    def get_embeddings(
        self,
        keys: Iterable[tuple[Namespace, str]],
        *,
        model: str | None = None,
    ) -> dict[Name, list[float]]:
        """Return the vectors of the whole values of items; one without a vector is left out."""

    def get_item(self, namespace: Namespace, key: str) -> StoreItem | None:
        """Return an item, or ``None`` if it does not exist."""

    def get_items(self, keys: Iterable[tuple[Namespace, str]]) -> dict[Name, StoreItem]:
        """Return the items of the given ``(namespace, key)`` that exist, in the order of *keys*."""

    @property
    def identity(self) -> Transport:
        """The holder of the connections, which can be closed when this object is gone."""

    def iter_items(
        self,
        namespace: Namespace,
        *,
        prefix: bool = False,
        order: ItemOrder = "newest",
    ) -> LazyIterator[StoreItem]:
        """Yield all items of the namespace, with *prefix* also of those below it, page by page."""

    def iter_keys(self, namespace: Namespace, *, prefix: str | None = None) -> LazyIterator[str]:
        """Yield all keys of exactly this namespace, in code point order, page by page."""

    def list_items(
        self,
        namespace: Namespace,
        *,
        prefix: bool = False,
        limit: int = 100,
        order: ItemOrder = "newest",
    ) -> list[StoreItem]:
        """Return items of the namespace, with *prefix* also of those below it, at most *limit*."""

    def list_keys(
        self,
        namespace: Namespace,
        limit: int = 100,
        *,
        prefix: str | None = None,
    ) -> list[str]:
        """Return keys of exactly this namespace, in code point order, at most *limit*."""

    def list_namespaces(
        self,
        prefix: Namespace | None = None,
        limit: int = 100,
    ) -> list[tuple[str, ...]]:
        """Return namespaces that hold an item, at most *limit*; those from *prefix* on down."""

    def put(
        self,
        namespace: Namespace,
        key: str,
        value: Any,
        metadata: Mapping[str, Any] | None = None,
        *,
        embedding: Any | None = None,
        ttl: Seconds | None = None,
        expected_version: int | StoreItem | Unset | None = ...,
    ) -> int:
        """Write an item, and return its version: 1, or one more than before.

        Args:
            embedding: its vector; or vectors by field, or lists of them.
            expected_version: write only if the item is at this version; ``None``: only if it does
                not exist; a `StoreItem` that was read: only if it is still that one.

        Raises:
            Conflict: the item is not as expected.
            NotSerialisable, TooLarge: value, metadata, key or namespace cannot be stored.
        """

    def put_batch(
        self,
        items: Iterable[Sequence[Any] | NewItem],
        *,
        ttl: Seconds | None = None,
        if_exists: str = "replace",
        keep_vectors: bool = False,
    ) -> list[int]:
        """Write items, all or none; return their versions, in the order given.

        Each is ``(namespace, key, value)``, ``(namespace, key, value, metadata)`` or a `NewItem`,
        of which *embedding* is as `put` takes it. Otherwise as `memalchemy.Store.put_batch`.

        Raises:
            Conflict: *if_exists* is ``fail``, and an item exists; nothing was written.
            NotSerialisable, TooLarge, TypeError: one of them cannot be stored; nothing was written.
            ValueError: one has an *index* or times, which the server does not take; nothing was
                sent.
        """

    def put_embedding(
        self,
        namespace: Namespace,
        key: str,
        embedding: Any,
        *,
        model: str | None = None,
        expected_version: int | Unset = ...,
    ) -> bool:
        """Give an existing item vectors of a model; return whether it exists.

        *embedding* is as `put` takes it.

        Raises:
            Conflict: the item is not at *expected_version*.
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
    ) -> int:
        """Write an item with a vector, as `put`."""

    def refresh(self, keys: Iterable[tuple[Namespace, str]]) -> int:
        """Begin the ttl of the given items anew; return the number of items that have one."""

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
        embedding: Sequence[float] | None = None,
        model: str | None = None,
        alpha: float | None = None,
        mmr: float | None = None,
    ) -> list[SearchHit]:
        """Return items of the namespace, the best first, as `memalchemy.Store.search`.

        The modes ``vector`` and ``hybrid`` need the vector of the query as *embedding*, unless
        *alpha* is 0.
        """

    def search_by_embedding(
        self,
        namespace: Namespace,
        query_embedding: Sequence[float],
        limit: int = 10,
        threshold: float | None = None,
        metadata_filter: Mapping[str, Any] | None = None,
        *,
        filter: Mapping[str, Any] | None = None,
        offset: int = 0,
        prefix: bool = False,
        model: str | None = None,
    ) -> list[SearchHit]:
        """Return items by the nearness of their vectors, the nearest first.

        *filter* applies to value and metadata, *metadata_filter* to the metadata alone.
        """

    def sweep(self) -> int:
        """Delete the items that have expired; return their number."""

class HTTPThreadLog:
    """Ordered log of a thread's entries on ``memalchemy serve``, as `memalchemy.ThreadLog` is.

    Writes are repeated if their answers are lost, and done once. Outages are exceptions, as of
    `HTTPCheckpointer`, whose arguments these are.

    Args:
        namespace: keeps several uses of one thread id apart.
    """

    namespace: tuple[str, ...]
    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None,
        timeout: float = 30.0,
        *,
        token: str | None = None,
        namespace: Iterable[str] = ("log",),
    ) -> None: ...
    def __enter__(self) -> Self: ...
    def __exit__(self, *error: object) -> None: ...
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
    ) -> list[int]:
        """Append one entry, or a list of them, all or none; return their positions.

        The arguments are those of `memalchemy.ThreadLog.append`.

        Raises:
            NotSerialisable, TooLarge: one of them cannot be stored; nothing was written.
            Conflict: the log is not at *expected_version*, or has one of the *new_keys*.
            ValueError: there is not a key, or a time, for each entry.
        """

    @property
    def base_url(self) -> str:
        """The server's address, without a password."""

    def clear(self, thread_id: str, *, expected_version: int | Unset = ...) -> int:
        """Remove all entries; return their number. The log itself stays, and its versions go on."""

    def close(self) -> None:
        """Let running calls end, finish queued writes, close every connection and the thread.

        A later use opens anew.
        """

    def connect(self) -> CheckpointerCapabilities:
        """Ask the server for its capabilities, and return those of its checkpointer.

        Raises:
            DatabaseUnreachable, AuthenticationFailed: the server did not answer, or refused.
        """

    def count(self, thread_id: str) -> int:
        """Count the entries of the log."""

    def count_threads(self, pattern: str = "*") -> int:
        """Count the threads with an entry whose ids match the glob."""

    def delete(self, thread_id: str) -> bool:
        """Delete this log of the thread; return whether it existed. Its other logs stay."""

    def edit(
        self,
        thread_id: str,
        position: int,
        value: Any,
        *,
        expected_version: int | Unset = ...,
    ) -> bool:
        """Change the value of the entry at *position*; return whether it existed."""

    def find(self, key: str, *, thread_id: str | None = None) -> dict[str, Entry]:
        """Return the entry with a key of each thread that has one, by thread, in the order of ids.

        With *thread_id* only that of this thread.
        """

    def fork(
        self,
        thread_id: str,
        position: int | None = None,
        *,
        new_thread_id: str | None = None,
        namespace: Iterable[str] | None = None,
    ) -> str:
        """Copy the log up to *position* (the whole log, without) into a new thread; return its id.

        Positions, keys and times are those of the original. With another *namespace* the copy goes
        there, and may be of the same thread.

        Raises:
            NotFound: there is no such entry, or none at all.
            Conflict: the new thread is not empty in that namespace.
        """

    @property
    def identity(self) -> Transport:
        """The holder of the connections, which can be closed when this object is gone."""

    def iter_entries(
        self,
        thread_id: str,
        *,
        after: int = 0,
        newest_first: bool = False,
    ) -> LazyIterator[Entry]:
        """Yield the entries beyond position *after*, in order, or with *newest_first* backwards.

        They are read in pages of 500.
        """

    def last_written(self, thread_ids: Sequence[str]) -> dict[str, datetime]:
        """Return the time of the last write of each of these threads that has an entry."""

    def list_threads(self, limit: int = 100, pattern: str = "*") -> list[str]:
        """Return the ids of threads with an entry, most recently written first."""

    def pop(self, thread_id: str, *, expected_version: int | Unset = ...) -> Entry | None:
        """Remove the newest entry and return it; ``None`` if there is none.

        Of several that pop at once, no two are given the same entry.
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
    ) -> list[Entry]:
        """Return entries in order: the first *limit* that are within every given bound.

        Positions beyond *after* and below *before*; occurred at *since* or later, and earlier than
        *until*.
        """

    def read_threads(
        self,
        thread_ids: Sequence[str],
        *,
        newest: bool = False,
    ) -> dict[str, list[Entry]]:
        """Return all entries of each of these threads that has any, in the order of *thread_ids*.

        With *newest* only the newest entry of each.
        """

    def remove(
        self,
        thread_id: str,
        positions: Iterable[int],
        *,
        expected_version: int | Unset = ...,
    ) -> int:
        """Remove the entries at *positions*, in one transaction; return the number that existed."""

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
    ) -> list[int]:
        """Replace all entries beyond position *after* (0: all); return the new positions.

        One transaction. Otherwise as `append`; without entries it cuts off the end.
        """

    def search(
        self,
        query: str,
        limit: int = 10,
        *,
        thread_id: str | None = None,
        match: Match = "any",
    ) -> list[EntryHit]:
        """Return entries that hold words of *query*, ``any`` or ``all``, best first.

        Of one thread, or of all.
        """

    def tail(self, thread_id: str, limit: int = 100, *, before: int | None = None) -> list[Entry]:
        """Return the newest *limit* entries, the oldest first; those below position *before*."""

    def version(self, thread_id: str) -> int:
        """Return the log's version, which every write moves; 0 if the log does not exist."""
