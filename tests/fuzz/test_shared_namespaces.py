"""Every class over what other classes, and nobody in particular, have written in its namespace.

All are made for one namespace, whose items and logs hold values of any form, and called at random.
A call ends in a result or an error of memalchemy's. A `TypeError` or `ValueError` has to be about
its arguments: the same call raises it where nothing is stored, too.

`MEMALCHEMY_EXAMPLES` multiplies the number of calls.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from inspect import isclass, signature
from typing import Any

import pytest

import memalchemy
from drawn_examples import examples
from memalchemy import (
    Checkpointer,
    Database,
    Episode,
    MemalchemyError,
    MemoryFact,
    NamespacedStore,
    Store,
    StoreContext,
    ThreadLog,
)
from public_calls import arguments, error_of, methods_of
from told_errors import told

CALLS = examples(600)
HERE = ("shared",)
PEOPLE = ("ada", "bob")
THREADS = ("t", "u")
MESSAGE = {"role": "user", "content": "some words"}
FORMS: list[Any] = [
    *(5, None, "some words", ["some words"], {}, {"text": "some words"}, {"text": 5}),
    *({"value": "some words"}, {"content": "some words"}, {"role": 5}, MESSAGE),
    *({"fact": "some words"}, {"topic": "tea", "content": 7}, {"task": "some words"}),
    *({"id": "k", "user_id": 5}, {"messages": "some words"}, {"messages": [5]}, b"\xff"),
]
KEYS = [f"k{number}" for number in range(len(FORMS))]

LEFT_OUT = {"EpisodicMemory", "RetainedCheckpointer"}
"""They are made of another class's object, or of settings, and have the methods of others."""


def made_here(cls: type) -> Callable[[Database], Any]:
    """Return a function that makes an object of a class for the namespace, if it takes one."""
    takes = signature(cls).parameters
    given: dict[str, Any] = {"namespace": HERE} if "namespace" in takes else {}
    if "thread_id" in takes:
        given["thread_id"] = THREADS[0]
    is_of_store = cls in (NamespacedStore, StoreContext)
    return lambda db: cls(Store(db) if is_of_store else db, **given)


PUBLIC = [one for name in memalchemy.__all__ if isclass(one := getattr(memalchemy, name))]
SUBJECTS = {
    cls.__name__: made_here(cls)
    for cls in PUBLIC
    if not issubclass(cls, Exception)
    and cls.__name__ not in LEFT_OUT
    and next(iter(signature(cls).parameters), "") in ("db", "store")
}
"""Every public class that is made of a database or a store."""

GIVEN: dict[str, list[Any]] = {
    "namespace": [HERE, *((*HERE, name) for name in PEOPLE)],
    "user_id": [*PEOPLE],
    "query": ["some words", "words"],
    "text": ["some words"],
    "texts": [["some words"]],
    "content": ["some words"],
    "messages": [[MESSAGE]],
    "message": [MESSAGE],
    "state": [{"messages": [MESSAGE]}],
    "snapshot": [[MESSAGE]],
    "value": FORMS,
    "values": [FORMS],
    "entries": [FORMS],
    "metadata": [{"step": 1}, None],
    "fact": [MemoryFact("k1", "ada", "some words")],
    "facts": [[MemoryFact("k1", "ada", "some words")]],
    "episode": [Episode(task="some words", result="done")],
    "position": [1, 2, 3],
    "positions": [[1], [2, 3]],
    "limit": [3, 100],
    "mode": ["text"],
    "match": ["any", "all"],
    "older_than": [0.001, 3600],
}


def given_for(name: str, rng: random.Random) -> Any:
    """An argument for a parameter, by its name; of names that end so a thread's or an item's id."""
    if name in GIVEN:
        return rng.choice(GIVEN[name])
    if name.endswith("thread_id"):
        return rng.choice(THREADS)
    if name.endswith("thread_ids"):
        return [*THREADS]
    if name.endswith(("_ids", "keys")):
        return rng.sample(KEYS, 2)
    if name.endswith(("id", "key")):
        return rng.choice(KEYS)
    return rng.choice([None, 1, "some words"])


async def fill(db: Database) -> None:
    """Write values of all forms into the items and the logs of the namespace."""
    store, log = Store(db), ThreadLog(db, namespace=HERE)
    for key, form in zip(KEYS, FORMS, strict=True):
        for namespace in GIVEN["namespace"]:
            await store.put(namespace, key, form)
    for thread in THREADS:
        await log.append(thread, FORMS)
        await Checkpointer(db, namespace=HERE).save({"messages": FORMS}, thread)


@pytest.mark.own_keys
@pytest.mark.alone
@pytest.mark.asyncio_only("the synchronous classes call the same methods")
async def test_no_form_of_a_value_makes_a_class_fail_in_a_way_that_is_not_documented(
    database_url: str,
) -> None:
    rng = random.Random(2611)
    wrong: Counter[str] = Counter()
    async with Database(database_url, migrate="upgrade") as db:
        names = [(kind, name) for kind, make in SUBJECTS.items() for name in methods_of(make(db))]
        assert len(names) > 80
        for number in range(CALLS):
            if number % 200 == 0:  # what was deleted comes back
                await fill(db)
            kind, name = names[number % len(names)] if number < 500 else rng.choice(names)
            subject = SUBJECTS[kind](db)
            given, named = arguments(getattr(subject, name), rng, given_for)
            error = await error_of(partial(getattr(subject, name), *given, **named))
            if error is None or isinstance(error, MemalchemyError):
                continue
            elsewhere = getattr(SUBJECTS[kind](db.for_tenant(f"empty {number}")), name)
            if type(await error_of(partial(elsewhere, *given, **named))) is not type(error):
                wrong[f"{kind}.{name}: {told(error)}"] += 1
        assert (await db.health())["checked_out"] == 0
    assert not wrong, "\n".join(f"{count} x {what}" for what, count in wrong.most_common(40))
