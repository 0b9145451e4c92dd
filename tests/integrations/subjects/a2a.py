"""A2A's tasks and push notifications under the tests of all adapters."""

from __future__ import annotations

from typing import Any

from a2a.server.cluster.task_store import ConcurrentTaskModificationError
from a2a.server.cluster.version import TaskVersion
from a2a.server.context import ServerCallContext
from a2a.types import ListTasksRequest, Message, Part, Role, Task, TaskPushNotificationConfig

from memalchemy.conformance import Subject
from memalchemy.integrations.a2a import (
    MemalchemyPushNotificationConfigStore,
    MemalchemyTaskEventStream,
    MemalchemyTaskStore,
    MemalchemyVersionedTaskStore,
)

FRAMEWORK, EXTRA = "a2a", "a2a"
NO_SUITE = "The tests of a2a-sdk are in its repository and not in its sdist."
ADAPTERS: dict[Any, Any] = {
    MemalchemyPushNotificationConfigStore: MemalchemyPushNotificationConfigStore,
    MemalchemyTaskEventStream: MemalchemyTaskEventStream,
    MemalchemyTaskStore: MemalchemyTaskStore,
    MemalchemyVersionedTaskStore: MemalchemyVersionedTaskStore,
}

CALL = ServerCallContext()
ARGUMENTS = {"params": [ListTasksRequest()], "event": [None]}


def task_of(id_: str, *texts: str) -> Task:
    """A task with a message for each of the texts."""
    history = [
        Message(message_id=str(at), role=Role.ROLE_USER, parts=[Part(text=text)])
        for at, text in enumerate(texts)
    ]
    return Task(id=id_, context_id="context", history=history)


def texts_of(task: Task | None) -> list[str]:
    return [] if task is None else [message.parts[0].text for message in task.history]


async def _write(store: MemalchemyTaskStore, id_: str, text: str) -> Any:
    task = task_of(id_, text)
    await store.save(task, CALL)
    return task


async def _write_version(store: MemalchemyVersionedTaskStore, id_: str, text: str) -> Any:
    known = await store.get(id_, CALL)
    task = task_of(id_, *texts_of(known.task if known else None), text)
    version = known.version if known else TaskVersion.MISSING
    await store.save(task, prev_version=version, context=CALL)
    return task


async def _read(store: MemalchemyTaskStore, id_: str) -> list[str]:
    found = await store.get(id_, CALL)
    assert found is None or isinstance(found, Task)
    return texts_of(found)


async def _set(store: MemalchemyPushNotificationConfigStore, id_: str, text: str) -> Any:
    config = TaskPushNotificationConfig(id="one", url=text)
    await store.set_info(id_, config, CALL)
    return config


async def _urls(store: MemalchemyPushNotificationConfigStore, id_: str) -> list[str]:
    found = await store.get_info(id_, CALL)
    assert all(isinstance(config, TaskPushNotificationConfig) for config in found)
    return [config.url for config in found]


SUBJECTS: dict[str, Subject[Any]] = {
    "A2A's tasks": Subject(
        MemalchemyTaskStore,
        _write,
        _read,
        lambda store, id_: store.delete(id_, CALL),
        appends=False,
        objects=lambda store, id_: store.get(id_, CALL),
    ),
    "A2A's tasks with versions": Subject(
        lambda db: MemalchemyVersionedTaskStore(db, namespace=("cluster",)),
        _write_version,
        lambda store, id_: _read(store.as_task_store, id_),
        lambda store, id_: store.delete(id_, CALL),
        objects=lambda store, id_: store.get(id_, CALL),
        namespaced=lambda db, namespace: MemalchemyVersionedTaskStore(
            db, namespace=("cluster", *namespace)
        ),
        conflicts=(ConcurrentTaskModificationError,),
    ),
    "A2A's push notifications": Subject(
        MemalchemyPushNotificationConfigStore,
        _set,
        _urls,
        lambda store, id_: store.delete_info(id_, CALL),
        appends=False,
        objects=lambda store, id_: store.get_info(id_, CALL),
    ),
}
