"""Checkpoints are counted; on SQLite every row that an index of words points to has a stable rowid.

Revision ID: 0004
Revises: 0003

``checkpoints.ordinal`` is the number of a checkpoint in its log, counted when it was saved, and
``threads.last_ordinal`` the highest number so far. A position does not count checkpoints: pending
writes and entries take positions too. An earlier release that still runs saves ordinal 0, which
retention by number keeps.

``checkpoints.rests_on`` names the checkpoint that a state is whole only together with: a framework
may store a step as what was written since an earlier one. Its index finds what rests on a
checkpoint that is to go; it is empty as long as nothing rests on anything, but on Oracle, which has
no partial index.

``threads.meta`` held the metadata of a thread's first checkpoint, and outlived that checkpoint. It
is emptied.

SQLite may renumber the implicit rowids of a table, at VACUUM and when a dump is restored, and the
text indexes and the caches of vectors refer to rows by them. An explicit INTEGER PRIMARY KEY named
``rowid`` keeps its values. A table cannot be given one, so these four are built anew, with the
rowids that they had; ``threads`` is not, because hosts have foreign keys to it.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

# The oldest memalchemy release whose code still works on this schema.
oldest_release = "0.1.0"

RESTS_ON = "ix_checkpoints_rests_on"
LOG_KEY = ("tenant", "thread_id", "namespace")

META_TERMS = """(
  SELECT group_concat(lower(hex(key || char(31) || CASE
      WHEN type = 'text' THEN 't' || substr(atom, 1, 120)
      WHEN type IN ('integer', 'real') THEN 'n' || printf('%.12g', atom)
      ELSE type END)), ' ')
  FROM json_each({row}.meta))"""
SCOPE = "'x' || lower(hex({row}.tenant || char(31) || {row}.namespace))"
COUNT = (
    "UPDATE store_items SET version = version + 1, lifetime = version + 1, "
    "checksum = abs(random() % 9007199254740992) "
    "WHERE tenant = old.tenant AND namespace = '/~vectors/' "
    "AND (key = replace(old.namespace, char(26), char(26) || '1') OR key BETWEEN '#' AND '$') "
    "AND value = CAST(old.namespace AS BLOB);"
)

# Of each text index: its table, the column that it is of, what is indexed, and when there is any.
INDEXES = {
    "deltas_search": (
        "deltas",
        "search_text",
        {"search_text": "{row}.search_text"},
        "{row}.search_text IS NOT NULL",
    ),
    "checkpoints_meta": ("checkpoints", "meta", {"terms": META_TERMS}, "{row}.meta <> '{{}}'"),
    "store_items_search": (
        "store_items",
        "search_text, field_terms",
        {
            "scope": SCOPE,
            "search_text": "{row}.search_text",
            "field_terms": "{row}.field_terms",
        },
        "({row}.search_text IS NOT NULL OR {row}.field_terms IS NOT NULL)",
    ),
}


def upgrade() -> None:
    counter = sa.Column("last_ordinal", sa.BigInteger(), nullable=False, server_default="0")
    op.add_column("threads", counter, schema=_schema())
    dialect = op.get_context().dialect.name
    checkpoints = _qualified("checkpoints")
    order = f"row_number() OVER (PARTITION BY {', '.join(LOG_KEY)} ORDER BY seq)"
    if dialect == "sqlite":
        _rebuild(explicit=True)
    else:
        ordinal = sa.Column("ordinal", sa.BigInteger(), nullable=False, server_default="0")
        op.add_column("checkpoints", ordinal, schema=_schema())
    if dialect == "postgresql":
        same = " AND ".join(
            f"named.{name} = numbered.{name}" for name in (*LOG_KEY, "checkpoint_id")
        )
        op.execute(
            f"UPDATE {checkpoints} AS named SET ordinal = numbered.number FROM (SELECT "
            f"{', '.join(LOG_KEY)}, checkpoint_id, {order} AS number FROM {checkpoints}) "
            f"AS numbered WHERE {same}"
        )
    elif dialect == "oracle":
        same = " AND ".join(f"earlier.{name} = named.{name}" for name in LOG_KEY)
        op.execute(
            f"UPDATE {checkpoints} named SET ordinal = (SELECT count(*) FROM {checkpoints} earlier "
            f"WHERE {same} AND earlier.seq <= named.seq)"
        )
    threads = _qualified("threads")
    same = " AND ".join(f"named.{name} = head.{name}" for name in LOG_KEY)
    alias = "head" if dialect == "oracle" else "AS head"
    op.execute(
        f"UPDATE {threads} {alias} SET meta = '{{}}', last_ordinal = "
        f"(SELECT count(*) FROM {checkpoints} named WHERE {same})"
    )
    rests_on = sa.String(255).with_variant(sa.String(255, collation="C"), "postgresql")
    op.add_column("checkpoints", sa.Column("rests_on", rests_on, nullable=True), schema=_schema())
    op.create_index(
        RESTS_ON,
        "checkpoints",
        [*LOG_KEY, "rests_on"],
        schema=_schema(),
        postgresql_where=sa.text("rests_on IS NOT NULL"),
        sqlite_where=sa.text("rests_on IS NOT NULL"),
    )


def downgrade() -> None:
    op.drop_index(RESTS_ON, "checkpoints", schema=_schema())
    op.drop_column("checkpoints", "rests_on", schema=_schema())
    if op.get_context().dialect.name == "sqlite":
        _rebuild(explicit=False)
    else:
        op.drop_column("checkpoints", "ordinal", schema=_schema())
    op.drop_column("threads", "last_ordinal", schema=_schema())


# --- SQLite --------------------------------------------------------------------------------------


def _column(
    name: str, type_: sa.types.TypeEngine, nullable: bool = False, **kw: object
) -> sa.Column:
    return sa.Column(name, type_, nullable=nullable, **kw)


def _log_key() -> list[sa.Column]:
    return [
        _column("tenant", sa.String(64)),
        _column("thread_id", sa.String(510)),
        _column("namespace", sa.String(512)),
    ]


def _item_key() -> list[sa.Column]:
    return [
        _column("tenant", sa.String(64)),
        _column("namespace", sa.String(512)),
        _column("key", sa.String(255)),
    ]


# Of each table: its columns, its key, what it refers to, and with which columns.
def _tables() -> dict[str, tuple]:
    return {
        "checkpoints": (
            [
                *_log_key(),
                _column("checkpoint_id", sa.String(255)),
                _column("parent_id", sa.String(255), nullable=True),
                _column("seq", sa.BigInteger()),
                _column("run_id", sa.String(255), nullable=True),
                _column("meta", sa.JSON()),
                _column("raw_size", sa.BigInteger()),
                _column("stored_size", sa.BigInteger()),
                _column("occurred_at", sa.DateTime()),
                _column("created_at", sa.DateTime()),
            ],
            (*LOG_KEY, "checkpoint_id"),
            ("threads", LOG_KEY),
        ),
        "deltas": (
            [
                *_log_key(),
                _column("seq", sa.BigInteger(), autoincrement=False),
                _column("kind", sa.String(16)),
                _column("entry_key", sa.String(128), nullable=True),
                _column("parent_seq", sa.BigInteger(), nullable=True),
                _column("base_seq", sa.BigInteger(), nullable=True),
                _column("depth", sa.Integer()),
                _column("since_bytes", sa.BigInteger()),
                _column("raw_size", sa.BigInteger()),
                _column("codec", sa.String(16)),
                _column("checksum", sa.BigInteger()),
                _column("label", sa.String(255), nullable=True),
                _column("sort_key", sa.String(255), nullable=True),
                _column("status", sa.SmallInteger()),
                _column("search_text", sa.Text(), nullable=True),
                _column("occurred_at", sa.DateTime()),
                _column("stored_at", sa.DateTime()),
                # Last, so that SQLite reads the columns before it without its overflow pages.
                _column("payload", sa.LargeBinary()),
            ],
            (*LOG_KEY, "seq"),
            ("threads", LOG_KEY),
        ),
        "store_items": (
            [
                *_item_key(),
                _column("meta", sa.JSON()),
                _column("version", sa.BigInteger()),
                _column("codec", sa.String(16)),
                _column("checksum", sa.BigInteger()),
                _column("search_text", sa.Text(), nullable=True),
                _column("field_terms", sa.Text(), nullable=True),
                _column("created_at", sa.DateTime()),
                _column("updated_at", sa.DateTime()),
                _column("expires_at", sa.DateTime(), nullable=True),
                _column("lifetime", sa.BigInteger(), nullable=True),
                _column("value", sa.LargeBinary()),
            ],
            ("tenant", "namespace", "key"),
            None,
        ),
        "embeddings": (
            [
                *_item_key(),
                _column("field", sa.String(128)),
                _column("model", sa.String(128)),
                _column("part", sa.Integer(), autoincrement=False),
                _column("dimensions", sa.Integer()),
                _column("change", sa.BigInteger()),
                _column("vector", sa.LargeBinary()),
            ],
            ("tenant", "namespace", "key", "field", "model", "part"),
            ("store_items", ("tenant", "namespace", "key")),
        ),
    }


def _rebuild(explicit: bool) -> None:
    """Build the tables anew, with an *explicit* rowid and ordinals, or without them."""
    op.execute("DROP TRIGGER threads_delete")
    # Where foreign keys are on, dropping a table deletes what refers to its rows: so the vectors
    # wait in a table that refers to nothing until their items are back.
    op.execute("CREATE TABLE embeddings_kept AS SELECT rowid AS place, * FROM embeddings")
    op.execute("DROP TABLE embeddings")
    for table in ("checkpoints", "deltas", "store_items"):
        _fill(f"{table}_new", table, table, "rowid", explicit)
        op.execute(f"DROP TABLE {table}")
        # Without this, renaming looks through every trigger and view, of which a host's may refer
        # to the table that is not back yet.
        op.execute("PRAGMA legacy_alter_table = ON")
        op.execute(f"ALTER TABLE {table}_new RENAME TO {table}")
        op.execute("PRAGMA legacy_alter_table = OFF")
    _fill("embeddings", "embeddings", "embeddings_kept", "place", explicit)
    op.execute("DROP TABLE embeddings_kept")
    _create_indexes()
    _create_triggers()


def _fill(new: str, table: str, source: str, rowid: str, explicit: bool) -> None:
    """Make a table, called *new*, and fill it from *source*."""
    columns, key, parent = _tables()[table]
    names = [column.name for column in columns]
    values = [f'"{name}"' for name in names]
    if table == "checkpoints" and explicit:
        columns.append(_column("ordinal", sa.BigInteger(), server_default="0"))
        names.append("ordinal")
        values.append(f"row_number() OVER (PARTITION BY {', '.join(LOG_KEY)} ORDER BY seq)")
    constraints: list = [sa.PrimaryKeyConstraint(*key, name=f"pk_{table}")]
    if explicit:
        columns.insert(0, _column("rowid", sa.Integer()))
        constraints = [
            sa.PrimaryKeyConstraint("rowid", name=f"pk_{table}"),
            sa.UniqueConstraint(*key, name=f"uq_{table}_{'_'.join(key)}"),
        ]
    if table == "checkpoints":
        named = "uq_checkpoints_tenant_thread_id_namespace_seq"
        constraints.append(sa.UniqueConstraint(*LOG_KEY, "seq", name=named))
    if parent is not None:
        constraints.append(
            sa.ForeignKeyConstraint(
                parent[1],
                [f"{parent[0]}.{name}" for name in parent[1]],
                ondelete="CASCADE",
                name=f"fk_{table}_{parent[0]}",
            )
        )
    op.create_table(new, *columns, *constraints)
    listed = ", ".join(f'"{name}"' for name in names)
    op.execute(
        f"INSERT INTO {new} (rowid, {listed}) SELECT {rowid}, {', '.join(values)} "
        f"FROM {source} ORDER BY {rowid}"
    )


def _create_indexes() -> None:
    def index(name: str, columns: list, where: str | None = None, **kw: object) -> None:
        table = next(table for table in _tables() if name.split("_", 1)[1].startswith(table))
        kw |= {"sqlite_where": sa.text(where)} if where else {}
        op.create_index(name, table, columns, **kw)

    index("ix_checkpoints_run_id", ["tenant", "run_id", "thread_id"], "run_id IS NOT NULL")
    index("ix_deltas_base_seq", [*LOG_KEY, "base_seq"], "base_seq IS NOT NULL")
    entry_key = ["tenant", "entry_key", "thread_id", "namespace"]
    index("uq_deltas_entry_key", entry_key, "entry_key IS NOT NULL", unique=True)
    listed = ["tenant", "namespace", "updated_at", "key"]
    index("ix_store_items_tenant_namespace_updated_at_key", listed)
    index("ix_store_items_expires_at", ["expires_at"], "expires_at IS NOT NULL")
    kind = ["tenant", "namespace", "model", "dimensions"]
    index("ix_embeddings_tenant_namespace_model_dimensions", kind)
    index("ix_embeddings_tenant_namespace_change", ["tenant", "namespace", "change"])


def _create_triggers() -> None:
    """As revisions 0002 and 0003 have them."""
    for index, (table, columns, _, there) in INDEXES.items():
        for event, when, body in (
            ("INSERT", f" WHEN {there.format(row='new')}", _put(index)),
            ("DELETE", f" WHEN {there.format(row='old')}", _take(index)),
            (f"UPDATE OF {columns}", "", f"{_take(index)} {_put(index)}"),
        ):
            name = f"{index}_{event.split(' ')[0].lower()}"
            op.execute(f"CREATE TRIGGER {name} AFTER {event} ON {table}{when} BEGIN {body} END")
    body = " ".join(
        f"DELETE FROM {table} WHERE {' AND '.join(f'{name} = old.{name}' for name in LOG_KEY)};"
        for table in ("checkpoints", "deltas")
    )
    op.execute(f"CREATE TRIGGER threads_delete AFTER DELETE ON threads BEGIN {body} END")
    same = " AND ".join(f"{name} = old.{name}" for name in ("tenant", "namespace", "key"))
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
    _, _, columns, there = INDEXES[index]
    words = ", ".join(words.format(row="old") for words in columns.values())
    return (
        f"INSERT INTO {index}({index}, rowid, {', '.join(columns)}) SELECT 'delete', old.rowid, "
        f"{words} WHERE {there.format(row='old')};"
    )


def _put(index: str) -> str:
    _, _, columns, there = INDEXES[index]
    words = ", ".join(words.format(row="new") for words in columns.values())
    return (
        f"INSERT INTO {index}(rowid, {', '.join(columns)}) SELECT new.rowid, "
        f"{words} WHERE {there.format(row='new')};"
    )


def _schema() -> str | None:
    return op.get_context().opts.get("memalchemy_schema")


def _qualified(name: str) -> str:
    quote = op.get_context().dialect.identifier_preparer.quote
    return f"{quote(_schema())}.{quote(name)}" if _schema() else quote(name)
