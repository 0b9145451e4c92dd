"""Tickets. Made by `alembic revision --autogenerate`."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import oracle

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "tickets",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("customer", sa.String(length=200), nullable=False),
        sa.Column("subject", sa.String(length=500), nullable=False),
        sa.Column(
            "log_id",
            sa.LargeBinary()
            .with_variant(sa.Uuid(), "postgresql")
            .with_variant(oracle.RAW(16), "oracle"),
            nullable=False,
        ),
        sa.ForeignKeyConstraint(["log_id"], ["threads.log_id"], ondelete="CASCADE"),
        sa.PrimaryKeyConstraint("id"),
    )


def downgrade() -> None:
    op.drop_table("tickets")
