"""A head that is deleted takes its log along on SQLite too, whatever the connection's settings.

Revision ID: 0002
Revises: 0001

A host may delete a `ThreadRow`. The foreign keys cascade, but SQLite heeds foreign keys only on a
connection that asked for it, and SQLAlchemy's do not ask. Without this trigger the log stayed
behind: payloads that were thought deleted, and positions that a new life of the thread collided
with. Other databases always heed theirs: there this revision changes nothing.
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


def downgrade() -> None:
    if op.get_context().dialect.name == "sqlite":
        op.execute("DROP TRIGGER threads_delete")
