"""Logs that make up one thread of a framework, as its adapter declares them.

A log is a thread in one namespace, and of the library's own threads that is all. A framework may
keep what it calls a thread in several logs, in namespaces of its own: what copies, deletes, exports
or prunes one of them by its main log takes the others along. `memalchemy.integrations` has the
declarations; they need no framework.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from memalchemy._wiring import wired
from memalchemy.dialects import Dialect
from memalchemy.keys import decode_namespace, encode_namespace
from memalchemy.log.listing import list_logs_of_thread
from memalchemy.log.tables import Log
from memalchemy.statements import Program

Namespace = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ThreadParts:
    """Declaration of the logs that a framework's thread consists of.

    Args:
        is_part: returns whether the thread of the log in one namespace has the log in another, too.
        origin: returns the checkpoint of the log in a given namespace in whose step a checkpoint of
            another part was made, from the metadata of that; ``None`` if it does not say. The ids
            of the framework's checkpoints are in the order of time then, and the main log is in
            the topmost namespace of the framework. Without it, a part
            belongs to the newest checkpoint of the given log.
        is_of_one_step: returns whether the log in a namespace is used in one step alone.
    """

    is_part: Callable[[Namespace, Namespace], bool]
    origin: Callable[[Namespace, Mapping[str, Any]], str | None] | None = None
    is_of_one_step: Callable[[Namespace], bool] = lambda _: False


def _declared() -> Mapping[str, ThreadParts]:
    found: Mapping[str, ThreadParts] = wired("thread_parts")
    return found


def thread_parts(path: str) -> ThreadParts | None:
    """Return the declaration for the log in an encoded namespace; ``None`` if it is a thread."""
    namespace = decode_namespace(path)
    return _declared().get(namespace[0]) if namespace else None


def main_paths() -> list[str]:
    """Return the encoded namespaces of the main logs whose checkpoints others' are made in."""
    return [
        encode_namespace((root,)) for root, one in _declared().items() if one.origin is not None
    ]


def list_parts(dialect: Dialect, log: Log, *, tombstones: bool = False) -> Program[list[Log]]:
    """Return the logs that make up the thread of *log*, with *tombstones* deleted ones, too.

    *log* is the first of them, whether it exists or not.
    """
    declared = thread_parts(log.namespace)
    if declared is None:
        return [log]
    rows = yield list_logs_of_thread(dialect), log.binds() | {"k_thread_id": log.thread_id}
    main = decode_namespace(log.namespace)
    return [
        log,
        *(
            log._replace(namespace=row.namespace)
            for row in rows
            if row.namespace != log.namespace
            and (tombstones or row.deleted_at is None)
            and declared.is_part(main, decode_namespace(row.namespace))
        ),
    ]
