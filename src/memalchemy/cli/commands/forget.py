"""The command forget."""

from __future__ import annotations

import shlex
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.formatting import count
from memalchemy.cli.options import DryRunOption, MetadataOption
from memalchemy.cli.parsers import format_namespace, parse_metadata, parse_namespace
from memalchemy.cli.thread_arguments import ThreadOption
from memalchemy.cli.usage_errors import UsageError, require_exactly_one, usage_errors
from memalchemy.errors import CapabilityMissing, NotFound

if TYPE_CHECKING:
    from memalchemy import Database
    from memalchemy.database import HostConnection


@command(
    "forget",
    example="memalchemy --db sqlite:///agent.db forget --metadata customer=42",
)
async def forget(
    ctx: Context,
    thread: ThreadOption = None,
    metadata: MetadataOption = None,
    namespace: Annotated[
        str | None,
        typer.Option(
            "--namespace",
            metavar="NAMESPACE",
            help="All items in NAMESPACE and below it, such as users/ada.",
        ),
    ] = None,
    threads: Annotated[
        bool,
        typer.Option(
            "--threads",
            help="With --namespace: also what threads have in NAMESPACE and below it.",
        ),
    ] = False,
    whole_tenant: Annotated[
        str | None,
        typer.Option("--whole-tenant", metavar="TENANT", help="Everything of TENANT, items too."),
    ] = None,
    person: Annotated[
        str | None,
        typer.Option(
            "--person",
            metavar="ID",
            help="All that is named after ID, or has it as a value of metadata.",
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            "--keep",
            metavar="NAME",
            help="With --person: a thread or namespace to leave. Repeatable.",
        ),
    ] = None,
    dry_run: DryRunOption = False,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
) -> int | None:
    """Erase a person, thread, namespace or tenant for good.

    Erases all that is named after a person or has their id in metadata, or one thread, or the
    threads and items of the store with some metadata, or the items of a namespace and below it,
    with --threads also what threads have there, or everything of a tenant. Says how much it is and
    asks first. With --metadata it lists the threads, and afterwards the threads and namespaces,
    such as facts/ada, that have one of its values as their name: they stay.
    """
    from memalchemy import Checkpointer
    from memalchemy.checkpoints.forget import selected_threads

    require_exactly_one(
        "--person, --thread, --metadata, --namespace or --whole-tenant",
        person,
        thread,
        metadata,
        namespace,
        whole_tenant,
    )
    if threads and namespace is None:
        raise UsageError("--threads needs --namespace")
    if person is not None:
        await _forget_person(ctx, person, keep or [], dry_run=dry_run, yes=yes)
        return None
    if keep:
        raise UsageError("--keep needs --person")
    of_tenant = f"of tenant {ctx.tenant!r}"
    async with ctx.database() as db:
        erase: Callable[..., Awaitable[int]]
        if namespace is not None:
            parts = parse_namespace(namespace)
            erase = partial(_forget_namespace, db, parts, threads)
            target = f"the namespace {format_namespace(parts)} {of_tenant}, and all below it"
        elif whole_tenant is not None:
            with usage_errors():
                of_that = Checkpointer(db.for_tenant(whole_tenant))
            erase = partial(of_that.forget, tenant=whole_tenant)
            target = f"tenant {whole_tenant!r}, in all its threads"
        elif thread is not None:
            erase = partial(Checkpointer(db).forget, thread_id=thread)
            target = f"thread {thread!r} {of_tenant}"
        else:
            wanted = parse_metadata(metadata) or {}
            erase = partial(Checkpointer(db).forget, metadata=wanted)
            target = f"all threads and items with metadata {wanted} {of_tenant}"
        only_items = namespace is not None and not threads
        if dry_run or not yes:
            shown: dict[str, list[str]] = {}
            with usage_errors():
                amount = await _count_erased(db, erase)
                if metadata is not None:
                    shown["threads"] = await selected_threads(db, None, wanted, None)
            if not ctx.as_data:
                for one in shown.get("threads", ()):
                    ctx.terminal.print(f"thread {one}")
            if dry_run:
                what = f"{_format_count(amount, only_items)} of {target}"
                _print_dry_run(ctx, amount, what, **shown)
                return None
            if amount:
                ctx.terminal.require_consent(
                    f"Erase {_format_count(amount, only_items)} of {target}? This cannot be "
                    "undone.",
                    "erased",
                )
        with usage_errors():
            erased = await erase()
        if only_items:
            await _note_threads(ctx, db, parts)
        elif metadata:
            await _note_named_after(ctx, db, [str(value) for value in wanted.values()])
    if not erased:
        said = f"nothing was erased: there is nothing of {target}"
        if metadata:
            said += "; what is only named after somebody has no metadata (docs/erasure.md)"
        raise NotFound(said)
    if ctx.as_data:
        ctx.terminal.print_data({"erased": erased})
    else:
        ctx.terminal.print(f"{_format_count(erased, only_items)} erased")
    return None


async def _forget_person(
    ctx: Context, person: str, keep: list[str], *, dry_run: bool, yes: bool
) -> None:
    """Show what is stored of a person, ask, erase it, and say what is left."""
    from memalchemy.maintenance.person import find_person, forget_person

    if not person.strip():
        raise UsageError("--person is empty: is the variable set that it was to have?")
    kept: set[str | tuple[str, ...]] = {*keep, *(parse_namespace(one) for one in keep if one)}
    async with ctx.database() as db:
        found = await find_person(db, person, keep=kept)
        if not found:
            raise NotFound(
                f"nothing of tenant {ctx.tenant!r} is named after {person!r}, and no metadata has "
                "it as a value; inside lists and objects of metadata nobody has looked. What "
                "frameworks keep of a person: docs/erasure.md"
            )
        lines = [
            *(f"thread {one}" for one in found.threads),
            *(f"items in {format_namespace(one)} and below" for one in found.namespaces),
            *(f"what threads have in {format_namespace(one)}" for one in found.log_namespaces),
            *(f"threads and items with metadata {one}" for one in found.metadata),
        ]
        if not ctx.as_data:
            for line in lines:
                ctx.terminal.print(line)
        erase = partial(forget_person, db, found)
        amount = 0 if yes and not dry_run else await _count_erased(db, erase)
        if dry_run:
            said = f"{_format_count(amount, False)} of {person!r}"
            _print_dry_run(ctx, amount, said, found=lines)
            return
        if not yes:
            ctx.terminal.require_consent(
                f"Erase {_format_count(amount, False)} of {person!r}? This cannot be undone.",
                "erased",
            )
        erased = await erase()
        left = await _list_what_is_left(db, person, kept)
    if ctx.as_data:
        ctx.terminal.print_data({"erased": erased, "found": lines, "left": left})
        return
    ctx.terminal.print(f"{_format_count(erased, False)} erased")
    for one in left[:_MOST_NAMED]:
        ctx.terminal.print_note(f"left: {one}")
    if len(left) > _MOST_NAMED:
        ctx.terminal.print_note(f"left: {len(left) - _MOST_NAMED:,} more, which --json lists")


async def _list_what_is_left(
    db: Database, person: str, kept: set[str | tuple[str, ...]]
) -> list[str]:
    """Return what may still be about a person, each with the command that shows or removes it."""
    from memalchemy.inspection import Inspector
    from memalchemy.maintenance.person import find_keys, find_person

    again = await find_person(db, person, keep=kept)
    left = [f"thread {one}, written meanwhile: run forget again" for one in again.threads]
    for namespace, key in await find_keys(db, person):
        name = format_namespace(namespace)
        remove = shlex.join(["memalchemy", "store", "rm", name, key])
        left.append(f"the item {key} in {name}, named so by its key: {remove}")
    try:
        found = await Inspector(db).search(person, limit=1, match="all")
    except CapabilityMissing:
        left.append(
            f"texts of others were not looked through for {person!r}: they are encrypted, and "
            "--readable text was not given as your application gives it"
        )
    else:
        if found["hits"]:
            search = shlex.join(["memalchemy", "search", person])
            left.append(f"texts of others that mention {person!r}: {search}")
    return left + [f"{one}, kept" for one in sorted(one for one in kept if isinstance(one, str))]


def _print_dry_run(ctx: Context, amount: int, what: str, **more: object) -> None:
    if ctx.as_data:
        ctx.terminal.print_data({"would_erase": amount} | more)
    else:
        ctx.terminal.print(f"{what} would be erased; nothing was changed")


def _format_count(number: int, only_items: bool) -> str:
    if only_items:
        return count(number, "item")
    return f"{number:,} checkpoints, entries and items"


async def _forget_namespace(
    db: Database,
    namespace: tuple[str, ...],
    threads: bool,
    *,
    connection: HostConnection | None = None,
) -> int:
    """Erase the items of a namespace and below it, with *threads* what threads have there, too."""
    from memalchemy import Checkpointer, Store

    erased = await Store(db).forget_namespace(namespace, connection=connection)
    if threads:
        erased += await Checkpointer(db).forget(namespace=namespace, connection=connection)
    return erased


async def _count_erased(db: Database, erase: Callable[..., Awaitable[int]]) -> int:
    """Count what would be erased: erase it in a transaction, and roll that back."""
    amount = 0
    try:
        async with db.transaction() as connection:
            amount = await erase(connection=connection)
            raise _RollBack
    except _RollBack:
        return amount


async def _note_threads(ctx: Context, db: Database, namespace: tuple[str, ...]) -> None:
    """Name the command that lists threads which are in the namespace, too."""
    from memalchemy import Checkpointer

    if await Checkpointer(db, namespace=namespace).list_logs(limit=1, below=True):
        name = format_namespace(namespace)
        ctx.terminal.print_note(
            f"there are threads in {name}, too, which stay: `memalchemy threads --namespace {name} "
            "--prefix` lists them, and forget --namespace … --threads erases what they have there"
        )


async def _note_named_after(ctx: Context, db: Database, values: list[str]) -> None:
    """Name the threads and namespaces that have one of *values* as their name, and stay."""
    from memalchemy import Checkpointer, Store

    stay = [
        f"the thread {value} (forget --thread {shlex.quote(value)})"
        for value in values
        if value and await Checkpointer(db).exists(value)
    ]
    last: tuple[str, ...] | None = None
    while page := await Store(db).list_namespaces(after=last):
        last = page[-1]
        stay += [
            f"{(name := format_namespace(one))} (forget --namespace {shlex.quote(name)})"
            for one in page
            if not set(values).isdisjoint(one)
        ]
    if stay:
        named = "; ".join(stay[:_MOST_NAMED])
        more = f"; and {len(stay) - _MOST_NAMED:,} more" if len(stay) > _MOST_NAMED else ""
        ctx.terminal.print_note(f"still there, by its name: {named}{more}")


_MOST_NAMED = 10


class _RollBack(Exception):
    """Ends a transaction so that it is rolled back."""
