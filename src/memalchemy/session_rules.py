"""Rules for sessions of a host: they read the mapped classes, and memalchemy's calls write them.

Positions, epochs, checksums, signatures and indexes are consistent only if memalchemy writes the
rows. So a session refuses to add, change or delete one before it sends anything, and names the call
to use. Deleting a row of ``threads`` is allowed: the database deletes its log with it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from sqlalchemy import event, inspect, not_
from sqlalchemy.orm import DeclarativeBase, ORMExecuteState, Session, with_loader_criteria
from sqlalchemy.orm.base import NO_VALUE

from memalchemy.errors import ReadOnly
from memalchemy.keys import INTERNAL_RANGE

INTERNAL_ROWS = "memalchemy_internal_rows"
"""The execution option with which a session's query sees memalchemy's own store items, too."""


class _Calls(NamedTuple):
    """The calls in place of a session's operations; ``None`` where the session does it."""

    add: str
    change: str
    delete: str | None


_CALLS = {
    "threads": _Calls(
        "Checkpointer.save or ThreadLog.append", "Checkpointer.set_thread_metadata", None
    ),
    "checkpoints": _Calls(
        "Checkpointer.save",
        "Checkpointer.save with its checkpoint_id",
        "Checkpointer.delete with its checkpoint_id, or Checkpointer.prune",
    ),
    "deltas": _Calls(
        "ThreadLog.append, Checkpointer.save or Checkpointer.put_writes",
        "ThreadLog.edit",
        "ThreadLog.pop, or Checkpointer.delete with the checkpoint_id",
    ),
    "store_items": _Calls("Store.put", "Store.put", "Store.delete"),
    "embeddings": _Calls(
        "Store.put or Store.put_embedding",
        "Store.put_embedding",
        "Store.delete, which deletes the item, or Store.put with index=False",
    ),
}


def refuse_writes(base: type[DeclarativeBase]) -> None:
    """Let every session refuse to write rows of the classes of *base*, which have no class yet."""

    def refuse(row: Any, operation: str) -> None:
        _refuse(row.__tablename__, operation)

    def is_row(row: Any) -> bool:
        return isinstance(row, base)

    def watch_attribute(class_: Any, key: str, attribute: Any) -> None:
        for name in ("append", "remove", "set"):
            event.listen(attribute, name, _refuse_change)

    def refuse_unstored(session: Session, row: Any) -> None:
        if is_row(row) and inspect(row).key is None:
            refuse(row, "add")

    def refuse_at_flush(session: Session, *_: Any) -> None:
        # What no attribute tells: Session.delete, and flag_modified.
        for row in filter(is_row, session.deleted):
            refuse(row, "delete")
        for row in filter(is_row, session.dirty):
            if session.is_modified(row):
                refuse(row, "change")

    def refuse_statement(state: ORMExecuteState) -> None:
        table: Any = getattr(state.statement, "table", None)
        if state.is_select or getattr(table, "metadata", None) is not base.metadata:
            return
        _refuse(table.name, {state.is_update: "change", state.is_delete: "delete"}.get(True, "add"))

    event.listen(base, "attribute_instrument", watch_attribute, propagate=True)
    event.listen(Session, "before_attach", refuse_unstored)
    event.listen(Session, "before_flush", refuse_at_flush)
    event.listen(Session, "do_orm_execute", refuse_statement)


def _refuse_change(row: Any, value: Any, *more: Any) -> None:
    """Refuse to change an attribute of a stored row; ``merge`` sets what it has to the same."""
    old = more[0] if len(more) > 1 else NO_VALUE
    if inspect(row).key is not None and (old is NO_VALUE or value != old):
        _refuse(row.__tablename__, "change")


def refuse_namespace(row: Any) -> None:
    """Refuse to set the namespace of a row, of a stored one or of one that is made with it."""
    _refuse(row.__tablename__, "add" if inspect(row).key is None else "change")


def refuse_deletion(row: Any, name: str) -> None:
    """Refuse to delete an attribute of a stored row, also one that is not loaded."""
    state = inspect(row)
    if state.key is not None and name in state.mapper.all_orm_descriptors:
        _refuse(row.__tablename__, "change")


def _refuse(table: str, operation: str) -> None:
    call = getattr(_CALLS[table], operation)
    if call is not None:
        raise ReadOnly(
            f"a session does not {operation} rows of {table}, which memalchemy alone writes; "
            f"nothing was sent. Call {call}, with connection=session to be in its transaction"
        )


def hide_internal_items(items: Any) -> None:
    """Leave memalchemy's own rows of *items* out of what sessions select, unless asked for."""
    # A user's ~ is written ~0 in a namespace, so a letter after it is memalchemy's own.
    visible = with_loader_criteria(
        items, not_(items.path.between(*INTERNAL_RANGE)), include_aliases=True
    )

    def hide(state: ORMExecuteState) -> None:
        is_asked = state.execution_options.get(INTERNAL_ROWS)
        if state.is_select and not (is_asked or state.is_column_load or state.is_relationship_load):
            state.statement = state.statement.options(visible)

    event.listen(Session, "do_orm_execute", hide)
