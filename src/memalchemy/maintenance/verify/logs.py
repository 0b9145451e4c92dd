"""The check of one log: its head, and all of its rows or some.

Every state is rebuilt, in the order of positions, each on its base. Memory is bounded: pages of
positions, batches of payloads, and the states that later ones build on (`RebuiltStates`).

Each statement sees one moment, and what it compares it compares by itself. So a difference that it
shows is damage, and never a write of somebody else's between two statements.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Executable, and_, bindparam, func, literal_column, select

from memalchemy.codec.encryption import Keyring, is_encrypted
from memalchemy.codec.values import Parts, state_size
from memalchemy.database import Database, HostConnection, off_loop
from memalchemy.dialects import Dialect
from memalchemy.keys import decode_namespace
from memalchemy.log import STATES, Log
from memalchemy.log.scan import batches, run_query, scan
from memalchemy.log.tables import (
    CHECKPOINTS,
    DELTAS,
    NAMES,
    THREADS,
    constants,
    of_log,
    routed,
    same_log,
    truncate_to_second,
)
from memalchemy.maintenance.command_names import program
from memalchemy.maintenance.log_positions import BEFORE_ALL, list_positions, scan_positions
from memalchemy.maintenance.verify.log_rows import (
    Fault,
    RebuiltStates,
    check_entry,
    check_links,
    is_same_state,
    is_unopenable,
    rebuild_chain,
    rebuild_state,
)
from memalchemy.maintenance.verify.report import (
    MAX_AFFECTED,
    ReportBuilder,
    SharedCause,
    counted,
    remedy_of,
)
from memalchemy.proofs import REPORTED
from memalchemy.statements import Answer, statement

BATCH_ROWS = 100
"""The number of rows that are read together with their payloads."""

END = 2**62
"""A position behind all others."""

Range = tuple[int, int]
"""A first and a last position."""


class LogCheck:
    """Check one log and add what is found to a report.

    Args:
        keyring: the keys to open rows with, those of *db* unless it is given.
        connection: a snapshot to read on.
    """

    def __init__(
        self,
        db: Database,
        log: Log,
        report: ReportBuilder,
        keyring: Keyring | None = None,
        connection: HostConnection | None = None,
    ) -> None:
        self.db = db
        self.log = log
        self.report = report
        self._keyring = db.keyring if keyring is None else keyring
        self._connection = connection
        self._rebuilt = RebuiltStates()
        self._keeps_chains = False
        """Keep the states of a chain that was read: later rows are built on rows not checked."""
        self._newest_intact: tuple[int, str] | None = None
        """The position and the id of the newest checkpoint so far that is whole."""
        self._causes: dict[int, int] = {}
        """For each position whose state cannot be rebuilt, the position that is to blame."""
        self._faults: dict[int, Fault] = {}
        """The faults by the positions that are to blame."""
        self._affected: dict[int, list[str]] = {}
        """By the same positions, the first checkpoints that cannot be loaded."""
        self._affected_counts: Counter[int] = Counter()
        self._later_parents: list[tuple[int, int, str]] = []
        """Position, position of the parent, and id of checkpoints whose parent is later."""
        self.damaged: set[int] = set()
        """The positions whose own payload cannot be read or decoded."""
        self._other_tenants: Counter[str] = Counter()
        """The number of rows that say each other tenant."""

    async def check_head(self) -> bool:
        """Compare the head of the log with its rows; return whether there is a head."""
        rows = await self._query_log(read_head_and_last_rows(self.db.dialect))
        if not rows:
            return False
        head = rows[0]
        self.report.logs += 1
        last = max(head.last_row or 0, head.last_name or 0)
        if head.next_seq <= last:
            self._add_finding(
                "position",
                f"the next save would take position {head.next_seq}, and {last} is taken",
                seq=last,
                remedy=self._fork_command(head.newest_id),
            )
        if not head.meta_readable:
            self._add_finding("metadata", "the metadata of the thread is no JSON object")
        if head.active_at != truncate_to_second(head.updated_at):
            self._add_finding(
                "head",
                "its active_at is not the second of its last write: lists have the log in a wrong "
                "place, or not at all",
            )
        if head.deleted_at is not None:
            # Pending writes may wait there for the first checkpoint of the thread's next life.
            if head.last_but_writes or head.last_name or head.head_id is not None:
                self._add_finding(
                    "tombstone",
                    "the thread is deleted and still has rows or a newest checkpoint",
                )
        elif head.head_id != head.newest_id:
            remedy = None
            if head.newest_id is not None:
                remedy = f"save the next checkpoint with parent_id={head.newest_id!r}"
            self._add_finding(
                "head",
                f"the head names {_text_of_id(head.head_id)}; the newest is "
                f"{_text_of_id(head.newest_id)}",
                checkpoint_id=head.head_id,
                remedy=remedy,
            )
        return True

    async def check_all(self, after: int = BEFORE_ALL) -> list[Range]:
        """Check every row behind a position; return the ranges of positions that were read."""
        ranges: list[Range] = []
        self._keeps_chains = after > BEFORE_ALL
        pages = scan_positions(
            self.db, self.log, "deltas", self._connection, after=after, identified_by=("seq",)
        )
        async for page in pages:
            # A cell that cannot be read is reported when its row is read with its payload.
            for batch in batches(page, _stored_bytes, most_rows=BATCH_ROWS):
                await self._check_rows(batch[0].seq, batch[-1].seq)
            ranges.append((page[0].seq, page[-1].seq))
        await self._check_names(max(after + 1, 0), END)
        if self._later_parents:
            await self._check_lineage()
        await self._report_faults(complete=True)
        return ranges

    async def check_sample(self, positions: Sequence[int]) -> list[Range]:
        """Check the rows at, or next after, *positions*; return the ranges that were read."""
        ranges: list[Range] = []
        for position in positions:
            if ranges and position <= ranges[-1][1]:
                continue
            binds = self.log.binds() | {"p_after": position - 1, "p_limit": 1}
            statement = list_positions(self.db.dialect, table="deltas")
            found = await self._run_statement(statement, binds, identified_by=("seq",))
            seq = found[0].seq if found else position
            if found:
                await self._check_rows(seq, seq)
            await self._check_names(position, seq)
            ranges.append((seq, seq))
        await self._report_faults(complete=False)
        return ranges

    # --- Rows --------------------------------------------------------------------------------

    async def _check_rows(self, low: int, high: int) -> None:
        binds = self.log.binds() | {"p_low": low, "p_high": high}
        rows = await self._run_statement(
            read_rows_to_verify(self.db.dialect), binds, identified_by=("seq",)
        )
        for index, row in enumerate(rows):
            self.report.rows += 1
            if index in rows.damaged:
                self._blame_fault(Fault(row.seq, "unreadable", rows.damaged[index]), row)
                continue
            self.report.payload_bytes += len(row.payload)
            self._other_tenants.update({row.tenant, row.named_tenant} - {self.log.tenant, None})
            if row.kind in STATES:
                await self._check_state(row)
            elif row.kind in ("entry", "write"):
                await self._check_entry(row)
            else:
                self._blame_fault(Fault(row.seq, "kind", f"its kind is {row.kind!r}"), row)
            self._rebuilt.drop_unused_after(row.seq)

    async def _check_entry(self, row: Any) -> None:
        keyring = self._keyring
        fault = await off_loop(len(row.payload), partial(check_entry, self.log, row, keyring))
        if fault is None:
            self.report.entries += row.kind == "entry"
        elif self._is_unopened(fault):
            self._add_unopened(fault, row)
        else:
            self._note_damage(fault)
            thread = self.log.thread_id
            if row.kind == "write":
                remedy = (
                    f"{self._python_in_namespace('Checkpointer')}.delete({thread!r}, checkpoint_id)"
                )
            else:
                remedy = (
                    f"{self._python_in_namespace('ThreadLog')}.edit({thread!r}, {row.seq}, value)"
                )
            self._add_finding(
                fault.code,
                f"the {row.kind} at position {row.seq}: {fault.reason}",
                seq=row.seq,
                remedy=remedy_of(fault.code, self.log.tenant) or remedy,
            )

    async def _check_state(self, row: Any) -> None:
        if row.checkpoint_id is not None:
            self.report.checkpoints += 1
            self._check_checkpoint(row)
        elif row.last_use is None:
            self.report.unused += 1
        chain_fault = check_links(row)
        state = await self._rebuild_state(row)
        if state is None:
            return  # deleted since it was read
        if isinstance(state, Fault):
            if not self._is_unopened(state):
                # A wrong base is the cause of a wrong state at the same position.
                self._blame_fault(
                    chain_fault if chain_fault and state.seq == row.seq else state, row
                )
                return
            self._add_unopened(state, row)
        if chain_fault is not None:
            self._add_finding("depth", self._sentence_of_fault(chain_fault), **_place_of_row(row))
        if not isinstance(state, Fault):
            self._add_state(row, state)

    def _is_unopened(self, fault: Fault) -> bool:
        """Return whether the keys are at fault: one is missing, or the tenant has none."""
        if fault.code == "plaintext":
            return self.log.tenant in self.report.never_encrypted
        return fault.key_id is not None

    def _is_plaintext_of_unencrypted(self, row: Any) -> bool:
        never_encrypted = self.log.tenant in self.report.never_encrypted
        return never_encrypted and not is_encrypted(row.codec)

    def _add_unopened(self, fault: Fault, row: Any) -> None:
        """Count a row that cannot be opened because of the keys."""
        if not self._keyring.encrypts:
            self.report.unopened += 1
            return
        cause = SharedCause(fault.code, self.log.tenant, fault.key_id)
        what = f"position {row.seq}"
        self.report.add_row(cause, what, self.log, affected=row.checkpoint_id)

    def _add_state(self, row: Any, state: Parts) -> None:
        """Count a state that is whole, and keep it if later ones build on it."""
        size = state_size(state)
        self.report.states += 1
        self.report.state_bytes += size
        if row.last_use is not None:
            self._rebuilt.put(row.seq, state, row.last_use)
        if row.checkpoint_id is not None:
            self._newest_intact = (row.seq, row.checkpoint_id)
            self._check_sizes(row, size)

    async def _rebuild_state(self, row: Any) -> Parts | Fault | None:
        """Rebuild the state of a row; return ``None`` if the row is gone by now.

        A failure is tried again with one statement that reads the whole chain: the base at hand
        may be of a log that was deleted and begun anew since.
        """
        keyring = self._keyring
        if is_unopenable(row, keyring) or self._is_plaintext_of_unencrypted(row):
            return rebuild_state(self.log, row, None, keyring)  # a fault: no key, or damaged bytes
        base = self._rebuilt.get(row.base_seq) if row.base_kind is not None else None
        if row.kind == "snapshot" or base is not None:
            size = max(row.raw_size or 0, 0)
            result = await off_loop(size, partial(rebuild_state, self.log, row, base, keyring))
            if not isinstance(result, Fault):
                return result
        binds = self.log.binds() | {"p_seq": row.seq}
        statement = read_rows_of_state(self.db.dialect)
        chain = await self._run_statement(statement, binds, identified_by=("seq",))
        if chain.damaged:
            first = min(chain.damaged)
            return Fault(chain[first].seq, "unreadable", chain.damaged[first])
        if not chain or not is_same_state(self.log, chain[-1], row, keyring):
            return None
        size = sum(len(link.payload) for link in chain)
        self.report.payload_bytes += size
        kept = self._rebuilt if self._keeps_chains else None
        return await off_loop(size, partial(rebuild_chain, self.log, chain, keyring, kept))

    def _check_checkpoint(self, row: Any) -> None:
        """Check what a checkpoint has beside its state."""
        name = row.checkpoint_id
        if not row.meta_readable:
            self._add_finding(
                "metadata", f"the metadata of {name!r} is no JSON object", **_place_of_row(row)
            )
        if row.rests_on is not None and row.rests_at is None:
            self._add_finding(
                "rests-on",
                f"{name!r} rests on {row.rests_on!r}, which is gone: its state, and "
                "those of all that rest on it, are incomplete",
                **_place_of_row(row),
            )
        if row.parent_at == row.seq:
            self._add_finding("parent", f"{name!r} is its own parent", **_place_of_row(row))
        elif row.parent_at is not None and row.parent_at > row.seq:
            self._later_parents.append((row.seq, row.parent_at, name))

    def _check_sizes(self, row: Any, size: int) -> None:
        for name, recorded, found in (
            ("raw_size", row.raw_size, size),
            ("stored_size", row.stored_size, len(row.payload)),
        ):
            if recorded != found:
                self._add_finding(
                    "size",
                    f"position {row.seq}: {name} says {recorded}, there are {found} bytes",
                    **_place_of_row(row),
                )

    # --- Checkpoints -------------------------------------------------------------------------

    async def _check_names(self, low: int, high: int) -> None:
        """Find the checkpoints in a range of positions that have no state."""
        pages = scan(
            self.db,
            lambda _: list_names_without_state(self.db.dialect),
            self.log.binds() | {"p_low": low, "p_high": high},
            lambda last: {"p_low": last.seq + 1},
            self._connection,
        )
        async for page in pages:
            for row in page:
                self.report.checkpoints += 1
                self._faults.setdefault(
                    row.seq, Fault(row.seq, "state-missing", "there is no state")
                )
                if row.seq not in self._causes:
                    self._add_affected(row.seq, row.checkpoint_id)

    async def _check_lineage(self) -> None:
        """Report parents that are later than their children, unless a reused id explains them.

        The id of a checkpoint that was deleted or replaced can be used again, for a later position.
        That may have happened where fewer checkpoints than positions come before the child.
        """
        rows = await self._query_log(read_lineage(self.db.dialect))
        parents: dict[int, int | None] = {}
        checkpoints_before: dict[int, int] = {}
        for index, row in enumerate(rows):
            parents[row.seq], checkpoints_before[row.seq] = row.parent_at, index
        reported: set[int] = set()
        for seq, later, name in self._later_parents:
            if parents.get(seq) != later:
                continue  # changed since
            may_be_reused = checkpoints_before[seq] < seq - 1
            path = _find_cycle(parents, seq)
            if path is None and not may_be_reused:
                self._add_finding(
                    "parent",
                    f"the parent of {name!r} at {seq} is at {later}, and nothing was there before",
                    checkpoint_id=name,
                    seq=seq,
                )
            elif path is not None and not reported.intersection(path):
                reported.update(path)
                why = "; a name was used again after it was deleted or replaced"
                self._add_finding(
                    "cycle",
                    f"the parents of {name!r} lead back to it, over {len(path)} checkpoints"
                    + (why if may_be_reused else ""),
                    severity="note" if may_be_reused else "error",
                    checkpoint_id=name,
                    seq=seq,
                )

    # --- Faults ------------------------------------------------------------------------------

    def _blame_fault(self, fault: Fault, row: Any) -> None:
        """Note that the state of *row* cannot be rebuilt because of *fault*."""
        self._note_damage(fault)
        cause = self._causes.get(fault.seq, fault.seq)
        self._causes[row.seq] = cause
        self._faults.setdefault(cause, fault)
        if row.checkpoint_id is not None:
            self._add_affected(cause, row.checkpoint_id)

    def _note_damage(self, fault: Fault) -> None:
        if fault.code in ("payload", "unreadable"):
            self.damaged.add(fault.seq)

    def _add_affected(self, cause: int, checkpoint_id: str) -> None:
        listed = self._affected.setdefault(cause, [])
        self._affected_counts[cause] += 1
        if len(listed) < MAX_AFFECTED:
            listed.append(checkpoint_id)

    async def _report_faults(self, *, complete: bool) -> None:
        """Add the faults of the log to the report, each once, with the checkpoints it affects."""
        for tenant, count in sorted(self._other_tenants.items()):
            rows = counted(count, "position says", "positions say")
            self._add_finding(
                "tenant", f"{rows} tenant {tenant!r}, and the log is of {self.log.tenant!r}"
            )
        for seq, fault in sorted(self._faults.items()):
            affected = self._affected.get(seq, [])
            names = await self._query_log(read_name(self.db.dialect), p_seq=seq)
            remedy: str | None
            if complete:
                remedy = self._remedy(seq, affected)
            else:
                remedy = (
                    f"{program(self.log.tenant)} verify --thread {shlex.quote(self.log.thread_id)}"
                )
            self._add_finding(
                fault.code,
                self._sentence_of_fault(fault),
                seq=seq,
                checkpoint_id=names[0].checkpoint_id if names else None,
                affected=tuple(affected),
                affected_count=self._affected_counts[seq],
                intact=self._newest_intact[1] if complete and self._newest_intact else None,
                remedy=remedy_of(fault.code, self.log.tenant) or remedy,
            )

    def _sentence_of_fault(self, fault: Fault) -> str:
        count = self._affected_counts[fault.seq]
        lost = f"; checkpoints that cannot be loaded: {count:,}" if count else ""
        return f"the state at position {fault.seq}: {fault.reason}{lost}"

    def _add_finding(self, code: str, sentence: str, **details: Any) -> None:
        self.report.add(code, sentence, self.log, **details)

    async def _query_log(self, statement: Executable, **binds: Any) -> Answer:
        return await self._run_statement(statement, self.log.binds() | binds)

    async def _run_statement(
        self, statement: Executable, binds: Mapping[str, Any], identified_by: Sequence[str] = ()
    ) -> Answer:
        return await run_query(
            self.db, statement, binds, self._connection, identified_by=identified_by
        )

    # --- Remedies ----------------------------------------------------------------------------

    def _remedy(self, seq: int, affected: Sequence[str]) -> str | None:
        """Name the commands that bring the newest whole state back."""
        if self._newest_intact is None:
            return None
        if self._newest_intact[0] < seq:
            return self._fork_command(self._newest_intact[1])
        # The newest checkpoint is whole: only the damaged ones have to go.
        deletes = [self._delete_command(name) for name in affected[:3]]
        more = len(affected) - len(deletes)
        return (
            "; ".join(deletes) + (f"; likewise {more:,} more of affected" if more else "") or None
        )

    def _fork_command(self, checkpoint_id: str | None) -> str | None:
        """Name the command that makes a thread of everything up to a checkpoint."""
        if checkpoint_id is None:
            return None
        thread = self.log.thread_id
        new = f"{thread}-restored"
        names = shlex.join((thread, checkpoint_id))
        return f"{self._command_in_namespace('fork')} {names} --to {shlex.quote(new)}"

    def _delete_command(self, checkpoint_id: str) -> str:
        arguments = shlex.join((self.log.thread_id, checkpoint_id))
        return f"{self._command_in_namespace('delete')} {arguments}"

    def _command_in_namespace(self, name: str) -> str:
        """Return the beginning of a command that works in the log's namespace."""
        at = f" --namespace {shlex.quote(self.log.namespace)}" if self.log.namespace != "/" else ""
        return f"{program(self.log.tenant)} {name}{at}"

    def _python_in_namespace(self, feature: str) -> str:
        """Return the Python for a feature in the log's namespace, for what has no command."""
        return f"{feature}(db, namespace={decode_namespace(self.log.namespace)!r})"


def _stored_bytes(row: Any) -> int:
    return max(row.stored or 0, 0)


def _find_cycle(parents: Mapping[int, int | None], seq: int) -> list[int] | None:
    """Return the path from *seq* over its parents back to it, if there is one."""
    path, seen, at = [seq], {seq}, parents.get(seq)
    while at is not None and at not in seen:
        path.append(at)
        seen.add(at)
        at = parents.get(at)
    return path if at == seq else None


def _place_of_row(row: Any) -> dict[str, Any]:
    return {"checkpoint_id": row.checkpoint_id, "seq": row.seq}


def _text_of_id(checkpoint_id: str | None) -> str:
    return "nothing" if checkpoint_id is None else repr(checkpoint_id)


# --- Statements ----------------------------------------------------------------------------------


@statement(unproven=REPORTED)
def read_head_and_last_rows(dialect: Dialect) -> Executable:
    """Select a log's head beside its last row, its last checkpoint and that one's id."""

    def last(table: Any, *where: Any) -> Any:
        here = same_log(table, THREADS)
        return select(func.max(table.c.seq)).where(here, *where).scalar_subquery()

    later = CHECKPOINTS.alias("later")
    newest = (
        select(CHECKPOINTS.c.checkpoint_id)
        .where(same_log(CHECKPOINTS, THREADS))
        .where(
            CHECKPOINTS.c.seq
            == select(func.max(later.c.seq)).where(same_log(later, CHECKPOINTS)).scalar_subquery()
        )
        .scalar_subquery()
    )
    return select(
        THREADS.c.next_seq,
        THREADS.c.head_id,
        THREADS.c.deleted_at,
        # Reading these columns is the check of them: that they can be read.
        *(THREADS.c[name] for name in ("version", "epoch", "created_at", "updated_at")),
        *(THREADS.c[name] for name in ("active_at", "expires_at", "forked_from", "forked_seq")),
        *(THREADS.c[name] for name in NAMES),
        dialect.statements.json_is_object(THREADS.c.meta).label("meta_readable"),
        last(DELTAS).label("last_row"),
        last(DELTAS, DELTAS.c.kind.not_in(constants("write"))).label("last_but_writes"),
        last(CHECKPOINTS).label("last_name"),
        newest.label("newest_id"),
    ).where(of_log(THREADS))


def _in_range(table: Any) -> Any:
    return and_(
        table.c.seq >= bindparam("p_low", type_=table.c.seq.type),
        table.c.seq <= bindparam("p_high", type_=table.c.seq.type),
    )


@statement(unproven=REPORTED)
def read_rows_to_verify(dialect: Dialect) -> Executable:
    """Select the rows of a range of positions, with all that they must agree with."""
    base, parent, child = DELTAS.alias("base"), CHECKPOINTS.alias("parent"), DELTAS.alias("child")
    columns = (
        *("seq", "kind", "base_seq", "depth", "radix", "codec", "checksum"),
        *("overwrites", "entry_key", "label", "occurred_at", "stored_at"),
    )
    last_use = (
        select(func.max(child.c.seq))
        .where(same_log(child, DELTAS), child.c.base_seq == DELTAS.c.seq, *routed(dialect, child))
        .scalar_subquery()
    )
    at = and_(same_log(CHECKPOINTS, DELTAS), CHECKPOINTS.c.seq == DELTAS.c.seq)
    below = and_(same_log(base, DELTAS), base.c.seq == DELTAS.c.base_seq)
    named = and_(same_log(parent, CHECKPOINTS), parent.c.checkpoint_id == CHECKPOINTS.c.parent_id)
    under = CHECKPOINTS.alias("under")
    needed = and_(same_log(under, CHECKPOINTS), under.c.checkpoint_id == CHECKPOINTS.c.rests_on)
    return (
        select(
            *(DELTAS.c[name] for name in columns),
            DELTAS.c.tenant,
            CHECKPOINTS.c.tenant.label("named_tenant"),
            CHECKPOINTS.c.checkpoint_id,
            CHECKPOINTS.c.rests_on,
            under.c.seq.label("rests_at"),
            CHECKPOINTS.c.raw_size,
            CHECKPOINTS.c.stored_size,
            CHECKPOINTS.c.run_id,
            CHECKPOINTS.c.occurred_at.label("named_occurred_at"),
            CHECKPOINTS.c.created_at.label("named_created_at"),
            dialect.statements.json_is_object(CHECKPOINTS.c.meta).label("meta_readable"),
            base.c.kind.label("base_kind"),
            base.c.depth.label("base_depth"),
            parent.c.seq.label("parent_at"),
            last_use.label("last_use"),
            DELTAS.c.payload,
        )
        .select_from(
            DELTAS.outerjoin(CHECKPOINTS, and_(at, *routed(dialect, CHECKPOINTS)))
            .outerjoin(base, and_(below, *routed(dialect, base)))
            .outerjoin(parent, and_(named, *routed(dialect, parent)))
            .outerjoin(under, and_(needed, *routed(dialect, under)))
        )
        .where(of_log(DELTAS), _in_range(DELTAS))
        .order_by(DELTAS.c.seq)
    )


@statement(unproven=REPORTED)
def read_rows_of_state(dialect: Dialect) -> Executable:
    """Select the rows from which the state of a position is rebuilt, snapshot first."""
    columns = ("seq", "kind", "base_seq", "depth", "codec", "checksum", "payload")
    first = (
        select(*(DELTAS.c[name] for name in columns))
        .where(of_log(DELTAS), DELTAS.c.seq == bindparam("p_seq", type_=DELTAS.c.seq.type))
        .cte("chain", recursive=True)
    )
    base = DELTAS.alias("base")
    rest = (
        select(*(base.c[name] for name in columns))
        .select_from(first)
        # A base is always earlier. A damaged row that says otherwise would make this endless.
        .join(base, and_(base.c.seq == first.c.base_seq, base.c.seq < first.c.seq))
        .where(of_log(base))
    )
    chain = first.union_all(rest)
    return select(chain).order_by(chain.c.seq)


@statement(unproven=REPORTED)
def list_names_without_state(dialect: Dialect) -> Executable:
    """Select the checkpoints of a range of positions that have no state there."""
    state = and_(
        same_log(DELTAS, CHECKPOINTS),
        DELTAS.c.seq == CHECKPOINTS.c.seq,
        DELTAS.c.kind.in_(constants(*STATES)),
    )
    return (
        select(CHECKPOINTS.c.checkpoint_id, CHECKPOINTS.c.seq)
        .where(of_log(CHECKPOINTS), _in_range(CHECKPOINTS))
        .where(~select(literal_column("1")).select_from(DELTAS).where(state).exists())
        .order_by(CHECKPOINTS.c.seq)
        .limit(bindparam("p_limit"))
    )


@statement(unproven=REPORTED)
def read_name(dialect: Dialect) -> Executable:
    """Select the id of the checkpoint at a position."""
    return select(CHECKPOINTS.c.checkpoint_id).where(
        of_log(CHECKPOINTS),
        CHECKPOINTS.c.seq == bindparam("p_seq", type_=CHECKPOINTS.c.seq.type),
    )


@statement(unproven=REPORTED)
def read_lineage(dialect: Dialect) -> Executable:
    """Select the positions of all checkpoints of a log, and those of their parents."""
    parent = CHECKPOINTS.alias("parent")
    named = and_(same_log(parent, CHECKPOINTS), parent.c.checkpoint_id == CHECKPOINTS.c.parent_id)
    return (
        select(CHECKPOINTS.c.seq, parent.c.seq.label("parent_at"))
        .select_from(CHECKPOINTS.outerjoin(parent, named))
        .where(of_log(CHECKPOINTS))
        .order_by(CHECKPOINTS.c.seq)
    )
