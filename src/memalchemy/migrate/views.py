"""Views of the tables for people's own SQL: live rows, with times, namespaces and known metadata.

They are made on request, and belong to no revision. While revisions run, which may change the
columns that they read, they are dropped; then they are created as this release has them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import sqlalchemy as sa
from sqlalchemy import ColumnElement, Connection, Select

from memalchemy.dialects import Dialect
from memalchemy.dialects.base import quoted
from memalchemy.keys import INTERNAL_RANGE
from memalchemy.schema import Base

TEXTS = ("agent", "user_id", "model")
NUMBERS = ("input_tokens", "output_tokens", "cached_tokens", "cost_usd", "latency_ms")
"""The keys of metadata that have columns of their own."""

VIEWS = (
    "memalchemy_threads",
    "memalchemy_checkpoints",
    "memalchemy_entries",
    "memalchemy_items",
    "memalchemy_embeddings",
)
"""The names of the views."""


def create(
    connection: Connection,
    dialect: Dialect,
    schema: str | None = None,
    *,
    granted: Sequence[str] = (),
) -> None:
    """Create the views, or create them anew with the rights that others have on them.

    *granted* is what `drop` returned, if they were dropped before.

    Raises:
        CapabilityMissing: a view would pass row-level security on this server.
    """
    dialect.views.refuse_unusable(connection)
    rights = [*granted, *drop(connection, dialect, schema)]
    _run(connection, [*_create_statements(connection.dialect, dialect, schema), *rights])


def drop(connection: Connection, dialect: Dialect, schema: str | None = None) -> list[str]:
    """Drop the views that are there; return the statements that would grant the same rights."""
    there = list_views(connection, schema)
    granted = [
        grant for name in there for grant in dialect.views.grants(connection, _name(schema, name))
    ]
    _run(connection, _drop_statements(schema, there))
    return granted


def list_views(connection: Connection, schema: str | None = None) -> list[str]:
    """Return the names of the views that are there. Reads only."""
    found = set(sa.inspect(connection).get_view_names(schema))
    return [name for name in VIEWS if name in found]


def script_of_views(
    dialect: Dialect, schema: str | None = None, *, dropping: bool = False
) -> list[str]:
    """Return the statements of `create`, or of `drop`, without a database."""
    if dropping:
        return _drop_statements(schema, VIEWS)
    engine = sa.create_mock_engine(f"{dialect.sqlalchemy_name}://", lambda *_, **__: None)
    return _create_statements(engine.dialect, dialect, schema)


def _run(connection: Connection, statements: Sequence[str]) -> None:
    for statement in statements:
        connection.exec_driver_sql(statement)


def _name(schema: str | None, view: str) -> str:
    return f"{quoted(schema)}.{view}" if schema else view


def _drop_statements(schema: str | None, names: Sequence[str]) -> list[str]:
    return [f"DROP VIEW {_name(schema, name)}" for name in names]


def _create_statements(on: Any, dialect: Dialect, schema: str | None) -> list[str]:
    made = []
    for name, query in zip(VIEWS, _queries(dialect, schema), strict=True):
        body = query.compile(dialect=on, compile_kwargs={"literal_binds": True})
        made.append(f"CREATE VIEW {_name(schema, name)}{dialect.views.options} AS\n{body}")
    return made


def _queries(dialect: Dialect, schema: str | None) -> Iterator[Select[Any]]:
    tables = Base.metadata
    if schema is not None:
        tables = sa.MetaData()
        for table in Base.metadata.sorted_tables:
            table.to_metadata(tables, schema=schema)
    prefix = f"{schema}." if schema else ""
    threads, checkpoints, deltas, items, embeddings = (
        tables.tables[prefix + name]
        for name in ("threads", "checkpoints", "deltas", "store_items", "embeddings")
    )
    size = dialect.statements.byte_length
    log = [threads.c.tenant, threads.c.thread_id, _readable(threads.c.namespace)]
    item = [items.c.tenant, _readable(items.c.namespace), items.c.key]
    is_live = sa.and_(threads.c.deleted_at.is_(None), _unexpired(dialect, threads))
    low, high = (_text(end) for end in INTERNAL_RANGE)
    is_users = sa.or_(items.c.namespace < low, items.c.namespace >= high)

    yield sa.select(
        *log,
        threads.c.last_ordinal.label("checkpoints"),
        threads.c.head_id.label("newest_checkpoint_id"),
        threads.c.forked_from,
        *_metadata(dialect, threads),
        *_times(dialect, threads, "created_at", "updated_at", "expires_at"),
    ).where(is_live)
    yield (
        sa.select(
            *log,
            checkpoints.c.checkpoint_id,
            checkpoints.c.parent_id,
            checkpoints.c.seq.label("position"),
            checkpoints.c.ordinal,
            checkpoints.c.run_id,
            *_metadata(dialect, checkpoints),
            checkpoints.c.raw_size.label("raw_bytes"),
            checkpoints.c.stored_size.label("stored_bytes"),
            *_times(dialect, checkpoints, "occurred_at", "created_at"),
        )
        .join_from(checkpoints, threads, checkpoints.c.log_id == threads.c.log_id)
        .where(is_live)
    )
    yield (
        sa.select(
            *log,
            deltas.c.seq.label("position"),
            deltas.c.entry_key,
            size(deltas.c.payload).label("stored_bytes"),
            *_times(dialect, deltas, "occurred_at", "stored_at"),
        )
        .join_from(deltas, threads, deltas.c.log_id == threads.c.log_id)
        .where(deltas.c.kind == _text("entry"), is_live)
    )
    yield sa.select(
        *item,
        items.c.version,
        *_metadata(dialect, items),
        size(items.c.value).label("stored_bytes"),
        *_times(dialect, items, "created_at", "updated_at", "expires_at"),
    ).where(is_users, _unexpired(dialect, items))
    same = [embeddings.c[name] == items.c[name] for name in ("tenant", "namespace", "key")]
    # Not the vector: a view that reads a column keeps its type from being changed.
    yield (
        sa.select(*item, *(embeddings.c[n] for n in ("field", "model", "part", "dimensions")))
        .join_from(embeddings, items, sa.and_(*same))
        .where(is_users, _unexpired(dialect, items))
    )


def _readable(path: ColumnElement[str]) -> ColumnElement[str]:
    """Return a namespace as the command line writes it: ``users/ada``, and ``/`` of the root."""

    def number(value: int) -> ColumnElement[int]:
        return sa.literal_column(str(value), sa.Integer)

    length = sa.func.length(path)
    start = sa.func.substr(path, number(1), number(2))
    end = sa.func.substr(path, length - number(1), number(2))
    needs_slashes = sa.or_(path == _text("/"), start == _text("//"), end == _text("//"))
    inside = sa.func.substr(path, number(2), length - number(2))
    return sa.case((needs_slashes, path), else_=inside).label("namespace")


def _unexpired(dialect: Dialect, table: Any) -> ColumnElement[bool]:
    expires, now = table.c.expires_at, dialect.views.now or dialect.maintenance.utc_now
    return sa.or_(expires.is_(None), expires > sa.literal_column(now))


def _metadata(dialect: Dialect, table: Any) -> list[ColumnElement[Any]]:
    views, meta = dialect.views, table.c.meta
    texts = [views.text(meta, key).label(key) for key in TEXTS]
    numbers = [views.number(meta, key).label(key) for key in NUMBERS]
    return [*texts, *numbers, meta.label("metadata")]


def _times(dialect: Dialect, table: Any, *names: str) -> list[ColumnElement[Any]]:
    return [dialect.views.time(table.c[name]).label(name) for name in names]


def _text(value: str) -> ColumnElement[str]:
    return sa.literal_column(f"'{value}'", sa.String)
