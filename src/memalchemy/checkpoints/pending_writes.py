"""Insert the pending writes of a task, encoded and once."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from memalchemy._retry import CONFLICTS, Overtaken, repeat_unanswered, retry_when_overtaken
from memalchemy.checkpoints.roads import SaveRoads
from memalchemy.codec import values
from memalchemy.codec.payloads import WRITES_CODEC, encode_writes
from memalchemy.database import (
    OFF_LOOP_BYTES,
    WRITE,
    Database,
    HostConnection,
    off_loop,
)
from memalchemy.errors import DatabaseUnreachable, UniqueViolation
from memalchemy.events import Event
from memalchemy.log import Log, new_epoch, truncate_to_second
from memalchemy.log.pending_writes import forget_expired_log, new_key

TaskWrites = tuple[str, str, list[tuple[int, str, Any]]]
"""The id and path of a task, and its writes: index, channel, value."""


async def put_writes(
    db: Database,
    roads: SaveRoads,
    log: Log,
    checkpoint_id: str,
    task: TaskWrites,
    *,
    overwrite: bool,
    made_at: datetime | None,
    ttl: timedelta | None,
    connection: HostConnection | None,
    event: Event,
) -> None:
    """Insert the pending writes of a task; see `Checkpointer.put_writes`."""
    task_id, task_path, writes = task
    heavy = values.is_heavy(value for _, _, value in writes)
    if heavy:  # the caller may change them while a thread encodes them
        writes = [values.frozen(one) for one in writes]
    payload, checksum = await off_loop(
        OFF_LOOP_BYTES if heavy else 0,
        partial(encode_writes, task_id, task_path, writes),
    )
    event.payload_bytes = db.keyring.stored_size(payload)
    now = datetime.now(UTC)
    row = log.head_binds() | {
        "p_now": now,
        "p_active_at": truncate_to_second(now),
        "p_count": 1,
        "p_checkpoint_id": None,
        "p_made_at": made_at,
        "p_expires_at": None if ttl is None else now + ttl,
        "p_epoch": new_epoch(),
        "p_entry_key": new_key(checkpoint_id),
        "p_label": checkpoint_id,
        "p_overwrites": 1 if overwrite else None,
        "p_codec": WRITES_CODEC,
        "p_checksum": checksum,
        "p_stored_at": now,
        "p_payload": payload,
    }
    insert = partial(roads.send_writes, log, row, connection, event)

    async def attempt() -> None:
        try:
            appended = await insert()
        except DatabaseUnreachable as lost:
            if connection is not None:
                raise
            # Its key is refused if it was inserted.
            appended = await repeat_unanswered(insert, lost)
        if not appended:
            forget = partial(forget_expired_log, db.dialect, log, row)
            await db.run(forget, WRITE, connection=connection, event=event)
            raise Overtaken(
                f"thread {log.thread_id!r} was made by others and expired {CONFLICTS.tries} times "
                "while these writes were put; nothing was written. Put them again."
            )

    with suppress(UniqueViolation):
        await retry_when_overtaken(attempt)
