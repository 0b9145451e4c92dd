"""What an adapter stored, with a part altered: it is read, or an error of ours says why not.

A user of a framework who catches `MemalchemyError` catches whatever became of what is stored:
whatever method is called. Which arguments a method takes is learned from the calls by which the
framework's subjects write and read.

`MEMALCHEMY_EXAMPLES` multiplies the number of alterations.
"""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from learned_arguments import LAST, LearnedArguments, methods_of
from subjects import INSTALLED

from altered_values import ODD, altered
from drawn_examples import examples
from memalchemy import Checkpointer, Database, MemalchemyError, NotSerialisable, Store, ThreadLog
from memalchemy.inspection import Inspector
from memalchemy.metadata import check_metadata
from public_calls import error_of
from stored.kinds import directory_of, releases, unzipped
from told_errors import is_raised_on_purpose, told

TIMES = examples(6)
STORED = directory_of(releases()[-1]) / "adapters"
ROOM = "memalchemy/integrations/"
SUBJECTS = [
    (name, subject)
    for name in INSTALLED
    for subject in json.loads((STORED / f"{name}.json").read_text())["texts"]
]


async def alter(db: Database, rng: random.Random) -> None:
    """Alter, or add to, what is in each thread and in each namespace of items."""

    def changed(value: Any) -> Any:
        return rng.choice(ODD) if rng.random() < 0.2 else altered(value, rng)

    def changed_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
        try:
            left = altered(metadata, rng) if rng.random() < 0.3 else metadata
            return check_metadata(left)
        except (NotSerialisable, TypeError, ValueError):
            return metadata

    for listed in (await Inspector(db).threads(limit=500))["threads"]:
        thread, namespace = listed["thread_id"], tuple(listed["namespace"])
        checkpointer = Checkpointer(db, namespace=namespace)
        log = ThreadLog(db, namespace=namespace)
        if (state := await checkpointer.load(thread)) is not None:
            (newest,) = [one async for one in checkpointer.history(thread, limit=1)]
            if isinstance(left := changed(state), dict):
                metadata = changed_metadata(newest.metadata)
                await checkpointer.save(left, thread, newest.checkpoint_id, metadata)
        if entries := await log.range(thread):
            entry = rng.choice(entries)
            if rng.random() < 0.2:
                await log.append(thread, rng.choice(ODD))
            else:
                await log.edit(thread, entry.position, changed(entry.value))
    store = Store(db)
    for namespace in await store.list_namespaces(limit=1000):
        if items := await store.list_items(namespace, limit=100):
            item = rng.choice(items)
            key = "another" if rng.random() < 0.2 else item.key
            metadata = changed_metadata(dict(item.metadata))
            await store.put(namespace, key, changed(item.value), metadata)


@pytest.mark.parametrize(("name", "subject"), SUBJECTS)
async def test_an_adapter_reads_what_was_altered_or_says_why_not(
    name: str, subject: str, tmp_path: Path
) -> None:
    rng = random.Random(f"{name} {subject}")
    id_: str = json.loads((STORED / f"{name}.json").read_text())["id"]
    one = INSTALLED[name].SUBJECTS[subject]
    wrong: Counter[str] = Counter()
    for number in range(TIMES):
        file = tmp_path / f"{number}.db"
        file.write_bytes(unzipped(STORED / f"{name}.db.gz"))
        async with Database(f"sqlite:///{file}") as db:
            await alter(db, rng)
            for what, call in (
                ("read", lambda: one.read(one.open(db), id_)),
                ("write", lambda: one.write(one.open(db), id_, "the crane flies on")),
            ):
                try:
                    await call()
                except MemalchemyError:
                    pass
                except Exception as error:  # noqa: BLE001 - what it is is the question
                    is_translated = isinstance(error.__cause__, MemalchemyError)
                    # Nothing of what the subject did with what it was given.
                    if not is_translated and (said := told(error, inside=ROOM)):
                        wrong[f"{what}: {said}"] += 1
    assert not wrong, "\n".join(f"{count} x {what}" for what, count in wrong.most_common(40))


def is_documented(error: Exception, method: Any) -> bool:
    """Return whether it is an error of ours, or one of a framework's that stands for one.

    A method's docstring may name another of the framework's.
    """
    kind = type(error)
    is_named = kind.__module__ != "builtins" and kind.__name__ in (method.__doc__ or "")
    return is_named or any(isinstance(one, MemalchemyError) for one in (error, error.__cause__))


def adapters_of(framework: str) -> dict[str, Callable[[Any], Any]]:
    """Return what makes each adapter of a framework: as its subjects do, where they do."""
    module = INSTALLED[framework]
    by_subject = {what: subject.open for what, subject in module.SUBJECTS.items()}
    made = {*by_subject.values()}
    return by_subject | {
        cls.__name__: make for cls, make in module.ADAPTERS.items() if make not in made
    }


@pytest.mark.parametrize("framework", INSTALLED)
async def test_every_method_reads_what_was_altered_or_says_why_not(
    framework: str, tmp_path: Path
) -> None:
    """An error has to be about the arguments: the call raises it where nothing is stored, too."""
    rng = random.Random(framework)
    id_: str = json.loads((STORED / f"{framework}.json").read_text())["id"]
    known = LearnedArguments(INSTALLED[framework], id_, rng)
    async with Database(f"sqlite:///{tmp_path}/learned.db", migrate="upgrade") as db:
        await known.learn(db)
    wrong: Counter[str] = Counter()
    for number in range(TIMES):
        file = tmp_path / f"{number}.db"
        file.write_bytes(unzipped(STORED / f"{framework}.db.gz"))
        async with Database(f"sqlite:///{file}") as db:
            nowhere = db.for_tenant("nowhere")
            methods = [
                (what, make, name)
                for what, make in adapters_of(framework).items()
                for name in methods_of(type(make(db)))
            ]
            unknown = {
                name: parameters
                for _, make, name in methods
                if (parameters := known.unknown_of(getattr(make(db), name)))
            }
            assert not unknown, "ARGUMENTS of the framework's subjects has no such arguments"
            for _, make, name in methods:
                if not name.startswith(LAST):
                    await error_of(known.call_of(getattr(make(db), name)))
            await alter(db, rng)
            for what, make, name in methods:
                call = known.call_of(getattr(make(db), name))
                error = await error_of(call)
                if error is None or is_documented(error, call.func):
                    continue
                if is_raised_on_purpose(error):
                    continue
                elsewhere = partial(getattr(make(nowhere), name), *call.args, **call.keywords)
                same = type(await error_of(elsewhere)) is type(error)
                # Nothing of what the framework's own code does with what it was given.
                if not same and (said := told(error, inside=ROOM)):
                    wrong[f"{what}, {name}: {said}"] += 1
    assert not wrong, "\n".join(f"{count} x {what}" for what, count in wrong.most_common(40))
