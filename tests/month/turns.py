"""What an agent does in its turns. Each act is a function of the agent and the page it is about."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from subjects import delete_if_there

from memalchemy import Checkpointer, Database, DatabaseUnreachable, Store
from memalchemy.conformance import Subject
from month.ledger import Entry, Ledger, Where

LONGEST = 40
"""After so many writes a conversation is left alone."""
FILLER = ("we", "thought", "about", "trips", "and", "booked", "tables", "by", "the", "harbour")
LETTERS = "bcdfghjklmnpqrstvwxz"
PEOPLE = [f"person{random.Random(number).getrandbits(64):016x}" for number in range(40)]
"""Whom the agents talk to: names that no other bytes look like."""
STEPS_FOUND = ("states of an agent",)
ITEMS_FOUND = ("items", "notes of a week", "LangGraph's store")
"""Kinds whose words are found as soon as they were written: steps of threads, and items."""


class Wrong(Exception):
    """The database answered what it must not."""


@dataclass
class Agent:
    """An agent, with one of the kinds of things that its framework stores."""

    ledger: Ledger
    db: Database
    kind: str
    subject: Subject[Any]
    adapter: Any
    chance: random.Random


@contextmanager
def in_our_words() -> Iterator[None]:
    """Raise the library's own error where a framework has put one of its own in its place."""
    try:
        yield
    except Exception as error:
        if isinstance(error.__cause__, DatabaseUnreachable):
            raise error.__cause__ from None
        raise


async def write(agent: Agent, entry: Entry) -> None:
    """Add a text, or replace the one that is there."""
    text = new_text(agent.chance)
    entry.note(step="write", text=text)
    try:
        with in_our_words():
            await agent.subject.write(agent.adapter, entry.page.where.id_, text)
    except DatabaseUnreachable as error:
        if not error.maybe_applied:
            entry.note(step="refused")
        raise
    entry.note(step="written")


async def read(agent: Agent, entry: Entry) -> None:
    """Read all that is there: it must be what the ledger has."""
    found = await agent.subject.read(agent.adapter, entry.page.where.id_)
    complaint = entry.page.complaint(found, appends=agent.subject.appends)
    if complaint:
        raise Wrong(f"{entry.page.where}: {complaint}")


async def search(agent: Agent, entry: Entry) -> None:
    """Search for the word of the newest text, in all that the tenant has.

    Nothing is found that is about another word, and the text is found where its kind promises it.
    """
    newest = entry.page.writes[-1:]
    if not newest or newest[0].acknowledged is None:
        return
    word = word_of(newest[0].text)
    steps = await Checkpointer(agent.db).search(word, below=True)
    items = await Store(agent.db).search((), word, prefix=True)
    id_, found = entry.page.where.id_, [hit["thread_id"] for hit in steps]
    if {*found} - {id_}:
        raise Wrong(f"{entry.page.where}: {word} was found in {found}")
    if agent.kind in STEPS_FOUND and not found:
        raise Wrong(f"{entry.page.where}: no step was found by {word}")
    if agent.kind in ITEMS_FOUND and word not in str([hit.value for hit in items]):
        raise Wrong(f"{entry.page.where}: no item was found by {word}")


async def delete(agent: Agent, entry: Entry) -> None:
    """Delete all of it; nothing is written under its id again."""
    entry.note(step="delete")
    await finish_deletion(agent.subject, agent.adapter, entry)


TURNS: dict[Callable[[Agent, Entry], Awaitable[None]], int] = {
    write: 70,
    read: 15,
    search: 10,
    delete: 3,
}
"""What an agent does, each with how often."""


async def take_a_turn(agent: Agent, tenant: str) -> None:
    """Do something about an id that nobody else is at, old or new."""
    where = choose(agent, tenant)
    with agent.ledger.held(where) as entry:
        if entry is None or not entry.page.is_open or agent.ledger.is_erased(where.person):
            return
        (act,) = agent.chance.choices([*TURNS], [*TURNS.values()])
        if not entry.page.writes:
            act = write
        elif act is write and len(entry.page.writes) >= LONGEST:
            act = read
        with in_our_words():
            await act(agent, entry)


async def finish_deletion(subject: Subject[Any], adapter: Any, entry: Entry) -> None:
    """Delete what somebody has begun to delete, and may have deleted."""
    await delete_if_there(subject, adapter, entry.page.where.id_)
    entry.note(step="deleted")


def choose(agent: Agent, tenant: str) -> Where:
    """Choose an id of the agent's kind that is there, or a new one about somebody."""
    known = agent.ledger.wheres(tenant, agent.kind)
    if known and agent.chance.random() > 0.15:
        return agent.chance.choice(known)
    person, number = agent.chance.choice(PEOPLE), agent.chance.getrandbits(48)
    return Where(tenant, agent.kind, f"{person}-{number:012x}")


def new_text(chance: random.Random) -> str:
    """Make a text that begins with a word of its own, and is now and then long."""
    word = "".join(chance.choices(LETTERS, k=24))
    return f"{word} {' '.join(chance.choices(FILLER, k=chance.choice((3, 10, 10, 400))))}"


def word_of(text: str) -> str:
    """Return the word by which a text is known."""
    return text.split(" ", 1)[0]
