"""One log read through: every state rebuilt in the order of positions, each from its base.

Knows nothing of text indexes or of other logs. Memory is bounded: pages of positions, batches of
payloads, and the bases that something still builds on (`states.Bases`).
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

from sqlalchemy import Executable

from memalchemy.codec.values import Parts, state_size
from memalchemy.database import READ, Database, off_loop
from memalchemy.database.unreadable_rows import UnreadableRows
from memalchemy.keys import decode_namespace
from memalchemy.log import STATES, Log
from memalchemy.statements import Answer, Program
from memalchemy.verify import queries
from memalchemy.verify.report import MAX_AFFECTED, REMEDIES, Tally, counted
from memalchemy.verify.states import (
    Bases,
    Fault,
    chain_fault,
    entry_fault,
    is_closed,
    is_same_state,
    rebuilt,
    trace,
)

PAGE = 500
BATCH_ROWS = 100
BATCH_BYTES = 8 * 1024 * 1024
END = 2**62


async def ask(db: Database, statement: Executable, binds: Mapping[str, Any]) -> Answer:
    """One statement, one short read."""

    def program() -> Program[Answer]:
        return (yield statement, binds)

    return await db.run(program, READ)


async def ask_each(
    db: Database, statement: Executable, binds: Mapping[str, Any], key: Sequence[str]
) -> tuple[list[Any], dict[int, str]]:
    """The rows of `ask`, and of those with a cell that is not of its column's type, by their
    places, what is wrong with each.

    Raises:
        Corrupt: such a cell is one of *key*, which says what row it is.
    """
    try:
        return await ask(db, statement, binds), {}
    except UnreadableRows as error:
        if not error.damaged or any(getattr(r, name) is None for r in error.rows for name in key):
            raise
        return error.rows, error.damaged


class LogReading:
    """One reading of one log, into a tally."""

    def __init__(self, db: Database, log: Log, tally: Tally) -> None:
        self.db = db
        self.log = log
        self.tally = tally
        self._intact: tuple[int, str] | None = None
        """The newest checkpoint so far that is whole."""
        self._bases = Bases()
        self._broken: dict[int, int] = {}
        """Positions whose states cannot be rebuilt, and which position is to blame."""
        self._faults: dict[int, Fault] = {}
        self._affected: dict[int, list[str]] = {}
        self._counts: dict[int, int] = {}
        self._later_parents: list[tuple[int, int, str]] = []
        self._strays: Counter[str] = Counter()
        """The number of rows that say each other tenant."""

    async def head(self) -> bool:
        """Check the log's head against its rows; whether it is there."""
        rows = await self._ask(queries.read_log(self.db.dialect))
        if not rows:
            return False
        head, add = rows[0], self._add
        self.tally.logs += 1
        last = max(head.last_row or 0, head.last_name or 0)
        if head.next_seq <= last:
            add(
                "position",
                f"the next save would take position {head.next_seq}, and {last} is taken",
                seq=last,
                remedy=self._fork(head.newest_id),
            )
        if not head.meta_readable:
            add("metadata", "the metadata of the thread is no JSON object")
        if head.deleted_at is not None:
            # Writes of its next life may wait there.
            if head.last_but_writes or head.last_name or head.head_id is not None:
                add(
                    "tombstone",
                    "the thread is deleted and still has rows or a newest checkpoint",
                )
        elif head.head_id != head.newest_id:
            add(
                "head",
                f"the head names {_named(head.head_id)}; the newest is {_named(head.newest_id)}",
                checkpoint_id=head.head_id,
                remedy=None
                if head.newest_id is None
                else f"save the next checkpoint with parent_id={head.newest_id!r}",
            )
        return True

    async def everything(self) -> Iterable[tuple[int, int]]:
        """Read every row; the ranges of positions that were read."""
        ranges: list[tuple[int, int]] = []
        after = -END
        while True:
            found = await self._positions(after, PAGE)
            for low, high in _batches(found):
                await self._rows(low, high)
            if found:
                ranges.append((found[0].seq, found[-1].seq))
            if len(found) < PAGE:
                break
            after = found[-1].seq
        await self._dangling(0, END)
        if self._later_parents:
            await self._lineage()
        await self._report(complete=True)
        return ranges

    async def sampled(self, picks: Sequence[int]) -> Iterable[tuple[int, int]]:
        """Read the rows at, or next after, the positions that were picked."""
        ranges: list[tuple[int, int]] = []
        for pick in picks:
            if ranges and pick <= ranges[-1][1]:
                continue
            found = await self._positions(pick - 1, 1)
            seq = found[0].seq if found else pick
            if found:
                await self._rows(seq, seq)
            await self._dangling(pick, seq)
            ranges.append((seq, seq))
        await self._report(complete=False)
        return ranges

    # --- Rows --------------------------------------------------------------------------------

    async def _positions(self, after: int, limit: int) -> list[Any]:
        binds = self.log.binds() | {"p_after": after, "p_limit": limit}
        statement = queries.list_positions(self.db.dialect)
        rows, _ = await ask_each(self.db, statement, binds, ("seq",))
        return rows  # what else cannot be read of one is told when it is read whole

    async def _rows(self, low: int, high: int) -> None:
        statement = queries.read_rows(self.db.dialect)
        binds = self.log.binds() | {"p_low": low, "p_high": high}
        rows, damaged = await ask_each(self.db, statement, binds, ("seq",))
        for at, row in enumerate(rows):
            self.tally.rows += 1
            if at in damaged:
                self._blame(Fault(row.seq, "unreadable", damaged[at]), row)
                continue
            self.tally.payload_bytes += len(row.payload)
            self._strays.update({row.tenant, row.named_tenant} - {self.log.tenant, None})
            if row.kind in STATES:
                await self._state(row)
            elif row.kind in ("entry", "write"):
                await self._entry(row)
            else:
                self._blame(Fault(row.seq, "kind", f"its kind is {row.kind!r}"), row)
            self._bases.passed(row.seq)

    async def _entry(self, row: Any) -> None:
        keyring = self.db.keyring
        fault = await off_loop(len(row.payload), partial(entry_fault, row, keyring))
        if fault is None:
            self.tally.entries += row.kind == "entry"
        elif fault.code == "key" and not keyring.seals:
            self.tally.closed += 1
        else:
            if row.kind == "write":
                change = f".delete({self.log.thread_id!r}, checkpoint_id)"
                remedy = REMEDIES.get(fault.code) or self._python("Checkpointer") + change
            else:
                change = f".edit({self.log.thread_id!r}, {row.seq}, value)"
                remedy = REMEDIES.get(fault.code) or self._python("ThreadLog") + change
            what = f"the {row.kind} at position {row.seq}: {fault.reason}"
            self._add(fault.code, what, seq=row.seq, remedy=remedy)

    async def _state(self, row: Any) -> None:
        if row.checkpoint_id is not None:
            self.tally.checkpoints += 1
            self._name(row)
        elif row.last_use is None:
            self.tally.unused += 1
        wrong = chain_fault(row)
        result = await self._rebuild(row)
        if result is None:
            return  # deleted since it was read
        if isinstance(result, Fault) and result.code == "key" and not self.db.keyring.seals:
            self.tally.closed += 1
            if wrong is not None:
                self._add("depth", self._sentence(wrong), **_at(row))
            return
        if isinstance(result, Fault):
            # A wrong base explains what a wrong state only shows.
            self._blame(wrong if wrong and result.seq == row.seq else result, row)
            return
        size = state_size(result)
        self.tally.states += 1
        self.tally.state_bytes += size
        if row.last_use is not None:
            self._bases.put(row.seq, result, row.last_use)
        if row.checkpoint_id is not None:
            self._intact = (row.seq, row.checkpoint_id)
        if wrong is not None:
            self._add("depth", self._sentence(wrong), **_at(row))
        self._sizes(row, size)

    async def _rebuild(self, row: Any) -> Parts | Fault | None:
        """The state of a row; ``None`` if it is gone by now.

        A failure is looked at again, by one statement over the whole chain: the base at hand may be
        of a log that was deleted and begun again since.
        """
        keyring = self.db.keyring
        if is_closed(row, keyring):
            return rebuilt(row, None, keyring)  # which says so, or that its bytes are damaged
        base = self._bases.get(row.base_seq) if row.base_kind is not None else None
        if row.kind == "snapshot" or base is not None:
            result = await off_loop(max(row.raw_size or 0, 0), partial(rebuilt, row, base, keyring))
            if not isinstance(result, Fault):
                return result
        chain = await self._ask(queries.read_chain_at(self.db.dialect), p_seq=row.seq)
        if not chain or not is_same_state(chain[-1], row, keyring):
            return None
        size = sum(len(link.payload) for link in chain)
        self.tally.payload_bytes += size
        return await off_loop(size, partial(trace, chain, keyring))

    def _name(self, row: Any) -> None:
        if not row.meta_readable:
            self._add(
                "metadata", f"the metadata of {row.checkpoint_id!r} is no JSON object", **_at(row)
            )
        if row.rests_on is not None and row.rests_at is None:
            self._add(
                "rests-on",
                f"{row.checkpoint_id!r} rests on {row.rests_on!r}, which is gone: its state, and "
                "those of all that rest on it, are incomplete",
                **_at(row),
            )
        if row.parent_at == row.seq:
            self._add("parent", f"{row.checkpoint_id!r} is its own parent", **_at(row))
        elif row.parent_at is not None and row.parent_at > row.seq:
            self._later_parents.append((row.seq, row.parent_at, row.checkpoint_id))

    def _sizes(self, row: Any, size: int) -> None:
        if row.checkpoint_id is None:
            return
        facts = [
            ("raw_size", row.raw_size, size),
            ("stored_size", row.stored_size, len(row.payload)),
        ]
        for name, recorded, found in facts:
            if recorded != found:
                self._add(
                    "size",
                    f"position {row.seq}: {name} says {recorded}, there are {found} bytes",
                    **_at(row),
                )

    # --- Names -------------------------------------------------------------------------------

    async def _dangling(self, low: int, high: int) -> None:
        statement = queries.list_dangling(self.db.dialect)
        while True:
            found = await self._ask(statement, p_low=low, p_high=high, p_limit=PAGE)
            for name in found:
                self.tally.checkpoints += 1
                fault = Fault(name.seq, "state-missing", "there is no state")
                if self._faults.get(name.seq) is None:
                    self._faults[name.seq] = fault
                if name.seq not in self._broken:
                    self._affect(name.seq, name.checkpoint_id)
            if len(found) < PAGE:
                return
            low = found[-1].seq + 1

    async def _lineage(self) -> None:
        """Parents that came later. A name that was used again explains one, if there was a place
        for what it named before: a position below the child that has no name any more.
        """
        rows = await self._ask(queries.read_lineage(self.db.dialect))
        parents: dict[int, int | None] = {}
        below: dict[int, int] = {}
        for index, row in enumerate(rows):
            parents[row.seq], below[row.seq] = row.parent_at, index
        told: set[int] = set()
        for seq, later, name in self._later_parents:
            if parents.get(seq) != later:
                continue  # changed since
            possible = below[seq] < seq - 1
            path = _cycle(parents, seq)
            if path is None and not possible:
                self._add(
                    "parent",
                    f"the parent of {name!r} at {seq} is at {later}, and nothing was there before",
                    checkpoint_id=name,
                    seq=seq,
                )
            elif path is not None and not told.intersection(path):
                told.update(path)
                why = "; a name was used again after it was deleted or replaced"
                self._add(
                    "cycle",
                    f"the parents of {name!r} lead back to it, over {len(path)} checkpoints"
                    + (why if possible else ""),
                    severity="note" if possible else "error",
                    checkpoint_id=name,
                    seq=seq,
                )

    # --- Blame -------------------------------------------------------------------------------

    def _blame(self, fault: Fault, row: Any) -> None:
        cause = self._broken.get(fault.seq, fault.seq)
        self._broken[row.seq] = cause
        self._faults.setdefault(cause, fault)
        if row.checkpoint_id is not None:
            self._affect(cause, row.checkpoint_id)

    def _affect(self, cause: int, checkpoint_id: str) -> None:
        listed = self._affected.setdefault(cause, [])
        self._counts[cause] = self._counts.get(cause, 0) + 1
        if len(listed) < MAX_AFFECTED:
            listed.append(checkpoint_id)

    async def _report(self, *, complete: bool) -> None:
        """The faults of this log, once each, with what they took along."""
        for tenant, count in sorted(self._strays.items()):
            rows = counted(count, "position says", "positions say")
            self._add("tenant", f"{rows} tenant {tenant!r}, and the log is of {self.log.tenant!r}")
        statement = queries.read_name_at(self.db.dialect)
        for seq, fault in sorted(self._faults.items()):
            names, count = self._affected.get(seq, []), self._counts.get(seq, 0)
            name = await self._ask(statement, p_seq=seq)
            self._add(
                fault.code,
                self._sentence(fault),
                seq=seq,
                checkpoint_id=name[0].checkpoint_id if name else None,
                affected=tuple(names),
                affected_count=count,
                intact=self._intact[1] if complete and self._intact else None,
                remedy=REMEDIES.get(fault.code)
                or (
                    self._remedy(seq, names)
                    if complete
                    else f"{_program(self.log)} verify --thread {shlex.quote(self.log.thread_id)}"
                ),
            )

    def _remedy(self, seq: int, names: Sequence[str]) -> str | None:
        """What brings back the newest state that is whole."""
        if self._intact is None:
            return None
        if self._intact[0] < seq:
            return self._fork(self._intact[1])
        # The newest is whole: only what is damaged has to go.
        deletes = [self._delete(name) for name in names[:3]]
        return "; ".join(deletes) + ("; and so on" if len(names) > 3 else "") or None

    def _sentence(self, fault: Fault) -> str:
        count = self._counts.get(fault.seq, 0)
        lost = f"; checkpoints that cannot be loaded: {count:,}" if count else ""
        return f"the state at position {fault.seq}: {fault.reason}{lost}"

    def _fork(self, checkpoint_id: str | None) -> str | None:
        """How to make a thread of everything up to a checkpoint."""
        if checkpoint_id is None:
            return None
        thread = self.log.thread_id
        new = f"{thread}-restored"
        if self.log.namespace != "/":
            forking = f".fork({thread!r}, {checkpoint_id!r}, new_thread_id={new!r})"
            return self._python("Checkpointer") + forking
        return f"{_program(self.log)} fork {shlex.join((thread, checkpoint_id))} --to " + (
            shlex.quote(new)
        )

    def _delete(self, checkpoint_id: str) -> str:
        thread = self.log.thread_id
        if self.log.namespace != "/":
            return f"{self._python('Checkpointer')}.delete({thread!r}, {checkpoint_id!r})"
        return f"{_program(self.log)} delete {shlex.join((thread, checkpoint_id))}"

    def _python(self, feature: str) -> str:
        # The command line works in the default namespace.
        return f"{feature}(db, namespace={decode_namespace(self.log.namespace)!r})"

    def _add(self, code: str, sentence: str, **more: Any) -> None:
        self.tally.add(code, sentence, self.log, **more)

    async def _ask(self, statement: Executable, **binds: Any) -> Answer:
        return await ask(self.db, statement, self.log.binds() | binds)


def _program(log: Log) -> str:
    """The command line's name with the tenant of a log."""
    return "memalchemy" + (
        "" if log.tenant == "default" else f" --tenant {shlex.quote(log.tenant)}"
    )


def _batches(found: Sequence[Any]) -> Iterator[tuple[int, int]]:
    """Ranges of positions whose payloads may be held at once."""
    low, rows, size = None, 0, 0
    for index, row in enumerate(found):
        low = row.seq if low is None else low
        rows += 1
        size += max(row.stored or 0, 0)
        if rows == BATCH_ROWS or size >= BATCH_BYTES or index == len(found) - 1:
            yield low, row.seq
            low, rows, size = None, 0, 0


def _cycle(parents: Mapping[int, int | None], seq: int) -> list[int] | None:
    """The way from *seq* over its parents back to it, if there is one."""
    path, seen, at = [seq], {seq}, parents.get(seq)
    while at is not None and at not in seen:
        path.append(at)
        seen.add(at)
        at = parents.get(at)
    return path if at == seq else None


def _at(row: Any) -> dict[str, Any]:
    return {"checkpoint_id": row.checkpoint_id, "seq": row.seq}


def _named(checkpoint_id: str | None) -> str:
    return "nothing" if checkpoint_id is None else repr(checkpoint_id)
