"""Hold what was read of a log to its signatures.

The columns that prove a row are read with it, in the same statement. A checkpoint or an entry that
is not there cannot prove itself: `check_sums` holds all rows of its log to the head's sums then.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from sqlalchemy import and_, cast, null

from memalchemy.codec.anchors import log_identity
from memalchemy.codec.places import Place, entry_place, state_place, write_place
from memalchemy.codec.signatures import SigningKeys, Sums
from memalchemy.codec.signed_rows import (
    CHECKPOINT,
    HEAD,
    check_head,
    checkpoint_content,
    delta_content,
    delta_words,
)
from memalchemy.database.removals import hold_missing
from memalchemy.database.signed_logs import (
    errors_about,
    read_signatures,
    read_signed_head,
    rows_do_not_add_up,
    sum_up,
)
from memalchemy.dialects import Dialect
from memalchemy.errors import Corrupt
from memalchemy.log.tables import CHECKPOINTS, THREADS, Log, of_log
from memalchemy.statements import Program

_NAMED = (*CHECKPOINT, "signature")
_OF_HEAD = (*HEAD, "signature")
MAX_TRIES = 20
"""The number of times that a log is read which others write meanwhile."""


# --- States --------------------------------------------------------------------------------------


def proof_columns(name: Any, head: Any) -> list[Any]:
    """Return the columns that prove a checkpoint and the head of its log."""
    return [
        *name_columns(name),
        *(head.c[column].label(f"head_{column}") for column in _OF_HEAD),
    ]


def name_columns(name: Any) -> list[Any]:
    """Return the columns that prove a checkpoint."""
    return [name.c[column].label(f"name_{column}") for column in _NAMED]


def no_proof_columns() -> list[Any]:
    """Return as many columns, all of them NULL."""
    return [
        *(cast(null(), CHECKPOINTS.c[one].type).label(f"name_{one}") for one in _NAMED),
        *(cast(null(), THREADS.c[one].type).label(f"head_{one}") for one in _OF_HEAD),
    ]


def join_proof(chain: Any) -> tuple[Any, Any, Any]:
    """Join the newest row of a chain to its checkpoint and head; return the join, and these two."""
    name, head = CHECKPOINTS.alias("name"), THREADS.alias("head")
    is_named = and_(
        of_log(name), name.c.seq == chain.c.seq, name.c.checkpoint_id == chain.c.checkpoint_id
    )
    joined = chain.outerjoin(name, is_named).outerjoin(head, head.c.log_id == name.c.log_id)
    return joined, name, head


class _Columns:
    """The columns of a row whose names begin with a prefix, as a row."""

    def __init__(self, row: Any, prefix: str) -> None:
        self._row, self._prefix = row, prefix

    def __getattr__(self, name: str) -> Any:
        return getattr(self._row, self._prefix + name)


def check_chain(log: Log, rows: Sequence[Any] | None, keys: SigningKeys) -> None:
    """Hold the rows of a checkpoint, snapshot first, to their signatures.

    With them its checkpoint, the head of its log, and that it is the newest if the newest was
    asked for (``is_newest``).

    Raises:
        Corrupt, NotSigned, KeyMissing: see `SigningKeys.check`.
    """
    if not keys.signs:
        return
    assert rows is not None, "a state was read without what proves it"
    for row in rows:
        _check_state(log, row, keys)
    newest = rows[-1]
    content = checkpoint_content(log.tenant, log.key, newest.seq, **_named(newest))
    keys.check(newest.name_signature, content)
    head: Any = _Columns(newest, "head_")
    check_head(head, keys)
    if Log(newest.head_tenant, newest.head_thread_id, newest.head_namespace) != log:
        raise Corrupt("the head is that of another log")
    if newest.is_newest and newest.head_head_id != newest.checkpoint_id:
        raise Corrupt(
            f"checkpoint {newest.head_head_id!r} was saved last, and it is not there any more"
        )


def _named(row: Any) -> dict[str, Any]:
    return {name: getattr(row, f"name_{name}") for name in CHECKPOINT}


def _check_state(log: Log, row: Any, keys: SigningKeys) -> None:
    content = delta_content(
        state_place(log.tenant, log.key, row.seq),
        base_seq=row.base_seq,
        depth=row.depth,
        codec=row.codec,
        payload=row.payload,
    )
    keys.check(row.signature, content)


def check_states(log: Log, rows: Iterable[Any], keys: SigningKeys) -> None:
    """Hold rows of states, and the checkpoints that some of them have, to their signatures."""
    if not keys.signs:
        return
    for row in rows:
        _check_state(log, row, keys)
        if row.checkpoint_id is not None:
            content = checkpoint_content(log.tenant, log.key, row.seq, **_named(row))
            keys.check(row.name_signature, content)


# --- Other rows ----------------------------------------------------------------------------------


def check_write(log: Log, checkpoint_id: str, row: Any, keys: SigningKeys) -> None:
    """Hold a row of pending writes to its signature."""
    if keys.signs:
        place: Place = write_place(log.tenant, log.key, row.seq, checkpoint_id)
        names = ("entry_key", "overwrites", "stored_at", "codec", "payload")
        keys.check(
            row.signature, delta_content(place, **{name: getattr(row, name) for name in names})
        )


def check_entry(log: Log, row: Any, keys: SigningKeys) -> None:
    """Hold an entry to its signature."""
    if keys.signs:
        place: Place = entry_place(log.tenant, log.key, row.seq)
        names = ("entry_key", "occurred_at", "stored_at", "codec", "payload")
        keys.check(
            row.signature, delta_content(place, **{name: getattr(row, name) for name in names})
        )


def check_info(log: Log, row: Any, keys: SigningKeys) -> None:
    """Hold a row of a listing of checkpoints to its signature."""
    if keys.signs:
        named = {name: getattr(row, name) for name in CHECKPOINT}
        keys.check(row.signature, checkpoint_content(log.tenant, log.key, row.seq, **named))


def check_hit_words(place: Place, signature: bytes | None, row: Any, keys: SigningKeys) -> None:
    """Hold the words by which a search has found a row of ``deltas`` to its signature."""
    if keys.signs:
        radix = None if place[0] == "entry" else row.radix
        keys.check_words(signature, delta_words(place, radix, row.search_text))


def check_newest_checkpoint(
    dialect: Dialect, log: Log, newest: str | None, keys: SigningKeys
) -> Program[None]:
    """Check that *newest*, the newest checkpoint of a log as it was read, is the newest.

    Raises:
        Corrupt, NotSigned, KeyMissing: see `check_sums`.
    """
    yield from _hold_to_head(dialect, log, keys, lambda head, _: head.head_id == newest)


def check_all_checkpoints(
    dialect: Dialect, log: Log, signatures: Sequence[bytes | None], keys: SigningKeys
) -> Program[None]:
    """Hold all checkpoints of a log, of which the signatures were read, to the sum of its head.

    Raises:
        Corrupt, NotSigned, KeyMissing: see `check_sums`.
    """

    def agrees(_: Any, sums: Sums | None) -> bool:
        read = keys.sum_of(signatures)
        return sums is None or sums.checkpoints == read

    yield from _hold_to_head(dialect, log, keys, agrees)


def check_all_entries(
    dialect: Dialect, log: Log, rows: Sequence[Any], keys: SigningKeys
) -> Program[None]:
    """Hold all entries of a log, as they were read, to the sum of its head.

    One statement; more if the log has something else than entries, or is written meanwhile.

    Raises:
        Corrupt, NotSigned, KeyMissing: see `check_sums`.
    """

    def agrees(_: Any, sums: Sums | None) -> bool:
        read = keys.sum_of(row.signature for row in rows if row.seq is not None)
        return sums is None or sums.others == read

    yield from _hold_to_head(dialect, log, keys, agrees)


def check_newest_entry(
    dialect: Dialect, log: Log, rows: Sequence[Any], keys: SigningKeys
) -> Program[None]:
    """Check that *rows*, the newest entries of a log as they were read, end with the newest.

    Raises:
        Corrupt, NotSigned, KeyMissing: see `check_sums`.
    """
    if not keys.signs:
        return
    last = (rows[-1].seq or 0) if rows else 0
    if rows or (keys.anchor is not None and keys.anchor.has_log(log.tenant, log.key)):
        yield from _hold_to_head(
            dialect, log, keys, lambda _, sums: sums is None or sums.last_entry == last
        )


def _hold_to_head(
    dialect: Dialect, log: Log, keys: SigningKeys, agrees: Callable[[Any, Sums | None], bool]
) -> Program[None]:
    """Check that what was read *agrees* with the head of its log and the sums that this tells.

    If it does not, the log may have been written since: all of its rows are held to the head then.
    """
    if not keys.signs:
        return
    heads = yield read_signed_head(dialect, locks=False), {"k_log_id": log.key}
    if heads:
        with errors_about(f"thread {log.thread_id!r}"):
            sums = check_head(heads[0], keys)
            if agrees(heads[0], sums):
                return
    yield from check_sums(dialect, log, keys)


# --- A whole log ---------------------------------------------------------------------------------


def check_sums(dialect: Dialect, log: Log, keys: SigningKeys) -> Program[None]:
    """Hold all checkpoints, entries and pending writes of a log to the sums of its head.

    Three statements; more if the log is written meanwhile.

    Raises:
        Corrupt: some were removed, added, or replaced by older ones; or the head was changed.
        NotSigned, KeyMissing: see `SigningKeys.check`.
    """
    binds = {"k_log_id": log.key}
    for attempt in range(MAX_TRIES):
        before = yield read_signed_head(dialect, locks=False), binds
        found = yield from read_signatures(dialect, log.key)
        after = yield read_signed_head(dialect, locks=False), binds
        if attempt < MAX_TRIES - 1 and list(map(tuple, before)) != list(map(tuple, after)):
            continue
        with errors_about(f"thread {log.thread_id!r}"):
            if not before:
                if found:
                    raise rows_do_not_add_up()
                identity = log_identity(log.tenant, log.key)
                yield from hold_missing(dialect, log.tenant, identity, keys)
                return
            sums = check_head(before[0], keys)
            if sums is not None and sum_up(keys, found) != sums:
                raise rows_do_not_add_up()
        return
