"""Logs that make up one thread of a framework, as its adapter declares them.

A log is a thread in one namespace, and of the library's own threads that is all. A framework may
keep what it calls a thread in several logs, in namespaces of its own: what copies, deletes, exports
or prunes one of them by its main log takes the others along. See `memalchemy.adapters`.
"""

from __future__ import annotations

from memalchemy.adapters import ADAPTERS, ThreadParts
from memalchemy.dialects import Dialect
from memalchemy.keys import decode_namespace, encode_namespace
from memalchemy.log.listing import list_logs_of_thread
from memalchemy.log.tables import Log
from memalchemy.statements import Program


def thread_parts(path: str) -> ThreadParts | None:
    """Return the declaration for the log in an encoded namespace; ``None`` if that is a thread."""
    declared = ADAPTERS.of(decode_namespace(path))
    return None if declared is None else declared.parts


def main_paths() -> list[str]:
    """Return the encoded namespaces of main logs, in whose steps other logs get checkpoints."""
    return [
        encode_namespace((one.root,))
        for one in ADAPTERS.all()
        if one.parts is not None and one.parts.origin is not None
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
