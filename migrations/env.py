"""Alembic's entry: ``alembic upgrade head`` in a checkout, or with an ini file of one's own.

The database is ``-x url=…``, or MEMALCHEMY_URL, or ``sqlalchemy.url`` of the ini file, or
DATABASE_URL: the first that is given. The schema is ``-x schema=…`` or
MEMALCHEMY_SCHEMA; for a downgrade there is ``-x delete-rows=yes``. An upgrade and a downgrade print
the database, without its password, and the revisions that it moved from and to. The work is
`memalchemy.migrate`'s, as is that of ``memalchemy upgrade``.
"""

import asyncio
import os

from alembic import context
from alembic.util import CommandError

from memalchemy import Database, migrate
from memalchemy._environment import schema_of_environment
from memalchemy.dialects import parse_url
from memalchemy.errors import MemalchemyError


async def main(url: str, schema: str | None) -> None:
    database = Database(url, schema=schema, migrate="off")
    try:
        done = await database.run_sync(
            lambda connection: migrate.run_environment(
                context, connection=connection, dialect=database.dialect.name, schema=schema
            )
        )
    finally:
        await database.close()
    if done is not None:
        context.config.print_stdout("%s: %s", parse_url(url).display, done)


arguments = context.get_x_argument(as_dictionary=True)
url = (
    arguments.get("url")
    or os.environ.get("MEMALCHEMY_URL")
    or context.config.get_main_option("sqlalchemy.url")
    or os.environ.get("DATABASE_URL")
)
if not url:
    raise SystemExit(
        "no database was named: pass -x url=postgresql://user@host/database, or set "
        "MEMALCHEMY_URL, sqlalchemy.url in the ini file, or DATABASE_URL"
    )
schema = arguments.get("schema") or schema_of_environment(url)
if context.is_offline_mode():
    migrate.run_environment(
        context,
        connection=None,
        dialect=Database(url, migrate="off").dialect.name,
        schema=schema,
    )
else:
    try:
        asyncio.run(main(url, schema))
    except MemalchemyError as error:
        # Alembic's command line prints it without a traceback.
        raise CommandError(f"[{error.code}] {error}") from error
