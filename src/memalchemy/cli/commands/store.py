"""Commands of ``memalchemy store``, which read and write the items of the store."""

from __future__ import annotations

import time
import warnings
from collections import Counter
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.exit_codes import NOT_FOUND, OK, REFUSED
from memalchemy.cli.formatting import (
    count,
    format_json,
    format_size,
    format_time,
    highlight,
)
from memalchemy.cli.json_lines import (
    LineReader,
    input_size,
    is_stdout,
    open_input,
    write_json_lines,
)
from memalchemy.cli.options import (
    AllTenantsOption,
    LimitOption,
    MatchName,
    MatchOption,
    Metric,
    MetricOption,
    OutputOption,
    PrefixOption,
)
from memalchemy.cli.parsers import (
    format_namespace,
    parse_duration,
    parse_json,
    parse_json_object,
    parse_namespace,
    parse_version,
    read_text_argument,
)
from memalchemy.cli.tables import Column, Excerpt
from memalchemy.cli.usage_errors import UsageError, usage_errors
from memalchemy.contracts import UNSET, SearchMode
from memalchemy.errors import NotFound

if TYPE_CHECKING:
    from memalchemy import SearchHits, StoreItem
    from memalchemy.store.jsonl import UnwrittenLine

CONCURRENT_COUNTS = 8
"""Namespaces whose items are counted at the same time."""

NamespaceArgument = Annotated[
    str,
    typer.Argument(
        metavar="NAMESPACE", help="Such as users/ada; / is the root, ~1 a slash within a part."
    ),
]
KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="Key of the item.")]
FilterOption = Annotated[
    str | None,
    typer.Option(
        "--filter",
        metavar="JSON",
        help="""Only items that match, such as '{"kind": {"$ne": "draft"}}'.""",
    ),
]


@command("ls", example="memalchemy --db sqlite:///agent.db store ls users/ada --prefix")
async def list_items(
    ctx: Context,
    namespace: Annotated[
        str | None,
        typer.Argument(metavar="NAMESPACE", help="List its items; without it, list namespaces."),
    ] = None,
    namespaces: Annotated[
        bool,
        typer.Option("--namespaces", help="List NAMESPACE and those below, not items."),
    ] = False,
    prefix: PrefixOption = False,
    newest: Annotated[
        bool, typer.Option("--newest", help="Last written first, instead of by key.")
    ] = False,
    filter: FilterOption = None,
    limit: LimitOption = 100,
) -> None:
    """List items, or the namespaces that hold items.

    Write a namespace as users/ada/memories; within a part write a slash as ~1 and a tilde as ~0.
    """
    from memalchemy import Store

    if namespaces or namespace is None:
        if prefix or newest or filter is not None:
            raise UsageError(
                "--prefix, --newest and --filter list items: name a namespace (/ is the root)"
            )
        await _list_namespaces(ctx, namespace, limit)
        return
    parts, wanted = parse_namespace(namespace), parse_json_object(filter, "--filter")
    async with ctx.database(read_only=True) as db:
        with usage_errors():
            found = await Store(db).list_items(
                parts,
                prefix=prefix,
                filter=wanted,
                limit=limit + 1,
                order="newest" if newest else "key",
            )
    items = found[:limit]
    if ctx.as_data:
        ctx.terminal.print_data([item.to_dict() for item in items])
        return
    expires = any(item.expires_at for item in items)
    ctx.terminal.print_table(
        (
            *([Column("namespace", "id")] if prefix else []),
            Column("key", "id"),
            Column("version", "number", drop=2),
            Column("updated (UTC)", "time", drop=3),
            *([Column("expires (UTC)", "time", drop=4)] if expires else []),
            Column("size", "number", drop=1),
            Column("value"),
        ),
        (
            (
                *([format_namespace(item.namespace)] if prefix else []),
                item.key,
                item.version,
                format_time(item.updated_at),
                *([format_time(item.expires_at) if item.expires_at else ""] if expires else []),
                format_size(len(format_json(item.value, indent=None).encode())),
                Excerpt(item.value, width=40),
            )
            for item in items
        ),
    )
    _print_count(ctx, len(items), "item", more=len(found) > limit)


async def _list_namespaces(ctx: Context, namespace: str | None, limit: int) -> None:
    from memalchemy import Store
    from memalchemy._together import together

    parent = () if namespace is None else parse_namespace(namespace)
    async with ctx.database(read_only=True) as db:
        store = Store(db)
        found = await store.list_namespaces(parent, limit + 1)
        listed = found[:limit]
        counts: list[int] = []
        for start in range(0, len(listed), CONCURRENT_COUNTS):
            some = listed[start : start + CONCURRENT_COUNTS]
            counts += await together(*map(store.count, some))
    rows = list(zip(listed, counts, strict=True))
    if ctx.as_data:
        ctx.terminal.print_data([{"namespace": parts, "items": items} for parts, items in rows])
        return
    ctx.terminal.print_table(
        (Column("namespace", "id"), Column("items", "number")),
        ((format_namespace(parts), items) for parts, items in rows),
    )
    _print_count(ctx, len(listed), "namespace", more=len(found) > limit)


def _print_count(ctx: Context, number: int, noun: str, *, more: bool) -> None:
    ctx.terminal.print_note(
        f"only the first {number:,}; --limit shows more" if more else count(number, noun)
    )


@command("get", example="memalchemy --db sqlite:///agent.db store get users/ada/memories likes")
async def get(ctx: Context, namespace: NamespaceArgument, key: KeyArgument) -> None:
    """Print the value of an item as JSON.

    With --json prints the whole item. Bytes become base64, sets become lists: `store export` keeps
    their types.
    """
    from memalchemy import Store

    parts = parse_namespace(namespace)
    async with ctx.database(read_only=True) as db:
        item = await Store(db).get_item(parts, key)
    if item is None:
        raise _item_missing(parts, key)
    if ctx.as_data:
        ctx.terminal.print_data(item.to_dict())
    else:
        ctx.terminal.print_json(item.value)


@command(
    "put",
    example="memalchemy --db sqlite:///agent.db store put users/ada/memories likes "
    """'{"text": "Ada likes tea"}' --ttl 30d""",
)
async def put(
    ctx: Context,
    namespace: NamespaceArgument,
    key: KeyArgument,
    value: Annotated[
        str, typer.Argument(metavar="VALUE", help="JSON; @FILE reads a file, - stdin.")
    ],
    text: Annotated[
        bool, typer.Option("--text", help="VALUE is plain text instead of JSON.")
    ] = False,
    metadata: Annotated[
        str | None,
        typer.Option("--metadata", metavar="JSON", help="A JSON object, for --filter."),
    ] = None,
    ttl: Annotated[
        str | None,
        typer.Option(metavar="AGE", help="Lifetime of the item: 30d, 12h, 90m, 45s, 2w."),
    ] = None,
    expected_version: Annotated[
        str | None,
        typer.Option(metavar="N", help="Write only at version N; none: only a new item."),
    ] = None,
) -> None:
    """Write an item, and print its version.

    Replaces what is under the key: value, metadata, lifetime and vectors. A new item has version 1.
    """
    from memalchemy import Store

    parts = parse_namespace(namespace)
    content = read_text_argument(value)
    parsed = content if text else parse_json(content, "VALUE", "; for plain text add --text")
    fields = parse_json_object(metadata, "--metadata")
    lifetime = None if ttl is None else parse_duration(ttl)
    expected = UNSET if expected_version is None else parse_version(expected_version)
    async with ctx.database() as db:
        with usage_errors():
            version = await Store(db).put(
                parts, key, parsed, fields, ttl=lifetime, expected_version=expected
            )
    if ctx.as_data:
        ctx.terminal.print_data({"namespace": parts, "key": key, "version": version})
    else:
        ctx.terminal.print(f"version {version:,} of {key} in {format_namespace(parts)}")


@command("rm", example="memalchemy --db sqlite:///agent.db store rm users/ada/memories likes")
async def delete(
    ctx: Context,
    namespace: NamespaceArgument,
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", help="Key of the item, unless --all.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All items of the namespace.")] = False,
    prefix: PrefixOption = False,
    expected_version: Annotated[
        str | None, typer.Option(metavar="N", help="Remove only at version N.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="With --all: do not ask.")] = False,
) -> int | None:
    """Remove an item, or all items of a namespace.

    --all counts the items and asks first; with --prefix it includes the namespaces below.
    """
    from memalchemy import Store

    if (key is None) != everything:
        raise UsageError("give exactly one of KEY or --all")
    if prefix and not everything:
        raise UsageError("--prefix goes with --all")
    if expected_version is not None and everything:
        raise UsageError("--expected-version goes with KEY")
    expected = UNSET if expected_version is None else parse_version(expected_version)
    if expected is None:
        raise UsageError("--expected-version of rm must be a version, such as 3")
    parts = parse_namespace(namespace)
    async with ctx.database() as db:
        store = Store(db)
        if key is not None:
            if not await store.delete(parts, key, expected_version=expected):
                raise _item_missing(parts, key)
            removed = 1
        else:
            items = 0 if yes else await store.count(parts, prefix=prefix)
            place = f"{format_namespace(parts)}{' and all below it' if prefix else ''}"
            if items:
                ctx.terminal.require_consent(
                    f"Remove {count(items, 'item')} of {place}, tenant {ctx.tenant!r}? "
                    "This cannot be undone.",
                    "removed",
                )
            removed = await store.clear_namespace(parts, prefix=prefix)
    if ctx.as_data:
        ctx.terminal.print_data({"removed": removed})
    else:
        ctx.terminal.print(f"{count(removed, 'item')} removed" if key is None else f"removed {key}")
    return OK if removed else NOT_FOUND


def _item_missing(namespace: tuple[str, ...], key: str) -> NotFound:
    return NotFound(
        f"there is no item {key!r} in {format_namespace(namespace)}; `memalchemy store ls` lists "
        "items"
    )


@command("search", example="memalchemy --db sqlite:///agent.db store search users/ada tea --prefix")
async def search(
    ctx: Context,
    namespace: NamespaceArgument,
    query: Annotated[
        str | None,
        typer.Argument(metavar="QUERY", help="Words to look for; there are no operators."),
    ] = None,
    prefix: PrefixOption = False,
    match: MatchOption = MatchName.ANY,
    limit: LimitOption = 10,
    filter: FilterOption = None,
    threshold: Annotated[
        float | None, typer.Option(min=0, max=1, metavar="SCORE", help="Lowest score to list.")
    ] = None,
    embedding: Annotated[
        str | None,
        typer.Option(
            metavar="JSON",
            help="Vector, such as [0.1, 0.2]; @FILE reads a file, - stdin.",
        ),
    ] = None,
    model: Annotated[str, typer.Option(metavar="NAME", help="Model of the vectors.")] = "default",
    metric: MetricOption = Metric.COSINE,
    alpha: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="SHARE", help="Weight of the vectors beside QUERY."),
    ] = None,
    mmr: Annotated[
        float | None,
        typer.Option(
            min=0, max=1, metavar="SHARE", help="Vary the results: most at 0, not at all at 1."
        ),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say how the items were found.")
    ] = False,
) -> None:
    """Search items for words, or by vector, best match first.

    QUERY finds whole words; case and accents do not matter. --embedding finds the nearest vectors.
    With both, both rankings count.
    """
    from memalchemy import AnsweredByWordsWarning, Store

    if query is None and embedding is None:
        raise UsageError("give QUERY, --embedding or both; `memalchemy store ls` lists items")
    parts, wanted = parse_namespace(namespace), parse_json_object(filter, "--filter")
    vector = None
    if embedding is not None:
        vector = parse_json(read_text_argument(embedding), "--embedding")
        if not isinstance(vector, list):
            raise UsageError("--embedding must be a list of numbers, such as [0.1, 0.2]")
    mode: SearchMode = "text" if vector is None else "vector" if query is None else "hybrid"
    async with ctx.database(read_only=True) as db:
        with usage_errors(), warnings.catch_warnings():
            warnings.simplefilter("ignore", AnsweredByWordsWarning)  # the hits have it, too
            hits = await Store(db, model=model, metric=metric.value).search(
                parts,
                query,
                prefix=prefix,
                mode=mode,
                match=match.value,
                filter=wanted,
                limit=limit,
                threshold=threshold,
                embedding=vector,
                alpha=alpha,
                mmr=mmr,
                explain=explain,
            )
    if ctx.as_data:
        documents = [hit.to_dict() | {"score": hit.score} for hit in hits]
        ctx.terminal.print_data(
            {"hits": documents, "plans": list(hits.plans)} if explain else documents
        )
    else:
        _print_hits(ctx, hits, query, prefix=prefix)
    for notice in hits.notices:
        ctx.terminal.print_note(notice)


def _print_hits(ctx: Context, hits: SearchHits, query: str | None, *, prefix: bool) -> None:
    ctx.terminal.print_table(
        (
            *([Column("namespace", "id")] if prefix else []),
            Column("key", "id"),
            Column("score", "number", drop=1),
            Column("text"),
        ),
        (
            (
                *([format_namespace(hit.namespace)] if prefix else []),
                hit.key,
                f"{hit.score:.2f}",
                _excerpt(hit, query),
            )
            for hit in hits
        ),
    )
    for plan in hits.plans:
        details = ", ".join(f"{name} {number}" for name, number in plan.details.items())
        suffix = f" ({details})" if details else ""
        ctx.terminal.print(f"{plan.strategy}: {plan.reason}{suffix}")
    ctx.terminal.print_note(count(len(hits), "item"))
    if not hits and not prefix:
        ctx.terminal.print_note("--prefix searches the namespaces below as well")


def _excerpt(item: StoreItem, query: str | None) -> Any:
    """Return the text round the first word of *query*, or the value if there is none."""
    from memalchemy.codec.search_text import joined_texts

    text = joined_texts(item.value, item.metadata) if query else None
    return highlight(text, query) if text and query else Excerpt(item.value)


@command("sweep", example="memalchemy --db sqlite:///agent.db store sweep")
async def sweep(ctx: Context, all_tenants: AllTenantsOption = False) -> None:
    """Remove expired items of the tenant.

    Expired items are invisible already; this frees their space.
    """
    from memalchemy import Store
    from memalchemy.protection.proven_jobs import Damage

    ctx.refuse_two_tenants(all_tenants=all_tenants)
    removed, damage = 0, Damage()
    async with ctx.database() as db:
        for each in await ctx.databases(db, "a sweep", all_tenants=all_tenants):
            with damage.noted():
                removed += await Store(each).sweep()
    damage.raise_if_any("the expired items of the other tenants were removed")
    if ctx.as_data:
        ctx.terminal.print_data({"removed": removed})
    else:
        ctx.terminal.print(f"{count(removed, 'expired item')} removed")


@command(
    "export",
    example="memalchemy --db sqlite:///agent.db store export users/ada --prefix -o ada.jsonl",
)
async def export(
    ctx: Context,
    namespace: Annotated[
        str | None,
        typer.Argument(metavar="NAMESPACE", help="Export its items; without it, all items."),
    ] = None,
    prefix: PrefixOption = False,
    vectors: Annotated[bool, typer.Option("--vectors", help="Include the vectors.")] = False,
    output: OutputOption = None,
) -> None:
    """Export items as JSON lines.

    Writes items by namespace and key, as `store import` reads them. Values that JSON lacks are
    tagged, such as {"~b": base64}. A file appears when it is complete.
    """
    from memalchemy import Store
    from memalchemy.store.jsonl import export_items

    parts = () if namespace is None else parse_namespace(namespace)
    below = prefix or namespace is None
    async with ctx.database(read_only=True) as db:
        store = Store(db)
        total = await store.count(parts, prefix=below)
        with ctx.terminal.progress("exporting", total) as progress:

            async def records() -> AsyncIterator[Mapping[str, Any]]:
                async for record in export_items(store, parts, prefix=below, vectors=vectors):
                    yield record
                    progress.advance()

            items = await write_json_lines(records(), output)
    if is_stdout(output):
        ctx.terminal.print_note(count(items, "item"))
    elif ctx.as_data:
        ctx.terminal.print_data({"items": items, "file": str(output)})
    else:
        ctx.terminal.print(f"{count(items, 'item')} in {output}")


@command("import", example="memalchemy --db sqlite:///agent.db store import items.jsonl --skip")
async def import_(
    ctx: Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="JSON lines; - reads stdin.")],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace items that exist.")
    ] = False,
    skip: Annotated[bool, typer.Option("--skip", help="Keep items that exist.")] = False,
) -> int:
    """Import items that `store export` has written.

    Items come back with types, metadata, vectors and what is left of their lifetime. If a line is
    not an item, or an item exists with other content (without --overwrite or --skip), nothing of
    its batch of 500 lines is written, and the exit code is 4. Run an interrupted import again.
    """
    from memalchemy import Store
    from memalchemy.store.jsonl import STATUSES, OnConflict, import_items

    if overwrite and skip:
        raise UsageError("give --overwrite or --skip, not both")
    on_conflict: OnConflict = "overwrite" if overwrite else "skip" if skip else "error"
    counts: Counter[str] = Counter()
    problems: list[UnwrittenLine] = []
    started = time.perf_counter()
    with (
        open_input(file) as source,
        ctx.terminal.progress("importing", input_size(file)) as progress,
    ):
        async with ctx.database(migrate="auto", create=True) as db:
            lines = LineReader(source)
            async for batch in import_items(Store(db), lines, on_conflict=on_conflict):
                counts += batch.counts
                problems += batch.problems
                progress.update(lines.bytes)
                for problem in batch.problems:
                    ctx.terminal.print_note(_describe_problem(problem))
    seconds = time.perf_counter() - started
    if ctx.as_data:
        ctx.terminal.print_data(
            {
                "items": {status: counts[status] for status in STATUSES},
                "seconds": round(seconds, 3),
                "problems": problems,
            }
        )
    else:
        summary = ", ".join(f"{counts[status]:,} {status}" for status in STATUSES if counts[status])
        ctx.terminal.print(f"items: {summary or 'none'}, in {seconds:.1f} s")
        if counts["left"]:
            ctx.terminal.print_note(
                f"{counts['left']:,} good lines were left out, because their batches contain the "
                "lines above. Correct those and run the command again"
            )
    return REFUSED if problems else OK


def _describe_problem(problem: UnwrittenLine) -> str:
    item = ""
    if problem.namespace is not None:
        item = f" ({problem.key} in {format_namespace(problem.namespace)})"
    return f"line {problem.line}{item}: {problem.problem}"


COMMANDS = (list_items, get, put, delete, search, sweep, export, import_)
