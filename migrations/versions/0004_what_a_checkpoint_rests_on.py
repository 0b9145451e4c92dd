"""Checkpoints: the one that a state is whole only together with.

Revision ID: 0004
Revises: 0003

A framework may store a step as what was written since an earlier checkpoint. `rests_on` names that
checkpoint, so that retention keeps it. The index finds what rests on one that is to go; it is empty
as long as nothing rests on anything, but on Oracle, which has no partial index.
"""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

# The oldest memalchemy release whose code still works on this schema.
oldest_release = "0.1.0"

INDEX = "ix_checkpoints_rests_on"


def upgrade() -> None:
    name = sa.String(255).with_variant(sa.String(255, collation="C"), "postgresql")
    op.add_column("checkpoints", sa.Column("rests_on", name, nullable=True), schema=_schema())
    op.create_index(
        INDEX,
        "checkpoints",
        ["tenant", "thread_id", "namespace", "rests_on"],
        schema=_schema(),
        postgresql_where=sa.text("rests_on IS NOT NULL"),
        sqlite_where=sa.text("rests_on IS NOT NULL"),
    )


def downgrade() -> None:
    op.drop_index(INDEX, "checkpoints", schema=_schema())
    op.drop_column("checkpoints", "rests_on", schema=_schema())


def _schema() -> str | None:
    return op.get_context().opts.get("memalchemy_schema")
