"""memalchemy's own classes as subjects of the checks of adapters."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from memalchemy import (
    Checkpointer,
    Conversation,
    Database,
    Episode,
    EpisodeStore,
    KeyValue,
    Store,
    ThreadLog,
)
from memalchemy.conformance import Subject

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def on(cls: Callable[..., Any], *args: Any) -> Callable[[Any], Any]:
    """Return a function that makes *cls* on what adapters take."""
    return lambda db: cls(Database(db) if isinstance(db, str) else db, *args)


def within(cls: Callable[..., Any]) -> Callable[[Any, tuple[str, ...]], Any]:
    """Return a function that makes *cls* in a namespace below its own."""
    return lambda db, namespace: cls(db, namespace=("test", *namespace))


class Conversations:
    """Conversations by their ids."""

    def __init__(self, db: Database, *, namespace: tuple[str, ...] | None = None) -> None:
        self.db = db
        self.options = {} if namespace is None else {"namespace": namespace}

    def of(self, id_: str) -> Conversation:
        return Conversation(self.db, id_, **self.options)


async def save(checkpointer: Checkpointer, id_: str, text: str) -> Any:
    state = {"list": [{"text": text}]}
    await checkpointer.save(state, id_)
    return state


async def load(checkpointer: Checkpointer, id_: str) -> list[str]:
    state = await checkpointer.load(id_)
    return [] if state is None else [state["list"][0]["text"]]


async def load_all(checkpointer: Checkpointer, id_: str) -> list[str]:
    ids = [info.checkpoint_id async for info in checkpointer.history(id_)]
    found = [one.state async for one in checkpointer.snapshots(id_, ids[::-1])]
    return [state["list"][0]["text"] for state in found]


async def put(store: Store, id_: str, text: str) -> Any:
    value = {"text": text}
    await store.put(("test", id_), id_, value)
    return value


async def get(store: Store, id_: str) -> list[str]:
    value = await store.get(("test", id_), id_)
    return [] if value is None else [value["text"]]


async def write(values: KeyValue, id_: str, text: str) -> Any:
    value = {"text": text}
    await values.write(id_, value)
    return value


async def read(values: KeyValue, id_: str) -> list[str]:
    value = await values.read(id_)
    return [] if value is None else [value["text"]]


async def append(log: ThreadLog, id_: str, text: str) -> Any:
    value = {"text": text}
    await log.append(id_, value)
    return value


async def tail(log: ThreadLog, id_: str) -> list[str]:
    return [entry.value["text"] for entry in await log.tail(id_, 10_000)]


async def add(talks: Conversations, id_: str, text: str) -> Any:
    message = {"role": "user", "content": text}
    await talks.of(id_).add(message)
    return message


async def messages(talks: Conversations, id_: str) -> list[str]:
    return [message.text for message in await talks.of(id_).messages()]


async def tell(episodes: EpisodeStore, id_: str, text: str) -> Any:
    episode = Episode(id_=id_, task=text, result="", completed_at=NOON)
    await episodes.write(episode)
    return episode


async def told(episodes: EpisodeStore, id_: str) -> list[str]:
    episode = await episodes.get(id_)
    return [] if episode is None else [episode.task]


SUBJECTS: dict[str, Subject[Any]] = {
    "newest checkpoints": Subject(
        on(Checkpointer),
        save,
        load,
        lambda checkpointer, id_: checkpointer.delete(id_, all_namespaces=False),
        appends=False,
        objects=lambda checkpointer, id_: checkpointer.load(id_),
        namespaced=within(Checkpointer),
    ),
    "all checkpoints": Subject(
        on(Checkpointer),
        save,
        load_all,
        lambda checkpointer, id_: checkpointer.delete(id_, all_namespaces=False),
        objects=lambda checkpointer, id_: checkpointer.load(id_),
        namespaced=within(Checkpointer),
    ),
    "items": Subject(
        on(Store),
        put,
        get,
        lambda store, id_: store.delete(("test", id_), id_),
        appends=False,
        objects=lambda store, id_: store.get(("test", id_), id_),
    ),
    "keys and values": Subject(
        on(KeyValue),
        write,
        read,
        lambda values, id_: values.delete(id_),
        appends=False,
        objects=lambda values, id_: values.read(id_),
        namespaced=within(KeyValue),
    ),
    "entries": Subject(
        on(ThreadLog),
        append,
        tail,
        lambda log, id_: log.delete(id_),
        objects=lambda log, id_: log.tail(id_),
        namespaced=within(ThreadLog),
    ),
    "messages": Subject(
        on(Conversations),
        add,
        messages,
        lambda talks, id_: talks.of(id_).delete(),
        objects=lambda talks, id_: talks.of(id_).messages(),
        namespaced=within(Conversations),
    ),
    "episodes": Subject(
        on(EpisodeStore),
        tell,
        told,
        lambda episodes, id_: episodes.delete(id_),
        appends=False,
        objects=lambda episodes, id_: episodes.get(id_),
    ),
}
