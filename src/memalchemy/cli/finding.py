"""Commands that look through all namespaces: threads, search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from memalchemy.cli import arguments
from memalchemy.cli.command import Invocation, command
from memalchemy.cli.terminal import counted, size, when

if TYPE_CHECKING:
    from rich.text import Text

OnlyOption = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        metavar="NAMESPACE",
        help="In this one only, such as langgraph, not in all; / is the root.",
    ),
]
PrefixOption = Annotated[
    bool, typer.Option("--prefix", help="Also in the namespaces below NAMESPACE.")
]


def register(app: typer.Typer) -> None:
    """Add this file's commands to *app*."""
    db = "memalchemy --db sqlite:///agent.db"
    command(app, "threads", example=f"{db} threads --pattern 'airline-*'")(threads)
    command(app, "search", example=f"{db} search 'gift card refund'")(search)


async def threads(
    at: Invocation,
    pattern: Annotated[str, typer.Option(help="A glob over the whole id: *, ?, [a-z].")] = "*",
    namespace: OnlyOption = None,
    prefix: PrefixOption = False,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="How many, at most.")] = 100,
) -> None:
    """List threads, most recently written first.

    In all namespaces: what agents have saved, and what frameworks and conversations keep. A thread
    that is in several is listed once for each.
    """
    place, below = _reach(namespace, prefix)
    async with at.database() as db:
        checkpointer = at.checkpointer(db, place)
        found = await checkpointer.list_logs(limit=limit, pattern=pattern, below=below)
    if at.as_json:
        at.terminal.document(
            [
                {
                    "thread_id": log.thread_id,
                    "namespace": list(log.namespace),
                    "checkpoints": log.checkpoints,
                    "entries": log.entries,
                    "newest": log.newest_id,
                    "saved_at": log.updated_at,
                    "raw_bytes": log.raw_size,
                    "stored_bytes": log.stored_size,
                }
                for log in found
            ]
        )
        return
    at.terminal.table(
        (
            "thread",
            "namespace",
            ">checkpoints",
            ">entries",
            "newest",
            "written (UTC)",
            ">states whole",
            ">stored",
        ),
        (
            (
                log.thread_id,
                arguments.spelt(log.namespace),
                log.checkpoints or "",
                log.entries or "",
                log.newest_id,
                when(log.updated_at),
                size(log.raw_size) if log.checkpoints else "",
                size(log.stored_size) if log.checkpoints else "",
            )
            for log in found
        ),
    )
    at.terminal.note(counted(len({log.thread_id for log in found}), "thread"))
    if len(found) == limit:
        at.terminal.note(f"the {limit} written last; --limit shows more")


async def search(
    at: Invocation,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Words. No operators.")],
    namespace: OnlyOption = None,
    prefix: PrefixOption = False,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="How many, at most.")] = 10,
) -> None:
    """Find steps by words, best first.

    A step is found by what it added, whatever the case and the accents; in all namespaces, with one
    ranking. Entries are found by `log search`.
    """
    place, below = _reach(namespace, prefix)
    async with at.database() as db:
        found = await at.checkpointer(db, place).search(query, limit, below=below)
    for hit in found:
        hit.setdefault("namespace", place)
    if at.as_json:
        at.terminal.document(found)
        return
    at.terminal.table(
        ("thread", "namespace", "checkpoint", ">score", "text"),
        (
            (
                hit["thread_id"],
                arguments.spelt(hit["namespace"]),
                hit["checkpoint_id"],
                f"{hit['score']:.2f}",
                highlighted(hit["snippet"], query),
            )
            for hit in found
        ),
    )
    at.terminal.note(counted(len(found), "checkpoint"))


def highlighted(snippet: str, query: str) -> Text:
    """*snippet* with the words of *query* set off."""
    from rich.text import Text

    from memalchemy.cli.terminal import safe
    from memalchemy.codec.search_text import is_cjk, query_terms

    text = Text(safe(snippet))
    tokens = {token for term in query_terms(query) for token in term}
    for token in tokens:
        edge = "" if is_cjk(token) else r"\b"
        text.highlight_regex(f"(?i){edge}{token}{edge}", "bold yellow")
    return text


def _reach(namespace: str | None, prefix: bool) -> tuple[tuple[str, ...], bool]:
    """The namespace to look in, and whether also below it; without one it is all."""
    return ((), True) if namespace is None else (arguments.namespace(namespace), prefix)
