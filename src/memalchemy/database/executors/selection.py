"""Which executor serves a database: chosen once, from its URL and the options of `Database`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from sqlalchemy.ext.asyncio import AsyncEngine

from memalchemy.contracts import Durability
from memalchemy.database.driver_errors import Translate
from memalchemy.database.executors.base import Executor
from memalchemy.database.executors.sqlalchemy import SQLAlchemyExecutor
from memalchemy.database.sqlite.executor import SQLiteExecutor
from memalchemy.dialects import Dialect, Target

CONNECT_TIMEOUT = 10.0

_POOL_OPTIONS = {"pool_size", "max_overflow", "pool_timeout", "pool_recycle", "pool_pre_ping"}
_STATEMENT_CACHES = ("statement_cache_size", "prepared_statement_cache_size")


def choose_executor(
    target: Target | None,
    engine: AsyncEngine | None,
    *,
    dialect: Dialect,
    translate: Translate,
    schema: str | None,
    pgbouncer: bool,
    durability: Durability,
    may_create: bool,
    read_only: bool,
    connect_timeout: float | None,
    statement_timeout: float | None,
    options: dict[str, Any],
) -> Callable[[], Executor]:
    """Return what makes the executor for *target*, or for the host's *engine*.

    Raises:
        ValueError, TypeError: *schema* or one of the *options* is not for this database.
    """
    if schema is not None and dialect.single_writer:
        raise ValueError("schema= is for PostgreSQL and Oracle; on SQLite use another file")
    if target is not None and dialect.single_writer:
        if options:
            names = ", ".join(sorted(options))
            raise TypeError(f"a SQLite URL takes no engine options; got {names}")
        return partial(
            SQLiteExecutor,
            target.path,
            "FULL" if durability == "full" else "NORMAL",
            may_create=may_create,
            read_only=read_only,
            open_timeout=connect_timeout,
            statement_timeout=statement_timeout,
        )
    kind: Any = SQLAlchemyExecutor
    own: dict[str, Any] = {}
    if target is not None and allows_direct_asyncpg(target, pgbouncer, options):
        # Imported here because asyncpg is an optional dependency.
        from memalchemy.database.executors.asyncpg import AsyncpgExecutor

        kind, own = AsyncpgExecutor, {"schema": schema}
    return partial(
        kind,
        target,
        engine,
        dialect=dialect,
        translate=translate,
        pgbouncer=pgbouncer,
        connect_timeout=CONNECT_TIMEOUT if connect_timeout is None else connect_timeout,
        statement_timeout=statement_timeout,
        read_only=read_only,
        options=options,
        **own,
    )


def allows_direct_asyncpg(target: Target, pgbouncer: bool, given: dict[str, Any]) -> bool:
    """Return whether programs may go to asyncpg without SQLAlchemy.

    Not if statements cannot stay prepared, nor if SQLAlchemy is given options of its own, for
    logging or isolation for instance.
    """
    if target.url.drivername != "postgresql+asyncpg" or pgbouncer:
        return False
    if given.keys() - _POOL_OPTIONS - {"connect_args"}:
        return False
    settings = dict(target.url.query) | target.connect_args | dict(given.get("connect_args", {}))
    return all(str(settings.get(name, "")) != "0" for name in _STATEMENT_CACHES)
