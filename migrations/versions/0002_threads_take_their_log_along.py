"""SQLite: a head that is deleted takes its log along; an index is updated in one trigger.

Revision ID: 0002
Revises: 0001

A host may delete a `ThreadRow`. The foreign keys cascade, but SQLite heeds foreign keys only on a
connection that asked for it, and SQLAlchemy's do not ask. Without this trigger the log stayed
behind: payloads that were thought deleted, and positions that a new life of the thread collided
with.

SQLite does not say in which order two triggers on one event run. The old words were taken out of an
index after the new ones had been put in, so what both had was found no more: now one trigger does
both, and the index of metadata is built anew.

Other databases need none of this: there this revision changes nothing.
"""

from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None

# The oldest memalchemy release whose code still works on this schema.
oldest_release = "0.1.0"

LOG = ("checkpoints", "deltas")
KEY = ("tenant", "thread_id", "namespace")


META_TERMS = """(
  SELECT group_concat(lower(hex(key || char(31) || CASE
      WHEN type = 'text' THEN 't' || substr(atom, 1, 120)
      WHEN type IN ('integer', 'real') THEN 'n' || printf('%.12g', atom)
      ELSE type END)), ' ')
  FROM json_each({row}.meta))"""

# Of each index: its table, the column it is made of, what is indexed, and when there is any.
INDEXES = {
    "deltas_search": (
        "deltas",
        "search_text",
        "{row}.search_text",
        "{row}.search_text IS NOT NULL",
    ),
    "checkpoints_meta": ("checkpoints", "meta", META_TERMS, "{row}.meta <> '{{}}'"),
}


def upgrade() -> None:
    if op.get_context().dialect.name != "sqlite":
        return
    for table in LOG:  # what hosts have left behind so far
        same = " AND ".join(f"threads.{name} = {table}.{name}" for name in KEY)
        op.execute(f"DELETE FROM {table} WHERE NOT EXISTS (SELECT 1 FROM threads WHERE {same})")
    body = " ".join(
        f"DELETE FROM {table} WHERE {' AND '.join(f'{name} = old.{name}' for name in KEY)};"
        for table in LOG
    )
    op.execute(f"CREATE TRIGGER threads_delete AFTER DELETE ON threads BEGIN {body} END")
    for index, (table, column, _, _) in INDEXES.items():
        for when in ("old", "new"):
            op.execute(f"DROP TRIGGER {index}_update_{when}")
        op.execute(
            f"CREATE TRIGGER {index}_update AFTER UPDATE OF {column} ON {table} "
            f"BEGIN {_take(index)} {_put(index)} END"
        )
    op.execute("INSERT INTO checkpoints_meta(checkpoints_meta) VALUES ('delete-all')")
    op.execute(
        "INSERT INTO checkpoints_meta(rowid, terms) "
        f"SELECT rowid, {META_TERMS.format(row='checkpoints')} "
        "FROM checkpoints WHERE meta <> '{}'"
    )


def downgrade() -> None:
    if op.get_context().dialect.name != "sqlite":
        return
    op.execute("DROP TRIGGER threads_delete")
    for index, (table, column, _, there) in INDEXES.items():
        op.execute(f"DROP TRIGGER {index}_update")
        for when, body in (("old", _take(index)), ("new", _put(index))):
            op.execute(
                f"CREATE TRIGGER {index}_update_{when} AFTER UPDATE OF {column} ON {table} "
                f"WHEN {there.format(row=when)} BEGIN {body} END"
            )


def _take(index: str) -> str:
    _, _, words, there = INDEXES[index]
    return (
        f"INSERT INTO {index}({index}, rowid, {_named(index)}) SELECT 'delete', old.rowid, "
        f"{words.format(row='old')} WHERE {there.format(row='old')};"
    )


def _put(index: str) -> str:
    _, _, words, there = INDEXES[index]
    return (
        f"INSERT INTO {index}(rowid, {_named(index)}) SELECT new.rowid, "
        f"{words.format(row='new')} WHERE {there.format(row='new')};"
    )


def _named(index: str) -> str:
    return "terms" if index == "checkpoints_meta" else "search_text"
