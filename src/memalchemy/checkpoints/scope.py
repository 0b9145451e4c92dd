"""One namespace of one tenant: what a checkpointer works on, and the reads its parts share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import Executable

from memalchemy.checkpoints import queries
from memalchemy.checkpoints.cache import TipCache
from memalchemy.contracts import CheckpointInfo
from memalchemy.database import Database, HostConnection, check_database
from memalchemy.errors import NotFound
from memalchemy.keys import check_name, check_namespace, check_thread_id, encode_namespace
from memalchemy.log import Log
from memalchemy.statements import Answer, Program

PAGE = 500


class Scope:
    """One namespace of one tenant of a database."""

    db: Database
    namespace: tuple[str, ...]

    def __init__(self, db: Database, namespace: Iterable[str]) -> None:
        self.db = check_database(db, self)
        self.namespace = check_namespace(namespace)
        self._path = encode_namespace(self.namespace)
        self._cache = TipCache.of(db)

    def _log(self, thread_id: str) -> Log:
        return Log(self.db.tenant, check_thread_id(thread_id), self._path)

    def _about(self, thread_id: str, checkpoint_id: str | None) -> dict[str, Any]:
        return {
            "tenant": self.db.tenant,
            "thread_id": thread_id,
            "checkpoint_id": checkpoint_id,
        }

    async def _rows(
        self,
        statement: Executable,
        binds: Mapping[str, Any],
        connection: HostConnection | None,
        *,
        stale: bool = False,
    ) -> Answer:
        """What *statement* finds now; *stale* as for `Database.read`."""
        now = datetime.now(UTC)

        def program() -> Program[Answer]:
            return (yield statement, {"p_now": now, **binds})

        return await self.db.read(program, connection=connection, stale=stale)

    async def _page(
        self,
        log: Log,
        before: int | None,
        limit: int,
        connection: HostConnection | None,
        *,
        stale: bool = False,
    ) -> list[CheckpointInfo]:
        """Checkpoints below position *before*, newest first."""
        statement = queries.list_names(self.db.dialect, before=before is not None)
        binds = log.binds() | {"p_limit": limit, "p_before": before}
        rows = await self._rows(statement, binds, connection, stale=stale)
        return [queries.info(row) for row in rows]

    async def _info(
        self, thread_id: str, checkpoint_id: str | None, connection: HostConnection | None
    ) -> CheckpointInfo | None:
        log = self._log(thread_id)
        check_optional(checkpoint_id)
        if checkpoint_id is None:
            infos = await self._page(log, None, 1, connection)
            return infos[0] if infos else None
        binds = log.binds() | {"p_checkpoint_id": checkpoint_id}
        rows = await self._rows(queries.read_name(self.db.dialect), binds, connection)
        return queries.info(rows[0]) if rows else None

    async def _needed(
        self, thread_id: str, checkpoint_id: str | None, connection: HostConnection | None
    ) -> CheckpointInfo:
        info = await self._info(thread_id, checkpoint_id, connection)
        if info is None:
            raise missing(thread_id, checkpoint_id)
        return info


def missing(thread_id: str, checkpoint_id: str | None) -> NotFound:
    """The error for a checkpoint that an operation needs."""
    what = "any checkpoint" if checkpoint_id is None else f"checkpoint {checkpoint_id!r}"
    return NotFound(f"thread {thread_id!r} does not have {what}")


def check_optional(checkpoint_id: str | None) -> None:
    """Raise unless *checkpoint_id* is one, or ``None`` for the newest."""
    if checkpoint_id is not None:
        check_name(checkpoint_id, "checkpoint_id")
