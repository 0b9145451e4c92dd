"""The command reembed."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict, fields
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.exit_codes import CORRUPT, NOT_FOUND, OK
from memalchemy.cli.formatting import count
from memalchemy.cli.options import AllTenantsOption, DryRunOption
from memalchemy.cli.parsers import parse_namespace
from memalchemy.cli.usage_errors import UsageError, usage_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from memalchemy.contracts import Progress, ReembedReport

EMBEDDER_VARIABLE = "MEMALCHEMY_EMBEDDER"

LISTED = 20
"""Left items that a message lists."""


@command(
    "reembed",
    example="memalchemy --db sqlite:///agent.db reembed --namespace /users --embedder app.py:embed",
)
async def reembed(
    ctx: Context,
    embedder: Annotated[
        str | None,
        typer.Option(
            "--embedder",
            metavar="MODULE:FUNCTION",
            help="Function that returns the vectors of a list of texts, also FILE.py:FUNCTION or "
            f"MODULE:OBJECT.METHOD. [env: {EMBEDDER_VARIABLE}]",
        ),
    ] = None,
    model: Annotated[
        str,
        typer.Option("--model", metavar="NAME", help="Name under which its vectors are stored."),
    ] = "default",
    namespace: Annotated[
        list[str] | None,
        typer.Option(
            "--namespace",
            metavar="PATH",
            help="This namespace and below it, such as /docs. Repeatable.",
        ),
    ] = None,
    all_namespaces: Annotated[
        bool, typer.Option("--all-namespaces", help="All namespaces.")
    ] = False,
    index: Annotated[
        list[str] | None,
        typer.Option(
            "--index",
            metavar="FIELD",
            help="Embed this field, such as text or /author/name. Repeatable.",
        ),
    ] = None,
    again: Annotated[
        bool,
        typer.Option("--again", help="Also embed items that have vectors of the model and size."),
    ] = False,
    only_embedded: Annotated[
        bool, typer.Option("--only-embedded", help="Leave items without vectors.")
    ] = False,
    replace_model: Annotated[
        str | None,
        typer.Option(
            "--replace-model",
            metavar="NAME",
            help="Delete the vectors of this model from items that have the new ones.",
        ),
    ] = None,
    batch_size: Annotated[
        int,
        typer.Option("--batch-size", min=1, metavar="N", help="Texts in a call of the function."),
    ] = 100,
    all_tenants: AllTenantsOption = False,
    dry_run: DryRunOption = False,
) -> int:
    """Give items the vectors of a model that they lack.

    These are items without vectors, such as imported ones, and items whose vectors are of another
    model or of another size. The module of the function is imported, also from the current
    directory; the function may be a coroutine function.

    Agents may go on working. If it is interrupted, run it again. Ends with exit code 1 if items are
    left or the function fails, and 5 if some of them are damaged.
    """
    from memalchemy import Store

    ctx.refuse_two_tenants(all_tenants=all_tenants)
    if bool(namespace) == all_namespaces:
        raise UsageError("give --namespace, for each that is to be embedded, or --all-namespaces")
    with usage_errors():
        scopes = _without_those_below([parse_namespace(path) for path in namespace or ("/",)])
    function = _load_embedder(embedder or os.environ.get(EMBEDDER_VARIABLE))
    reports: list[ReembedReport] = []
    async with ctx.database(read_only=dry_run) as db:
        databases = await ctx.databases(db, "embedding items", all_tenants=all_tenants)
        with ctx.terminal.progress("embedding") as progress, usage_errors():
            before = now = 0

            def tell(state: Progress) -> None:
                nonlocal now
                now = before + state.total
                progress.update(before + state.done, now)

            for one in databases:
                store = Store(one, embedder=function, model=model)
                for scope in scopes:
                    report = await store.reembed(
                        scope,
                        prefix=True,
                        index=index or None,
                        again=again,
                        only_embedded=only_embedded,
                        replace_model=replace_model,
                        batch_size=batch_size,
                        dry_run=dry_run,
                        progress=tell,
                    )
                    reports.append(report)
                    before = now
    report = _sum_reports(reports)
    if ctx.as_data:
        ctx.terminal.print_data(asdict(report) | {"dry_run": dry_run})
    else:
        _print_report(ctx, report, model, dry_run=dry_run)
    if report.damaged:
        return CORRUPT
    return NOT_FOUND if report.left else OK


def _without_those_below(namespaces: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return *namespaces*, each once, without those that lie below another one."""
    different = set(namespaces)
    return sorted(
        one for one in different if not any(one[:end] in different for end in range(len(one)))
    )


def _load_embedder(name: str | None) -> Any:
    """Return the function that *name* names; modules of the current directory can be imported."""
    from memalchemy._named_objects import load_object

    if not name:
        raise UsageError(
            "reembed needs the function that makes vectors: give --embedder MODULE:FUNCTION or set "
            f"{EMBEDDER_VARIABLE}"
        )
    if (here := os.getcwd()) not in sys.path:
        sys.path.insert(0, here)
    try:
        found = load_object(name)
    except ValueError as error:
        raise UsageError(f"--embedder: {error}") from error
    except Exception as error:  # the module is the user's, and may raise anything
        raise UsageError(
            f"--embedder {name} cannot be imported: {type(error).__name__}: {error}"
        ) from error
    if not callable(found):
        raise UsageError(
            f"--embedder {name} is {type(found).__name__}, and no function of a list of texts"
        )
    return found


def _sum_reports(reports: Sequence[ReembedReport]) -> ReembedReport:
    """Return the report of several runs."""
    from memalchemy.contracts import ReembedReport

    found: dict[str, Any] = {
        one.name: [getattr(report, one.name) for report in reports] for one in fields(ReembedReport)
    }
    left_out = tuple(what for several in found.pop("left_out") for what in several)
    return ReembedReport(**{name: sum(of) for name, of in found.items()}, left_out=left_out)


def _print_report(ctx: Context, report: ReembedReport, model: str, *, dry_run: bool) -> None:
    done = "would get" if dry_run else "got"
    ctx.terminal.print(
        f"{count(report.embedded, 'item')} {done} {count(report.vectors, 'vector')} of the model "
        f"{model!r}; in {report.seconds:.1f} s"
    )
    if report.removed:
        ctx.terminal.print(f"{count(report.removed, 'earlier vector')} gone")
    if report.textless:
        ctx.terminal.print(f"{count(report.textless, 'item')} without text to embed")
    if not report.left:
        return
    ctx.terminal.print(
        f"{report.left:,} were left: they cannot be read, the function refused them, or others "
        "changed them meanwhile:",
        style="yellow",
    )
    for what in report.left_out[:LISTED]:
        ctx.terminal.print(f"  {what}")
    if len(report.left_out) > LISTED:
        ctx.terminal.print("  …; --json lists more")
