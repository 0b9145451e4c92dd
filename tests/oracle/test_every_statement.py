"""Every statement of the registry through the real dialect into the driver's type checks.

The programs in `test_binds` send most of them; this sends each variant of each, with the smallest
and the largest values that its columns hold.
"""

from __future__ import annotations

from array import array
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import oracledb
import pytest
import sqlalchemy as sa

from golden import dialect
from memalchemy import Database
from memalchemy.dialects import DIALECTS
from memalchemy.dialects.oracle import MAX_TEXT_BIND
from memalchemy.errors import MemalchemyError
from memalchemy.schema import Json, LogKey, Path, Payload, UtcDateTime, Vector
from memalchemy.statements import REGISTRY
from oracle.recording import Recorder

STATEMENTS = {
    name: statement
    for family in sorted(REGISTRY)
    for name, statement in REGISTRY[family].enumerate(DIALECTS["oracle"])
}

SMALL: dict[type, Any] = {
    Path: "/",
    UtcDateTime: datetime(1, 1, 1, tzinfo=UTC),
    Json: {},
    Payload: b"-",
    LogKey: UUID(int=0),
    sa.LargeBinary: b"-",
    Vector: [0.5],
    sa.Text: "",
    sa.Integer: 0,
}
LARGE: dict[type, Any] = {
    Path: "/" + "\U0001f600" * 127 + "/",
    UtcDateTime: datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC),
    Json: {"k": "\U0001f600" * 8000},
    Payload: b"x" * 1_000_000,
    LogKey: UUID(int=2**128 - 1),
    sa.LargeBinary: b"x" * 80,
    Vector: [0.5] * 4096,
    sa.Text: "word " * 40_000,
    sa.Integer: 2**63 - 1,
}
UNTYPED: dict[str, tuple[Any, Any]] = {
    "match_key": ("{}", "x" * MAX_TEXT_BIND),
    "match_pair": ("{}", "x" * MAX_TEXT_BIND),
    "terms": ("[]", "x" * MAX_TEXT_BIND),
    "p_keep": (0, 2**31),
    "p_limit": (1, 2**31),
    "p_terms": (0, 32),
}
"""Binds that stand where SQLAlchemy knows no column, with their smallest and largest value."""
_DRIVERS = {
    str: {
        oracledb.STRING,
        oracledb.DB_TYPE_VARCHAR,
        oracledb.DB_TYPE_NVARCHAR,
    },
    int: {oracledb.DB_TYPE_NUMBER, int},  # the driver reads the Python type as NUMBER
    bytes: {oracledb.DB_TYPE_RAW},
    datetime: {oracledb.DB_TYPE_TIMESTAMP},
    array: {oracledb.DB_TYPE_VECTOR},
}


def value(bind: sa.BindParameter[Any], large: bool) -> Any:
    """The smallest or largest value that is ever given to *bind*."""
    if bind.key in UNTYPED:
        return UNTYPED[bind.key][large]
    for kind, found in (LARGE if large else SMALL).items():
        if isinstance(bind.type, kind):
            return found
    assert isinstance(getattr(bind.type, "length", None), int), (
        f"{bind.key} has no type: give it one, or say in UNTYPED what is bound"
    )
    return "\U0001f600" * bind.type.length if large else ""


@pytest.mark.parametrize("large", [False, True], ids=["small", "large"])
async def test_every_statement_is_bound_as_the_driver_takes_it(
    oracle: Database, server: Recorder, large: bool
) -> None:
    complaints = {
        name: wrong
        for name, statement in STATEMENTS.items()
        if (wrong := await complaints_about(statement, oracle, server, large=large))
    }

    assert len(STATEMENTS) > 500
    assert complaints == {}


async def complaints_about(
    statement: Any, oracle: Database, server: Recorder, *, large: bool
) -> list[str]:
    """What is wrong with how *statement* is bound."""
    binds = statement.compile(dialect=dialect("oracle")).binds.values()
    # A signature is NULL unless it is given.
    values = {b.key: value(b, large) for b in binds if b.required or b.key == "p_signature"}
    keys = {b.key for b in binds if isinstance(b.type, LogKey)}
    server.forget()
    try:
        async with oracle.transaction() as tx:
            await tx.execute(statement, values)
    except (MemalchemyError, oracledb.Error) as error:
        return [f"it is refused: {error}"]
    (call,) = server.calls
    found = [] if call.name in REGISTRY else ["it is not in the registry"]
    found += [f"{bind} is not bound" for bind in {*values} - {*call.binds}]
    for bind, sent in call.binds.items():
        if call.types[bind] not in _DRIVERS[type(sent)]:
            found.append(f"{bind} goes as {call.types[bind]}")
        # The driver knows an array as a vector, and 16 bytes as a RAW.
        if not isinstance(sent, (str, int, array)) and bind not in keys and bind not in call.asked:
            found.append(f"{bind} is left to the driver to guess")
    return found
