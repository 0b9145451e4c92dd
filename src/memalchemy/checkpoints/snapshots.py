"""Read many states at once, of any number of logs, with or without their pending writes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple
from uuid import UUID

from sqlalchemy import Executable, and_, select

from memalchemy.checkpoints.load import LINK, decode_pending_writes
from memalchemy.codec import deltas, values
from memalchemy.codec.checksum import check_payload, check_state
from memalchemy.codec.encryption import Keyring
from memalchemy.codec.places import state_place
from memalchemy.codec.signatures import SigningKeys
from memalchemy.contracts import Snapshot
from memalchemy.database import Decode
from memalchemy.dialects import Dialect
from memalchemy.errors import Corrupt, KeyMissing, NotEncrypted, about
from memalchemy.keys import encode_id
from memalchemy.log import Log
from memalchemy.log.pending_writes import bind_writes_of, read_writes_of_checkpoints
from memalchemy.log.tables import (
    CHECKPOINTS,
    DELTAS,
    STATES,
    THREADS,
    bind_rows_of_logs,
    constants,
    live,
    routed,
    same_log,
)
from memalchemy.protection.signed_reads import (
    check_nothing_missing_of_logs,
    check_states,
    name_columns,
)
from memalchemy.statements import Program, statement

StateName = tuple[Log, str]
"""A log, and the id of one of its checkpoints."""


class StoredStates(NamedTuple):
    """Rows that the named checkpoints are rebuilt from, by position, and their pending writes."""

    names: Sequence[StateName]
    states: Sequence[Any]
    writes: Sequence[Any]


@statement(proves="state", signed_form="signed", alive=(True, False), signed=(False, True))
def read_states(dialect: Dialect, alive: bool, signed: bool) -> Executable:
    """Select all rows that some checkpoints are rebuilt from, of logs that are *alive* or of any.

    ``p_keys`` lists the logs and the ids of the checkpoints; see `bind_rows_of_logs`.
    """
    named = dialect.statements.rows_from_list("p_keys", ("log_id", "checkpoint_id"))
    rows: Any = named
    if alive:
        of_it = and_(same_log(THREADS, named), live(), *routed(dialect, THREADS))
        rows, _ = dialect.statements.join_by_key(named, THREADS, of_it)
    is_named = and_(
        same_log(CHECKPOINTS, named),
        CHECKPOINTS.c.checkpoint_id == named.c.checkpoint_id,
        *routed(dialect, CHECKPOINTS),
    )
    rows, at = dialect.statements.join_by_key(rows, CHECKPOINTS, is_named)
    is_there = and_(same_log(DELTAS, at), DELTAS.c.seq == at.c.seq, *routed(dialect, DELTAS))
    rows, found = dialect.statements.join_by_key(rows, DELTAS, is_there)
    needed_columns = ("log_id", "seq", "base_seq")
    first = (
        select(*(found.c[name] for name in needed_columns))
        .select_from(rows)
        .cte("needed", recursive=True)
    )
    base = DELTAS.alias("base")
    is_base = and_(
        same_log(base, first),
        base.c.seq == first.c.base_seq,
        base.c.seq < first.c.seq,
        *routed(dialect, base),
    )
    rows, found = dialect.statements.join_by_key(first, base, is_base)
    needed = first.union_all(select(*(found.c[name] for name in needed_columns)).select_from(rows))
    places = select(needed.c.log_id, needed.c.seq).distinct().subquery("places")
    here = and_(same_log(DELTAS, places), DELTAS.c.seq == places.c.seq, *routed(dialect, DELTAS))
    rows, row = dialect.statements.join_by_key(places, DELTAS, here)
    name, parent = CHECKPOINTS.alias("name"), CHECKPOINTS.alias("parent")
    above = and_(same_log(parent, name), parent.c.checkpoint_id == name.c.parent_id)
    return (
        select(
            row.c.log_id,
            name.c.checkpoint_id,
            parent.c.checkpoint_id.label("parent_id"),
            *(row.c[column] for column in LINK),
            *((row.c.signature, *name_columns(name)) if signed else ()),
        )
        .select_from(rows)
        .outerjoin(name, and_(same_log(name, row), name.c.seq == row.c.seq))
        .outerjoin(parent, above)
        .where(row.c.kind.in_(constants(*STATES)))
        .order_by(row.c.seq)
    )


def load_states(
    dialect: Dialect, names: Sequence[StateName], now: datetime | None = None
) -> Program[StoredStates]:
    """Return the rows of those checkpoints that exist, without their pending writes.

    With *now* logs that have expired have none. It is a statement for some hundred checkpoints of
    any logs.
    """
    rows: list[Any] = []
    stored = [(log, encode_id(checkpoint_id)) for log, checkpoint_id in names]
    for listed in bind_rows_of_logs(dialect, "p_keys", stored):
        binds = listed if now is None else listed | {"p_now": now}
        rows += yield read_states(dialect, alive=now is not None), binds
    return StoredStates(names, rows, ())


def load_snapshots(
    dialect: Dialect, names: Sequence[StateName], keys: SigningKeys, now: datetime
) -> Program[StoredStates]:
    """Return what `load_states` does, and with it the rows of the checkpoints' pending writes."""
    stored = yield from load_states(dialect, names, now)
    return stored._replace(writes=(yield from load_writes(dialect, names, keys, now)))


def load_writes(
    dialect: Dialect, names: Sequence[StateName], keys: SigningKeys, now: datetime
) -> Program[list[Any]]:
    """Return the rows of the pending writes of checkpoints, whose logs are checked.

    Raises:
        Corrupt, NotSigned, KeyMissing: see `check_nothing_missing`.
    """
    rows: list[Any] = []
    for listed in bind_writes_of(dialect, names):
        rows += yield read_writes_of_checkpoints(dialect), listed | {"p_now": now}
    yield from check_nothing_missing_of_logs(dialect, {log for log, _ in names}, keys)
    return rows


def states_decoder(keyring: Keyring) -> Decode[StoredStates, dict[StateName, Snapshot]]:
    """Return the work that decodes what `load_states` read, by the names of the checkpoints.

    Raises:
        Corrupt: a row is missing, changed, or does not fit the others.
        KeyMissing, NotEncrypted: see `Keyring.decrypt`.
    """
    return Decode(partial(decode_states, keyring=keyring), stored_size)


def stored_size(stored: StoredStates) -> int:
    """Return the number of bytes that `load_states` read of states."""
    return sum(len(row.payload) for row in stored.states)


def decode_states(stored: StoredStates, keyring: Keyring) -> dict[StateName, Snapshot]:
    """Decode what `load_states` read, as `states_decoder` says."""
    rows: dict[UUID, list[Any]] = defaultdict(list)
    for row in stored.states:
        rows[row.log_id].append(row)
    writes: dict[tuple[UUID, str], list[Any]] = defaultdict(list)
    for row in stored.writes:
        writes[row.log_id, row.label].append(row)
    wanted: dict[Log, set[str]] = defaultdict(set)
    for log, checkpoint_id in stored.names:
        wanted[log].add(checkpoint_id)
    found: dict[StateName, Snapshot] = {}
    for log, ids in wanted.items():
        log_id = log.key
        with _errors_about(log):
            for row, parts in _rebuild(log, rows[log_id], ids, keyring):
                name = row.checkpoint_id
                pending = decode_pending_writes(log, name, writes[log_id, name], keyring)
                state = values.decode_state(parts)
                found[log, name] = Snapshot(name, row.parent_id, state, pending)
    return found


def _rebuild(
    log: Log, rows: Sequence[Any], wanted: set[str], keyring: Keyring
) -> Iterator[tuple[Any, values.Parts]]:
    """Yield the rows of the *wanted* checkpoints of a log, each with its state.

    The checksums of every payload, and of the states that are wanted, are checked.
    """
    check_states(log, rows, keyring.signing)
    tenant, log_id = log.tenant, log.key
    children = Counter([row.base_seq for row in rows])
    chains: dict[int, _Chain] = {}
    for row in rows:
        place = state_place(tenant, log_id, row.seq)
        opened = keyring.decrypt(row.codec, row.checksum, bytes(row.payload), place)
        check_payload(opened.payload, opened.checksum)
        if row.base_seq is None:
            chain = _Chain(deltas.decode_snapshot(opened.payload))
        elif row.base_seq in chains:
            base = chains[row.base_seq]
            chain = _Chain(base.parts, (*base.deltas, opened.payload))
        else:
            raise Corrupt(f"a state that others build on is missing at position {row.base_seq}")
        is_wanted = row.checkpoint_id in wanted
        if is_wanted or children[row.seq] > 1:
            chain = _Chain(chain.state())
        chains[row.seq] = chain
        if is_wanted:
            check_state(chain.parts, opened.checksum)
            yield row, chain.parts


class _Chain(NamedTuple):
    """A state, and the deltas on it that nobody has needed joined yet."""

    parts: values.Parts
    deltas: tuple[bytes, ...] = ()

    def state(self) -> values.Parts:
        return deltas.apply_deltas(self.parts, self.deltas) if self.deltas else self.parts


@contextmanager
def _errors_about(log: Log) -> Iterator[None]:
    """Name the thread of *log* in the errors of states that cannot be read."""
    try:
        yield
    except (Corrupt, KeyMissing, NotEncrypted) as error:
        raise about(error, f"thread {log.thread_id!r}") from error
