"""Customers."""

import sqlalchemy as sa
from alembic import op

revision = "a1"
down_revision = None
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "customers",
        sa.Column("id", sa.Integer(), primary_key=True),
        sa.Column("name", sa.String(80), nullable=False),
    )
    op.execute("INSERT INTO customers (id, name) VALUES (1, 'Ada')")


def downgrade() -> None:
    op.drop_table("customers")
