"""How PostgreSQL would run a statement of ours, prepared as the drivers prepare it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import psycopg
from sqlalchemy import Executable

from memalchemy import Database
from servers import Postgres


@dataclass
class Plan:
    """How PostgreSQL would run a statement."""

    scanned: set[str] = field(default_factory=set)
    """The tables it reads from end to end."""
    indexes: set[str] = field(default_factory=set)
    is_generic: bool = False
    """Whether it is the one for all values, which is made once."""

    def add(self, node: dict[str, Any]) -> Plan:
        if node["Node Type"] == "Seq Scan":
            self.scanned.add(node["Relation Name"])
        if "Index Name" in node:
            self.indexes.add(node["Index Name"])
        for child in node.get("Plans", ()):
            self.add(child)
        return self


class Planner:
    """Asks PostgreSQL how it runs our statements, prepared as the driver prepares them."""

    def __init__(self, server: Postgres, name: str, url: str, binds: Mapping[str, Any]) -> None:
        self.url = url
        self._binds = binds
        self._dialect = asyncio.run(_sqlalchemy_dialect(url))
        self._connection = psycopg.connect(
            host=server.host,
            port=server.port,
            user=server.user,
            password=server.password,
            dbname=name,
            autocommit=True,
        )
        self.memalchemy = Database(url).dialect

    def close(self) -> None:
        self._connection.close()

    def plan(self, statement: Executable, mode: str, **binds: Any) -> Plan:
        compiled = statement.compile(dialect=self._dialect)  # type: ignore[attr-defined]
        values = compiled.params | dict(self._binds) | binds
        literals = [
            psycopg.sql.Literal(values[name]).as_string(self._connection)
            for name in compiled.positiontup
        ]
        run = self._connection.execute
        # Left to itself, PostgreSQL makes five plans for the values, and then chooses.
        run(f"SET plan_cache_mode = {'auto' if mode == 'auto' else f'force_{mode}_plan'}")
        run(f"PREPARE asked AS {compiled}".encode())
        try:
            given = f"({', '.join(literals)})" if literals else ""
            for _ in range(8 if mode == "auto" else 1):
                (explained,) = run(
                    f"EXPLAIN (FORMAT JSON) EXECUTE asked{given}".encode()
                ).fetchone()  # type: ignore[misc]
            (generic,) = run(
                "SELECT generic_plans > 0 FROM pg_prepared_statements WHERE name = 'asked'"
            ).fetchone()  # type: ignore[misc]
        finally:
            run("DEALLOCATE asked")
        return Plan(is_generic=generic).add(explained[0]["Plan"])


async def _sqlalchemy_dialect(url: str) -> Any:
    async with Database(url, migrate="off") as db:
        return await db.run_sync(lambda connection: connection.dialect)
