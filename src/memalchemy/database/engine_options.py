"""Engine options for a URL: the dialect's defaults under the user's own."""

from __future__ import annotations

from os import PathLike, fspath
from typing import Any

from sqlalchemy.pool import NullPool

from memalchemy.database.logging_filters import ENGINE_NAME
from memalchemy.dialects import Dialect, Target
from memalchemy.dialects.urls import refuse_misplaced


def engine_options(
    dialect: Dialect,
    target: Target,
    pgbouncer: bool,
    connect_timeout: float,
    statement_timeout: float | None,
    read_only: bool,
    given: dict[str, Any],
) -> dict[str, Any]:
    """Return the options of `create_async_engine` for *target*; those that were *given* win."""
    refuse_misplaced(given, dialect.connect_options)
    ours: dict[str, Any] = {"hide_parameters": True, "logging_name": ENGINE_NAME}
    options = ours | dialect.engine_options(
        target,
        pgbouncer=pgbouncer,
        connect_timeout=connect_timeout,
        statement_timeout=statement_timeout,
    )
    if read_only:
        options = dialect.read_only_options(options, target, pgbouncer=pgbouncer)
        if "execution_options" in options and "execution_options" in given:
            both = options["execution_options"] | given["execution_options"]
            given = given | {"execution_options": both}
    connect_args = options["connect_args"] | {
        name: fspath(given[name]) if isinstance(given[name], PathLike) else given[name]
        for name in dialect.connect_options
        if given.get(name) is not None
    }
    if pgbouncer:
        options["poolclass"] = NullPool
    theirs = dict(given.get("connect_args", {}))
    if "server_settings" in theirs:
        theirs["server_settings"] = (
            connect_args.get("server_settings", {}) | theirs["server_settings"]
        )
    if "options" in theirs:
        theirs["options"] = f"{connect_args.get('options', '')} {theirs['options']}".strip()
    engine_options = {k: v for k, v in given.items() if k not in dialect.connect_options}
    return options | engine_options | {"connect_args": connect_args | theirs}
