"""The host's env.py as `alembic init` writes it, and memalchemy's three lines."""

from alembic import context
from host_models import HostBase
from sqlalchemy import create_engine, pool

from memalchemy import migrate

arguments = context.get_x_argument(as_dictionary=True)
url = arguments["url"]
schema = arguments.get("schema")


def run_migrations_offline() -> None:
    context.configure(
        url=url,
        target_metadata=HostBase.metadata,
        literal_binds=True,
        include_name=migrate.include_name(schema=schema),
        render_item=migrate.render_item(),
    )
    with context.begin_transaction():
        context.run_migrations()
        migrate.upgrade_alongside(context, schema=schema)


def run_migrations_online() -> None:
    connectable = create_engine(url, poolclass=pool.NullPool)
    with connectable.connect() as connection:
        context.configure(
            connection=connection,
            target_metadata=HostBase.metadata,
            include_name=migrate.include_name(schema=schema),
            render_item=migrate.render_item(),
        )
        with context.begin_transaction():
            context.run_migrations()
            migrate.upgrade_alongside(context, schema=schema)


if context.is_offline_mode():
    run_migrations_offline()
else:
    run_migrations_online()
