"""The agents of the month: which frameworks they use, and how each kind of thing is used.

Each kind is a `memalchemy.conformance.Subject`: the same that the tests of all adapters use, and
those of memalchemy's own classes. So an agent is a name of a framework, and its kinds.
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import native_subjects
from subjects import FRAMEWORKS, INSTALLED

from memalchemy import Checkpointer, Database, HTTPCheckpointer, Store
from memalchemy.conformance import Subject

PLAIN, SEALED = "acme", "globex"
"""The tenants: one that anybody with the file can read, one that is encrypted and signed."""
TENANTS = (PLAIN, SEALED)
OF_A_TENANT = 5
NATIVE, REMOTE = "memalchemy", "memalchemy over HTTP"
TOKEN = "a-token-of-the-month-0123456789"
WEEK = timedelta(days=7)
LEFT_OUT = {
    "all checkpoints": "an operator prunes it",
    "A2A's push notifications": "they end with their task, which has the same id",
}
"""Subjects that have no place in the model."""


def frameworks(chance: random.Random) -> dict[str, list[str]]:
    """Draw the frameworks of each tenant from those that are installed."""
    there = sorted(INSTALLED)
    return {tenant: chance.sample(there, min(OF_A_TENANT, len(there))) for tenant in TENANTS}


def missing() -> list[str]:
    """Return the frameworks that this environment does not have."""
    return sorted(FRAMEWORKS.keys() - INSTALLED.keys())


def kinds(agent: str) -> Mapping[str, Subject[Any]]:
    """Return the kinds of things that an agent stores, by their names."""
    if agent == REMOTE:
        return OVER_HTTP
    given = OWN if agent == NATIVE else INSTALLED[agent].SUBJECTS
    return {name: subject for name, subject in given.items() if name not in LEFT_OUT}


# --- What no framework has ------------------------------------------------------------------------


async def _say(keep: Any, id_: str, text: str) -> None:
    """Add to the state of a thread, as an agent without a framework does."""
    state = await keep.load(id_) or {"messages": []}
    state["messages"].append({"role": "user", "content": text})
    await keep.save(state, id_, metadata={"turn": len(state["messages"])})


async def _said(keep: Any, id_: str) -> list[str]:
    state = await keep.load(id_)
    return [] if state is None else [message["content"] for message in state["messages"]]


async def _note(store: Store, id_: str, text: str) -> None:
    await store.put((SHORT_LIVED, id_), "note", {"text": text}, {"topic": "trip"}, ttl=WEEK)


async def _noted(store: Store, id_: str) -> list[str]:
    found = await store.get((SHORT_LIVED, id_), "note")
    return [] if found is None else [found["text"]]


SHORT_LIVED = "notes of a week"
OWN: dict[str, Subject[Any]] = native_subjects.SUBJECTS | {
    "states of an agent": Subject(
        native_subjects.on(Checkpointer),
        _say,
        _said,
        lambda keep, id_: keep.delete(id_),
    ),
    SHORT_LIVED: Subject(
        native_subjects.on(Store),
        _note,
        _noted,
        lambda store, id_: store.delete((SHORT_LIVED, id_), "note"),
        appends=False,
    ),
}
OVER_HTTP: dict[str, Subject[Any]] = {
    "states over HTTP": Subject(
        lambda url: HTTPCheckpointer(url, token=TOKEN),
        _say,
        _said,
        lambda keep, id_: keep.delete(id_),
    )
}


def open_kind(subject: Subject[Any], kind: str, db: Database, server: str) -> Any:
    """Open what stores a kind of thing: on the database, or by the HTTP server before it."""
    return subject.open(server if kind in OVER_HTTP else db)
