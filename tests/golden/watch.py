"""Watches that the library sends no statement that the registry does not have.

A statement is the library's if the nearest caller outside SQLAlchemy is the library: a test's own
statements, on a host's connection or in a program of its own, are not. It is registered if it is
the very object that a `Statement` built, and if its text is that of the golden file.
"""

from __future__ import annotations

import sys
from types import FrameType, GeneratorType
from typing import Any

from greenlet import getcurrent
from sqlalchemy import Engine, Executable, event

from golden import normalised, text_of
from memalchemy.database.compiled import SENT
from memalchemy.database.direct_connection import DirectConnection
from memalchemy.dialects import DIALECTS
from memalchemy.statements import _ORIGINS, REGISTRY

RUNNER = "memalchemy.database.program_runner"
"""The module that runs programs; what the library may send without it stands in ``_DIRECT``."""

_DIRECT = (
    "memalchemy.migrate",  # the version table and Alembic's own
    "memalchemy.dialects",  # the migration lock, the vector type
    "memalchemy.database",  # BEGIN, PRAGMA, the server's version
    "memalchemy.maintenance.distribution",  # Citus' functions
    "memalchemy.maintenance.tenants",  # row-level security
    "memalchemy.row_decoding",  # the rows of a state that a row in a host's session loads
    "memalchemy.sync.host",  # what a host's session begins when it is asked for its connection
)
_BELOW = ("memalchemy.database.compiled", "memalchemy.database.direct_connection")
"""The modules by which the runner gives statements to SQLAlchemy or to a driver."""

_HOOK = "before_cursor_execute"

EVER_SEEN: set[str] = set()
"""Every registered statement that was executed under a watch of this process."""


def never_seen(database: str) -> list[str]:
    """The registered statements of a database that no watch of this process has seen executed."""
    registered: set[str] = set()
    for family in REGISTRY.values():
        list(family.enumerate(DIALECTS[database]))
        registered |= {
            f"{family.name}{dict(choice)}"
            for (name, _, choice), built in family._built.items()
            if name == database and built is not None
        }
    return sorted(registered - EVER_SEEN)


class Watch:
    """What the library executed while this was entered: names seen, and complaints."""

    def __init__(self) -> None:
        self.seen: set[str] = set()
        self.texts: set[str] = set()
        """The texts of all statements, other than the library's own, too."""
        self.complaints: list[str] = []

    def __enter__(self) -> Watch:
        event.listen(Engine, _HOOK, self._listen)
        # What goes straight to the driver passes no hook of SQLAlchemy's.
        self._send = DirectConnection.execute
        watch, send = self, self._send

        async def execute(direct: DirectConnection, statement: Any, parameters: Any) -> Any:
            answer = await send(direct, statement, parameters)
            if answer is not None:
                compiled = direct._compiled.get(statement, direct.dialect)
                assert compiled is not None
                name, moved = f"{direct.driver}, direct", direct.names_schema
                watch._look(direct.dialect.name, name, compiled.sql, statement, moved=moved)
            return answer

        DirectConnection.execute = execute  # type: ignore[method-assign]
        return self

    def __exit__(self, *exc: object) -> None:
        event.remove(Engine, _HOOK, self._listen)
        DirectConnection.execute = self._send  # type: ignore[method-assign]

    def _listen(
        self, connection: Any, cursor: Any, sql: str, parameters: Any, context: Any, many: bool
    ) -> None:
        # With schema= the text names the schema, which no golden file can.
        moved = connection.get_execution_options().get("schema_translate_map")
        moved = moved or context.execution_options.get("schema_translate_map")
        dialect = connection.dialect
        again = context.execution_options.get(SENT)
        statement = getattr(context, "invoked_statement", None) if again is None else again
        self._look(dialect.name, dialect.driver, sql, statement, moved=bool(moved))

    def _look(
        self, database: str, driver: str, sql: str, statement: object, *, moved: bool
    ) -> None:
        self.texts.add(sql)
        frame = _sender()
        if frame is None:
            return
        sender = frame.f_globals["__name__"]
        if sender != RUNNER:
            if not sender.startswith(_DIRECT):
                self.complaints.append(f"{sender} sends statements without a program: {sql}")
            return
        author = _author(_program_run_by(frame), statement)
        if not author.startswith("memalchemy"):
            return
        name = _registered_name(statement)
        if name is None:
            self.complaints.append(f"{author} sends a statement that is not registered: {sql}")
            return
        self.seen.add(name)
        EVER_SEEN.add(name)
        if not moved and not _is_golden(sql, statement, database):
            self.complaints.append(f"{name} is not sent as it is in the golden file: {sql}")


def _registered_name(statement: Any) -> str | None:
    """The name of the very object that the registry built, and of no other."""
    if not isinstance(statement, Executable) or statement not in _ORIGINS:
        return None
    family, choice = _ORIGINS[statement]
    return f"{family.name}{dict(sorted(choice.items()))}"


_golden: set[tuple[int, str]] = set()
"""Registered statements, which live as long as the process, with texts that are golden."""


def _is_golden(sql: str, statement: object, database: str) -> bool:
    if (id(statement), sql) in _golden:
        return True
    if normalised(sql) != golden_text(statement, database):
        return False
    _golden.add((id(statement), sql))
    return True


_texts: dict[tuple[int, str], tuple[str, object]] = {}
"""With its statement, whose number is no other's as long as it is here."""


def golden_text(statement: object, database: str) -> str:
    """The text of the golden file, of which a process needs few, and these in every test."""
    key = (id(statement), database)
    if key not in _texts:
        _texts[key] = (normalised(text_of(statement, database)), statement)
    return _texts[key][0]


def _sender() -> FrameType | None:
    """The library's frame that sent it, if the library did: not SQLAlchemy, nor this file."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        if not module.startswith(("sqlalchemy", __name__, *_BELOW)):
            return frame if module.startswith("memalchemy") else None
        frame = frame.f_back
    return None


def _program_run_by(frame: FrameType) -> GeneratorType[Any, Any, Any]:
    """The program that the runner runs whose frame this is, or that called it in a greenlet."""
    at: FrameType | None = frame
    running = getcurrent()
    while True:
        while at is not None:
            if "program" in at.f_locals:
                program: GeneratorType[Any, Any, Any] = at.f_locals["program"]
                return program
            at = at.f_back
        running = running.parent
        assert running is not None, "the runner runs no program"
        at = running.gr_frame


def _author(program: GeneratorType[Any, Any, Any], statement: object) -> str:
    """The module of the innermost generator: the one that yielded the *statement*."""
    while True:
        frame = program.gi_frame
        inner = program.gi_yieldfrom
        # What runs another program passes its statements on, or sends some of its own.
        passed_on = inner is None or _local(inner, "statement") is statement
        if frame is not None and passed_on and "running" in frame.f_locals:
            inner = frame.f_locals["running"]
        if not isinstance(inner, GeneratorType):
            break
        program = inner
    return "" if frame is None else str(frame.f_globals.get("__name__", ""))


def _local(generator: object, name: str) -> object:
    frame = generator.gi_frame if isinstance(generator, GeneratorType) else None
    return None if frame is None else frame.f_locals.get(name)
