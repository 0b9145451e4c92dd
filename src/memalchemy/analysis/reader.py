"""`Reader`: rows of all tables, read log by log and item by item."""

from __future__ import annotations

import fnmatch
import hashlib
import re
from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import replace
from functools import partial
from typing import Any

from memalchemy.analysis import _statements as statements
from memalchemy.analysis._values import json_text
from memalchemy.analysis.added_messages import Digests
from memalchemy.analysis.log_rows import LogRows, Rows, thread_row
from memalchemy.analysis.logs_above import LogsAbove
from memalchemy.analysis.selection import Selection
from memalchemy.analysis.steps import (
    LogHead,
    read_steps,
    read_usage_items,
    usage_namespace_of,
)
from memalchemy.analysis.store_rows import item_row, memory_row, selected_items
from memalchemy.analysis.tables import OF_LOGS, OF_STORES, table_of
from memalchemy.checkpoints.forget import selected_threads
from memalchemy.database import Database
from memalchemy.dialects import namespace_binds
from memalchemy.keys import decode_namespace, encode_namespace
from memalchemy.log.listing import describe_logs, range_of_glob
from memalchemy.log.scan import scan
from memalchemy.log.tables import truncate_to_second
from memalchemy.protection.proven_jobs import Damage
from memalchemy.store import Store

Row = dict[str, Any]

BATCH_ROWS = 1_000
"""Rows of a batch, at most."""

_OF_STEPS = frozenset(OF_LOGS) - {"threads"}
_OF_MESSAGES = _OF_STEPS - {"steps"}


class Reader:
    """Reader of the rows of a database's tenant.

    What cannot be read is noted in *damage* and passed over.
    """

    def __init__(self, db: Database) -> None:
        self.db = db
        self.damage: Damage = Damage()

    async def batches(
        self, tables: Iterable[str], selection: Selection
    ) -> AsyncGenerator[tuple[str, list[Row]]]:
        """Yield batches of rows of several tables, each with the table's name: one pass for all."""
        wanted = {table_of(name).name for name in tables}
        waiting: dict[str, list[Row]] = {name: [] for name in wanted}
        async with aclosing(self._read(wanted, selection)) as found:
            async for name, row in found:
                waiting[name].append({column: row[column] for column in table_of(name).names})
                if len(waiting[name]) == BATCH_ROWS:
                    yield name, waiting[name]
                    waiting[name] = []
        for name, rest in waiting.items():
            if rest:
                yield name, rest

    async def _read(
        self, wanted: set[str], selection: Selection
    ) -> AsyncGenerator[tuple[str, Row]]:
        if wanted & set(OF_LOGS):
            above = LogsAbove(self.db, selection, self.damage)
            async with aclosing(self.log_heads(selection)) as pages:
                async for heads in pages:
                    read = self.rows_of_logs(heads, wanted, selection, above)
                    async with aclosing(read) as rows:
                        async for found in rows:
                            yield found
        if wanted & set(OF_STORES) and not selection.is_of_threads:
            async with aclosing(self.rows_of_stores(wanted, selection)) as rows:
                async for found in rows:
                    yield found

    async def rows_of_logs(
        self, heads: list[LogHead], wanted: Iterable[str], selection: Selection, above: LogsAbove
    ) -> AsyncGenerator[tuple[str, Row]]:
        """Yield the rows of some logs, of the *wanted* tables."""
        chosen = frozenset(wanted)
        if "threads" in chosen:
            for info in await describe_logs(self.db, [head.row for head in heads]):
                yield "threads", thread_row(self.db.tenant, info)
        if not chosen & _OF_STEPS:
            return
        with_messages = bool(chosen & _OF_MESSAGES)
        for head in heads:
            rows = LogRows(self.db.tenant, head)
            known = await above.messages_above(head) if with_messages else Digests()
            async for step in read_steps(
                self.db, head, selection, self.damage, known=known, with_messages=with_messages
            ):
                for found in _only(chosen, rows.of_step(step)):
                    yield found
            for found in _only(chosen, rows.rest()):
                yield found
            if "usage" in chosen:
                async for item in read_usage_items(self.db, head, selection, self.damage):
                    for found in rows.of_usage_item(item):
                        yield found

    async def with_usage_mark(self, head: LogHead) -> LogHead:
        """Return a head whose mark changes with what is stated beside the log, too."""
        namespace = usage_namespace_of(head.namespace, head.thread_id)
        if namespace is None:
            return head
        newest = await Store(self.db).list_items(namespace, limit=1)
        written = [f"{item.updated_at.isoformat()} {item.version}" for item in newest]
        return replace(head, mark=f"{head.mark} {written}")

    async def rows_of_stores(
        self, wanted: Iterable[str], selection: Selection
    ) -> AsyncGenerator[tuple[str, Row]]:
        """Yield the rows of stores, of the *wanted* tables."""
        chosen = frozenset(wanted)
        async for item in selected_items(self.db, selection, self.damage):
            if "items" in chosen:
                yield "items", item_row(self.db.tenant, item)
            if "memories" in chosen and (row := memory_row(self.db.tenant, item)) is not None:
                yield "memories", row

    async def log_heads(
        self, selection: Selection, *, order: str = "newest"
    ) -> AsyncGenerator[list[LogHead]]:
        """Yield the heads of the selected logs, page by page.

        Args:
            order: ``newest``, the last written first, or ``name``, in which a log that is written
                meanwhile keeps its place.
        """
        if not selection.metadata:
            async with aclosing(self._scan_heads(selection, selection.thread, order)) as pages:
                async for heads in pages:
                    yield heads
            return
        for thread_id in await selected_threads(
            self.db, None, selection.metadata, None, self.damage
        ):
            if selection.thread in (None, thread_id):
                async with aclosing(self._scan_heads(selection, thread_id, order)) as pages:
                    async for heads in pages:
                        yield heads

    async def _scan_heads(
        self, selection: Selection, thread_id: str | None, order: str
    ) -> AsyncGenerator[list[LogHead]]:
        path, below = selection.place
        binds = namespace_binds(self.db.tenant, encode_namespace(path), below=below)
        scope = "namespace" if not below else "below" if path else "tenant"
        matches = re.compile(fnmatch.translate(selection.pattern)).match
        which = "all"
        if thread_id is not None:
            which = "thread"
            binds["k_thread_id"] = thread_id
        elif (id_range := range_of_glob(selection.pattern)) is not None:
            which = "prefix"
            binds |= {"p_low": id_range[0], "p_high": id_range[1]}
        if selection.since is not None:
            active = truncate_to_second(selection.since)
            binds |= {"p_since": selection.since, "p_active_since": active}

        def page(after: bool) -> Any:
            return statements.list_marked_heads(
                self.db.dialect,
                order=order,
                scope=scope,
                which=which,
                since=selection.since is not None,
                after=after,
            )

        pages = scan(
            self.db, page, binds, partial(_place, order), replica_ok=True, damage=self.damage
        )
        async with aclosing(pages):
            async for rows in pages:
                yield [_head(row) for row in rows if matches(row.thread_id)]


def _only(chosen: frozenset[str], rows: Rows) -> Rows:
    return ((name, row) for name, row in rows if name in chosen)


def _place(order: str, row: Any) -> Mapping[str, Any]:
    """Return the values behind which the next page begins; ``None`` of a cell that is damaged."""
    names = {"p_thread_id": row.thread_id, "p_namespace": row.namespace}
    if order == "name":
        return names
    written = row.updated_at
    active = None if written is None else truncate_to_second(written)
    return names | {"p_updated_at": written, "p_active_at": active}


def _head(row: Any) -> LogHead:
    content = f"{json_text(row.meta)} {row.forked_from}".encode("utf-8", "backslashreplace")
    changes = hashlib.blake2b(content, digest_size=8).hexdigest()
    return LogHead(
        row.thread_id,
        decode_namespace(row.namespace),
        row.meta,
        has_checkpoints=row.head_id is not None,
        has_entries=bool(row.has_entries),
        mark=f"{row.epoch} {row.version} {row.next_seq} {changes}",
        row=row,
    )
