"""Memories: facts, episodes, conversations and long-term memories, as what they are."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from types import NoneType
from typing import Any

from memalchemy._cursors import decode_cursor, encode_cursor
from memalchemy.contracts import StoreItem
from memalchemy.conversations._stored_summary import SUMMARY, StoredSummary
from memalchemy.database import Database
from memalchemy.dialects import namespace_binds
from memalchemy.errors import InvalidArgument
from memalchemy.inspection._log_heads import Namespace
from memalchemy.inspection._records import Record, item_preview, time
from memalchemy.inspection.item_kinds import MEMORY_TYPES
from memalchemy.inspection.threads import (
    after_head,
    head_cursor,
    page_of_heads,
    page_of_logs,
    thread_records,
)
from memalchemy.inspection.tree import tree
from memalchemy.keys import check_namespace, decode_namespace, encode_namespace
from memalchemy.memory import MemoryFact
from memalchemy.store import Store
from memalchemy.threads import ThreadLog

_CONVERSATIONS = encode_namespace(("conversation",))


async def list_memories(
    store: Store,
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
    if kind == "conversations":
        return await _list_conversations(store.db, cursor, limit)
    if kind not in _IS_PLACE:
        known = "facts, episodes, conversations or long-term"
        raise InvalidArgument(f"kind is {known}, not {kind!r}")
    return await _list_memories_in_store(store, kind, user, cursor, limit)


async def _list_memories_in_store(
    store: Store, kind: str, user: str, cursor: str | None, limit: int
) -> Record:
    """Return a page of the items in the namespaces that such memories are stored in."""
    place, after = None, None
    if cursor is not None:
        place, after = decode_cursor(kind, cursor, (list, (str, NoneType)))
    low = None if place is None else check_namespace(place)
    is_place = _IS_PLACE[kind]
    found: list[tuple[StoreItem, Any]] = []
    looked = 0
    while len(found) <= limit and looked < 200:
        if low is None or after is None:
            page = await store.list_namespaces((), 50, after=low)
        else:
            page = [low]
        if not page:
            low = None
            break
        for namespace in page:
            low, looked = namespace, looked + 1
            if not is_place(namespace) or (user and namespace[-1] != user):
                after = None
                continue
            items = await store.list_items(
                namespace,
                limit=limit + 1 - len(found),
                order="key",
                after=None if after is None else _key_mark(namespace, after),
            )
            found += [(item, namespace) for item in items]
            after = None
            if len(found) > limit:
                break
    records = [_memory_record(kind, item) for item, _ in found[:limit]]
    following: str | None
    if len(found) > limit:
        last, namespace = found[limit - 1]
        following = encode_cursor(kind, list(namespace), last.key)
    else:
        following = None if low is None else encode_cursor(kind, list(low), None)
    return {"kind": kind, "memories": records, "next": following}


def _memory_record(kind: str, item: StoreItem) -> Record:
    link = {
        "namespace": list(item.namespace),
        "key": item.key,
        "updated_at": time(item.updated_at),
    }
    value = item.value if isinstance(item.value, dict) else {}
    if kind == "facts":
        with suppress(TypeError, ValueError):
            stored = MemoryFact(memory_id=item.key, user_id=item.namespace[-1], **value)
            fact = stored.decay(datetime.now(UTC))
            return link | {
                "user": fact.user_id,
                "text": fact.content,
                "topics": list(fact.topics),
                "confidence": round(fact.confidence, 4),
                "last_seen_at": time(fact.last_seen_at),
                "created_at": time(fact.created_at),
                "source_conversation_id": fact.source_conversation_id,
            }
    elif kind == "episodes":
        completed = value.get("completed_at")
        return link | {
            "task": _cut_text(value.get("task")),
            "result": _cut_text(value.get("result")),
            "error": _cut_text(value.get("error")),
            "rollout": _cut_text(value.get("rollout")),
            "completed_at": time(completed) if isinstance(completed, datetime) else None,
            "metadata": tree(value.get("metadata") or {}),
        }
    elif kind == "long-term" and "content" in value:
        return link | {
            "type": str(value.get("type")),
            "text": _cut_text(value.get("content")),
            "metadata": tree(value.get("metadata") or {}),
        }
    return link | {"text": item_preview(item.value)}


async def _list_conversations(db: Database, cursor: str | None, limit: int) -> Record:
    """Return a page of the logs of conversations, the last written first."""
    binds = namespace_binds(db.tenant, _CONVERSATIONS, below=False)
    after = None if cursor is None else after_head(cursor)
    page = partial(page_of_logs, db.dialect, "namespace")
    heads = await page_of_heads(db, page, binds, after, limit)
    found = await thread_records(db, heads[:limit])
    summaries = ThreadLog(db, namespace=(*decode_namespace(_CONVERSATIONS), SUMMARY))
    newest = await summaries.read_threads([one["thread_id"] for one in found], newest=True)
    records = []
    for record in found:
        summary = None
        for entry in newest.get(record["thread_id"], ()):
            with suppress(TypeError):
                summary = StoredSummary(**entry.value).text
        records.append(
            {
                "thread_id": record["thread_id"],
                "namespace": record["namespace"],
                "messages": record["entries"],
                "summary": _cut_text(summary),
                "updated_at": record["updated_at"],
            }
        )
    return {
        "kind": "conversations",
        "memories": records,
        "next": head_cursor(heads[limit - 1]) if len(heads) > limit else None,
    }


def _is_facts(namespace: Namespace) -> bool:
    return len(namespace) > 1 and namespace[-2] == "facts"


def _is_episodes(namespace: Namespace) -> bool:
    return namespace[-1:] == ("episodes",)


def _is_long_term(namespace: Namespace) -> bool:
    return len(namespace) > 1 and namespace[-1] in MEMORY_TYPES


_IS_PLACE: dict[str, Callable[[Namespace], bool]] = {
    "facts": _is_facts,
    "episodes": _is_episodes,
    "long-term": _is_long_term,
}


def _key_mark(namespace: Namespace, key: str) -> StoreItem:
    """Return an item that stands for the end of a page in the order of keys."""
    moment = datetime.now(UTC)
    return StoreItem(namespace, key, None, {}, moment, moment)


def _cut_text(text: Any) -> str | None:
    return text[:2_000] if isinstance(text, str) else None
