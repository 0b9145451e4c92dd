"""Schema 1.0: the five tables, and what each database adds: text indexes, triggers, vector types.

Revision ID: 0001
Revises:

Frozen: it imports nothing of memalchemy's schema, so it builds the same tables in ten years. The
drift test holds it against `memalchemy.schema`. Only a third party's dialect has a say in it, for
its own database: by its column types, and by `create_extras` and `drop_extras`.

SQLite may renumber the implicit rowids of a table, at VACUUM and when a dump is restored, and the
text indexes and the caches of vectors refer to rows by them. So these tables have an explicit
INTEGER PRIMARY KEY named ``rowid``, which keeps its values.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import oracle, postgresql

from memalchemy.errors import DowngradeRefused, ForeignTable

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# The oldest memalchemy release whose code still works on this schema.
oldest_release = "0.1.0"

TABLES = ("threads", "checkpoints", "deltas", "store_items", "embeddings")
ITEM_KEY = ("tenant", "namespace", "key")

# The words are split, folded and lowered before they are stored; FTS5 only has to leave combining
# marks inside the words that they belong to.
FTS5_TOKENIZE = "unicode61 remove_diacritics 0 categories 'L* N* Co Mn Mc'"

# One token per (key, type, value) of the metadata: FTS5 serves as an index over every key there is.
# Numbers are cut to 12 digits and texts to 120 characters: the query looks at the value again.
META_TERMS = """(
  SELECT group_concat(lower(hex(key || char(31) || CASE
      WHEN type = 'text' THEN 't' || substr(atom, 1, 120)
      WHEN type IN ('integer', 'real') THEN 'n' || printf('%.12g', atom)
      ELSE type END)), ' ')
  FROM json_each({row}.meta))"""

# Each text index of SQLite: its table, the columns that it is of, its own columns with what is
# indexed (the first takes the least room), the condition that there is anything, and options. A
# search is of one tenant, or of one namespace and all below it, so that is a word of the index as
# well: a common word of a small tenant is found without reading all that holds it. The path is
# spelt so that what lies below begins with it.
INDEXES = {
    "deltas_search": (
        "deltas",
        "search_text",
        {"search_text": "{row}.search_text", "scope": "'x' || lower(hex({row}.tenant))"},
        "{row}.search_text IS NOT NULL",
        f'detail=column, tokenize="{FTS5_TOKENIZE}"',
    ),
    "checkpoints_meta": (
        "checkpoints",
        "meta",
        {"terms": META_TERMS},
        "{row}.meta <> '{{}}'",
        "detail=none, tokenize='ascii'",
    ),
    "store_items_search": (
        "store_items",
        "search_text, field_terms",
        {
            "search_text": "{row}.search_text",
            "field_terms": "{row}.field_terms",
            "scope": "'x' || lower(hex({row}.tenant || char(31) || {row}.namespace))",
        },
        "({row}.search_text IS NOT NULL OR {row}.field_terms IS NOT NULL)",
        f'detail=column, tokenize="{FTS5_TOKENIZE}"',
    ),
}

# A removed vector is counted, whoever removes it: caches of the namespace look again. The counter
# has the name that `memalchemy.search.cache_versions` gives it; of a long path it knows the path.
COUNT = (
    "UPDATE store_items SET version = version + 1, "
    "meta = json_object('nonce', abs(random() % 9007199254740992), 'removed', version + 1) "
    "WHERE tenant = old.tenant AND namespace = '/~vectors/' "
    "AND (key = replace(old.namespace, char(26), char(26) || '1') OR key BETWEEN '#' AND '$') "
    "AND value = CAST(old.namespace AS BLOB);"
)


def upgrade() -> None:
    _refuse_foreign_tables()
    _create_tables(_vector_type())
    _create_indexes()
    maintenance = _options()["memalchemy_dialect"].maintenance
    if not maintenance.create_extras(revision, op, _schema()):
        extras = {
            "sqlite": _sqlite_extras,
            "postgresql": _postgresql_extras,
            "oracle": _oracle_extras,
        }
        extras.get(_dialect(), _no_extras)()


def downgrade() -> None:
    _refuse_references()
    _refuse_rows()
    maintenance = _options()["memalchemy_dialect"].maintenance
    if not maintenance.drop_extras(revision, op, _schema()) and _dialect() == "sqlite":
        for index in INDEXES:
            op.execute(f"DROP TABLE {index}")
    for table in ("embeddings", "store_items", "deltas", "checkpoints", "threads"):
        op.drop_table(table, schema=_schema())


def _dialect() -> str:
    """SQLAlchemy's name of the database; a third party's is none of the three here."""
    return op.get_context().dialect.name


def _types() -> Any:
    """The `ColumnTypes` of a database that this revision does not know, else ``None``."""
    if _dialect() in ("sqlite", "postgresql", "oracle"):
        return None
    return _options()["memalchemy_dialect"].column_types


def _options() -> dict:
    return op.get_context().opts


def _schema() -> str | None:
    return _options().get("memalchemy_schema")


def _qualified(name: str) -> str:
    quote = op.get_context().dialect.identifier_preparer.quote
    return f"{quote(_schema())}.{quote(name)}" if _schema() else quote(name)


def _refuse_foreign_tables() -> None:
    if op.get_context().as_sql:
        return
    inspector = sa.inspect(op.get_bind())
    there = {*inspector.get_table_names(_schema()), *inspector.get_view_names(_schema())}
    for table in TABLES:
        if table in there:
            raise ForeignTable(table, _schema())


def _refuse_references() -> None:
    if op.get_context().as_sql:
        return
    inspector = sa.inspect(op.get_bind())
    default = inspector.default_schema_name
    ours = _schema() or default
    our_tables = {(ours, table) for table in TABLES}
    schemas = set(inspector.get_schema_names()) if _dialect() == "postgresql" else {default, ours}
    for schema in sorted(schemas - {"information_schema"}):
        for (_, table), keys in inspector.get_multi_foreign_keys(schema).items():
            for key in keys:
                place = (key["referred_schema"] or default), key["referred_table"]
                if (schema, table) not in our_tables and place in our_tables:
                    raise DowngradeRefused(
                        f"the table {table!r} has a foreign key to {key['referred_table']!r}, "
                        "which this downgrade drops; nothing was changed. Remove the key first: "
                        "if your own Alembic made it, downgrade to the revision before."
                    )


def _refuse_rows() -> None:
    if op.get_context().as_sql or _options().get("memalchemy_delete_rows"):
        return
    with _past_row_level_security():
        for table in TABLES:
            found = sa.select(sa.literal(1)).select_from(sa.table(table, schema=_schema())).limit(1)
            if table == "store_items":
                found = found.where(sa.column("tenant") != "~")
            if op.get_bind().execute(found).first() is not None:
                raise DowngradeRefused(
                    f"table {table!r} holds rows, and this downgrade drops it; nothing was "
                    "changed. Take a backup, then run it again with --delete-rows (with Alembic: "
                    "-x delete-rows=yes)."
                )


@contextmanager
def _past_row_level_security() -> Iterator[None]:
    """Show the owner, who alone may drop the tables, the rows of all tenants.

    Forced row-level security shows the owner too no more than one tenant's, and the rows of the
    others would be dropped unseen. An error in the block puts it back.
    """
    if _dialect() != "postgresql":
        yield
        return
    bind = op.get_bind()
    forced = sa.text("SELECT relforcerowsecurity FROM pg_class WHERE oid = CAST(:name AS regclass)")
    with bind.begin_nested():
        for table in TABLES:
            if bind.execute(forced, {"name": _qualified(table)}).scalar():
                op.execute(f"ALTER TABLE {_qualified(table)} NO FORCE ROW LEVEL SECURITY")
        yield


# --- Types and columns ---------------------------------------------------------------------------


class _Raw(sa.types.UserDefinedType):
    """A column type by its SQL name, for types that SQLAlchemy 2.0 does not know."""

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **kw: object) -> str:
        return self.name


def _vector_type() -> sa.types.TypeEngine:
    if types := _types():
        return types.vector().type
    if _dialect() == "oracle":
        return _Raw("VECTOR(*, FLOAT32)")
    if _dialect() == "postgresql" and _options().get("memalchemy_pgvector", True):
        return _Raw("VECTOR")
    return sa.LargeBinary()


def _key(length: int) -> sa.types.TypeEngine:
    if types := _types():
        return types.string(length)
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def _log_id() -> sa.types.TypeEngine:
    if types := _types():
        return types.log_key().type
    return (
        sa.LargeBinary()
        .with_variant(postgresql.UUID(), "postgresql")
        .with_variant(oracle.RAW(16), "oracle")
    )


def _time() -> sa.types.TypeEngine:
    if types := _types():
        return types.time().type
    return (
        sa.BigInteger()
        .with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")
        .with_variant(oracle.TIMESTAMP(), "oracle")
    )


def _json() -> sa.types.TypeEngine:
    if types := _types():
        return types.json().type
    return sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


def _signature() -> sa.Column:
    type_ = sa.LargeBinary().with_variant(oracle.RAW(80), "oracle")
    return _column("signature", type_, nullable=True)


def _column(
    name: str, type_: sa.types.TypeEngine, nullable: bool = False, **kw: object
) -> sa.Column:
    return sa.Column(name, type_, nullable=nullable, **kw)


def _item_key() -> list[sa.Column]:
    return [
        _column("tenant", _key(64)),
        _column("namespace", _key(512)),
        _column("key", _key(255)),
    ]


def _key_of(table: str, *columns: str) -> list:
    """The primary key; on SQLite of tables that indexes point into a number, and a unique key."""
    if _dialect() != "sqlite" or table == "threads":
        return [sa.PrimaryKeyConstraint(*columns, name=f"pk_{table}")]
    return [
        sa.PrimaryKeyConstraint("rowid", name=f"pk_{table}"),
        sa.UniqueConstraint(*columns, name=f"uq_{table}_{'_'.join(columns)}"),
    ]


def _rowid() -> list[sa.Column]:
    return [_column("rowid", sa.Integer())] if _dialect() == "sqlite" else []


def _refers(table: str, to: str, columns: tuple[str, ...]) -> sa.ForeignKeyConstraint:
    prefix = f"{_schema()}." if _schema() else ""
    return sa.ForeignKeyConstraint(
        columns,
        [f"{prefix}{to}.{name}" for name in columns],
        ondelete="CASCADE",
        name=f"fk_{table}_{to}",
    )


def _check(table: str, name: str, condition: str) -> sa.CheckConstraint:
    return sa.CheckConstraint(condition, name=op.f(f"ck_{table}_{name}"))


# --- Tables --------------------------------------------------------------------------------------


def _create_tables(vector: sa.types.TypeEngine) -> None:
    op.create_table(
        "threads",
        _column("log_id", _log_id()),
        _column("tenant", _key(64)),
        _column("thread_id", _key(510)),
        _column("namespace", _key(512)),
        _column("next_seq", sa.BigInteger()),
        _column("version", sa.BigInteger()),
        _column("last_ordinal", sa.BigInteger()),
        _column("epoch", sa.BigInteger()),
        _column("head_id", _key(255), nullable=True),
        _column("previous_id", _key(255), nullable=True),
        _column("meta", _json()),
        _column("forked_from", _key(510), nullable=True),
        _column("forked_seq", sa.BigInteger(), nullable=True),
        _column("created_at", _time()),
        _column("updated_at", _time()),
        _column("active_at", _time()),
        _column("expires_at", _time(), nullable=True),
        _column("deleted_at", _time(), nullable=True),
        _signature(),
        *_key_of("threads", "log_id"),
        _check("threads", "counters", "next_seq > 0 AND version > 0 AND last_ordinal >= 0"),
        schema=_schema(),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "checkpoints",
        *_rowid(),
        _column("log_id", _log_id()),
        _column("seq", sa.BigInteger(), autoincrement=False),
        _column("tenant", _key(64)),
        _column("checkpoint_id", _key(255)),
        _column("parent_id", _key(255), nullable=True),
        _column("ordinal", sa.BigInteger()),
        _column("rests_on", _key(255), nullable=True),
        _column("run_id", _key(255), nullable=True),
        _column("meta", _json()),
        _column("raw_size", sa.Integer()),
        _column("stored_size", sa.Integer()),
        _column("occurred_at", _time()),
        _column("created_at", _time()),
        _signature(),
        *_key_of("checkpoints", "log_id", "seq"),
        sa.UniqueConstraint("log_id", "checkpoint_id", name="uq_checkpoints_log_id_checkpoint_id"),
        _check("checkpoints", "position", "seq > 0 AND ordinal >= 0"),
        _check("checkpoints", "sizes", "raw_size >= 0 AND stored_size >= 0"),
        _refers("checkpoints", "threads", ("log_id",)),
        schema=_schema(),
    )
    op.create_table(
        "deltas",
        *_rowid(),
        _column("log_id", _log_id()),
        _column("seq", sa.BigInteger(), autoincrement=False),
        _column("tenant", _key(64)),
        _column("kind", sa.String(16)),
        _column("entry_key", _key(128), nullable=True),
        _column("label", _key(255), nullable=True),
        _column("base_seq", sa.BigInteger(), nullable=True),
        _column("depth", sa.Integer()),
        _column("radix", sa.SmallInteger(), nullable=True),
        _column("overwrites", sa.SmallInteger(), nullable=True),
        _column("codec", sa.String(16)),
        _column("checksum", sa.BigInteger()),
        _column("search_text", sa.Text(), nullable=True),
        _column("occurred_at", _time(), nullable=True),
        _column("stored_at", _time(), nullable=True),
        _signature(),
        # Last, so that SQLite reads the columns before it without walking overflow pages.
        _column("payload", sa.LargeBinary()),
        *_key_of("deltas", "log_id", "seq"),
        _check("deltas", "numbers", "seq > 0 AND depth >= 0"),
        _check(
            "deltas",
            "kind",
            "(kind = 'snapshot' AND base_seq IS NULL) "
            "OR (kind = 'delta' AND base_seq IS NOT NULL AND base_seq < seq) "
            "OR (kind = 'entry' AND occurred_at IS NOT NULL AND stored_at IS NOT NULL) "
            "OR (kind = 'write' AND label IS NOT NULL AND stored_at IS NOT NULL)",
        ),
        _refers("deltas", "threads", ("log_id",)),
        schema=_schema(),
    )
    op.create_table(
        "store_items",
        *_rowid(),
        *_item_key(),
        _column("meta", _json()),
        _column("version", sa.BigInteger()),
        _column("codec", sa.String(16)),
        _column("checksum", sa.BigInteger()),
        _column("search_text", sa.Text(), nullable=True),
        _column("field_terms", sa.Text(), nullable=True),
        _column("created_at", _time()),
        _column("updated_at", _time()),
        _column("expires_at", _time(), nullable=True),
        _column("lifetime", sa.BigInteger(), nullable=True),
        _signature(),
        _column("value", sa.LargeBinary()),
        *_key_of("store_items", *ITEM_KEY),
        _check("store_items", "version", "version > 0"),
        schema=_schema(),
    )
    op.create_table(
        "embeddings",
        *_rowid(),
        *_item_key(),
        _column("field", _key(128)),
        _column("model", _key(128)),
        _column("part", sa.Integer(), autoincrement=False),
        _column("dimensions", sa.Integer()),
        _column("change", sa.BigInteger()),
        _signature(),
        _column("vector", vector),
        *_key_of("embeddings", *ITEM_KEY, "field", "model", "part"),
        _check("embeddings", "numbers", "part >= 0 AND dimensions > 0 AND change >= 0"),
        _refers("embeddings", "store_items", ITEM_KEY),
        schema=_schema(),
    )


def _create_indexes() -> None:
    def index(table: str, columns: list, name: str | None = None, **kw: object) -> None:
        name = name or f"ix_{table}_{'_'.join(columns)}"
        where = kw.pop("where", None)
        if where:
            kw |= {"postgresql_where": sa.text(where), "sqlite_where": sa.text(where)}
        op.create_index(name, table, columns, schema=_schema(), **kw)

    def partial(table: str, columns: list, name: str, **kw: object) -> None:
        index(table, columns, name, where=f"{kw.pop('of')} IS NOT NULL", **kw)

    index("threads", ["tenant", "thread_id", "namespace"])
    index("threads", ["tenant", "active_at"])
    index("threads", ["tenant", "namespace", "active_at"])
    partial("checkpoints", ["log_id", "rests_on"], "ix_checkpoints_rests_on", of="rests_on")
    partial("checkpoints", ["tenant", "run_id"], "ix_checkpoints_run_id", of="run_id")
    partial("deltas", ["log_id", "base_seq"], "ix_deltas_base_seq", of="base_seq")
    index("store_items", ["tenant", "namespace", "updated_at", "key"])
    expiring = ["tenant", "expires_at"]
    partial("store_items", expiring, "ix_store_items_expires_at", of="expires_at")
    index("embeddings", ["tenant", "namespace", "model", "dimensions"])
    if _dialect() == "oracle":
        # Oracle has no partial index and counts NULL in a composite key as a value.
        cases = [
            sa.text(f"CASE WHEN entry_key IS NOT NULL THEN {name} END")
            for name in ("log_id", "entry_key")
        ]
        index("deltas", cases, "uq_deltas_entry_key_oracle", unique=True)
    else:
        name = "uq_deltas_entry_key"
        partial("deltas", ["log_id", "entry_key"], name, of="entry_key", unique=True)
    if _dialect() == "sqlite":
        index("embeddings", ["tenant", "namespace", "change"])


# --- What each database adds ---------------------------------------------------------------------


def _sqlite_extras() -> None:
    for index, (table, columns, words, there, options) in INDEXES.items():
        op.execute(
            f"CREATE VIRTUAL TABLE {index} USING fts5({', '.join(words)}, content='', "
            f"columnsize=0, {options})"
        )
        # SQLite does not say in which order two triggers on one event run: one does both.
        for event, when, body in (
            ("INSERT", f" WHEN {there.format(row='new')}", _put(index)),
            ("DELETE", f" WHEN {there.format(row='old')}", _take(index)),
            (f"UPDATE OF {columns}", "", f"{_take(index)} {_put(index)}"),
        ):
            name = f"{index}_{event.split(' ')[0].lower()}"
            op.execute(f"CREATE TRIGGER {name} AFTER {event} ON {table}{when} BEGIN {body} END")
    # SQLite heeds foreign keys only on a connection that asked for it, and SQLAlchemy's do not ask.
    gone = " ".join(
        f"DELETE FROM {table} WHERE log_id = old.log_id;" for table in ("checkpoints", "deltas")
    )
    op.execute(f"CREATE TRIGGER threads_delete AFTER DELETE ON threads BEGIN {gone} END")
    same = " AND ".join(f"{name} = old.{name}" for name in ITEM_KEY)
    op.execute(
        "CREATE TRIGGER store_items_delete AFTER DELETE ON store_items "
        f"BEGIN DELETE FROM embeddings WHERE {same}; END"
    )
    op.execute(f"CREATE TRIGGER embeddings_delete AFTER DELETE ON embeddings BEGIN {COUNT} END")
    op.execute(
        "CREATE TRIGGER embeddings_resize AFTER UPDATE OF dimensions ON embeddings "
        f"WHEN old.dimensions <> new.dimensions BEGIN {COUNT} END"
    )


def _take(index: str) -> str:
    _, _, columns, there, _ = INDEXES[index]
    words = ", ".join(words.format(row="old") for words in columns.values())
    return (
        f"INSERT INTO {index}({index}, rowid, {', '.join(columns)}) SELECT 'delete', old.rowid, "
        f"{words} WHERE {there.format(row='old')};"
    )


def _put(index: str) -> str:
    _, _, columns, there, _ = INDEXES[index]
    words = ", ".join(words.format(row="new") for words in columns.values())
    return (
        f"INSERT INTO {index}(rowid, {', '.join(columns)}) SELECT new.rowid, "
        f"{words} WHERE {there.format(row='new')};"
    )


def _postgresql_extras() -> None:
    deltas, items = _qualified("deltas"), _qualified("store_items")
    # Payloads are compressed already: EXTERNAL keeps them out of line without trying again.
    op.execute(f"ALTER TABLE {deltas} ALTER COLUMN payload SET STORAGE EXTERNAL")
    op.execute(f"ALTER TABLE {items} ALTER COLUMN value SET STORAGE EXTERNAL")
    # Of 1,536 dimensions a vector is moved out of its row otherwise, and read three times as
    # slowly.
    op.execute(f"ALTER TABLE {_qualified('embeddings')} ALTER COLUMN vector SET STORAGE MAIN")
    op.execute(
        f"CREATE INDEX ix_deltas_search_text ON {deltas} "
        "USING gin (to_tsvector('simple', search_text)) "
        "WITH (gin_pending_list_limit = 128) WHERE search_text IS NOT NULL"
    )
    # A range of values is a hundred prefixes, each compared with all words that the index has put
    # off: 60 ms for the server's own 4 MB.
    # Not coalesce(): below row-level security PostgreSQL takes it for a function that may leak, and
    # does not use the index.
    op.execute(
        f"CREATE INDEX ix_store_items_search ON {items} USING gin (("
        "to_tsvector('simple', CASE WHEN search_text IS NULL THEN '' ELSE search_text END) || "
        "to_tsvector('simple', CASE WHEN field_terms IS NULL THEN '' ELSE field_terms END) || "
        "array_to_tsvector(ARRAY[chr(31) || tenant || chr(31) || namespace]))) "
        "WITH (gin_pending_list_limit = 384)"
    )
    op.execute(
        f"CREATE INDEX ix_checkpoints_meta ON {_qualified('checkpoints')} "
        "USING gin (meta jsonb_path_ops) WHERE meta <> '{}'::jsonb"
    )
    # Every save updates this row in place; room on the page keeps the updates HOT.
    op.execute(f"ALTER TABLE {_qualified('threads')} SET (fillfactor = 70)")


def _no_extras() -> None:
    """A database that nobody knows has the tables and their indexes."""


def _oracle_extras() -> None:
    for name, table in (
        ("ix_deltas_search_text", "deltas"),
        ("ix_store_items_search", "store_items"),
    ):
        op.execute(
            f"CREATE INDEX {_qualified(name)} ON {_qualified(table)} "
            "(search_text) INDEXTYPE IS CTXSYS.CONTEXT "
            "PARAMETERS ('STOPLIST CTXSYS.EMPTY_STOPLIST SYNC (ON COMMIT)')"
        )
