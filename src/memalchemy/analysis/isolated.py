"""SQL that somebody else wrote, in a process that can be stopped and has nothing but the tables.

DuckDB reaches no file and no network; see `memalchemy.analysis.connection`. But a function that
works on one row for long is not interrupted, and values that a function makes do not count in its
limit of memory. So a server runs such a query in a process of its own, which is killed at the end
of its time, and whose memory the system limits where it can. The server reads the tables: the
process knows neither the database nor its keys, and so holds no row of another tenant.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import aclosing, suppress
from typing import Any

from memalchemy._bounds import Oversized, parse_json
from memalchemy.analysis.arrow import import_pyarrow, record_batch
from memalchemy.analysis.connection import import_duckdb
from memalchemy.analysis.reader import Reader
from memalchemy.analysis.selection import Selection
from memalchemy.analysis.tables import TABLES, tables_named_in
from memalchemy.database import Database
from memalchemy.errors import StatementFailed

GRACE = 1.0
"""Seconds after which a query that DuckDB does not stop ends with its process."""

_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "SYSTEMROOT", "TMPDIR", "TEMP")
"""Variables that the process gets. Keys and URLs of databases stand in others."""


async def answer_query(
    db: Database,
    sql: str,
    *,
    seconds: float,
    memory: str,
    rows: int,
    answer_bytes: int,
    **selection: Any,
) -> dict[str, Any]:
    """Run a query over the tables of the tenant of *db*, and return its answer as plain JSON.

    It is either ``columns``, each with its ``name`` and ``kind``, ``rows``, lists of values,
    ``more`` if there are more rows, ``cut`` if a long text was cut, and ``unreadable``, what could
    not be read; or, if the query was refused or stopped, ``error``, ``code`` and ``detail``.

    Args:
        seconds: the time for reading the tables that the query names and for the query.
        memory: the most memory of the query, such as ``"1GB"``.
        rows, answer_bytes: the most rows and characters of the answer.
        selection: arguments of `Selection`.

    Raises:
        DriverMissing: duckdb or pyarrow is not installed.
        InvalidArgument: the selection makes no sense.
    """
    import_duckdb()
    import_pyarrow()
    reader, chosen = Reader(db), Selection(**selection)
    process = await _start()
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(seconds + GRACE):
            # A process that has ended says why in its answer, or by its return code.
            with suppress(BrokenPipeError, ConnectionResetError):
                await _send(process.stdin, {"memory": memory, "rows": rows, "bytes": answer_bytes})
                end = asyncio.get_running_loop().time() + seconds
                await _send_tables(process.stdin, reader, tables_named_in(sql), chosen)
                left = max(end - asyncio.get_running_loop().time(), 0.1)
                await _send(process.stdin, {"sql": sql, "seconds": left})
                process.stdin.close()
            answer = await process.stdout.read()
            await process.wait()
    except TimeoutError:
        return _failed(f"the query took longer than {seconds:g} seconds and was stopped")
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        await asyncio.shield(process.wait())
    if answer:
        try:
            found: dict[str, Any] = parse_json(answer)
        except Oversized:
            return _failed("the answer is too large; ask for less")
        return found | {"unreadable": [str(one) for one in reader.damage.errors]}
    if process.returncode is not None and process.returncode < 0:
        return _failed("the query needs more memory than it may have; ask for less")
    raise RuntimeError(f"the process of a query ended with {process.returncode}")


def _failed(detail: str) -> dict[str, Any]:
    return {"error": StatementFailed.__name__, "code": StatementFailed.code, "detail": detail}


async def _start() -> asyncio.subprocess.Process:
    environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
    path = os.pathsep.join(one for one in sys.path if one)
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-P", "-m", "memalchemy.analysis._query_process"),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env=environment | {"PYTHONPATH": path},
        cwd=os.sep,
    )


async def _send(stream: asyncio.StreamWriter, document: dict[str, Any], payload: Any = b"") -> None:
    stream.write(json.dumps(document).encode() + b"\n")
    if payload:
        stream.write(payload)
    await stream.drain()


async def _send_tables(
    stream: asyncio.StreamWriter, reader: Reader, names: list[str] | None, selection: Selection
) -> None:
    async with aclosing(reader.batches(TABLES if names is None else names, selection)) as batches:
        async for name, rows in batches:
            batch = record_batch(TABLES[name], rows).serialize().to_pybytes()
            await _send(stream, {"table": name, "bytes": len(batch)}, batch)
