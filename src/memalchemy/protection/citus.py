"""Signed logs that Citus has spread over nodes: a list of logs has one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any
from uuid import UUID

from sqlalchemy import Executable, select

from memalchemy.dialects import Dialect
from memalchemy.protection.signed_logs import (
    THREADS,
    list_signatures_of_logs,
    log_lists,
    of_log,
    read_signed_heads,
    select_signatures,
)
from memalchemy.rows import HEAD
from memalchemy.variants import CITUS


@log_lists.on(CITUS)
def _list_logs(dialect: Dialect, keys: Sequence[UUID]) -> Iterator[dict[str, Any]]:
    return ({"k_log_id": key} for key in keys)


@read_signed_heads.on(CITUS)
def _read_signed_heads(dialect: Dialect) -> Executable:
    columns = [*(THREADS.c[name] for name in HEAD.signed), THREADS.c.signature]
    return select(*columns).where(of_log(THREADS))


@list_signatures_of_logs.on(CITUS)
def _list_signatures_of_logs(dialect: Dialect) -> Executable:
    return select_signatures(of_log, "log_id")
