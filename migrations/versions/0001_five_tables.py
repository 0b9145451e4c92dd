"""The five tables, and what each database adds: text index, metadata index, vector type.

Revision ID: 0001
Revises:

Frozen: it imports nothing of memalchemy's schema, so it builds the same tables in ten years. The
drift test holds it against `memalchemy.schema`.
"""

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


def _dialect() -> str:
    return op.get_context().dialect.name


def _options() -> dict:
    return op.get_context().opts


def _schema() -> str | None:
    return _options().get("memalchemy_schema")


def _qualified(name: str) -> str:
    quote = op.get_context().dialect.identifier_preparer.quote
    return f"{quote(_schema())}.{quote(name)}" if _schema() else quote(name)


def _key(length: int) -> sa.types.TypeEngine:
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def _time() -> sa.types.TypeEngine:
    return (
        sa.DateTime()
        .with_variant(postgresql.TIMESTAMP(timezone=True), "postgresql")
        .with_variant(oracle.TIMESTAMP(), "oracle")
    )


def _json() -> sa.types.TypeEngine:
    return sa.JSON().with_variant(postgresql.JSONB(), "postgresql")


class _Raw(sa.types.UserDefinedType):
    """A column type by its SQL name, for types that SQLAlchemy 2.0 does not know."""

    cache_ok = True

    def __init__(self, name: str) -> None:
        self.name = name

    def get_col_spec(self, **kw: object) -> str:
        return self.name


def _column(
    name: str, type_: sa.types.TypeEngine, nullable: bool = False, **kw: object
) -> sa.Column:
    return sa.Column(name, type_, nullable=nullable, **kw)


def _log_key() -> list[sa.Column]:
    return [
        _column("tenant", _key(64)),
        _column("thread_id", _key(510)),
        _column("namespace", _key(512)),
    ]


def _in_a_thread(table: str) -> sa.ForeignKeyConstraint:
    prefix = f"{_schema()}." if _schema() else ""
    return sa.ForeignKeyConstraint(
        ["tenant", "thread_id", "namespace"],
        [f"{prefix}threads.{name}" for name in ("tenant", "thread_id", "namespace")],
        ondelete="CASCADE",
        name=f"fk_{table}_threads",
    )


def upgrade() -> None:
    _refuse_foreign_tables()
    _create_tables(_vector_type())
    _create_indexes()
    {"sqlite": _sqlite_extras, "postgresql": _postgresql_extras, "oracle": _oracle_extras}[
        _dialect()
    ]()


def downgrade() -> None:
    _refuse_rows()
    if _dialect() == "sqlite":
        op.execute("DROP TABLE deltas_search")
        op.execute("DROP TABLE checkpoints_meta")
    for table in ("embeddings", "store_items", "deltas", "checkpoints", "threads"):
        op.drop_table(table, schema=_schema())


def _refuse_foreign_tables() -> None:
    if op.get_context().as_sql:
        return
    inspector = sa.inspect(op.get_bind())
    there = {*inspector.get_table_names(_schema()), *inspector.get_view_names(_schema())}
    for table in TABLES:
        if table in there:
            raise ForeignTable(table, _schema())


def _refuse_rows() -> None:
    if op.get_context().as_sql or _options().get("memalchemy_delete_rows"):
        return
    for table in TABLES:
        found = sa.select(sa.literal(1)).select_from(sa.table(table, schema=_schema())).limit(1)
        if table == "store_items":
            found = found.where(sa.column("tenant") != "~")
        if op.get_bind().execute(found).first() is not None:
            raise DowngradeRefused(
                f"table {table!r} holds rows, and this downgrade drops it; nothing was changed. "
                "Take a backup, then run it again with --delete-rows."
            )


def _vector_type() -> sa.types.TypeEngine:
    if _dialect() == "oracle":
        return _Raw("VECTOR(*, FLOAT32)")
    if _dialect() == "postgresql" and _options().get("memalchemy_pgvector", True):
        return _Raw("VECTOR")
    return sa.LargeBinary()


def _create_tables(vector: sa.types.TypeEngine) -> None:
    op.create_table(
        "threads",
        *_log_key(),
        _column("next_seq", sa.BigInteger()),
        _column("version", sa.BigInteger()),
        _column("epoch", sa.BigInteger()),
        _column("head_id", _key(255), nullable=True),
        _column("previous_id", _key(255), nullable=True),
        _column("meta", _json()),
        _column("forked_thread", _key(510), nullable=True),
        _column("forked_seq", sa.BigInteger(), nullable=True),
        _column("created_at", _time()),
        _column("updated_at", _time()),
        _column("expires_at", _time(), nullable=True),
        _column("deleted_at", _time(), nullable=True),
        sa.PrimaryKeyConstraint("tenant", "thread_id", "namespace", name="pk_threads"),
        schema=_schema(),
    )
    op.create_table(
        "checkpoints",
        *_log_key(),
        _column("checkpoint_id", _key(255)),
        _column("parent_id", _key(255), nullable=True),
        _column("seq", sa.BigInteger()),
        _column("run_id", _key(255), nullable=True),
        _column("meta", _json()),
        _column("raw_size", sa.BigInteger()),
        _column("stored_size", sa.BigInteger()),
        _column("occurred_at", _time()),
        _column("created_at", _time()),
        sa.PrimaryKeyConstraint(
            "tenant", "thread_id", "namespace", "checkpoint_id", name="pk_checkpoints"
        ),
        sa.UniqueConstraint(
            "tenant",
            "thread_id",
            "namespace",
            "seq",
            name="uq_checkpoints_tenant_thread_id_namespace_seq",
        ),
        _in_a_thread("checkpoints"),
        schema=_schema(),
    )
    op.create_table(
        "deltas",
        *_log_key(),
        _column("seq", sa.BigInteger(), autoincrement=False),
        _column("kind", sa.String(16)),
        _column("entry_key", _key(128), nullable=True),
        _column("parent_seq", sa.BigInteger(), nullable=True),
        _column("base_seq", sa.BigInteger(), nullable=True),
        _column("depth", sa.Integer()),
        _column("since_bytes", sa.BigInteger()),
        _column("raw_size", sa.BigInteger()),
        _column("codec", sa.String(16)),
        _column("checksum", sa.BigInteger()),
        _column("label", _key(255), nullable=True),
        _column("sort_key", _key(255), nullable=True),
        _column("status", sa.SmallInteger()),
        _column("search_text", sa.Text(), nullable=True),
        _column("occurred_at", _time()),
        _column("stored_at", _time()),
        # Last, so that SQLite reads the columns before it without walking overflow pages.
        _column("payload", sa.LargeBinary()),
        sa.PrimaryKeyConstraint("tenant", "thread_id", "namespace", "seq", name="pk_deltas"),
        _in_a_thread("deltas"),
        schema=_schema(),
    )
    op.create_table(
        "store_items",
        _column("tenant", _key(64)),
        _column("namespace", _key(512)),
        _column("key", _key(255)),
        _column("meta", _json()),
        _column("version", sa.BigInteger()),
        _column("codec", sa.String(16)),
        _column("checksum", sa.BigInteger()),
        _column("search_text", sa.Text(), nullable=True),
        _column("created_at", _time()),
        _column("updated_at", _time()),
        _column("expires_at", _time(), nullable=True),
        _column("value", sa.LargeBinary()),
        sa.PrimaryKeyConstraint("tenant", "namespace", "key", name="pk_store_items"),
        schema=_schema(),
    )
    prefix = f"{_schema()}." if _schema() else ""
    op.create_table(
        "embeddings",
        _column("tenant", _key(64)),
        _column("namespace", _key(512)),
        _column("key", _key(255)),
        _column("field", _key(128)),
        _column("model", _key(128)),
        _column("part", sa.Integer(), autoincrement=False),
        _column("dimensions", sa.Integer()),
        _column("change", sa.BigInteger()),
        _column("vector", vector),
        sa.PrimaryKeyConstraint(
            "tenant", "namespace", "key", "field", "model", "part", name="pk_embeddings"
        ),
        sa.ForeignKeyConstraint(
            ["tenant", "namespace", "key"],
            [f"{prefix}store_items.{name}" for name in ("tenant", "namespace", "key")],
            ondelete="CASCADE",
            name="fk_embeddings_store_items",
        ),
        schema=_schema(),
    )


def _create_indexes() -> None:
    def index(name: str, table: str, columns: list, where: str | None = None, **kw: object) -> None:
        if where:
            kw |= {"postgresql_where": sa.text(where), "sqlite_where": sa.text(where)}
        op.create_index(name, table, columns, schema=_schema(), **kw)

    index("ix_threads_tenant_namespace_thread_id", "threads", ["tenant", "namespace", "thread_id"])
    index("ix_threads_expires_at", "threads", ["expires_at"], "expires_at IS NOT NULL")
    index(
        "ix_checkpoints_run_id",
        "checkpoints",
        ["tenant", "run_id", "thread_id"],
        "run_id IS NOT NULL",
    )
    index(
        "ix_deltas_base_seq",
        "deltas",
        ["tenant", "thread_id", "namespace", "base_seq"],
        "base_seq IS NOT NULL",
    )
    index(
        "ix_store_items_tenant_namespace_updated_at_key",
        "store_items",
        ["tenant", "namespace", "updated_at", "key"],
    )
    index("ix_store_items_expires_at", "store_items", ["expires_at"], "expires_at IS NOT NULL")
    index(
        "ix_embeddings_tenant_namespace_model_dimensions",
        "embeddings",
        ["tenant", "namespace", "model", "dimensions"],
    )
    entry_key = ["tenant", "entry_key", "thread_id", "namespace"]
    if _dialect() == "oracle":
        # Oracle has no partial index and counts NULL in a composite key as a value.
        cases = [sa.text(f"CASE WHEN entry_key IS NOT NULL THEN {name} END") for name in entry_key]
        index("uq_deltas_entry_key_oracle", "deltas", cases, unique=True)
    else:
        index("uq_deltas_entry_key", "deltas", entry_key, "entry_key IS NOT NULL", unique=True)
    if _dialect() == "sqlite":
        index(
            "ix_embeddings_tenant_namespace_change", "embeddings", ["tenant", "namespace", "change"]
        )


def _sqlite_extras() -> None:
    op.execute(
        "CREATE VIRTUAL TABLE deltas_search USING fts5(search_text, content='deltas', "
        f"content_rowid='rowid', columnsize=0, tokenize=\"{FTS5_TOKENIZE}\")"
    )
    put = "INSERT INTO deltas_search(rowid, search_text) VALUES (new.rowid, new.search_text);"
    take = (
        "INSERT INTO deltas_search(deltas_search, rowid, search_text) "
        "VALUES ('delete', old.rowid, old.search_text);"
    )
    op.execute(
        "CREATE TRIGGER deltas_search_insert AFTER INSERT ON deltas "
        f"WHEN new.search_text IS NOT NULL BEGIN {put} END"
    )
    op.execute(
        "CREATE TRIGGER deltas_search_delete AFTER DELETE ON deltas "
        f"WHEN old.search_text IS NOT NULL BEGIN {take} END"
    )
    op.execute(
        "CREATE TRIGGER deltas_search_update_old AFTER UPDATE OF search_text ON deltas "
        f"WHEN old.search_text IS NOT NULL BEGIN {take} END"
    )
    op.execute(
        "CREATE TRIGGER deltas_search_update_new AFTER UPDATE OF search_text ON deltas "
        f"WHEN new.search_text IS NOT NULL BEGIN {put} END"
    )

    op.execute(
        "CREATE VIRTUAL TABLE checkpoints_meta USING fts5(terms, content='', columnsize=0, "
        "detail=none, tokenize='ascii')"
    )
    put = (
        "INSERT INTO checkpoints_meta(rowid, terms) "
        f"VALUES (new.rowid, {META_TERMS.format(row='new')});"
    )
    take = (
        "INSERT INTO checkpoints_meta(checkpoints_meta, rowid, terms) "
        f"VALUES ('delete', old.rowid, {META_TERMS.format(row='old')});"
    )
    for name, event, row, body in (
        ("insert", "INSERT", "new", put),
        ("delete", "DELETE", "old", take),
        ("update_old", "UPDATE OF meta", "old", take),
        ("update_new", "UPDATE OF meta", "new", put),
    ):
        # Colons would read as bind parameters; there are none in these texts.
        op.execute(
            f"CREATE TRIGGER checkpoints_meta_{name} AFTER {event} ON checkpoints "
            f"WHEN {row}.meta <> '{{}}' BEGIN {body} END"
        )


def _postgresql_extras() -> None:
    deltas, checkpoints = _qualified("deltas"), _qualified("checkpoints")
    # Payloads are compressed already: EXTERNAL keeps them out of line without trying again.
    op.execute(f"ALTER TABLE {deltas} ALTER COLUMN payload SET STORAGE EXTERNAL")
    op.execute(
        f"CREATE INDEX ix_deltas_search_text ON {deltas} "
        "USING gin (to_tsvector('simple', search_text)) WHERE search_text IS NOT NULL"
    )
    op.execute(f"CREATE INDEX ix_checkpoints_meta ON {checkpoints} USING gin (meta jsonb_path_ops)")
    # Every save updates this row in place; room on the page keeps the updates HOT.
    op.execute(f"ALTER TABLE {_qualified('threads')} SET (fillfactor = 70)")


def _oracle_extras() -> None:
    op.execute(
        f"CREATE INDEX {_qualified('ix_deltas_search_text')} ON {_qualified('deltas')} "
        "(search_text) INDEXTYPE IS CTXSYS.CONTEXT "
        "PARAMETERS ('STOPLIST CTXSYS.EMPTY_STOPLIST SYNC (ON COMMIT)')"
    )
