"""Adapters that are broken on purpose, each by the check that has to find it."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import native_subjects
from native_subjects import on

from memalchemy import Database, KeyValue, Store, ThreadLog
from memalchemy.conformance import Subject

LOG = native_subjects.SUBJECTS["entries"]
VALUES = native_subjects.SUBJECTS["keys and values"]

BROKEN: dict[str, Subject[Any]] = {}


# --- Reading what was written --------------------------------------------------------------------


async def read_stripped(log: ThreadLog, id_: str) -> list[str]:
    return [text.strip() for text in await LOG.read(log, id_)]


async def read_something(log: ThreadLog, id_: str) -> list[str]:
    return await LOG.read(log, id_) or [""]


async def read_sorted(log: ThreadLog, id_: str) -> list[str]:
    return sorted(await LOG.read(log, id_))


async def delete_all_that_begin_so(log: ThreadLog, id_: str) -> None:
    for thread_id in await log.list_threads(pattern=f"{id_}*"):
        await log.delete(thread_id)


class Aliasing:
    """Remembers the objects that it was given, and returns them."""

    def __init__(self, db: Database) -> None:
        self.items: dict[str, list[dict[str, str]]] = {}


async def remember(adapter: Aliasing, id_: str, text: str) -> Any:
    message = {"text": text}
    adapter.items.setdefault(id_, []).append(message)
    return message


async def recall(adapter: Aliasing, id_: str) -> list[str]:
    return [message["text"] for message in adapter.items.get(id_, ())]


BROKEN["reads_exactly_what_was_written"] = replace(LOG, read=read_stripped)
BROKEN["an_unknown_id_is_empty"] = replace(LOG, read=read_something)
BROKEN["reads_in_the_order_of_writes"] = replace(LOG, read=read_sorted)
BROKEN["a_deletion_removes_an_id_and_nothing_else"] = replace(LOG, delete=delete_all_that_begin_so)
BROKEN["objects_are_the_callers_own"] = replace(LOG, open=Aliasing, write=remember, read=recall)


# --- Separation ----------------------------------------------------------------------------------


class OfThisProcess(Aliasing):
    """Stores everything in the process, whatever the database."""

    everything: ClassVar[dict[str, list[dict[str, str]]]] = {}

    def __init__(self, db: Database) -> None:
        self.items = self.everything


class CuttingLog(ThreadLog):
    async def append(self, thread_id: str, *args: Any, **options: Any) -> list[int]:
        return await super().append(thread_id[:255], *args, **options)

    async def tail(self, thread_id: str, *args: Any, **options: Any) -> Any:
        return await super().tail(thread_id[:255], *args, **options)


class FoldingLog(ThreadLog):
    async def append(self, thread_id: str, *args: Any, **options: Any) -> list[int]:
        return await super().append(thread_id.casefold(), *args, **options)

    async def tail(self, thread_id: str, *args: Any, **options: Any) -> Any:
        return await super().tail(thread_id.casefold(), *args, **options)


async def forget_in_process(adapter: Aliasing, id_: str) -> None:
    adapter.items.pop(id_, None)


BROKEN["ids_that_look_alike_are_separate"] = replace(LOG, open=on(FoldingLog))
BROKEN["long_ids_are_separate_or_refused"] = replace(LOG, open=on(CuttingLog))
BROKEN["namespaces_are_separate"] = replace(LOG, namespaced=lambda db, namespace: ThreadLog(db))
BROKEN["tenants_are_separate"] = replace(LOG, open=lambda db: ThreadLog(db.for_tenant("all")))
BROKEN["databases_are_separate"] = replace(
    LOG, open=OfThisProcess, write=remember, read=recall, delete=forget_in_process
)


# --- Several objects, loops, tasks and processes -------------------------------------------------


def open_and_touch(url: Any) -> ThreadLog:
    if isinstance(url, str):
        Path(url.removeprefix("sqlite:///")).touch()
    log: ThreadLog = LOG.open(url)
    return log


class CachingLog(ThreadLog):
    """Reads a log once."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.cache: dict[str, Any] = {}

    async def tail(self, thread_id: str, *args: Any, **options: Any) -> Any:
        if thread_id not in self.cache:
            self.cache[thread_id] = await super().tail(thread_id, *args, **options)
        return self.cache[thread_id]


class LoopLog(ThreadLog):
    """Belongs to the loop that used it first."""

    loop: Any = None

    async def append(self, *args: Any, **options: Any) -> list[int]:
        self.loop = self.loop or asyncio.get_running_loop()
        if self.loop is not asyncio.get_running_loop():
            raise RuntimeError("attached to a different loop")
        return await super().append(*args, **options)


class Lists(KeyValue):
    """Stores the texts of an id as one list, which a write reads and writes whole."""

    def __init__(self, db: Any) -> None:
        super().__init__(Database(db) if isinstance(db, str) else db)
        self.lock = asyncio.Lock()


async def add(values: Lists, id_: str, text: str) -> None:
    texts = await values.read(id_, [])
    await asyncio.sleep(0.002)  # timed: others come in between
    await values.write(id_, [*texts, text])


async def add_locked(values: Lists, id_: str, text: str) -> None:
    async with values.lock:
        await add(values, id_, text)


async def read_list(values: Lists, id_: str) -> list[str]:
    texts: list[str] = await values.read(id_, [])
    return texts


LISTS: Subject[Any] = Subject(Lists, add, read_list, lambda values, id_: values.delete(id_))

BROKEN["construction_does_no_io"] = replace(LOG, open=open_and_touch)
BROKEN["another_object_sees_every_write"] = replace(LOG, open=on(CachingLog))
BROKEN["one_object_serves_several_event_loops"] = replace(LOG, open=on(LoopLog))
BROKEN["tasks_lose_no_write"] = LISTS
BROKEN["several_objects_lose_no_write"] = replace(LISTS, write=add_locked)
BROKEN["processes_lose_no_write"] = replace(LISTS, write=add_locked)


# --- Whole or absent, and part of memalchemy -----------------------------------------------------


async def write_in_two_steps(values: KeyValue, id_: str, text: str) -> None:
    await VALUES.write(values, id_, text[: len(text) // 2])
    await asyncio.sleep(0)
    await VALUES.write(values, id_, text)


async def write_behind(store: Store, id_: str, text: str) -> None:
    """Acknowledge a write before it is done."""

    async def later() -> None:
        await asyncio.sleep(0.01)  # timed: others come in between
        await LOG.write(store, id_, text)

    behind.add(task := asyncio.create_task(later()))
    task.add_done_callback(behind.discard)


behind: set[asyncio.Task[None]] = set()

BROKEN["readers_see_whole_writes"] = replace(VALUES, write=write_in_two_steps)
BROKEN["a_cancelled_write_is_whole_or_absent"] = replace(VALUES, write=write_in_two_steps)
BROKEN["a_killed_process_loses_no_acknowledged_write"] = replace(LOG, write=write_behind)
BROKEN["forget_erases_what_was_written"] = replace(LOG, open=Aliasing, write=remember, read=recall)
