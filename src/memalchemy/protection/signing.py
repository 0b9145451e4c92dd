"""Sign what a program writes, and hold what it builds on to its signatures.

`Database.run` is the one door through which programs run, so it is the one place where rows are
signed: no road can forget it. A *signer* for the logs, one for the items, and one for notes of what
is removed are told of each statement that writes to their tables, before and after it is sent, and
of the program's end, and may send statements of their own then.

Rows are signed where a statement binds all of them. What a statement changes in place is read and
held to its signature before, and signed anew after it.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Protocol, TypeVar
from uuid import UUID

from sqlalchemy import BindParameter, Delete, Executable, Insert, Select, Update
from sqlalchemy.sql import visitors

from memalchemy.codec.signatures import SigningKeys
from memalchemy.dialects import LOCKS, Dialect
from memalchemy.errors import MemalchemyError
from memalchemy.protection.known_heads import KnownHead
from memalchemy.protection.removals import RemovalSigner
from memalchemy.protection.signed_items import ItemSigner
from memalchemy.protection.signed_logs import LogSigner
from memalchemy.protection.work import Work
from memalchemy.rows import ITEM, KNOWN_HEAD
from memalchemy.statements import (
    ERASES,
    FINDS,
    NOTHING,
    PROVES,
    REMOVES_TENANT,
    WRITES,
    Answer,
    Parameters,
    Program,
    Written,
)

T = TypeVar("T")
Binds = Mapping[str, Any]


class Signer(Protocol):
    """Signer of some tables, for one run of a program."""

    tables: frozenset[str]

    def before(self, work: Work, binds: Binds) -> Program[None]:
        """Look at what the statement will change; put signatures into what it binds."""

    def after(self, work: Work, binds: Binds, answer: Answer) -> Program[None]:
        """Sign what the statement has changed."""

    def finish(self) -> Program[None]:
        """Sign what only the whole program tells."""


def sign_rows(
    program: Callable[[], Program[T]],
    dialect: Dialect,
    keys: SigningKeys,
    tenant: str,
    heads: dict[UUID, KnownHead],
) -> Callable[[], Program[T]]:
    """Return *program* so that each row it writes is signed, and each row it changes was right.

    What it removes of *tenant* is noted if anchors are taken of that.

    It then needs a transaction, even if it is a single statement, unless that binds all signatures.
    *heads* is given the heads of logs as the program has left them, which are so once it has been
    committed.
    """

    def signed() -> Program[T]:
        heads.clear()  # of a run that was rolled back
        signers: list[Signer] = [
            LogSigner(dialect, keys, tenant, heads),
            ItemSigner(dialect, keys),
            RemovalSigner(dialect, keys, tenant),
        ]
        running = program()
        try:
            asked = next(running)
            while True:
                try:
                    answer = yield from _send(signers, *asked)
                except MemalchemyError as error:
                    asked = running.throw(error)
                else:
                    asked = running.send(answer)
        except StopIteration as end:
            result: T = end.value
        finally:
            running.close()
        for signer in signers:
            yield from signer.finish()
        return result

    return signed


def _send(signers: Sequence[Signer], statement: Executable, given: Parameters) -> Program[Answer]:
    work = work_of(statement)
    if work is None:
        return (yield statement, given)
    concerned = [one for one in signers if work.table in one.tables]
    one_row = type(given) is dict or isinstance(given, Mapping)
    each: list[Any] = [given] if one_row else list(given or ({},))
    for signer in concerned:
        for binds in each:
            yield from signer.before(work, binds)
    answer = yield statement, given
    for signer in concerned:
        for binds in each:
            yield from signer.after(work, binds, answer)
    return answer


_UNKNOWN: Any = object()
_works: weakref.WeakKeyDictionary[Executable, Work | None] = weakref.WeakKeyDictionary()


def work_of(statement: Executable) -> Work | None:
    """Return what a statement does to the rows that are signed; ``None`` for one that reads."""
    found: Work | None = _works.get(statement, _UNKNOWN)
    if found is _UNKNOWN:
        found = _works[statement] = _look_at(statement)
    return found


_NAMES_OF_LOGS = ("k_log_id", "p_log_id")
"""The binds that name a log, and one that it is copied to."""


def _look_at(statement: Any) -> Work | None:
    parts: list[Any] = list(visitors.iterate(statement))
    options = statement.get_execution_options()
    written: Written = options.get(WRITES, NOTHING)
    if isinstance(statement, Select):
        writes = any(isinstance(part, Insert | Update | Delete) for part in parts)
        if KNOWN_HEAD in written.kinds:
            return Work("save", "threads", written.kinds, moves_known_head=True)
        assert not writes, "a statement that writes to several tables cannot be signed"
        if not options.get(LOCKS):
            return None
        locked: Any = statement.get_final_froms()[0]
        return Work("lock", locked.name)
    if not isinstance(statement, Insert | Update | Delete):
        return None
    table: Any = statement.table
    if options.get(LOCKS):
        return Work("lock", table.name)
    does: Literal["insert", "copy", "update", "delete"]
    does = "update" if isinstance(statement, Update) else "delete"
    if isinstance(statement, Insert):
        source: Any = statement.select
        same = source is not None and any(part is table for part in visitors.iterate(source))
        does = "copy" if same else "insert"
    binds = {str(part.key) for part in parts if isinstance(part, BindParameter)}
    return Work(
        does,
        table.name,
        written.kinds,
        row=written.kinds[0] if len(written.kinds) == 1 else None,
        moves_known_head=KNOWN_HEAD in written.kinds,
        in_place=written.in_place,
        named_by=tuple(name for name in _NAMES_OF_LOGS if name in binds),
        names_item=binds >= {*ITEM.key_binds},
        erases=bool(options.get(ERASES)),
        proves=options.get(PROVES),
        removed=options.get(FINDS),
        removes_tenant=bool(options.get(REMOVES_TENANT)),
    )
