"""A process that runs one query over tables that it is given, and reaches nothing else.

`memalchemy.analysis.isolated` starts it and says what it is sent. It has no database, no key and no
variable of the environment but those that Python needs.
"""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable
from contextlib import suppress
from datetime import date, datetime
from decimal import Decimal
from typing import Any, BinaryIO

from memalchemy.analysis.arrow import import_pyarrow, schema_of
from memalchemy.analysis.connection import (
    SQLConnection,
    create_table,
    insert_batch,
    limit_process_memory,
    open_duckdb,
)
from memalchemy.analysis.tables import TABLES
from memalchemy.errors import InvalidArgument, MemalchemyError, StatementFailed

THREADS = 2
"""Threads of DuckDB."""
NICENESS = 10
"""The niceness of the process, so that the server goes first: see nice(2)."""
FETCHED = 100
"""Rows that are fetched at once."""
EXACT = 2**53
"""The integers below are exact in a browser."""

_NUMBER = re.compile(r"U?(TINY|SMALL|BIG|HUGE)?INT(EGER)?|DOUBLE|FLOAT|DECIMAL\(.*\)")
_TIME = re.compile(r"TIMESTAMP.*|DATE|TIME.*")


def main() -> None:
    """Read tables and a query from stdin, and write the answer to stdout."""
    if hasattr(os, "nice"):
        os.nice(NICENESS)
    try:
        answer = _answer(sys.stdin.buffer)
    except (MemalchemyError, InvalidArgument) as error:
        answer = {"error": type(error).__name__, "code": error.code, "detail": str(error)}
    except MemoryError:
        detail = "the query needs more memory than it may have; ask for less"
        answer = {"error": "StatementFailed", "code": StatementFailed.code, "detail": detail}
    sys.stdout.write(json.dumps(answer))


def _answer(given: BinaryIO) -> dict[str, Any]:
    arrow = import_pyarrow()
    asked = json.loads(given.readline())
    duck = open_duckdb(":memory:", asked["memory"])
    duck.execute(f"SET threads = {THREADS}")
    for table in TABLES.values():
        create_table(duck, table)
    while name := (head := json.loads(given.readline())).get("table"):
        batch = arrow.py_buffer(given.read(head["bytes"]))
        insert_batch(
            duck, TABLES[name], arrow.ipc.read_record_batch(batch, schema_of(TABLES[name]))
        )
    if not head:  # the end of the stream: whoever asked has left
        raise InvalidArgument("there is no query")
    connection = SQLConnection(duck)
    limit_process_memory(connection)
    return _run(connection, head["sql"], head["seconds"], asked["rows"], asked["bytes"])


def _run(
    connection: SQLConnection, sql: str, seconds: float, most: int, most_bytes: int
) -> dict[str, Any]:
    """Run a query; what is over a limit of the answer is left out, and `more` and `cut` say so."""
    result = connection.execute(sql, timeout=seconds)
    most_of_cell = max(most_bytes // 100, 1)
    shown: list[list[Any]] = []
    size, cut = 0, False
    while fetched := result.fetchmany(FETCHED):
        for row in fetched:
            cells = [_plain(value) for value in row]
            for at, cell in enumerate(cells):
                if isinstance(cell, str) and len(cell) > most_of_cell:
                    cells[at], cut = cell[:most_of_cell], True
            size += sum(len(str(cell)) for cell in cells)
            if len(shown) == most or (size > most_bytes and shown):
                return _record(result, shown, more=True, cut=cut)
            shown.append(cells)
    return _record(result, shown, more=False, cut=cut)


def _record(result: Any, rows: list[list[Any]], *, more: bool, cut: bool) -> dict[str, Any]:
    columns = [
        {"name": name, "kind": _kind(kind)}
        for name, kind in zip(result.columns, result.types, strict=True)
    ]
    return {"columns": columns, "rows": rows, "more": more, "cut": cut}


def _kind(kind: str) -> str:
    if _NUMBER.fullmatch(kind):
        return "number"
    return "time" if _TIME.fullmatch(kind) else "text"


def _plain(value: Any) -> Any:
    """Return a value as JSON has it; a list or a struct is a text of JSON."""
    if isinstance(value, Decimal):
        value = float(value) if abs(value) < EXACT else str(value)
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, int):
        return value if abs(value) <= EXACT else str(value)
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, datetime):
        return value.isoformat(" ")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, (bytes, bytearray, memoryview)):
        return f"0x{bytes(value).hex()}"
    if isinstance(value, (list, tuple, dict)):
        with suppress(TypeError, ValueError):
            return json.dumps(value, ensure_ascii=False, default=_text_of)
    return str(value)


_text_of: Callable[[Any], str] = str

if __name__ == "__main__":
    main()
