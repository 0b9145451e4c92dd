"""Engine options for a URL: memalchemy's defaults under the user's own."""

from __future__ import annotations

import json
import uuid
from os import PathLike, fspath
from typing import Any

from sqlalchemy.pool import NullPool

from memalchemy.database.url import ORACLE_OPTIONS, Target

_decode_first_value = json.JSONDecoder().raw_decode
_POOL_OPTIONS = {"pool_size", "max_overflow", "pool_timeout", "pool_recycle", "pool_pre_ping"}
_STATEMENT_CACHES = ("statement_cache_size", "prepared_statement_cache_size")


def engine_options(
    target: Target,
    pgbouncer: bool,
    connect_timeout: float,
    statement_timeout: float | None,
    given: dict[str, Any],
) -> dict[str, Any]:
    """Return the options of `create_async_engine` for *target*; those that were *given* win."""
    connect_args = dict(target.connect_args)
    oracle_options = {name: given[name] for name in ORACLE_OPTIONS if name in given}
    if oracle_options and target.dialect != "oracle":
        raise TypeError(f"{', '.join(oracle_options)}: for oracle:// URLs only")
    given = {name: value for name, value in given.items() if name not in oracle_options}
    connect_args |= {
        name: fspath(value) if isinstance(value, PathLike) else value
        for name, value in oracle_options.items()
        if value is not None
    }
    options: dict[str, Any] = {"hide_parameters": True}
    if target.url.drivername == "postgresql+asyncpg":
        options["json_deserializer"] = _read_json
        connect_args.setdefault("timeout", connect_timeout)
        if statement_timeout is not None:
            connect_args["command_timeout"] = statement_timeout
        if pgbouncer:
            # In transaction mode a statement may run on another server connection than the one
            # that prepared it: no caches, and names that never meet.
            connect_args["statement_cache_size"] = 0
            connect_args["prepared_statement_cache_size"] = 0
            connect_args["prepared_statement_name_func"] = lambda: f"__asyncpg_{uuid.uuid4()}__"
    elif target.url.drivername == "postgresql+psycopg":
        connect_args.setdefault("connect_timeout", max(1, round(connect_timeout)))
        if pgbouncer:
            connect_args["prepare_threshold"] = None
        elif statement_timeout is not None:
            timeout = f"-c statement_timeout={round(statement_timeout * 1000)}"
            connect_args["options"] = f"{connect_args.get('options', '')} {timeout}".strip()
    elif target.dialect == "oracle":
        connect_args.setdefault("tcp_connect_timeout", connect_timeout)
    if pgbouncer:
        options["poolclass"] = NullPool
    theirs = dict(given.get("connect_args", {}))
    if "server_settings" in theirs:
        theirs["server_settings"] = (
            connect_args.get("server_settings", {}) | theirs["server_settings"]
        )
    if "options" in theirs:
        theirs["options"] = f"{connect_args.get('options', '')} {theirs['options']}".strip()
    return options | given | {"connect_args": connect_args | theirs}


def _read_json(text: str) -> Any:
    """Return `json.loads` of *text*, faster: jsonb has no white space around it to skip."""
    try:
        return _decode_first_value(text)[0]
    except ValueError:
        return json.loads(text)


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
