"""The store: how long a read prolongs an item, an index of words and fields, vectors in line.

Revision ID: 0003
Revises: 0002

A search is of one namespace, or of one and all below it, so the namespace is a word of the index as
well: a common word of a small namespace is found without reading all that holds it. The path is
spelt so that what lies below begins with it. ``field_terms`` has a word for each field that a
filter may ask for.
"""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None

# The oldest memalchemy release whose code still works on this schema.
oldest_release = "0.1.0"

# The words are split, folded and lowered before they are stored: see the first revision.
FTS5_TOKENIZE = "unicode61 remove_diacritics 0 categories 'L* N* Co Mn Mc'"

SCOPE = "'x' || lower(hex({row}.tenant || char(31) || {row}.namespace))"

# A vector that goes, whoever removes it, is counted: caches of the namespace look again. The
# counter is called as `memalchemy.search.counting` calls it; of a long path it knows the path.
COUNT = (
    "UPDATE store_items SET version = version + 1, lifetime = version + 1, "
    "checksum = abs(random() % 9007199254740992) "
    "WHERE tenant = old.tenant AND namespace = '/~vectors/' "
    "AND (key = replace(old.namespace, char(26), char(26) || '1') OR key BETWEEN '#' AND '$') "
    "AND value = CAST(old.namespace AS BLOB);"
)

THERE = "({row}.search_text IS NOT NULL OR {row}.field_terms IS NOT NULL)"
COLUMNS = "scope, search_text, field_terms"


def upgrade() -> None:
    table, dialect = _qualified("store_items"), op.get_context().dialect.name
    for name, type_ in (("lifetime", sa.BigInteger()), ("field_terms", sa.Text())):
        op.add_column("store_items", sa.Column(name, type_, nullable=True), schema=_schema())
    if dialect == "sqlite":
        _sqlite()
    elif dialect == "postgresql":
        op.execute(
            f"CREATE INDEX ix_store_items_search ON {table} USING gin (("
            "to_tsvector('simple', coalesce(search_text, '')) || "
            "to_tsvector('simple', coalesce(field_terms, '')) || "
            "array_to_tsvector(ARRAY[chr(31) || tenant || chr(31) || namespace])))"
        )
        op.execute(f"ALTER TABLE {table} ALTER COLUMN value SET STORAGE EXTERNAL")
        # Of 1,536 dimensions a vector is moved out of its row otherwise, and read three times as
        # slowly.
        op.execute(f"ALTER TABLE {_qualified('embeddings')} ALTER COLUMN vector SET STORAGE MAIN")
    else:
        op.execute(
            f"CREATE INDEX {_qualified('ix_store_items_search')} ON {table} (search_text) "
            "INDEXTYPE IS CTXSYS.CONTEXT "
            "PARAMETERS ('STOPLIST CTXSYS.EMPTY_STOPLIST SYNC (ON COMMIT)')"
        )


def downgrade() -> None:
    table, dialect = _qualified("store_items"), op.get_context().dialect.name
    if dialect == "sqlite":
        op.execute("DROP TRIGGER embeddings_resize")
        op.execute("DROP TRIGGER embeddings_delete")
        op.execute("DROP TRIGGER store_items_delete")
        for event in ("insert", "update", "delete"):
            op.execute(f"DROP TRIGGER store_items_search_{event}")
        op.execute("DROP TABLE store_items_search")
    else:
        op.drop_index("ix_store_items_search", "store_items", schema=_schema())
    if dialect == "postgresql":
        op.execute(f"ALTER TABLE {table} ALTER COLUMN value SET STORAGE EXTENDED")
        embeddings = _qualified("embeddings")
        op.execute(f"ALTER TABLE {embeddings} ALTER COLUMN vector SET STORAGE {_usual()}")
    for name in ("field_terms", "lifetime"):
        op.drop_column("store_items", name, schema=_schema())


def _sqlite() -> None:
    op.execute(
        f"CREATE VIRTUAL TABLE store_items_search USING fts5({COLUMNS}, content='', "
        f'columnsize=0, tokenize="{FTS5_TOKENIZE}")'
    )
    for event, body in (
        ("INSERT", _put()),
        ("DELETE", _take()),
        ("UPDATE OF search_text, field_terms", f"{_take()} {_put()}"),
    ):
        name = event.split(" ")[0].lower()
        op.execute(
            f"CREATE TRIGGER store_items_search_{name} AFTER {event} ON store_items "
            f"BEGIN {body} END"
        )
    op.execute(
        f"INSERT INTO store_items_search(rowid, {COLUMNS}) "
        f"SELECT rowid, {_words('store_items')} FROM store_items "
        f"WHERE {THERE.format(row='store_items')}"
    )

    # SQLite heeds foreign keys only on a connection that asked for it.
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


def _take() -> str:
    return (
        f"INSERT INTO store_items_search(store_items_search, rowid, {COLUMNS}) "
        f"SELECT 'delete', old.rowid, {_words('old')} WHERE {THERE.format(row='old')};"
    )


def _put() -> str:
    return (
        f"INSERT INTO store_items_search(rowid, {COLUMNS}) "
        f"SELECT new.rowid, {_words('new')} WHERE {THERE.format(row='new')};"
    )


def _words(row: str) -> str:
    return f"{SCOPE.format(row=row)}, {row}.search_text, {row}.field_terms"


def _usual() -> str:
    """How PostgreSQL stores the type of the vectors, if it is not told otherwise."""
    return "EXTERNAL" if op.get_context().opts.get("memalchemy_pgvector", True) else "EXTENDED"


def _schema() -> str | None:
    return op.get_context().opts.get("memalchemy_schema")


def _qualified(name: str) -> str:
    quote = op.get_context().dialect.identifier_preparer.quote
    return f"{quote(_schema())}.{quote(name)}" if _schema() else quote(name)
