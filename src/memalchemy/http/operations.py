"""The table of the operations: each is declared here once, for the server and for its clients.

The server gives each an endpoint (``@endpoints.add(operations.save)``) and makes its routes, the
checks of requests and the OpenAPI document from them. A client makes a request of one by a call
(``operations.load(thread_id, checkpoint_id)``), which has the method and the path, and says whether
it may be sent again. Schemas are named, as in the OpenAPI document: a client needs no pydantic.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import partial
from typing import Any, Literal

from memalchemy.contracts import check_entry_position
from memalchemy.errors import InvalidArgument
from memalchemy.http import wire
from memalchemy.keys import check_name, check_thread_id, encode_namespace

Scope = Literal["read", "write", "admin"]
"""Right that a token gives. No scope includes another."""

_ENCODERS: dict[str, Callable[[Any], str]] = {
    "checkpoint_id": partial(check_name, what="checkpoint_id"),
    "key": partial(check_name, what="key"),
    "namespace": encode_namespace,
    "position": lambda position: str(check_entry_position(position, "position")),
    "thread_id": check_thread_id,
}
"""Functions that check an argument of a path and return its text, by the names of parameters."""


@dataclass(frozen=True, slots=True)
class Operation:
    """Operation of the server, as its routes and its clients are made from it.

    Args:
        name: its operation id.
        path: the whole path. That of a *public* operation may have no version: whoever asks for the
            health of a server does not know its version.
        tag: the part of the OpenAPI document that describes it.
        answer, query, body: the names of their schemas in ``server/_schemas.py``.
        status: that of a success.
        problems: the error statuses that only some operations have.
        scopes: those of `access`, if a ``GET`` does not just read, or another method just write.
        public: it needs no token: it shows nothing of any tenant.
        any_token: every token is good for it, whatever its scopes.
        conditional: it takes If-Match and If-None-Match.
    """

    name: str
    method: str
    path: str
    _: KW_ONLY
    tag: str
    answer: str
    query: str | None = None
    body: str | None = None
    status: int = 200
    problems: tuple[int, ...] = ()
    scopes: tuple[Scope, ...] = ()
    public: bool = False
    any_token: bool = False
    conditional: bool = False

    @property
    def access(self) -> tuple[Scope, ...]:
        """The scopes of which a token needs each."""
        return self.scopes or (("read",) if self.method == "GET" else ("write",))

    @property
    def writes(self) -> bool:
        """True if it may change something."""
        return self.access != ("read",)

    @property
    def keyed(self) -> bool:
        """True if it takes an Idempotency-Key, so that it may be repeated and is done once.

        The work of administrators takes none: it is done in more than one transaction.
        """
        return "write" in self.access

    @property
    def parameters(self) -> list[str]:
        """The names of the parameters in its path, in their order."""
        return re.findall(r"{(\w+)}", self.path)

    def __call__(
        self,
        *arguments: Any,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
    ) -> OperationRequest:
        """Return a request of it, with *arguments* for the parameters of the path.

        Raises:
            ValueError, TypeError, TooLarge: one of them is no such id, or a number is not finite.
        """
        for name, value in {**(query or {}), **(body or {})}.items():
            if isinstance(value, float) and not math.isfinite(value):  # JSON would make it null
                raise InvalidArgument(f"{name} is a finite number, not {value}")
        given = dict(zip(self.parameters, arguments, strict=True))
        quoted = {name: wire.quote_id(_ENCODERS[name](one)) for name, one in given.items()}
        path = self.path.removeprefix(wire.VERSION_PATH).format_map(quoted)
        return OperationRequest(self, path, query or {}, body)


@dataclass(frozen=True, slots=True)
class OperationRequest:
    """A request of a client.

    Args:
        path: that below the version of the API.
        query: parameters by their names; ``None`` and ``False`` are not sent.
        body: the tree of its JSON.
    """

    operation: Operation
    path: str
    query: Mapping[str, Any]
    body: Mapping[str, Any] | None


V1 = wire.VERSION_PATH

# fmt: off

# --- Threads and checkpoints ---------------------------------------------------------------------

_thread = partial(Operation, tag="checkpoints")

THREAD = V1 + "/threads/{thread_id}"
CHECKPOINTS = THREAD + "/checkpoints"
CHECKPOINT = CHECKPOINTS + "/{checkpoint_id}"

save: Operation = _thread("save", "POST", CHECKPOINTS,
    body="SaveBody", answer="Saved", status=201, problems=(404, 409, 410))
put_checkpoint: Operation = _thread("put_checkpoint", "PUT", CHECKPOINT,
    body="SaveBody", answer="Saved", status=201, problems=(404, 409, 410), conditional=True)
list_checkpoints: Operation = _thread("list_checkpoints", "GET", CHECKPOINTS,
    query="ListCheckpointsQuery", answer="CheckpointIdList")
load: Operation = _thread("load", "GET", CHECKPOINT,
    answer="Checkpoint", problems=(404,), conditional=True)
delete_checkpoint: Operation = _thread("delete_checkpoint", "DELETE", CHECKPOINT,
    answer="Deleted", problems=(404, 409))
delete_checkpoints: Operation = _thread("delete_checkpoints", "DELETE", CHECKPOINTS,
    answer="Deleted", problems=(404,))
get_metadata: Operation = _thread("get_metadata", "GET", CHECKPOINT + "/metadata",
    answer="CheckpointInfo", problems=(404,))
list_threads: Operation = _thread("list_threads", "GET", V1 + "/threads",
    query="ListThreadsQuery", answer="ThreadIdList")
count_threads: Operation = _thread("count_threads", "POST", V1 + "/threads/count",
    body="CountThreadsBody", answer="Count", scopes=("read",))
list_all_logs: Operation = _thread("list_all_logs", "GET", V1 + "/logs",
    query="ListAllLogsQuery", answer="LogInfoList")
list_namespaces: Operation = _thread("list_namespaces", "GET", THREAD + "/namespaces",
    query="ListNamespacesOfThreadQuery", answer="NamespaceList")
set_thread_metadata: Operation = _thread("set_thread_metadata", "PUT", THREAD + "/own-metadata",
    body="ThreadMetadataBody", answer="Edited", problems=(404,))
delete_some_checkpoints: Operation = _thread("delete_some_checkpoints", "POST",
    THREAD + "/delete-checkpoints",
    body="CheckpointIdsBody", answer="Count", problems=(409,))
load_newest: Operation = _thread("load_newest", "GET", THREAD,
    answer="Checkpoint", problems=(404,), conditional=True)
delete_thread: Operation = _thread("delete_thread", "DELETE", THREAD,
    answer="Deleted", problems=(404,))
get_newest_metadata: Operation = _thread("get_newest_metadata", "GET", THREAD + "/metadata",
    answer="CheckpointInfo", problems=(404,))
history: Operation = _thread("history", "GET", THREAD + "/history",
    query="HistoryQuery", answer="CheckpointInfoList", problems=(404,))
diff: Operation = _thread("diff", "GET", THREAD + "/diff",
    query="DiffQuery", answer="Diff", problems=(404,))
fork: Operation = _thread("fork", "POST", THREAD + "/fork",
    body="ForkBody", answer="Forked", status=201, problems=(404, 409))
copy_thread: Operation = _thread("copy_thread", "POST", THREAD + "/copy",
    body="CopyBody", answer="Copied", problems=(409,))
get_storage_stats: Operation = _thread("get_storage_stats", "GET", THREAD + "/stats",
    answer="StorageStats")
rewrite: Operation = _thread("rewrite", "POST", THREAD + "/rewrite",
    answer="Count", scopes=("admin",))
list_with_metadata: Operation = _thread("list_with_metadata", "GET", V1 + "/checkpoints",
    query="NewestCheckpointsQuery", answer="CheckpointInfoList")
search: Operation = _thread("search", "POST", V1 + "/checkpoints/search",
    body="SearchCheckpointsBody", answer="CheckpointHitList", scopes=("read",))
query_by_metadata: Operation = _thread("query_by_metadata", "POST", V1 + "/checkpoints/query",
    body="QueryByMetadataBody", answer="CheckpointInfoList", scopes=("read",))
search_data: Operation = _thread("search_data", "POST", V1 + "/checkpoints/data",
    body="SearchDataBody", answer="CheckpointInfoList", scopes=("read",))
prune: Operation = _thread("prune", "POST", V1 + "/prune",
    body="PruneBody", answer="Count", scopes=("admin",))
vacuum: Operation = _thread("vacuum", "POST", V1 + "/vacuum",
    body="VacuumBody", answer="Count", scopes=("admin",))
forget: Operation = _thread("forget", "POST", V1 + "/forget",
    body="ForgetBody", answer="Count", scopes=("admin",))

# --- Logs of threads, and conversations, whose messages are such logs ----------------------------

_log = partial(Operation, tag="logs")

# A namespace is one segment of a path. ``/log/`` is that of `ThreadLog`, ``/conversation/`` that of
# `Conversation`.

LOGS = V1 + "/logs/{namespace}"
LOG = LOGS + "/{thread_id}"
ENTRIES = LOG + "/entries"
ENTRY = ENTRIES + "/{position}"
CONVERSATION = V1 + "/conversations/{namespace}/{thread_id}"
MESSAGES = CONVERSATION + "/messages"
SUMMARY = CONVERSATION + "/summary"
EXCHANGE = CONVERSATION + "/exchange"

list_logs: Operation = _log("list_logs", "GET", LOGS, query="ListLogsQuery", answer="ThreadIdList")
log_search: Operation = _log("log_search", "POST", LOGS + "/search",
    body="SearchEntriesBody", answer="EntryHitList", scopes=("read",))
log_count_threads: Operation = _log("log_count_threads", "POST", LOGS + "/count",
    body="CountThreadsBody", answer="Count", scopes=("read",))
log_find: Operation = _log("log_find", "POST", LOGS + "/find",
    body="FindEntriesBody", answer="EntryOfThreadList", scopes=("read",))
log_read_threads: Operation = _log("log_read_threads", "POST", LOGS + "/read",
    body="ReadThreadsBody", answer="EntriesOfThreadList", scopes=("read",))
log_last_written: Operation = _log("log_last_written", "POST", LOGS + "/last-written",
    body="ThreadIdsBody", answer="WrittenThreadList", scopes=("read",))
log_version: Operation = _log("log_version", "GET", LOG, answer="LogState")
log_count: Operation = _log("log_count", "GET", LOG + "/count", answer="Count")
log_fork: Operation = _log("log_fork", "POST", LOG + "/fork",
    body="ForkLogBody", answer="Forked", status=201, problems=(404, 409))
log_pop: Operation = _log("log_pop", "POST", LOG + "/pop",
    body="ChangeLogBody", answer="Popped", problems=(409, 410), scopes=("read", "write"))
log_delete: Operation = _log("log_delete", "DELETE", LOG, answer="Deleted", problems=(404,))
log_entries: Operation = _log("log_entries", "GET", ENTRIES,
    query="ListEntriesQuery", answer="EntryList")
log_append: Operation = _log("log_append", "POST", ENTRIES,
    body="AppendBody", answer="PositionList", status=201, problems=(409, 410))
log_replace_suffix: Operation = _log("log_replace_suffix", "PUT", ENTRIES,
    body="ReplaceSuffixBody", answer="PositionList", problems=(409, 410))
log_remove: Operation = _log("log_remove", "POST", LOG + "/remove",
    body="RemoveEntriesBody", answer="Count", problems=(409, 410))
log_edit: Operation = _log("log_edit", "PUT", ENTRY,
    body="EditBody", answer="Edited", problems=(404, 409, 410))
log_clear: Operation = _log("log_clear", "DELETE", ENTRIES,
    query="ChangeLogQuery", answer="Count", problems=(409, 410))
conversation_messages: Operation = _log("conversation_messages", "GET", MESSAGES,
    query="ListEntriesQuery", answer="MessageList", problems=(409,))
conversation_search: Operation = _log("conversation_search", "POST", CONVERSATION + "/search",
    body="SearchMessagesBody", answer="FoundMessageList", scopes=("read",))
conversation_add: Operation = _log("conversation_add", "POST", MESSAGES,
    body="AddMessagesBody", answer="PositionList", status=201, problems=(409, 410))
conversation_clear: Operation = _log("conversation_clear", "DELETE", MESSAGES, answer="Count")
conversation_count: Operation = _log("conversation_count", "GET", CONVERSATION + "/count",
    answer="Count")
conversation_snapshot: Operation = _log("conversation_snapshot", "GET", CONVERSATION,
    answer="Snapshot", problems=(409,))
conversation_restore: Operation = _log("conversation_restore", "PUT", CONVERSATION,
    body="RestoreBody", answer="Restored", problems=(409, 410))
conversation_set_summary: Operation = _log("conversation_set_summary", "PUT", SUMMARY,
    body="SummaryBody", answer="Summary", problems=(409, 410))
conversation_amend_last: Operation = _log("conversation_amend_last", "PUT", MESSAGES + "/last",
    body="AmendBody", answer="Edited", problems=(404, 409, 410))
conversation_exchange: Operation = _log("conversation_exchange", "GET", EXCHANGE,
    answer="Exchange", problems=(404, 409))
conversation_begin_exchange: Operation = _log("conversation_begin_exchange", "POST", EXCHANGE,
    body="BeginExchangeBody", answer="Exchange", status=201, problems=(409, 410))
conversation_add_results: Operation = _log("conversation_add_results", "POST",
    EXCHANGE + "/results",
    body="ResultsBody", answer="Exchange", problems=(404, 409, 410), scopes=("read", "write"))
conversation_commit_exchange: Operation = _log("conversation_commit_exchange", "POST",
    EXCHANGE + "/commit",
    body="ResultsBody", answer="PositionList", problems=(404, 409, 410))
conversation_abort_exchange: Operation = _log("conversation_abort_exchange", "DELETE", EXCHANGE,
    answer="Exchange", problems=(404, 409), scopes=("read", "write"))
conversation_delete: Operation = _log("conversation_delete", "DELETE", CONVERSATION,
    answer="Deleted", problems=(404,))

# --- Items of a store ----------------------------------------------------------------------------

_item = partial(Operation, tag="store")

NAMESPACE = V1 + "/store/{namespace}"
ITEMS = NAMESPACE + "/items"
ITEM = ITEMS + "/{key}"
VECTOR = ITEM + "/embedding"
BATCH = V1 + "/items"

store_put: Operation = _item("store_put", "PUT", ITEM,
    body="PutItemBody", answer="Version", problems=(409,), conditional=True)
store_get: Operation = _item("store_get", "GET", ITEM,
    answer="Item", problems=(404,), conditional=True)
store_delete: Operation = _item("store_delete", "DELETE", ITEM,
    query="DeleteItemQuery", answer="Deleted", problems=(404, 409), conditional=True)
store_list_keys: Operation = _item("store_list_keys", "GET", NAMESPACE + "/keys",
    query="ListKeysQuery", answer="KeyList")
store_list: Operation = _item("store_list", "GET", ITEMS, query="ListItemsQuery", answer="ItemList")
store_search: Operation = _item("store_search", "POST", NAMESPACE + "/search",
    body="SearchItemsBody", answer="ItemHitList", scopes=("read",))
store_count: Operation = _item("store_count", "GET", NAMESPACE + "/count",
    query="NamespaceQuery", answer="Count")
store_clear: Operation = _item("store_clear", "DELETE", NAMESPACE,
    query="NamespaceQuery", answer="Count")
store_list_namespaces: Operation = _item("store_list_namespaces", "GET", V1 + "/store",
    query="ListNamespacesQuery", answer="NamespaceList")
store_delete_matching: Operation = _item("store_delete_matching", "POST", NAMESPACE + "/delete",
    body="DeleteMatchingBody", answer="Count", problems=(409,))
store_forget_namespace: Operation = _item("store_forget_namespace", "POST", NAMESPACE + "/forget",
    answer="Count", scopes=("admin",))
store_get_embedding: Operation = _item("store_get_embedding", "GET", VECTOR,
    query="ItemVectorQuery", answer="ItemVector", problems=(404,))
store_put_embedding: Operation = _item("store_put_embedding", "PUT", VECTOR,
    body="PutVectorBody", answer="Edited", problems=(404, 409))
store_put_batch: Operation = _item("store_put_batch", "POST", BATCH,
    body="PutItemsBody", answer="Versions", problems=(409,))
store_get_batch: Operation = _item("store_get_batch", "POST", BATCH + "/get",
    body="ItemNamesBody", answer="SomeItems", scopes=("read",))
store_delete_batch: Operation = _item("store_delete_batch", "POST", BATCH + "/delete",
    body="ItemNamesBody", answer="Count")
store_refresh: Operation = _item("store_refresh", "POST", BATCH + "/refresh",
    body="ItemNamesBody", answer="Count")
store_get_embeddings: Operation = _item("store_get_embeddings", "POST", BATCH + "/embeddings",
    body="VectorsBody", answer="VectorList", scopes=("read",))
store_sweep: Operation = _item("store_sweep", "POST", V1 + "/sweep",
    answer="Count", scopes=("admin",))

# --- The server itself ---------------------------------------------------------------------------

_of_server = partial(Operation, tag="server")

capabilities: Operation = _of_server("capabilities", "GET", V1 + "/capabilities",
    answer="Capabilities", any_token=True)
health: Operation = _of_server("health", "GET", "/health", answer="Health", public=True)
health_below_version: Operation = _of_server("health_below_version", "GET", V1 + "/health",
    answer="Health", public=True)
health_live: Operation = _of_server("health_live", "GET", "/health/live",
    answer="Health", public=True)
health_ready: Operation = _of_server("health_ready", "GET", "/health/ready",
    answer="Health", public=True)

# fmt: on

OPERATIONS: tuple[Operation, ...] = tuple(
    one for one in list(globals().values()) if isinstance(one, Operation)
)
"""All of them, in the order of their declaration."""
