"""Commands that look at logs of entries, such as conversations: ls, tail, search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from memalchemy.cli import arguments
from memalchemy.cli.command import Invocation, asking_for_sense, command
from memalchemy.cli.exits import UsageProblem
from memalchemy.cli.finding import highlighted
from memalchemy.cli.looking import ThreadArgument
from memalchemy.cli.terminal import counted, short, when
from memalchemy.errors import NotFound

if TYPE_CHECKING:
    from memalchemy import Database, Entry
    from memalchemy.contracts import EntryHit

NamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace", metavar="NAMESPACE", help="Which log of the thread, such as conversation."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the group of this file's commands to *app*."""
    group = typer.Typer(
        name="log",
        help="Logs of entries: conversations, events.",
        no_args_is_help=True,
        rich_markup_mode=None,
    )
    db = "memalchemy --db sqlite:///agent.db log"
    command(group, "ls", example=f"{db} ls")(ls)
    command(group, "tail", example=f"{db} tail support-42 --limit 20")(tail)
    command(group, "search", example=f"{db} search 'gift card'")(search)
    app.add_typer(group)


async def ls(
    at: Invocation,
    thread: Annotated[
        str | None, typer.Argument(metavar="THREAD", help="One thread instead of all.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="How many, at most.")] = 100,
) -> None:
    """List logs that have entries, most recently written first."""
    from memalchemy.log.listing import entry_logs

    async with at.database() as db:
        found = await entry_logs(db, thread, limit=limit)
    if at.as_json:
        at.terminal.document(
            [
                {
                    "thread_id": log.thread_id,
                    "namespace": list(log.namespace),
                    "entries": log.entries,
                    "updated_at": log.updated_at,
                }
                for log in found
            ]
        )
        return
    at.terminal.table(
        ("thread", "namespace", ">entries", "written (UTC)"),
        (
            (log.thread_id, arguments.spelt(log.namespace), log.entries, when(log.updated_at))
            for log in found
        ),
    )
    at.terminal.note(f"{len(found)} logs")


async def tail(
    at: Invocation,
    thread: ThreadArgument,
    namespace: NamespaceOption = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="How many, at most.")] = 20,
    before: Annotated[
        int | None, typer.Option(metavar="POSITION", help="Those before this one.")
    ] = None,
) -> None:
    """Print the newest entries of a log, oldest of them first.

    A message is printed as its role and its words. Without --namespace the thread must have one log
    of entries.
    """
    from memalchemy import ThreadLog

    async with at.database() as db:
        where = await _namespace(db, thread, namespace)
        entries = await ThreadLog(db, namespace=where).tail(thread, limit, before=before)
    if at.as_json:
        at.terminal.document([_document(entry) for entry in entries])
        return
    at.terminal.table(
        (">position", "occurred (UTC)", "", "what"),
        ((entry.position, when(entry.occurred_at), *_what(entry.value)) for entry in entries),
    )
    if len(entries) == limit:
        at.terminal.note(f"the newest {limit}; --limit shows more, --before what is earlier")


async def search(
    at: Invocation,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="Words. No operators.")],
    namespace: Annotated[
        str | None,
        typer.Option("--namespace", metavar="NAMESPACE", help="In these logs only, not in all."),
    ] = None,
    thread: Annotated[
        str | None, typer.Option("--thread", metavar="THREAD", help="Of one thread.")
    ] = None,
    limit: Annotated[int, typer.Option(min=1, metavar="N", help="How many, at most.")] = 10,
) -> None:
    """Find entries by words, best first.

    Without --namespace in all logs. How rare a word is, is told by each namespace for itself.
    """
    from memalchemy import ThreadLog
    from memalchemy.log.listing import entry_namespaces

    found: list[tuple[tuple[str, ...], EntryHit]] = []
    given = None if namespace is None else [arguments.namespace(namespace)]
    async with at.database() as db:
        with asking_for_sense():
            for where in given or await entry_namespaces(db, thread):
                hits = await ThreadLog(db, namespace=where).search(query, limit, thread_id=thread)
                found += [(where, hit) for hit in hits]
    found.sort(key=lambda one: (one[1].score, one[1].stored_at, one[1].position), reverse=True)
    del found[limit:]
    if at.as_json:
        at.terminal.document(
            [
                _document(hit)
                | {"thread_id": hit.thread_id, "namespace": list(where)}
                | {"score": hit.score, "snippet": hit.snippet}
                for where, hit in found
            ]
        )
        return
    at.terminal.table(
        ("thread", "namespace", ">position", ">score", "text"),
        (
            (
                hit.thread_id,
                arguments.spelt(where),
                hit.position,
                f"{hit.score:.2f}",
                highlighted(hit.snippet, query),
            )
            for where, hit in found
        ),
    )
    at.terminal.note(counted(len(found), "entry", "entries"))


async def _namespace(db: Database, thread: str, given: str | None) -> tuple[str, ...]:
    """The namespace that was given, or the one in which the thread has entries."""
    from memalchemy.log.listing import entry_namespaces

    logs = await entry_namespaces(db, thread)
    if given is not None:
        wanted = arguments.namespace(given)
        if wanted not in logs:
            raise NotFound(f"thread {thread!r} has no entries in {given!r}")
        return wanted
    if not logs:
        raise NotFound(f"thread {thread!r} has no entries")
    if len(logs) > 1:
        names = ", ".join(arguments.spelt(log) for log in logs)
        raise UsageProblem(f"thread {thread!r} has several logs: give --namespace, one of {names}")
    return logs[0]


def _document(entry: Entry) -> dict[str, Any]:
    return {
        "position": entry.position,
        "key": entry.key,
        "occurred_at": entry.occurred_at,
        "stored_at": entry.stored_at,
        "value": entry.value,
    }


def _what(value: Any) -> tuple[str, str]:
    """An entry as who and what, if it is a message; else only as what."""
    from memalchemy.messages import role_of, words_of

    if isinstance(value, dict) and isinstance(value.get("role"), str):
        rest = {name: part for name, part in value.items() if name not in ("role", "content")}
        return str(role_of(value)), words_of(value.get("content")) or short(rest)
    return "", short(value)
