"""Alembic's entry for a checkout: ``alembic upgrade head`` with MEMALCHEMY_URL or ``-x url=…``.

Also ``-x schema=…`` and, for a downgrade, ``-x delete-rows=yes``. The work is
`memalchemy.migrate`'s; an installed package upgrades with ``memalchemy upgrade``.
"""

import asyncio
import os

from alembic import context

from memalchemy import Database, migrate


async def main(url: str, schema: str | None) -> None:
    database = Database(url, schema=schema, migrate="off")
    try:
        await database.run_sync(
            lambda connection: migrate.run_environment(
                context, connection=connection, dialect=database.dialect.name, schema=schema
            )
        )
    finally:
        await database.close()


arguments = context.get_x_argument(as_dictionary=True)
url = arguments.get("url") or os.environ.get("MEMALCHEMY_URL")
if not url:
    raise SystemExit("set MEMALCHEMY_URL, or pass -x url=postgresql://user@host/database")
if context.is_offline_mode():
    migrate.run_environment(
        context,
        connection=None,
        dialect=Database(url, migrate="off").dialect.name,
        schema=arguments.get("schema"),
    )
else:
    asyncio.run(main(url, arguments.get("schema")))
