"""The command search."""

from __future__ import annotations

from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.formatting import count, highlight
from memalchemy.cli.options import LimitOption, OnlyNamespaceOption, PrefixOption, QueryArgument
from memalchemy.cli.parsers import format_namespace, parse_namespace
from memalchemy.cli.tables import Column


@command("search", example="memalchemy --db sqlite:///agent.db search 'gift card refund'")
async def search(
    ctx: Context,
    query: QueryArgument,
    namespace: OnlyNamespaceOption = None,
    prefix: PrefixOption = False,
    limit: LimitOption = 10,
) -> None:
    """Search the checkpoints of all threads for words.

    Lists the checkpoints that added the words, best match first, in all namespaces with one
    ranking. Case and accents do not matter. `log search` searches entries, `store search` items.
    """
    from memalchemy import Checkpointer

    parts = () if namespace is None else parse_namespace(namespace)
    async with ctx.database(read_only=True) as db:
        hits = await Checkpointer(db, namespace=parts).search(
            query, limit, below=prefix or namespace is None
        )
    for hit in hits:
        hit.setdefault("namespace", parts)
    if ctx.as_data:
        ctx.terminal.print_data(hits)
        return
    ctx.terminal.print_table(
        (
            Column("thread", "id"),
            Column("namespace", "id", drop=2),
            Column("checkpoint", "id"),
            Column("score", "number", drop=1),
            Column("text"),
        ),
        (
            (
                hit["thread_id"],
                format_namespace(hit["namespace"]),
                hit["checkpoint_id"],
                f"{hit['score']:.2f}",
                highlight(hit["snippet"], query),
            )
            for hit in hits
        ),
    )
    ctx.terminal.print_note(count(len(hits), "checkpoint"))
