"""Verify the rows that were read of a log.

The columns that prove a row are read with it, in the same statement. A checkpoint or an entry that
is not there cannot prove itself: `check_sums` then checks all rows of its log against the sums of
the head.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any
from uuid import UUID

from sqlalchemy import cast, null

from memalchemy._retry import CONFLICTS
from memalchemy.codec.anchors import log_identity
from memalchemy.codec.places import Place, state_place, write_place
from memalchemy.codec.signatures import SigningKeys, Sums
from memalchemy.codec.signed_rows import (
    check_head,
    checkpoint_content_of_values,
    delta_words,
    entry_content,
    head_content_of_values,
    parts_of_log_row,
    state_content,
)
from memalchemy.dialects import Dialect
from memalchemy.errors import Corrupt, DatabaseUnreachable, KeyMissing, about
from memalchemy.keys import Log, log_key
from memalchemy.protection.proven_reads import CHECKPOINTS, THREADS
from memalchemy.protection.removals import hold_missing
from memalchemy.protection.signed_logs import (
    PROVEN_TOGETHER,
    errors_about,
    log_lists,
    read_signatures,
    read_signatures_of_logs,
    read_signed_checkpoint,
    read_signed_head,
    read_signed_heads,
    read_signed_rows,
    rows_do_not_add_up,
    sum_up,
)
from memalchemy.rows import CHECKPOINT, DELTA, DELTA_KINDS, HEAD, SignedHead
from memalchemy.statements import Program

_NAMED = (*CHECKPOINT.signed[1:], "signature")
"""The columns of a checkpoint that prove it, beside the ``checkpoint_id`` that each query has."""
_KNOWN_OF_HEAD = ("log_id", *Log._fields, "deleted_at")
"""The columns of a head that a query requires to have one value, so that it need not return it."""
_OF_HEAD = tuple(name for name in (*HEAD.signed, "signature") if name not in _KNOWN_OF_HEAD)
MOST_SUMMED = 1_000
"""Positions of a log up to which a read of some of its rows checks all of them against the head."""


# --- States --------------------------------------------------------------------------------------


def proof_columns() -> list[Any]:
    """Return the columns that prove a checkpoint and the head of its log."""
    heads = (THREADS.c[one].label(f"head_{one}") for one in _OF_HEAD)
    return [*name_columns(CHECKPOINTS), *heads]


def name_columns(name: Any) -> list[Any]:
    """Return the columns that prove a checkpoint."""
    return [name.c[column].label(f"name_{column}") for column in _NAMED]


def no_proof_columns() -> list[Any]:
    """Return as many columns as `proof_columns`, of the same names, all of them NULL."""
    return [cast(null(), column.type).label(column.name) for column in proof_columns()]


_head_of = attrgetter(*(f"head_{name}" for name in _OF_HEAD[:-1]))
_name_of = attrgetter("checkpoint_id", *(f"name_{name}" for name in _NAMED[:-1]))
_values_of_info = attrgetter(*CHECKPOINT.signed)


def _check_live_head(log: Log, row: Any, keys: SigningKeys) -> None:
    """Verify the head of a log that is not deleted, read beside a state, as `check_head` does."""
    *columns, meta = _head_of(row)
    head = SignedHead._make((log.key, *log, *columns, None, meta))
    keys.check_head_alone(row.head_signature, head_content_of_values(head))
    if row.head_signature is not None and keys.anchor is not None:
        keys.anchor.check_log(head)


def check_chain(log: Log, rows: Sequence[Any] | None, keys: SigningKeys) -> None:
    """Verify the rows of a checkpoint, snapshot first, by their signatures.

    Verify its checkpoint and the head of its log, too, and that it is the newest if the newest was
    asked for (``is_newest``). A row without a payload is one whose signature is known already.

    Raises:
        Corrupt, NotSigned, KeyMissing: see `SigningKeys.check`.
    """
    if not keys.signs:
        return
    assert rows is not None, "a state was read without what proves it"
    tenant, log_id = log.tenant, log.key.bytes
    for row in rows:
        if row.payload is not None:
            keys.check(row.signature, state_content(row, tenant, log_id))
    newest = rows[-1]
    named = checkpoint_content_of_values(tenant, log_id, newest.seq, _name_of(newest))
    keys.check(newest.name_signature, named)
    _check_live_head(log, newest, keys)
    if newest.is_newest and newest.head_head_id != newest.checkpoint_id:
        raise Corrupt(
            f"checkpoint {newest.head_head_id!r} was saved last, and it is not there any more"
        )


def check_states(log: Log, rows: Iterable[Any], keys: SigningKeys) -> None:
    """Verify rows of states, and the checkpoints that some of them have, by their signatures."""
    if not keys.signs:
        return
    tenant, log_id = log.tenant, log.key.bytes
    for row in rows:
        keys.check(row.signature, state_content(row, tenant, log_id))
        if row.checkpoint_id is not None:
            named = checkpoint_content_of_values(tenant, log_id, row.seq, _name_of(row))
            keys.check(row.name_signature, named)


# --- Other rows ----------------------------------------------------------------------------------


def check_write(log: Log, checkpoint_id: str, row: Any, keys: SigningKeys) -> None:
    """Verify a row of pending writes by its signature."""
    if keys.signs:
        place: Place = write_place(log.tenant, log.key, row.seq, checkpoint_id)
        given = row.entry_key, row.overwrites, None, row.stored_at, row.codec, row.payload
        keys.check(row.signature, (*place, None, 0, *given))


def check_entries(log: Log, rows: Iterable[Any], keys: SigningKeys) -> None:
    """Verify entries by their signatures.

    Raises:
        Corrupt, NotSigned, KeyMissing: see `SigningKeys.check`; the message says which entry.
    """
    if not keys.signs:
        return
    tenant, log_id = log.tenant, log.key.bytes
    for row in rows:
        try:
            keys.check(row.signature, entry_content(row, tenant, log_id))
        except (Corrupt, KeyMissing) as error:
            raise about(error, f"entry {row.seq} of thread {log.thread_id!r}") from error


def check_info(tenant: str, row: Any, keys: SigningKeys) -> None:
    """Verify a row of a listing of checkpoints by its signature.

    Raises:
        Corrupt, NotSigned, KeyMissing: see `SigningKeys.check`; the message says which checkpoint.
    """
    if keys.signs:
        with errors_about(f"checkpoint {row.checkpoint_id!r} of thread {row.thread_id!r}"):
            log_id, named = log_key(tenant, row.thread_id, row.namespace), _values_of_info(row)
            content = checkpoint_content_of_values(tenant, log_id, row.seq, named)
            keys.check(row.signature, content)


def check_words_of_state(tenant: str, row: Any, keys: SigningKeys) -> None:
    """Verify the words by which a search has found a checkpoint, by the signature of its state.

    Raises:
        Corrupt, NotSigned, KeyMissing: see `SigningKeys.check_words`.
    """
    if keys.signs:
        with errors_about(f"the words of checkpoint {row.checkpoint_id!r}"):
            place = state_place(tenant, log_key(tenant, row.thread_id, row.namespace), row.seq)
            check_hit_words(place, row.state_signature, row, keys)


def check_hit_words(place: Place, signature: bytes | None, row: Any, keys: SigningKeys) -> None:
    """Verify the words by which a search has found a row of ``deltas``, by its signature."""
    if keys.signs:
        own = DELTA_KINDS[str(place[0])].words
        words = [getattr(row, name) if name in own else None for name in DELTA.words]
        keys.check_words(signature, delta_words(place, words))


def check_newest_checkpoint(
    dialect: Dialect, log: Log, newest: str | None, keys: SigningKeys
) -> Program[None]:
    """Check that *newest*, the newest checkpoint of a log as it was read, is the newest.

    Raises:
        Corrupt, NotSigned, KeyMissing: see `check_sums`.
    """
    found = newest is not None
    yield from _check_against_head(
        dialect, log, keys, lambda head, _: head.head_id == newest, found
    )


def check_all_checkpoints(
    dialect: Dialect, log: Log, signatures: Sequence[bytes | None], keys: SigningKeys
) -> Program[None]:
    """Check all checkpoints of a log, by their signatures, against the sum of its head.

    Raises:
        Corrupt, NotSigned, KeyMissing: see `check_sums`.
    """

    def agrees(_: Any, sums: Sums | None) -> bool:
        read = keys.sum_of(signatures)
        return sums is None or sums.checkpoints == read

    yield from _check_against_head(dialect, log, keys, agrees, bool(signatures))


def check_all_entries(
    dialect: Dialect, log: Log, rows: Sequence[Any], keys: SigningKeys
) -> Program[None]:
    """Check all entries of a log, as they were read, against the sum of its head.

    One statement; more if the log has something else than entries, or is written meanwhile.

    Raises:
        Corrupt, NotSigned, KeyMissing: see `check_sums`.
    """

    total = sum_of_entries(rows, keys)
    yield from check_sum_of_entries(dialect, log, total, keys, bool(rows))


def sum_of_entries(rows: Iterable[Any], keys: SigningKeys, so_far: int = 0) -> int:
    """Return the sum over entries that were read, with that of earlier ones; 0 without keys."""
    if not keys.signs:
        return 0
    return keys.sum_of((row.signature for row in rows if row.seq is not None), so_far)


def check_sum_of_entries(
    dialect: Dialect, log: Log, total: int, keys: SigningKeys, found: bool = True
) -> Program[None]:
    """Check the sum over all entries of a log, read in pages, against that of its head."""

    def agrees(_: Any, sums: Sums | None) -> bool:
        return sums is None or sums.others == total

    yield from _check_against_head(dialect, log, keys, agrees, found)


def check_entries_of_logs(
    dialect: Dialect, rows: Mapping[Log, Sequence[Any]], keys: SigningKeys, *, newest: bool
) -> Program[None]:
    """Check all entries of some logs, or the *newest* of each, against the sums of their heads.

    One statement for some hundred logs; more for a log that has something else than entries.

    Raises:
        Corrupt, NotSigned, KeyMissing: see `check_sums`.
    """
    if not keys.signs:
        return
    logs = {log.key: log for log in rows}
    for listed in log_lists(dialect, sorted(logs)):
        for head in (yield read_signed_heads(dialect), listed):
            log = logs[head.log_id]
            with errors_about(f"thread {log.thread_id!r}"):
                sums = check_head(head, keys)
            if sums is None:
                continue
            read = rows[log]
            if newest and sums.last_entry == (read[-1].seq if read else 0):
                continue
            if not newest and sums.others == sum_of_entries(read, keys):
                continue
            yield from check_sums(dialect, log, keys)


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

    def agrees(_: Any, sums: Sums | None) -> bool:
        return sums is None or sums.last_entry == last

    yield from _check_against_head(dialect, log, keys, agrees, bool(rows))


def _check_against_head(
    dialect: Dialect,
    log: Log,
    keys: SigningKeys,
    agrees: Callable[[Any, Sums | None], bool],
    found: bool,
) -> Program[None]:
    """Check that what was read *agrees* with the head of its log and the sums in it.

    If it does not, the log may have been written since: all of its rows are checked then. Where
    nothing was *found*, there may be no log.
    """
    if not keys.signs:
        return
    heads = yield read_signed_head(dialect, locks=False), {"k_log_id": log.key}
    if heads:
        with errors_about(f"thread {log.thread_id!r}"):
            sums = check_head(heads[0], keys)
            if agrees(heads[0], sums):
                return
    elif not found:
        identity = log_identity(log.tenant, log.key)
        yield from hold_missing(dialect, log.tenant, identity, keys)
        return
    yield from check_sums(dialect, log, keys)


# --- A whole log ---------------------------------------------------------------------------------


def check_nothing_missing(dialect: Dialect, log: Log, keys: SigningKeys) -> Program[None]:
    """Verify the head of a log, and check all rows of a short log against its sums.

    For reads of some rows, which do not add up to a sum. The time to sum up a log grows with its
    rows, so in one of more than `MOST_SUMMED` positions a missing row is not noticed.

    Raises:
        Corrupt, NotSigned, KeyMissing: see `check_sums`.
    """
    yield from check_nothing_missing_of_logs(dialect, [log], keys)


def check_nothing_missing_of_logs(
    dialect: Dialect, logs: Iterable[Log], keys: SigningKeys
) -> Program[None]:
    """Do as `check_nothing_missing` for each of some logs.

    Two statements for some hundred logs; more for a log that is not there, or is written meanwhile.
    """
    if not keys.signs:
        return
    by_key = {log.key: log for log in logs}
    heads: dict[UUID, Any] = {}
    for listed in log_lists(dialect, sorted(by_key)):
        heads |= {head.log_id: head for head in (yield read_signed_heads(dialect), listed)}
    short = [log_id for log_id, head in heads.items() if head.next_seq <= MOST_SUMMED]
    signatures = yield from read_signatures_of_logs(dialect, short)
    for log_id, log in by_key.items():
        with errors_about(f"thread {log.thread_id!r}"):
            head = heads.get(log_id)
            if head is None:
                identity = log_identity(log.tenant, log_id)
                yield from hold_missing(dialect, log.tenant, identity, keys)
                continue
            sums = check_head(head, keys)
            read = signatures.get(log_id)
            adds_up = sums is None or read is None or sum_up(keys, read) == sums
        if not adds_up:
            yield from check_sums(dialect, log, keys)


def check_every_row(dialect: Dialect, log: Log, table: str, keys: SigningKeys) -> Program[None]:
    """Verify all rows that a log has in a table, and check its rows against the head's sums.

    For look-ups by a signed column, which do not find a row that somebody has edited.

    Raises:
        Corrupt, NotSigned, KeyMissing: see `check_sums`.
    """
    if not keys.signs:
        return
    yield from check_sums(dialect, log, keys)
    after = -1
    while True:
        page = {"k_log_id": log.key, "p_after": after, "p_limit": PROVEN_TOGETHER}
        rows = yield read_signed_rows(dialect, table=table), page
        for row in rows:
            with errors_about(f"position {row.seq} of thread {log.thread_id!r}"):
                keys.check_whole(row.signature, *parts_of_log_row(table, row, log.key))
        if len(rows) < PROVEN_TOGETHER:
            return
        after = rows[-1].seq


def missing_checkpoint(
    dialect: Dialect, log: Log, checkpoint_id: str | None, now: datetime, keys: SigningKeys
) -> Program[int | None]:
    """Prove that a checkpoint, the newest without an id, is not there; ``None`` if so.

    Returns the position of one that is there: its state is missing, or it was saved meanwhile.

    Raises:
        Corrupt, NotSigned, KeyMissing: see `check_sums`.
    """
    if not keys.signs:
        return None
    head = yield from check_sums(dialect, log, keys)
    if head is None or head.deleted_at is not None:
        return None
    if head.expires_at is not None and head.expires_at <= now:
        return None
    name = head.head_id if checkpoint_id is None else checkpoint_id
    if name is None:
        return None
    named = {"k_log_id": log.key, "p_checkpoint_id": name}
    rows = yield read_signed_checkpoint(dialect), named
    return rows[0].seq if rows else None


def check_sums(dialect: Dialect, log: Log, keys: SigningKeys) -> Program[Any | None]:
    """Check all checkpoints, entries and pending writes of a log against the sums of its head.

    Three statements; more if the log is written meanwhile. Returns the head, if there is one.

    Raises:
        Corrupt: some were removed, added, or replaced by older ones; or the head was changed.
        NotSigned, KeyMissing: see `SigningKeys.check`.
        DatabaseUnreachable: others wrote to the log each time that its rows were read.
    """
    binds = {"k_log_id": log.key}
    for left in reversed(range(CONFLICTS.tries)):
        before = yield read_signed_head(dialect, locks=False), binds
        found = yield from read_signatures(dialect, log.key)
        after = yield read_signed_head(dialect, locks=False), binds
        is_settled = list(map(tuple, before)) == list(map(tuple, after))
        if left and not is_settled:
            continue  # others wrote meanwhile
        with errors_about(f"thread {log.thread_id!r}"):
            if not before:
                if found:
                    raise rows_do_not_add_up() if is_settled else _written_meanwhile()
                identity = log_identity(log.tenant, log.key)
                yield from hold_missing(dialect, log.tenant, identity, keys)
                return None
            sums = check_head(before[0], keys)
            if sums is not None and sum_up(keys, found) != sums:
                raise rows_do_not_add_up() if is_settled else _written_meanwhile()
        return before[0]
    return None


def _written_meanwhile() -> DatabaseUnreachable:
    return DatabaseUnreachable(
        f"others wrote to the thread in each of {CONFLICTS.tries} tries to check its rows, so "
        "nothing is returned; read it again",
        busy=True,
    )
