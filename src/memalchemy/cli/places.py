"""In which namespace a command finds a thread: the one that is named, or the only one there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from memalchemy.cli import arguments
from memalchemy.cli.command import Invocation
from memalchemy.cli.exits import UsageProblem
from memalchemy.errors import NotFound

if TYPE_CHECKING:
    from memalchemy import Checkpointer, Database

NAMED = 5
"""How many namespaces a message names."""

NamespaceOption = Annotated[
    str | None,
    typer.Option(
        "--namespace",
        metavar="NAMESPACE",
        help="In which namespace, such as langgraph; / is the root.",
    ),
]


async def checkpointer_of(
    at: Invocation, db: Database, thread: str, given: str | None
) -> Checkpointer:
    """A checkpointer of the namespace that was given, or else of the one that has checkpoints of
    the thread; of several the one that all others lie below, which is the root if it has any.

    Raises:
        NotFound: the thread has no checkpoints there, or nowhere.
        UsageProblem: it has some in several namespaces, and none of these is above the others.
    """
    from memalchemy.log.listing import checkpoint_namespaces

    places = await checkpoint_namespaces(db, thread)
    if given is not None:
        wanted = arguments.namespace(given)
        if wanted not in places:
            there = f"; it has some in {_names(places)}" if places else ""
            raise NotFound(f"thread {thread!r} has no checkpoint in namespace {given!r}{there}")
        return at.checkpointer(db, wanted)
    if not places:
        raise await no_checkpoints(db, thread)
    top, *others = places  # in the order of their paths, in which what is above comes first
    if any(place[: len(top)] != top for place in others):
        raise UsageProblem(
            f"thread {thread!r} has checkpoints in several namespaces: give --namespace, one of "
            f"{_names(places)}"
        )
    if others:
        at.terminal.note(
            f"of namespace {arguments.spelt(top)}; --namespace shows those in {_names(others)}"
        )
    return at.checkpointer(db, top)


async def no_checkpoints(db: Database, thread: str) -> NotFound:
    """The error for a thread that has no checkpoint; it may have entries."""
    from memalchemy.log.listing import entry_namespaces

    if await entry_namespaces(db, thread):
        return NotFound(f"thread {thread!r} has entries and no checkpoint: see `log tail`")
    return NotFound(f"there is no thread {thread!r}")


def _names(places: Sequence[tuple[str, ...]]) -> str:
    named = ", ".join(arguments.spelt(place) for place in places[:NAMED])
    more = len(places) - NAMED
    return f"{named} and {more:,} more" if more > 0 else named
