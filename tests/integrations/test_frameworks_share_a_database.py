"""Data of all frameworks under one id, in one database and process, stays separate."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime
from typing import Any, NamedTuple

import pytest
from subjects import INSTALLED

from memalchemy import Checkpointer, Conversation, Database, EpisodeStore, KeyValue, Store
from memalchemy.conformance import Subject
from memalchemy.memory.episodes import Episode

ID = "ada"
NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


class Kept(NamedTuple):
    """Functions that write a framework's own name under the id, read it, and delete it."""

    write: Callable[[str], Awaitable[Any]]
    read: Callable[[], Awaitable[Any]]
    delete: Callable[[], Awaitable[Any]]


async def _of(found: Awaitable[Any], look: Callable[[Any], Any]) -> Any:
    """Apply *look* to what was found; return ``None`` for nothing."""
    there = await found
    return look(there) if there else None


def _native(db: Database) -> dict[str, Kept]:
    agent, store, values = Checkpointer(db), Store(db), KeyValue(db)
    talk, tasks = Conversation(db, ID), EpisodeStore(db)
    return {
        "a checkpointer": Kept(
            lambda name: agent.save({"name": name}, ID, "1"),
            lambda: _of(agent.load(ID), lambda state: state["name"]),
            lambda: agent.delete(ID, all_namespaces=False),
        ),
        "a store": Kept(
            lambda name: store.put((ID,), ID, name),
            lambda: store.get((ID,), ID),
            lambda: store.delete((ID,), ID),
        ),
        "keys and values": Kept(
            lambda name: values.write(ID, name),
            lambda: values.read(ID),
            lambda: values.delete(ID),
        ),
        "a conversation": Kept(
            lambda name: talk.add({"role": "user", "content": name}),
            lambda: _of(talk.messages(), lambda messages: messages[0].text),
            talk.delete,
        ),
        "episodes": Kept(
            lambda name: tasks.write(Episode(id_=ID, task=name, result="", completed_at=NOON)),
            lambda: _of(tasks.get(ID), lambda episode: episode.task),
            lambda: tasks.delete(ID),
        ),
    }


def _adapted(db: Database) -> dict[str, Kept]:
    return {
        name: _kept(subject, db)
        for module in INSTALLED.values()
        for name, subject in module.SUBJECTS.items()
    }


def _kept(subject: Subject[Any], db: Database) -> Kept:
    adapter = subject.open(db)
    return Kept(
        lambda name: subject.write(adapter, ID, name),
        lambda: _of(subject.read(adapter, ID), lambda texts: texts[0]),
        lambda: subject.delete(adapter, ID),
    )


PARTS = {"A2A's push notifications": "A2A's tasks"}
"""What ends with something else: the webhooks of a task with the task."""


@pytest.mark.parametrize("backwards", [False, True])
async def test_each_framework_keeps_its_data_until_it_deletes_it_itself(
    db: Database, backwards: bool
) -> None:
    keepers = _native(db) | _adapted(db)
    for name, kept in keepers.items():
        await kept.write(name)

    order = list(keepers)[::-1] if backwards else list(keepers)
    for deleted, name in enumerate(order, start=1):
        await keepers[name].delete()
        found = {one: await keepers[one].read() for one in order}
        gone = {*order[:deleted]}
        gone |= {one for one, whole in PARTS.items() if whole in gone}
        assert found == {one: None if one in gone else one for one in order}
