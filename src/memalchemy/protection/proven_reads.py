"""Hold the heads and items that statements return, or leave out, to their signatures.

A statement that is registered with a `Proof` has a second form, for databases with signing
keys. It also returns the columns that prove its rows, and the rows that have expired, were deleted,
or do not hold what is listed. `Database.run` sends it in place of the first, in every program: each
row is held to its signature here, and those that are not listed are left out afterwards. So nobody
hides a thread or an item by an edit of its end, or of its newest checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from datetime import datetime
from typing import Any, NamedTuple, TypeVar
from uuid import UUID

from sqlalchemy import ColumnElement, Executable, Integer, Table, case, literal_column

from memalchemy.codec.signatures import SigningKeys, last_entry
from memalchemy.codec.signed_rows import (
    check_item,
    checkpoint_content_of_values,
    entry_content,
    head_content_of_values,
)
from memalchemy.errors import Corrupt, MemalchemyError
from memalchemy.protection.proven_jobs import Damage
from memalchemy.protection.signed_logs import errors_about
from memalchemy.rows import CHECKPOINT, HEAD, ITEM, SignedHead
from memalchemy.schema import CheckpointRow, DeltaRow, StoreItemRow, ThreadRow
from memalchemy.statements import PROVEN_FORM, SIGNED_FORM, Answer, Parameters, Program, ProvenForm

T = TypeVar("T")

THREADS: Table = ThreadRow.__table__  # type: ignore[assignment]
CHECKPOINTS: Table = CheckpointRow.__table__  # type: ignore[assignment]
DELTAS: Table = DeltaRow.__table__  # type: ignore[assignment]
ITEMS: Table = StoreItemRow.__table__  # type: ignore[assignment]

_CHECKPOINT = ("seq", *CHECKPOINT.signed, "signature")

_damage: ContextVar[Damage | None] = ContextVar("memalchemy_damage", default=None)
"""The damage that a job has met, which goes on beside it."""


class Proof:
    """Proof of the rows of a statement: the columns that it needs, and the check of a row."""

    sentence: str
    """The rows that are proven, for users."""
    table: Table
    columns: Sequence[str]

    def add_to(self, query: Any) -> Any:
        """Return *query* with the columns of the proof, under names of their own."""
        columns = (self.table.c[name].label(f"proof_{name}") for name in self.columns)
        return query.add_columns(*columns)

    def check(self, row: Any, tenant: str, keys: SigningKeys) -> None:
        """Raise `Corrupt`, `NotSigned` or `KeyMissing` if a row is not what was signed."""
        raise NotImplementedError

    def is_listed(self, row: Any, now: Any) -> bool:
        """Return whether the statement lists a row, which has been checked.

        That is one that has neither expired at *now*, which the statement binds as ``p_now``, nor
        been deleted, and that holds what is listed.
        """
        raise NotImplementedError


class _Entry(NamedTuple):
    log_id: UUID
    seq: int
    entry_key: str | None
    occurred_at: datetime
    stored_at: datetime
    codec: str
    payload: bytes
    signature: bytes | None


class HeadProof(Proof):
    """Proof of heads, or of rows beside them. With *by_time* they come in the order of the times.

    That order is the one of ``active_at``, which no signature covers and the index has.
    """

    sentence = "the head of each log, including expired and deleted logs"
    table = THREADS
    columns: Sequence[str] = (*HEAD.signed, "signature")

    def __init__(self, *, by_time: bool = False) -> None:
        if by_time:
            self.columns = (*self.columns, "active_at")
        self._by_time = by_time

    def check(self, row: Any, tenant: str, keys: SigningKeys) -> None:
        head = SignedHead._make([getattr(row, f"proof_{name}") for name in HEAD.signed])
        with errors_about(f"thread {head.thread_id!r} in {head.namespace}"):
            keys.check_head_alone(row.proof_signature, head_content_of_values(head))
            if row.proof_signature is not None:
                if keys.anchor is not None:
                    keys.anchor.check_log(head)
                self._check_more(row)

    def _check_more(self, row: Any) -> None:
        """Hold what no signature covers to a head that is signed, and that was proven."""
        if self._by_time and row.proof_active_at != row.proof_updated_at.replace(microsecond=0):
            raise Corrupt("its time in the index of times is not that of its last write")

    def is_listed(self, row: Any, now: Any) -> bool:
        ends = row.proof_expires_at
        return row.proof_deleted_at is None and (ends is None or ends > now)


class CheckpointedHeads(HeadProof):
    """Proof of heads of which those are listed that have a checkpoint."""

    sentence = (
        "the head of each log, including expired and deleted logs and those without a checkpoint"
    )

    def is_listed(self, row: Any, now: Any) -> bool:
        return row.proof_head_id is not None and super().is_listed(row, now)


class HeadsWithEntries(HeadProof):
    """Proof of heads of which those are listed that have an entry.

    A head's signature tells it. Of heads without a signature the condition *has_entries* does.
    """

    sentence = "the head of each log, including expired and deleted logs and those without an entry"

    def __init__(self, has_entries: ColumnElement[bool], *, by_time: bool = False) -> None:
        super().__init__(by_time=by_time)
        self._has_entries = has_entries

    def add_to(self, query: Any) -> Any:
        one, none = (literal_column(number, Integer) for number in ("1", "0"))
        is_signed = self.table.c.signature.is_not(None)
        found = case((is_signed, none), (self._has_entries, one), else_=none)
        return super().add_to(query).add_columns(found.label("proof_has_entries"))

    def is_listed(self, row: Any, now: Any) -> bool:
        return self._holds(row) and super().is_listed(row, now)

    def _holds(self, row: Any) -> bool:
        signature = row.proof_signature
        return bool(row.proof_has_entries if signature is None else last_entry(signature))


class HeadsOfSome(HeadsWithEntries):
    """Proof of heads of which those are listed that have a checkpoint or an entry."""

    sentence = "the head of each log, including expired, deleted and empty logs"

    def _holds(self, row: Any) -> bool:
        return row.proof_head_id is not None or super()._holds(row)


class _NewestCheckpoints(CheckpointedHeads):
    """Proof of heads beside their checkpoints; ``has_newest`` tells if the newest is there.

    A head without a checkpoint has a row as well.
    """

    sentence = "the head of each log, and that the newest checkpoint that it names exists"

    def _check_more(self, row: Any) -> None:
        if row.proof_head_id is not None and not row.has_newest:
            raise Corrupt(f"its newest checkpoint {row.proof_head_id!r} is not there")

    def is_listed(self, row: Any, now: Any) -> bool:
        return row.checkpoint_id is not None and super().is_listed(row, now)


class _CheckpointProof(HeadProof):
    """Proof of checkpoints with the heads of their logs."""

    sentence = "each checkpoint, and the head of its log, including expired and deleted logs"

    def add_to(self, query: Any) -> Any:
        own = (CHECKPOINTS.c[name].label(f"proof_of_{name}") for name in _CHECKPOINT)
        return super().add_to(query).add_columns(*own)

    def check(self, row: Any, tenant: str, keys: SigningKeys) -> None:
        super().check(row, tenant, keys)
        seq, *values, signature = (getattr(row, f"proof_of_{name}") for name in _CHECKPOINT)
        with errors_about(f"checkpoint {values[0]!r} of thread {row.proof_thread_id!r}"):
            content = checkpoint_content_of_values(tenant, row.proof_log_id, seq, values)
            keys.check(signature, content)


class _EntryProof(Proof):
    sentence = "each entry"
    table = DELTAS
    columns = tuple(_Entry._fields)

    def check(self, row: Any, tenant: str, keys: SigningKeys) -> None:
        entry = _Entry(*(getattr(row, f"proof_{name}") for name in self.columns))
        with errors_about(f"entry {entry.seq} with the key {entry.entry_key!r}"):
            keys.check(entry.signature, entry_content(entry, tenant, entry.log_id))

    def is_listed(self, row: Any, now: Any) -> bool:
        return True


class _ItemProof(Proof):
    sentence = "each item, including expired ones"
    table = ITEMS
    columns = ("namespace", "key", *ITEM.signed, "signature")

    def check(self, row: Any, tenant: str, keys: SigningKeys) -> None:
        item = _Item(*(getattr(row, f"proof_{name}") for name in self.columns))
        with errors_about(f"the item {item.key!r} in {item.namespace}"):
            check_item(item, tenant, keys)

    def is_listed(self, row: Any, now: Any) -> bool:
        ends = row.proof_expires_at
        return ends is None or ends > now


class _LeftOutItemProof(_ItemProof):
    """Proof of items of which those that are returned are proven where they are decoded."""

    def add_to(self, query: Any) -> Any:
        return query

    def check(self, row: Any, tenant: str, keys: SigningKeys) -> None:
        if row.expires_at is not None:
            with errors_about(f"the item {row.key!r} in {row.namespace}"):
                check_item(row, tenant, keys)

    def is_listed(self, row: Any, now: Any) -> bool:
        return row.expires_at is None or row.expires_at > now


class _Item(NamedTuple):
    namespace: str
    key: str
    version: int
    meta: dict[str, Any] | None
    codec: str
    value: bytes
    created_at: datetime
    updated_at: datetime
    expires_at: datetime | None
    lifetime: int | None
    signature: bytes | None


HEADS = HeadProof()
NEWEST_CHECKPOINTS = _NewestCheckpoints()
"""Heads with their checkpoints, of which the newest over all heads are listed."""
NAMED_CHECKPOINTS = _CheckpointProof()
"""Checkpoints of which a statement returns less than what is signed."""
NAMED_ENTRIES = _EntryProof()
"""Entries of which a statement returns less than what is signed."""
NAMED_ITEMS = _ItemProof()
"""Items of which a statement returns less than what is signed."""
WHOLE_ITEMS = _LeftOutItemProof()
"""Items of which a statement returns all that is signed."""


def unless(proven: bool, *conditions: ColumnElement[bool]) -> list[ColumnElement[bool]]:
    """Return conditions that say which rows are listed, which a form with proof does not have."""
    return [] if proven else list(conditions)


@contextmanager
def going_on(damage: Damage | None) -> Iterator[None]:
    """Within this block of a job, note rows that are not what was signed as *damage*.

    They are left out of what statements return. Without *damage* they are refused, as elsewhere.
    """
    token = _damage.set(damage)
    try:
        yield
    finally:
        _damage.reset(token)


def with_proven_rows(
    program: Callable[[], Program[T]], tenant: str, keys: SigningKeys
) -> Callable[[], Program[T]]:
    """Return *program* so that the rows of statements with a `Proof` are proven."""

    damage = _damage.get()

    def proven() -> Program[T]:
        running = program()
        try:
            asked = next(running)
            while True:
                try:
                    answer = yield from _send(tenant, keys, damage, *asked)
                except MemalchemyError as error:
                    asked = running.throw(error)
                else:
                    asked = running.send(answer)
        except StopIteration as end:
            result: T = end.value
            return result
        finally:
            running.close()

    return proven


def _send(
    tenant: str,
    keys: SigningKeys,
    damage: Damage | None,
    statement: Executable,
    given: Parameters,
) -> Program[Answer]:
    options = statement.get_execution_options()
    form: ProvenForm | None = options.get(PROVEN_FORM)
    if form is None:
        return (yield options.get(SIGNED_FORM, statement), given)
    assert isinstance(given, Mapping)
    binds = dict(given)
    wanted = binds.get("p_limit")
    while True:
        rows = yield form.query, binds
        proven = []
        for row in rows:
            with nullcontext() if damage is None else damage.noted():
                form.proof.check(row, tenant, keys)
                proven.append(row)
        listed = [row for row in proven if form.proof.is_listed(row, binds.get("p_now"))]
        if wanted is None or len(rows) < binds["p_limit"] or len(listed) >= wanted:
            return Answer(listed[:wanted])
        binds["p_limit"] *= 2  # some are not listed: as many more are to be found
