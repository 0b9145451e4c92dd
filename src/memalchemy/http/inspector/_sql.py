"""The box for SQL: which tables there are, and answers of queries over them.

Whoever may read all of a tenant may ask about all of it: the tables hold no more than the other
views show, and of this tenant alone.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any

from memalchemy.analysis.arrow import import_pyarrow
from memalchemy.analysis.connection import import_duckdb
from memalchemy.analysis.isolated import answer_query
from memalchemy.analysis.questions import read_questions
from memalchemy.analysis.tables import TABLES
from memalchemy.database import Database
from memalchemy.errors import DriverMissing, InvalidArgument
from memalchemy.http.server._problems import Problem

SECONDS = 20.0
"""Time of a query, with what it reads: less than a request may take."""
MEMORY = "500MB"
ROWS = 1_000
ANSWER_BYTES = 2_000_000
CHARACTERS = 20_000
"""Characters of a query: it stands in an address."""


async def describe_tables(db: Database) -> dict[str, Any]:
    """Return the tables and some questions; ``missing`` says how to install what queries need."""
    missing = None
    try:
        import_duckdb()
        import_pyarrow()
    except DriverMissing as error:
        missing = str(error)
    return {
        "missing": missing,
        "tables": [
            {
                "name": table.name,
                "row": table.row,
                "columns": [
                    {"name": one.name, "kind": one.kind, "meaning": one.meaning}
                    for one in table.columns
                ],
            }
            for table in TABLES.values()
        ],
        "questions": [{"text": text, "sql": sql} for text, sql in read_questions()],
        "rows": ROWS,
        "seconds": SECONDS,
    }


async def answer(db: Database, query: str, since: datetime | None = None) -> dict[str, Any]:
    """Return the answer of a query over the tables of the tenant of *db*; see `answer_query`.

    Args:
        since: only what happened at this time or later.
    """
    if len(query) > CHARACTERS:
        raise InvalidArgument(f"a query has {CHARACTERS:,} characters, at most")
    try:
        found = await answer_query(
            db,
            query,
            seconds=SECONDS,
            memory=MEMORY,
            rows=ROWS,
            answer_bytes=ANSWER_BYTES,
            since=since,
        )
    except DriverMissing as error:
        raise Problem(501, str(error), code=error.code, error="DriverMissing") from error
    if "error" in found:
        raise Problem(422, found["detail"], code=found["code"], error=found["error"])
    return found
