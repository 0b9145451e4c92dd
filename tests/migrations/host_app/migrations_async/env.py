"""The host's env.py as `alembic init -t async` writes it, and memalchemy's three lines."""

import asyncio

from alembic import context
from host_models import HostBase
from sqlalchemy import Connection, pool
from sqlalchemy.ext.asyncio import create_async_engine

from memalchemy import migrate

url = context.get_x_argument(as_dictionary=True)["url"]


def do_run_migrations(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=HostBase.metadata,
        include_name=migrate.include_name(),
        render_item=migrate.render_item(),
    )
    with context.begin_transaction():
        context.run_migrations()
        migrate.upgrade_alongside(context)


async def run_async_migrations() -> None:
    connectable = create_async_engine(url, poolclass=pool.NullPool)
    async with connectable.connect() as connection:
        await connection.run_sync(do_run_migrations)
    await connectable.dispose()


asyncio.run(run_async_migrations())
