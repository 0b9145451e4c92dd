"""The service's Alembic environment: `alembic upgrade heads` runs both chains."""

from __future__ import annotations

import asyncio
import os

from alembic import context
from models import Base
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine

from memalchemy import migrate


def run_migrations(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=Base.metadata,
        include_name=migrate.include_name(),
        render_item=migrate.render_item(),
    )
    with context.begin_transaction():
        migrate.upgrade_alongside(context)  # first: tickets refer to its threads
        context.run_migrations()


async def run_async_migrations() -> None:
    engine = create_async_engine(os.environ["DATABASE_URL"])
    async with engine.connect() as connection:
        await connection.run_sync(run_migrations)
        await connection.commit()
    await engine.dispose()


asyncio.run(run_async_migrations())
