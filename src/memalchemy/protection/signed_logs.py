"""Sign the rows of logs: heads, checkpoints, states, entries and pending writes.

The head of a log is locked and held to its signature before the first change of the log, and signed
when the program ends. Rows that a program deletes are taken from the sums of the head by reading
the signatures of all rows of the log before and after: whatever else was removed or added shows
then, and nothing is written.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Any
from uuid import UUID

from sqlalchemy import (
    Executable,
    Integer,
    Table,
    and_,
    bindparam,
    literal_column,
    select,
    union_all,
    update,
)

from memalchemy._retry import Overtaken
from memalchemy.codec.anchors import log_identity
from memalchemy.codec.signatures import NO_ROWS, SigningKeys, Sums
from memalchemy.codec.signed_rows import (
    check_head,
    checkpoint_content_of,
    checkpoint_content_of_values,
    delta_parts_of_binds,
    head_content,
    head_content_of_values,
    parts_of_log_row,
)
from memalchemy.dialects import Dialect
from memalchemy.errors import Corrupt, KeyMissing, about
from memalchemy.keys import log_key
from memalchemy.protection.known_heads import HEAD_MOVE, HeadMove, KnownHead
from memalchemy.protection.removals import hold_missing
from memalchemy.protection.work import Work
from memalchemy.rows import (
    CHECKPOINT,
    DELTA,
    ENTRY,
    HEAD,
    MANY_ENTRIES,
    STATE,
    SignedHead,
)
from memalchemy.schema import CheckpointRow, DeltaRow, ThreadRow
from memalchemy.statements import Answer, Program, statement
from memalchemy.variants import varies

THREADS: Table = ThreadRow.__table__  # type: ignore[assignment]
CHECKPOINTS: Table = CheckpointRow.__table__  # type: ignore[assignment]
DELTAS: Table = DeltaRow.__table__  # type: ignore[assignment]
_TABLES = {"checkpoints": CHECKPOINTS, "deltas": DELTAS}
_KINDS_IN = {"checkpoints": CHECKPOINT, "deltas": DELTA}
_SIGNED_COLUMNS = {
    "checkpoints": ("log_id", "seq", "tenant", *CHECKPOINT.signed, "signature"),
    "deltas": (
        *("log_id", "seq", "tenant", "kind", "label"),
        *(*DELTA.signed, *DELTA.words, "signature"),
    ),
}

Key = tuple[str, int]
"""A row of a log: one of `_KINDS`, and its position.

States are in no sum: a checkpoint whose state is missing cannot be read.
"""

_KINDS = ("checkpoint", "entry", "write", "state")

COPIED_TOGETHER = 20
"""The number of rows that are held at once while a copy is signed."""


PROVEN_TOGETHER = 100
"""The number of rows that are held at once while a log is proven."""


@dataclass(slots=True)
class _Log:
    """State of one log during a run."""

    head: Any | None
    """The row of ``threads`` before the run; ``None`` if there was none."""
    opened: Sums | None
    """The sums of its rows before the run; ``None`` if it was not signed."""
    sums: Sums | None
    """The same as of now."""
    known: dict[Key, bytes | None] | None = None
    """The signatures of its rows, once they have been read."""
    signed: dict[Key, bytes] = field(default_factory=dict)
    """The rows that this run has signed."""

    erased: bool = False
    """The program removes all of its rows, whatever they are."""

    @property
    def name(self) -> str:
        return "a log" if self.head is None else f"thread {self.head.thread_id!r}"


class LogSigner:
    """Signer of the rows of logs, for one run of a program."""

    tables = frozenset({"threads", "checkpoints", "deltas"})

    def __init__(
        self, dialect: Dialect, keys: SigningKeys, tenant: str, heads: dict[UUID, KnownHead]
    ) -> None:
        self._dialect = dialect
        self._keys = keys
        self._tenant = tenant
        self._heads = heads
        """The heads as the program has left them."""
        self._moved: dict[UUID, KnownHead] = {}
        """The heads that were known, as the program moves them."""
        self._logs: dict[UUID, _Log] = {}
        self._locked: set[UUID] = set()
        """The logs that the program has locked."""
        self._names: dict[UUID, tuple[str, str, str]] = {}
        """The tenant, thread and namespace of each of them."""
        self._locked_last: set[UUID] = set()
        """The logs that its last locking statement has locked."""

    # --- Around a statement ----------------------------------------------------------------------

    def before(self, work: Work, binds: Mapping[str, Any]) -> Program[None]:
        """Open the logs that a statement changes, and sign the rows that it binds."""
        if work.does == "lock":
            return
        if work.moves_known_head:
            self._sign_moved_head(work, binds)  # type: ignore[arg-type]
            return
        if self._moved:
            self._sign_behind_moved_head(work, binds)  # type: ignore[arg-type]
            return
        if work.erases:
            yield from self._prove_locked(work.proves)
            self._note_erasure_of_locked()
        yield from self._open_all(work, binds)
        if work.table == "threads" and work.does != "delete":
            return
        if work.does == "delete":
            for log_id, log in self._logs.items():
                if not log.erased:
                    yield from self._read_known(log_id, log)
        elif work.does == "copy":
            # A copy of what is left of a log would be signed as if it were whole.
            yield from self._read_known(binds["k_log_id"], self._logs[binds["k_log_id"]])
        elif work.in_place:
            yield from self._check_row(work.table, binds)
        elif work.row is CHECKPOINT:
            yield from self._sign_checkpoint(work, binds)  # type: ignore[arg-type]
        else:
            self._sign_deltas(work, binds)  # type: ignore[arg-type]

    def after(self, work: Work, binds: Mapping[str, Any], answer: Answer) -> Program[None]:
        """Note what was locked; sign the rows that the statement has changed or copied."""
        if work.moves_known_head:
            moved = self._moved[binds["k_log_id"]]
            if answer:
                self._heads[binds["k_log_id"]] = moved
            else:  # the head is another one
                del self._moved[binds["k_log_id"]]
        elif self._moved:
            return
        elif work.does == "lock" and work.table == "threads":
            names = [(row.tenant, row.thread_id, row.namespace) for row in answer]
            locked = {log_key(*name): name for name in names}
            self._names |= locked
            self._locked |= locked.keys()
            self._locked_last = set(locked)
        elif work.does == "copy" and work.table in _TABLES:
            yield from self._sign_copies(work.table, binds)
        elif work.in_place and work.table in _TABLES:
            yield from self._sign_row(work.table, binds)

    def finish(self) -> Program[None]:
        """Sign the heads of the logs that have changed; prove those that were locked alone.

        A program that leaves a log as it is does so for what its head says.

        Raises:
            Overtaken: another writer has begun one of the logs.
            Corrupt: a log has rows that nobody signed, or a head is not what was signed.
        """
        if self._locked:
            yield from self._prove_heads(self._locked - self._logs.keys())
        for log_id, log in self._logs.items():
            rows = yield read_signed_head(self._dialect, locks=False), {"k_log_id": log_id}
            if not rows:
                continue
            head = rows[0]
            self._refuse_if_overtaken(log, rows)
            if log.known is not None and not log.erased:
                log.sums = yield from self._sum_up(log_id, log)
            if log.head is not None and (log.opened, tuple(log.head)) == (log.sums, tuple(head)):
                continue
            if log.sums is not None:
                signature = self._keys.sign_head(head_content(head), log.sums)
                yield sign_head(self._dialect), {"k_log_id": log_id, "p_signature": signature}
                columns = SignedHead._make(head[: len(HEAD.signed)])
                self._heads[log_id] = KnownHead(columns, log.sums, signature)

    # --- Logs ------------------------------------------------------------------------------------

    def _open_all(self, work: Work, binds: Mapping[str, Any]) -> Program[None]:
        """Open the log that a statement names; of one that names none, all that were locked."""
        named = {binds[name] for name in work.named_by}
        for log_id in sorted(named or self._locked):
            yield from self._open(log_id)

    def _prove_locked(self, why: str | None) -> Program[None]:
        """Hold the heads of the logs locked last to what they say, or all of their rows.

        A log below another one of its thread is idle only if that one is, so those count as well.
        """
        if why not in ("head", "rows"):
            return
        new = [one for one in self._locked_last if one not in self._logs]
        if why == "rows":
            for log_id in sorted(new):
                yield from self._open(log_id)
                yield from self._read_known(log_id, self._logs[log_id])
            return
        names = [self._names[one] for one in new]
        yield from self._prove_heads(
            {log_key(*name[:2], path) for name in names for path in _upwards(name[2])}
        )

    def _prove_heads(self, keys: Set[UUID]) -> Program[None]:
        """Hold the heads of logs to their signatures."""
        for listed in log_lists(self._dialect, sorted(keys)):
            for head in (yield read_signed_heads(self._dialect), listed):
                with errors_about(f"thread {head.thread_id!r} in {head.namespace}"):
                    check_head(head, self._keys)

    def _note_erasure_of_locked(self) -> None:
        """Note that all rows of the logs locked last go: they need not be what was signed."""
        for log_id in self._locked_last:
            log = self._logs.setdefault(log_id, _Log(None, NO_ROWS, NO_ROWS))
            log.erased, log.sums = True, NO_ROWS

    def _open(self, log_id: UUID) -> Program[None]:
        """Lock the head of a log, and hold it to its signature."""
        if log_id in self._logs:
            return
        rows = yield read_signed_head(self._dialect, locks=True), {"k_log_id": log_id}
        if not rows:
            identity = log_identity(self._tenant, log_id)
            yield from hold_missing(self._dialect, self._tenant, identity, self._keys)
            self._logs[log_id] = _Log(None, NO_ROWS, NO_ROWS)
            return
        head = rows[0]
        with errors_about(f"thread {head.thread_id!r}"):
            sums = check_head(head, self._keys)
        self._logs[log_id] = _Log(head, sums, sums)

    def _read_known(self, log_id: UUID, log: _Log) -> Program[None]:
        """Read all rows of a log that is copied or of which some are deleted; prove all of them.

        What selects the rows that are copied or go, and leaves others out, is in any of them.

        Raises:
            Overtaken: another writer has begun the log.
            Corrupt: rows were changed, removed, added, or replaced by older ones.
        """
        if log.known is not None:
            return
        known = yield from read_signatures(self._dialect, log_id)
        if log.sums is not None and sum_up(self._keys, known) != log.sums:
            rows = yield read_signed_head(self._dialect, locks=False), {"k_log_id": log_id}
            self._refuse_if_overtaken(log, rows)
            with errors_about(log.name):
                raise rows_do_not_add_up()
        with errors_about(log.name):
            for table in _TABLES:
                yield from self._prove_rows(table, log_id)
        log.known = known

    def _refuse_if_overtaken(self, log: _Log, rows: Answer) -> None:
        """Raise `Overtaken` if a log that was not there has a head that another writer signed."""
        if log.head is None and not log.erased and rows and rows[0].signature is not None:
            raise Overtaken(
                "others began the log at the same moment; nothing was written. Try it again."
            )

    def _prove_rows(self, table: str, log_id: UUID) -> Program[None]:
        """Hold all rows that a log has in a table to their signatures."""
        after = -1
        while True:
            page = {"k_log_id": log_id, "p_after": after, "p_limit": PROVEN_TOGETHER}
            rows = yield read_signed_rows(self._dialect, table=table), page
            for row in rows:
                with errors_about(f"position {row.seq}"):
                    self._check(table, row, log_id)
            if len(rows) < PROVEN_TOGETHER:
                return
            after = rows[-1].seq

    def _sum_up(self, log_id: UUID, log: _Log) -> Program[Sums | None]:
        """Return the sums of a log of which rows were deleted."""
        assert log.known is not None
        there = yield from read_signatures(self._dialect, log_id)
        expected = log.known | log.signed
        with errors_about(log.name):
            if any(expected.get(key, b"") != signature for key, signature in there.items()):
                raise rows_do_not_add_up()
            return None if log.sums is None else sum_up(self._keys, there)

    def _note(self, log: _Log, key: Key, signature: bytes, was: bytes | None = None) -> None:
        """Note that a row was signed, in place of one with the signature *was*."""
        log.signed[key] = signature
        if log.sums is None:
            return
        kind, seq = key
        if kind == "checkpoint":
            total = self._keys.replaced(log.sums.checkpoints, signature, was)
            log.sums = log.sums._replace(checkpoints=total)
        elif kind in ("entry", "write"):
            total = self._keys.replaced(log.sums.others, signature, was)
            log.sums = log.sums._replace(others=total)
        if kind == "entry":
            log.sums = log.sums._replace(last_entry=max(log.sums.last_entry, seq))

    # --- Rows that a statement binds -------------------------------------------------------------

    def _sign_checkpoint(self, work: Work, binds: MutableMapping[str, Any]) -> Program[None]:
        """Sign a checkpoint that is new, or moves to a new position."""
        log_id, own = binds["k_log_id"], binds["p_checkpoint_id"]
        named = {"k_log_id": log_id, "p_checkpoint_id": own}
        found = yield read_signed_checkpoint(self._dialect), named
        there = found[0] if found else None
        if there is not None:
            with errors_about(f"checkpoint {own!r}"):
                self._keys.check(there.signature, checkpoint_content_of(there, log_id))
        elif work.does == "update":
            return
        signature = binds["p_signature"] = self._keys.sign(_checkpoint_of_binds(binds, there))
        log = self._logs[log_id]
        if there is not None:
            log.signed.pop(("checkpoint", there.seq), None)
        was = None if there is None else there.signature
        self._note(log, ("checkpoint", binds["p_seq"]), signature, was)

    def _sign_deltas(self, work: Work, binds: MutableMapping[str, Any]) -> None:
        """Sign the state, the pending writes, or the entries that a statement binds."""
        log = self._logs[binds["k_log_id"]]
        if work.row is MANY_ENTRIES:
            self._sign_entries(binds)
            for seq, signature in zip(binds["e_seq"], binds["e_signature"], strict=True):
                self._note(log, (ENTRY.name, seq), signature)
            return
        kind = work.rows[0]
        binds["p_signature"] = self._keys.sign(*delta_parts_of_binds(kind, binds))
        self._note(log, (kind.name, binds["p_seq"]), binds["p_signature"])

    def _sign_entries(self, binds: MutableMapping[str, Any]) -> None:
        """Sign entries that are sent as arrays."""
        each = MANY_ENTRIES.each(binds)
        binds["e_signature"] = [self._keys.sign(*delta_parts_of_binds(ENTRY, one)) for one in each]

    # --- Rows behind a head that is known --------------------------------------------------------

    def _sign_moved_head(self, work: Work, binds: MutableMapping[str, Any]) -> None:
        """Sign the head that will be there, and the rows whose sum it tells.

        Those are a checkpoint or entries, in the same statement or after it.
        """
        move: HeadMove = binds[HEAD_MOVE]
        kinds = work.rows[1:]
        if move.entries or MANY_ENTRIES in kinds:
            sums = self._sign_new_entries(move, binds)
        else:
            name = binds["p_name_signature"] = self._keys.sign(_checkpoint_of_binds(binds, None))
            total = self._keys.replaced(move.known.sums.checkpoints, name, None)
            sums = move.known.sums._replace(checkpoints=total)
        if STATE in kinds:
            binds["p_signature"] = self._keys.sign(*delta_parts_of_binds(STATE, binds))
        signature = self._keys.sign_head(head_content_of_values(move.leaves), sums)
        binds["p_head_signature"] = signature
        self._moved[binds["k_log_id"]] = KnownHead(move.leaves, sums, signature)

    def _sign_new_entries(self, move: HeadMove, binds: MutableMapping[str, Any]) -> Sums:
        """Sign entries, sent as arrays or one by one; return the sums with them."""
        if move.entries:
            for row in move.entries:
                row["p_signature"] = self._keys.sign(*delta_parts_of_binds(ENTRY, row))
            signatures = [row["p_signature"] for row in move.entries]
            last = move.entries[-1]["p_seq"]
        else:
            self._sign_entries(binds)
            signatures, last = binds["e_signature"], binds["e_seq"][-1]
        others = self._keys.sum_of(signatures, move.known.sums.others)
        return move.known.sums._replace(others=others, last_entry=last)

    def _sign_behind_moved_head(self, work: Work, binds: MutableMapping[str, Any]) -> None:
        """Sign a row that is inserted behind a head which tells its sum already."""
        if work.row is STATE:
            binds["p_signature"] = self._keys.sign(*delta_parts_of_binds(STATE, binds))
        elif work.row is CHECKPOINT:
            binds["p_signature"] = binds["p_name_signature"]
        else:
            assert work.row is ENTRY, "no program writes anything else behind a known head"

    # --- Rows that a statement changes in place, or copies ---------------------------------------

    def _read_row(self, table: str, binds: Mapping[str, Any]) -> Program[Any | None]:
        at = {"k_log_id": binds["k_log_id"], "p_seq": binds["p_seq"]}
        rows = yield read_signed_row(self._dialect, table=table), at
        return rows[0] if rows else None

    def _check_row(self, table: str, binds: Mapping[str, Any]) -> Program[None]:
        """Hold the row that a statement is about to change to its signature."""
        row = yield from self._read_row(table, binds)
        if row is not None:
            with errors_about(f"position {row.seq}"):
                self._check(table, row, row.log_id)

    def _sign_row(self, table: str, binds: Mapping[str, Any]) -> Program[None]:
        """Sign a row that a statement has changed."""
        row, log = (yield from self._read_row(table, binds)), self._logs[binds["k_log_id"]]
        if row is None or (row.signature is None and log.sums is None):
            return  # it was not signed before, which was allowed
        signature = self._signature_of(table, row)
        if signature != row.signature:
            yield sign_row(self._dialect, table=table), _signed_at(row, signature)
            self._note(log, _key_of(table, row), signature, row.signature)

    def _sign_copies(self, table: str, binds: Mapping[str, Any]) -> Program[None]:
        """Sign the rows of a log that were copied with their signatures from another."""
        source, target = binds["k_log_id"], binds["p_log_id"]
        log, after = self._logs[target], -1
        while True:
            page = {"k_log_id": target, "p_after": after, "p_limit": COPIED_TOGETHER}
            rows = yield read_signed_rows(self._dialect, table=table), page
            new = [row for row in rows if _key_of(table, row) not in log.signed]
            signing = []
            for row in new:
                with errors_about(f"position {row.seq}"):
                    self._check(table, row, source)
                signature = self._signature_of(table, row)
                self._note(log, _key_of(table, row), signature)
                signing.append(_signed_at(row, signature))
            if signing:
                yield sign_row(self._dialect, table=table), signing
            if len(rows) < COPIED_TOGETHER:
                return
            after = rows[-1].seq

    def _check(self, table: str, row: Any, log_id: UUID) -> None:
        """Hold a row that was read to its signature as a row of the log *log_id*."""
        self._keys.check_whole(row.signature, *parts_of_log_row(table, row, log_id))

    def _signature_of(self, table: str, row: Any) -> bytes:
        return self._keys.sign(*parts_of_log_row(table, row, row.log_id))


def _checkpoint_of_binds(binds: Mapping[str, Any], there: Any | None) -> Sequence[Any]:
    """Return what is signed of a checkpoint that a statement binds, in place of the row *there*."""
    own, parent, ordinal, *others = _bound_checkpoint(binds)
    if there is not None:
        ordinal = there.ordinal
    if parent is None:
        parent = binds["p_previous_id"] if there is None else there.parent_id
    values = own, None if parent == own else parent, ordinal, *others
    return checkpoint_content_of_values(
        binds["k_tenant"], binds["k_log_id"], binds["p_seq"], values
    )


_bound_checkpoint = itemgetter(*map(CHECKPOINT.bind, CHECKPOINT.signed))


def _upwards(path: str) -> Iterator[str]:
    """Yield an encoded namespace and those above it but the root, which has nothing below it."""
    yield path
    parts = path.split("/")[1:-1]
    for count in range(1, len(parts)):
        yield f"/{'/'.join(parts[:count])}/"


@varies
def log_lists(dialect: Dialect, keys: Sequence[UUID]) -> Iterator[dict[str, Any]]:
    """Yield the binds that list logs, in as many lists as they take."""
    return dialect.statements.list_batches("p_logs", [(key,) for key in keys])


def _key_of(table: str, row: Any) -> Key:
    if table == "checkpoints":
        return "checkpoint", row.seq
    return row.kind if row.kind in _KINDS else "state", row.seq


def _signed_at(row: Any, signature: bytes) -> dict[str, Any]:
    return {"k_log_id": row.log_id, "p_seq": row.seq, "p_signature": signature}


# --- The sums of a log ---------------------------------------------------------------------------


def read_signatures(dialect: Dialect, log_id: UUID) -> Program[dict[Key, bytes | None]]:
    """Return the signatures of the checkpoints, entries and pending writes of a log."""
    rows = yield list_signatures(dialect), {"k_log_id": log_id}
    return {(_KINDS[row.kind], row.seq): row.signature for row in rows}


def read_signatures_of_logs(
    dialect: Dialect, log_ids: Collection[UUID]
) -> Program[dict[UUID, dict[Key, bytes | None]]]:
    """Return the signatures as `read_signatures` does, of each of some logs."""
    found: dict[UUID, dict[Key, bytes | None]] = {log_id: {} for log_id in log_ids}
    for listed in log_lists(dialect, sorted(log_ids)):
        for row in (yield list_signatures_of_logs(dialect), listed):
            found[row.log_id][_KINDS[row.kind], row.seq] = row.signature
    return found


def sum_up(keys: SigningKeys, signatures: Mapping[Key, bytes | None]) -> Sums:
    """Return the sums of rows of a log.

    Raises:
        NotSigned: a row has no signature, and unsigned rows are not allowed.
    """
    checkpoints = keys.sum_of(one for (kind, _), one in signatures.items() if kind == "checkpoint")
    others = keys.sum_of(one for (kind, _), one in signatures.items() if kind != "checkpoint")
    last_entry = max((seq for kind, seq in signatures if kind == "entry"), default=0)
    return Sums(checkpoints, others, last_entry)


def rows_do_not_add_up() -> Corrupt:
    """Return the error for a log whose rows are not those that its head was signed with."""
    return Corrupt(
        "its rows are not those that it was signed with: some were removed, added, or replaced by "
        "older ones."
    )


@contextmanager
def errors_about(what: str) -> Iterator[None]:
    """Name *what* in the message of each signature error that the block raises."""
    try:
        yield
    except (Corrupt, KeyMissing) as error:
        raise about(error, what) from error


# --- Statements ----------------------------------------------------------------------------------


def of_log(table: Table) -> Any:
    """Return the condition on the rows of one log; binds ``k_log_id``."""
    return table.c.log_id == bindparam("k_log_id", type_=table.c.log_id.type)


def _at_position(table: Table) -> Any:
    return and_(of_log(table), table.c.seq == bindparam("p_seq", type_=table.c.seq.type))


def _all_signed(table: str) -> list[Any]:
    return [_TABLES[table].c[name] for name in _SIGNED_COLUMNS[table]]


@statement(proves="head", locks=(True, False))
def read_signed_head(dialect: Dialect, locks: bool) -> Executable:
    """Select what is signed of a head, and its signature; with *locks* it is locked."""
    columns = [*(THREADS.c[name] for name in HEAD.signed), THREADS.c.signature]
    if locks:
        return dialect.statements.lock(THREADS, of_log(THREADS), columns)
    return select(*columns).where(of_log(THREADS))


@statement(proves="head")
def read_signed_heads(dialect: Dialect) -> Executable:
    """Select the signed columns and signatures of the heads that ``p_logs`` lists."""
    columns = [*(THREADS.c[name] for name in HEAD.signed), THREADS.c.signature]
    listed = dialect.statements.rows_from_list("p_logs", ("log_id",))
    return select(*columns).where(THREADS.c.log_id.in_(select(listed.c.log_id)))


@statement(proves="row")
def read_signed_checkpoint(dialect: Dialect) -> Executable:
    """Select what is signed of the checkpoint ``p_checkpoint_id``, and its signature."""
    name = CHECKPOINTS.c.checkpoint_id
    same = name == bindparam("p_checkpoint_id", type_=name.type)
    return select(*_all_signed("checkpoints")).where(of_log(CHECKPOINTS), same)


@statement(proves="row", table=tuple(_TABLES))
def read_signed_row(dialect: Dialect, table: str) -> Executable:
    """Select what is signed of the row at a position, and its signature."""
    return select(*_all_signed(table)).where(_at_position(_TABLES[table]))


@statement(proves="row", table=tuple(_TABLES))
def read_signed_rows(dialect: Dialect, table: str) -> Executable:
    """Select what is signed of the next rows behind ``p_after``, and their signatures."""
    seq = _TABLES[table].c.seq
    behind = seq > bindparam("p_after", type_=seq.type)
    page = select(*_all_signed(table)).where(of_log(_TABLES[table]), behind).order_by(seq)
    return page.limit(bindparam("p_limit"))


@statement(proves="log")
def list_signatures(dialect: Dialect) -> Executable:
    """Select the positions and signatures of the checkpoints, entries and writes of a log."""
    return select_signatures(of_log)


@statement(proves="log")
def list_signatures_of_logs(dialect: Dialect) -> Executable:
    """Select the same as `list_signatures`, and the ``log_id``, of the logs ``p_logs`` lists."""
    listed = dialect.statements.rows_from_list("p_logs", ("log_id",))
    return select_signatures(lambda table: table.c.log_id.in_(select(listed.c.log_id)), "log_id")


def select_signatures(is_of_logs: Callable[[Table], Any], *also: str) -> Executable:
    """Select what `list_signatures` returns, and the columns *also*, of the logs of a condition."""

    def of_kind(at: int, table: Table, *where: Any) -> Any:
        number = literal_column(str(at), Integer).label("kind")
        columns = (table.c[name] for name in (*also, "seq", "signature"))
        return select(*columns, number).where(is_of_logs(table), *where)

    is_entry, is_write = (DELTAS.c.kind == literal_column(f"'{kind}'") for kind in _KINDS[1:3])
    kinds = of_kind(0, CHECKPOINTS), of_kind(1, DELTAS, is_entry), of_kind(2, DELTAS, is_write)
    return union_all(*kinds)


def _signature() -> Any:
    return bindparam("p_signature", type_=THREADS.c.signature.type)


@statement(table=tuple(_TABLES), changes=lambda table: _KINDS_IN[table])
def sign_row(dialect: Dialect, table: str) -> Executable:
    """Set the signature of the row at a position."""
    changing = update(_TABLES[table]).where(_at_position(_TABLES[table]))
    return changing.values(signature=_signature())


@statement(changes=HEAD)
def sign_head(dialect: Dialect) -> Executable:
    """Set the signature of a head."""
    return update(THREADS).where(of_log(THREADS)).values(signature=_signature())
