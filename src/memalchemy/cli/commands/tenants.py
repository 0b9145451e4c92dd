"""Commands of ``memalchemy tenants``: list them, and separate them by row-level security."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.formatting import count
from memalchemy.cli.tables import Column
from memalchemy.errors import WallIncomplete

if TYPE_CHECKING:
    from memalchemy.database.tenant_wall import TenantWall

SqlOption = Annotated[bool, typer.Option("--sql", help="Print the SQL script, and do not connect.")]


@command("list", example="memalchemy --db sqlite:///agent.db tenants list")
async def list_(ctx: Context) -> None:
    """List the tenants that have a thread or an item."""
    async with ctx.database(read_only=True) as db:
        names = [each.tenant for each in await ctx.databases(db, "a list", all_tenants=True)]
    if ctx.as_data:
        ctx.terminal.print_data([{"tenant": name} for name in names])
        return
    ctx.terminal.print_table((Column("tenant", "id"),), ((name,) for name in names))
    ctx.terminal.print_note(count(len(names), "tenant"))


@command("enforce", example="memalchemy --db postgresql://owner@host/db tenants enforce")
async def enforce(
    ctx: Context,
    admin: Annotated[
        list[str] | None,
        typer.Option(
            "--admin",
            metavar="ROLE",
            help="Role that reaches all tenants, in place of earlier ones. Repeatable.",
        ),
    ] = None,
    leakproof: Annotated[
        bool,
        typer.Option(
            "--leakproof/--no-leakproof",
            help="As a superuser also mark PostgreSQL's functions of text search.",
        ),
    ] = True,
    sql: SqlOption = False,
) -> None:
    """Separate tenants by row-level security (PostgreSQL).

    A transaction then reaches only rows of the tenant that it has set, and memalchemy sets the
    tenant for everything that it sends. Needs the owner of the tables, to whom this applies, too.
    May be repeated.
    """
    from memalchemy.maintenance import tenants

    if sql:
        db = ctx.database(offline=True)
        _print_script(
            ctx,
            tenants.enforce_script(db.dialect, db.schema, admins=admin or (), leakproof=leakproof),
        )
        return
    async with ctx.database(migrate="off") as db:
        state = await tenants.enforce(db, admins=admin or (), leakproof=leakproof)
    _print_state(ctx, state)


@command("release", example="memalchemy --db postgresql://owner@host/db tenants release")
async def release(ctx: Context, sql: SqlOption = False) -> None:
    """Take down what `tenants enforce` has built.

    Policies of your own stay in force. Functions that were marked leakproof stay so.
    """
    from memalchemy.maintenance import tenants

    if sql:
        db = ctx.database(offline=True)
        _print_script(ctx, tenants.release_script(db.dialect, db.schema))
        return
    async with ctx.database(migrate="off") as db:
        state = await tenants.release(db)
    _print_state(ctx, state)


@command("status", example="memalchemy --db postgresql://app@host/db tenants status")
async def status(ctx: Context) -> None:
    """Say if row-level security separates tenants for this role.

    Run it as the role of the application. Only reads.
    """
    from memalchemy.maintenance import tenants

    async with ctx.database(migrate="off", read_only=True) as db:
        state = await tenants.status(db)
    _print_state(ctx, state)


def warnings_about(state: TenantWall) -> list[str]:
    """Return what is wrong with row-level security; nothing where it is off."""
    found = []
    if state.closed:
        found.append(str(WallIncomplete(state.closed, state.tables)).removesuffix("."))
    elif state.enforced and not state.is_whole:
        found.append(
            f"only {state.enforced} of {state.tables} tables are walled: run `tenants enforce`"
        )
    if state.enforced and state.sees_all:
        found.append(
            f"the role {state.role} passes row-level security and reaches all tenants: let the "
            "application connect as another"
        )
    if state.enforced and state.has_other_policies:
        found.append("other policies on these tables may let rows of other tenants pass")
    if state.is_active and state.leaky:
        found.append(
            "searches by words and metadata read all rows of the tenant: a superuser has to mark "
            f"{state.leaky} functions leakproof, see `tenants enforce --sql`"
        )
    return found


def _print_state(ctx: Context, state: TenantWall) -> None:
    warnings = warnings_about(state)
    if ctx.as_data:
        ctx.terminal.print_data(asdict(state) | {"warnings": warnings})
        return
    if not state.enforced and not state.closed:
        ctx.terminal.print("the tenants are not walled")
    else:
        if state.is_shut_out:
            reached = "no tenant"
        else:
            reached = "all tenants" if state.sees_all else "one tenant at a time"
        ctx.terminal.print(
            f"{state.enforced} of {state.tables} tables are walled; the role {state.role} reaches "
            f"{reached}"
        )
    for warning in warnings:
        ctx.terminal.print(f"warning: {warning}")


def _print_script(ctx: Context, statements: list[str]) -> None:
    if ctx.as_data:
        ctx.terminal.print_data({"statements": statements})
    else:
        ctx.terminal.print_raw("\n".join(statements))


COMMANDS = (list_, enforce, release, status)
