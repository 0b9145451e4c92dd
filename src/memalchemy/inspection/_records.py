"""Records of the inspector: rows as plain JSON."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from memalchemy.contracts import CheckpointInfo, Entry
from memalchemy.inspection.tree import preview, tree
from memalchemy.keys import decode_namespace
from memalchemy.log.listing import log_sizes

Record = dict[str, Any]


def time(moment: datetime | None) -> str | None:
    """Return a time in ISO 8601."""
    return None if moment is None else moment.isoformat()


def framework_of(namespace: Sequence[str]) -> str:
    """Return the first part of a namespace; ``""`` of the root, which holds own threads."""
    return namespace[0] if namespace else ""


def thread_record(head: Any, size: Any) -> Record:
    """Return a log's head and what it holds."""
    namespace = decode_namespace(head.namespace)
    return {
        "thread_id": head.thread_id,
        "namespace": list(namespace),
        "framework": framework_of(namespace),
        "checkpoints": int(size.checkpoints),
        "entries": int(size.entries),
        "updated_at": time(head.updated_at),
        "created_at": time(head.created_at),
        "raw_bytes": log_sizes(size).raw,
        "stored_bytes": log_sizes(size).stored,
    }


def step_record(info: CheckpointInfo) -> Record:
    """Return a checkpoint without its state."""
    return {
        "checkpoint_id": info.checkpoint_id,
        "parent_id": info.parent_id,
        "occurred_at": time(info.occurred_at),
        "saved_at": time(info.created_at),
        "raw_bytes": info.raw_size,
        "stored_bytes": info.stored_size,
        "metadata": info.metadata,
    }


def entry_record(entry: Entry) -> Record:
    """Return an entry of a log."""
    return {
        "position": entry.position,
        "key": entry.key,
        "occurred_at": time(entry.occurred_at),
        "stored_at": time(entry.stored_at),
        "value": tree(entry.value),
    }


def item_record(
    namespace: Sequence[str], item: Any, size: int | None, vectors: int, shown: str | None
) -> Record:
    """Return an item, or a row of one, without its value."""
    return {
        "namespace": list(namespace),
        "key": item.key,
        "version": int(item.version),
        "created_at": time(item.created_at),
        "updated_at": time(item.updated_at),
        "expires_at": time(item.expires_at),
        "bytes": size,
        "preview": shown,
        "vectors": vectors,
    }


def item_preview(value: Any) -> str:
    """Return the text by which a list shows a value."""
    if isinstance(value, dict):
        for name in ("content", "page_content", "text", "task"):
            if isinstance(found := value.get(name), str) and found:
                return preview(found)
    return preview(value)
