"""Commands of the store's items: ls, get, put, rm, search, sweep."""

from __future__ import annotations

import asyncio
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalchemy.cli import arguments, store_lines
from memalchemy.cli.command import Invocation, asking_for_sense, command
from memalchemy.cli.exits import NOT_FOUND, REFUSED, UsageProblem
from memalchemy.cli.finding import highlighted
from memalchemy.cli.terminal import counted, short, size, when
from memalchemy.contracts import UNSET
from memalchemy.errors import NotFound

if TYPE_CHECKING:
    from memalchemy import Database, SearchHits, Store, StoreItem

AT_ONCE = 8

NamespaceArgument = Annotated[
    str,
    typer.Argument(metavar="NAMESPACE", help="Such as users/ada; / is the root, ~1 a / in a part."),
]
KeyArgument = Annotated[str, typer.Argument(metavar="KEY", help="The item's key.")]
BelowOption = Annotated[bool, typer.Option("--prefix", help="Also what is below the namespace.")]
FilterOption = Annotated[
    str | None,
    typer.Option(
        "--filter", metavar="JSON", help="""Only those, as '{"kind": {"$ne": "draft"}}'."""
    ),
]


class Metric(StrEnum):
    """How vectors compare."""

    COSINE = "cosine"
    DOT = "dot"
    L2 = "l2"


def register(app: typer.Typer) -> None:
    """Add the group of this file's commands to *app*."""
    group = typer.Typer(
        name="store", help="Items that agents keep.", no_args_is_help=True, rich_markup_mode=None
    )
    db = "memalchemy --db sqlite:///agent.db store"
    command(group, "ls", example=f"{db} ls users/ada --prefix")(ls)
    command(group, "get", example=f"{db} get users/ada/memories likes")(get)
    put_example = f"""{db} put users/ada/memories likes '{{"text": "Ada likes tea"}}' --ttl 30d"""
    command(group, "put", example=put_example)(put)
    command(group, "rm", example=f"{db} rm users/ada/memories likes")(rm)
    command(group, "search", example=f"{db} search users/ada tea --prefix")(search)
    command(group, "sweep", example=f"{db} sweep")(sweep)
    store_lines.register(group)
    app.add_typer(group)


async def ls(
    at: Invocation,
    namespace: Annotated[
        str | None, typer.Argument(metavar="NAMESPACE", help="Its items; without it, namespaces.")
    ] = None,
    namespaces: Annotated[
        bool, typer.Option("--namespaces", help="The namespace and those below it, not items.")
    ] = False,
    prefix: BelowOption = False,
    newest: Annotated[
        bool, typer.Option("--newest", help="The last written first; else by key.")
    ] = False,
    filter: FilterOption = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="How many, at most.")] = 100,
) -> None:
    """List items, or the namespaces that hold any.

    "size" is that of the value as JSON. A namespace is written as users/ada/memories; in a part a
    slash is ~1 and a tilde ~0.
    """
    if namespaces or namespace is None:
        if prefix or newest or filter is not None:
            raise UsageProblem(
                "--prefix, --newest and --filter are for items: name a namespace (/ is the root)"
            )
        await _list_namespaces(
            at, () if namespace is None else arguments.namespace(namespace), limit
        )
        return
    where, wanted = arguments.namespace(namespace), arguments.json_object(filter, "--filter")
    async with at.database() as db:
        with asking_for_sense():
            found = await _store(db).list_items(
                where,
                prefix=prefix,
                filter=wanted,
                limit=limit + 1,
                order="newest" if newest else "key",
            )
    shown = found[:limit]
    if at.as_json:
        at.terminal.document([item.to_dict() for item in shown])
        return
    at.terminal.table(
        (*_named(prefix), "key", ">version", "updated (UTC)", "expires (UTC)", ">size", "value"),
        (
            (
                *_named(prefix, arguments.spelt(item.namespace)),
                item.key,
                item.version,
                when(item.updated_at),
                when(item.expires_at) if item.expires_at else "",
                size(_bytes(item.value)),
                short(item.value, 40),
            )
            for item in shown
        ),
    )
    at.terminal.note(_shown(len(shown), "item", len(found) > limit))


async def _list_namespaces(at: Invocation, above: tuple[str, ...], limit: int) -> None:
    async with at.database() as db:
        store = _store(db)
        found = await store.list_namespaces(above, limit + 1)
        counts: list[int] = []
        for start in range(0, min(limit, len(found)), AT_ONCE):
            some = found[start : min(start + AT_ONCE, limit)]
            counts += await asyncio.gather(*map(store.count, some))
    rows = list(zip(found, counts, strict=False))
    if at.as_json:
        at.terminal.document([{"namespace": n, "items": count} for n, count in rows])
        return
    at.terminal.table(("namespace", ">items"), ((arguments.spelt(n), count) for n, count in rows))
    at.terminal.note(_shown(len(rows), "namespace", len(found) > limit))


async def get(at: Invocation, namespace: NamespaceArgument, key: KeyArgument) -> None:
    """Print an item's value as JSON.

    With --json the item: its value with metadata, version and times. Values that JSON lacks are
    printed for reading: bytes as base64, sets as lists. `store export` prints them so that they can
    be told apart.
    """
    where = arguments.namespace(namespace)
    async with at.database() as db:
        item = await _store(db).get_item(where, key)
    if item is None:
        raise _no_item(where, key)
    at.terminal.document(item.to_dict() if at.as_json else item.value)


async def put(
    at: Invocation,
    namespace: NamespaceArgument,
    key: KeyArgument,
    value: Annotated[
        str, typer.Argument(metavar="VALUE", help="JSON; @FILE is a file, - is stdin.")
    ],
    text: Annotated[
        bool, typer.Option("--text", help="VALUE is a text as it is, not JSON.")
    ] = False,
    metadata: Annotated[
        str | None, typer.Option("--metadata", metavar="JSON", help="An object to filter by.")
    ] = None,
    ttl: Annotated[
        str | None, typer.Option(metavar="AGE", help="How long it lives: 30d, 12h, 90m, 45s, 2w.")
    ] = None,
    expected_version: Annotated[
        str | None,
        typer.Option(metavar="N", help="Only if it is at version N; none: if it is not there."),
    ] = None,
) -> None:
    """Write an item.

    What was under the key is replaced: value, metadata, lifetime and vectors. Prints the version,
    which is 1 for a new item.
    """
    where = arguments.namespace(namespace)
    said = arguments.contents(value)
    hint = "; --text takes it as a text"
    kept = said if text else arguments.json_value(said, "VALUE", hint)
    about = arguments.json_object(metadata, "--metadata")
    life = None if ttl is None else arguments.duration(ttl)
    expected = UNSET if expected_version is None else arguments.version(expected_version)
    async with at.database() as db:
        with asking_for_sense():
            version = await _store(db).put(
                where, key, kept, about, ttl=life, expected_version=expected
            )
    if at.as_json:
        at.terminal.document({"namespace": where, "key": key, "version": version})
    else:
        at.terminal.say(f"version {version:,} of {key} in {arguments.spelt(where)}")


async def rm(
    at: Invocation,
    namespace: NamespaceArgument,
    key: Annotated[
        str | None, typer.Argument(metavar="KEY", help="The item's key, or --all.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All items of the namespace.")] = False,
    prefix: Annotated[
        bool, typer.Option("--prefix", help="With --all: also all below the namespace.")
    ] = False,
    expected_version: Annotated[
        str | None, typer.Option(metavar="N", help="Only if the item is at version N.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="With --all: do not ask.")] = False,
) -> int | None:
    """Remove an item with its vectors, or all of a namespace.

    --all asks first, and says how many they are.
    """
    if (key is None) != everything:
        raise UsageProblem("give exactly one of KEY or --all")
    if prefix and not everything:
        raise UsageProblem("--prefix goes with --all")
    if expected_version is not None and everything:
        raise UsageProblem("--expected-version goes with KEY")
    where = arguments.namespace(namespace)
    async with at.database() as db:
        if key is None:
            removed = await _cleared(at, _store(db), where, below=prefix, yes=yes)
            if removed is None:
                return REFUSED
        else:
            await _removed(_store(db), where, key, expected_version)
            removed = 1
    if at.as_json:
        at.terminal.document({"removed": removed})
    else:
        at.terminal.say(f"{counted(removed, 'item')} removed" if key is None else f"removed {key}")
    return None if removed else NOT_FOUND


async def _removed(
    store: Store, where: tuple[str, ...], key: str, expected_version: str | None
) -> None:
    expected = UNSET if expected_version is None else arguments.version(expected_version)
    if expected is None:
        raise UsageProblem("--expected-version of rm is a version, such as 3")
    if not await store.delete(where, key, expected_version=expected):
        raise _no_item(where, key)


async def _cleared(
    at: Invocation, store: Store, where: tuple[str, ...], *, below: bool, yes: bool
) -> int | None:
    """How many items went; ``None`` if the answer was no."""
    if not yes:
        count = await store.count(where, prefix=below)
        of = f"{arguments.spelt(where)}{' and all below it' if below else ''}"
        if count and not at.terminal.confirm(
            f"Remove {counted(count, 'item')} of {of}, tenant {at.tenant!r}? This cannot be undone."
        ):
            at.terminal.note("nothing was removed")
            return None
    return await store.clear_namespace(where, prefix=below)


async def search(
    at: Invocation,
    namespace: NamespaceArgument,
    query: Annotated[
        str | None, typer.Argument(metavar="QUERY", help="Words. No operators.")
    ] = None,
    prefix: BelowOption = False,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="How many, at most.")] = 10,
    filter: FilterOption = None,
    threshold: Annotated[
        float | None, typer.Option(min=0, max=1, metavar="SCORE", help="The least score, 0 to 1.")
    ] = None,
    embedding: Annotated[
        str | None,
        typer.Option(metavar="JSON", help="A vector to look for, [0.1, …]; @FILE, - is stdin."),
    ] = None,
    model: Annotated[
        str, typer.Option(metavar="NAME", help="The model of the vectors to compare.")
    ] = "default",
    metric: Annotated[Metric, typer.Option(help="How vectors compare.")] = Metric.COSINE,
    alpha: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="SHARE", help="What meaning weighs, of both: 0 to 1."),
    ] = None,
    mmr: Annotated[
        float | None,
        typer.Option(min=0, max=1, metavar="SHARE", help="Items that differ: 1 not, 0 most."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Say how the items were found.")
    ] = False,
) -> None:
    """Find items, best first: by words, by meaning, or both.

    QUERY looks for words, whatever the case and the accents; --embedding for the nearest vectors;
    given both, both rankings count.
    """
    if query is None and embedding is None:
        raise UsageProblem("give QUERY, --embedding or both; `store ls` lists items")
    where, wanted = arguments.namespace(namespace), arguments.json_object(filter, "--filter")
    vector = None
    if embedding is not None:
        vector = arguments.json_value(arguments.contents(embedding), "--embedding")
        if not isinstance(vector, list):
            raise UsageProblem("--embedding is a list of numbers, such as [0.1, 0.2]")
    mode = "text" if vector is None else "vector" if query is None else "hybrid"
    async with at.database() as db:
        with asking_for_sense():
            found = await _store(db, model=model, metric=metric.value).search(
                where,
                query,
                prefix=prefix,
                mode=mode,
                filter=wanted,
                limit=limit,
                threshold=threshold,
                embedding=vector,
                alpha=alpha,
                mmr=mmr,
                explain=explain,
            )
    if at.as_json:
        hits = [hit.to_dict() | {"score": hit.score} for hit in found]
        at.terminal.document({"hits": hits, "plans": list(found.plans)} if explain else hits)
        return
    _say_hits(at, found, query, below=prefix)


def _say_hits(at: Invocation, found: SearchHits, query: str | None, *, below: bool) -> None:
    at.terminal.table(
        (*_named(below), "key", ">score", "text"),
        (
            (
                *_named(below, arguments.spelt(hit.namespace)),
                hit.key,
                f"{hit.score:.2f}",
                _excerpt(hit, query),
            )
            for hit in found
        ),
    )
    for plan in found.plans:
        details = ", ".join(f"{name} {count}" for name, count in plan.details.items())
        at.terminal.say(f"{plan.strategy}: {plan.reason}" + (f" ({details})" if details else ""))
    at.terminal.note(counted(len(found), "item"))


def _excerpt(item: StoreItem, query: str | None) -> Any:
    """What of an item to show: the words round the first that was looked for, or the value."""
    from memalchemy.codec.search_text import item_search_text, query_terms, snippet

    words = item_search_text(item.value, item.metadata) if query else None
    if not words or not query:
        return short(item.value)
    return highlighted(snippet(words, query_terms(query)), query)


async def sweep(at: Invocation) -> None:
    """Remove expired items, which nobody sees any more.

    Of the tenant, in all namespaces.
    """
    async with at.database() as db:
        removed = await _store(db).sweep()
    if at.as_json:
        at.terminal.document({"removed": removed})
    else:
        at.terminal.say(f"{counted(removed, 'expired item')} removed")


def _store(db: Database, **settings: Any) -> Store:
    from memalchemy import Store

    return Store(db, **settings)


def _no_item(where: tuple[str, ...], key: str) -> NotFound:
    return NotFound(f"there is no item {key!r} in {arguments.spelt(where)}")


def _named(below: bool, cell: str = "namespace") -> tuple[str, ...]:
    """The column of namespaces, where there are several."""
    return (cell,) if below else ()


def _bytes(value: Any) -> int:
    from memalchemy.cli.terminal import pretty

    return len(pretty(value, indent=None).encode())


def _shown(number: int, what: str, more: bool) -> str:
    return f"the first {number:,}; --limit shows more" if more else counted(number, what)
