"""The service's Alembic environment: `alembic upgrade heads` runs both chains."""

from __future__ import annotations

import asyncio
import os
from logging.config import fileConfig
from typing import Any

from alembic import context
from models import Base
from sqlalchemy.ext.asyncio import create_async_engine

from memalchemy import migrate

fileConfig(context.config.config_file_name)


def run_migrations(**where: Any) -> None:
    context.configure(
        **where,
        target_metadata=Base.metadata,
        include_name=migrate.include_name(),
        render_item=migrate.render_item(),
    )
    with context.begin_transaction():
        migrate.upgrade_alongside(context)  # first: tickets refer to its threads
        context.run_migrations()


async def run_on_the_database() -> None:
    engine = create_async_engine(os.environ["DATABASE_URL"])
    async with engine.connect() as connection:
        await connection.run_sync(lambda sync: run_migrations(connection=sync))
        await connection.commit()
    await engine.dispose()


if context.is_offline_mode():
    run_migrations(url=os.environ["DATABASE_URL"], literal_binds=True)  # upgrade heads --sql
else:
    asyncio.run(run_on_the_database())
