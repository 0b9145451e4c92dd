"""An A2A server on our stores: tasks are continued, listed and canceled after a restart."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from typing import Any

import pytest
from a2a.server.agent_execution import AgentExecutor, RequestContext
from a2a.server.events import EventQueue
from a2a.server.request_handlers import DefaultRequestHandler
from a2a.server.tasks import TaskUpdater
from a2a.types import (
    AgentCapabilities,
    AgentCard,
    AgentInterface,
    AgentSkill,
    CancelTaskRequest,
    GetTaskRequest,
    ListTasksRequest,
    Message,
    Part,
    Role,
    SendMessageRequest,
    SubscribeToTaskRequest,
    Task,
    TaskPushNotificationConfig,
    TaskState,
    TaskStatus,
    TaskStatusUpdateEvent,
)
from subjects.a2a import CALL, texts_of

from memalchemy import Database
from memalchemy.integrations.a2a import (
    MemalchemyPushNotificationConfigStore,
    MemalchemyTaskEventStream,
    MemalchemyTaskStore,
    MemalchemyVersionedTaskStore,
)

CARD = AgentCard(
    name="counter",
    description="Counts messages.",
    version="1",
    supported_interfaces=[
        AgentInterface(url="http://x.test", protocol_binding="JSONRPC", protocol_version="1.0")
    ],
    capabilities=AgentCapabilities(streaming=True, push_notifications=True),
    default_input_modes=["text"],
    default_output_modes=["text"],
    skills=[AgentSkill(id="count", name="count", description="Counts.", tags=["count"])],
)


class Counter(AgentExecutor):
    """Answers each message with its number, when it may go on, and asks for another."""

    def __init__(self) -> None:
        self.goes_on = asyncio.Event()
        self.goes_on.set()

    async def execute(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id is not None
        assert context.context_id is not None
        assert context.message is not None
        known = context.current_task
        if known is None:
            known = Task(
                id=context.task_id,
                context_id=context.context_id,
                status=TaskStatus(state=TaskState.TASK_STATE_SUBMITTED),
                history=[context.message],
            )
            await event_queue.enqueue_event(known)
        updater = TaskUpdater(event_queue, context.task_id, context.context_id)
        asked = {one.message_id for one in known.history if one.role == Role.ROLE_USER}
        seen = len(asked | {context.message.message_id})
        await updater.start_work()
        await self.goes_on.wait()
        await updater.add_artifact([Part(text=f"{seen}")], artifact_id="count", name="count")
        said = updater.new_agent_message([Part(text=f"message {seen}")])
        await updater.requires_input(said)

    async def cancel(self, context: RequestContext, event_queue: EventQueue) -> None:
        assert context.task_id is not None
        assert context.context_id is not None
        await TaskUpdater(event_queue, context.task_id, context.context_id).cancel()


def asked(text: str, task: Task | None = None) -> SendMessageRequest:
    message = Message(message_id=text, role=Role.ROLE_USER, parts=[Part(text=text)])
    if task is not None:
        message.task_id, message.context_id = task.id, task.context_id
    return SendMessageRequest(message=message)


@pytest.mark.parametrize("cls", [MemalchemyTaskStore, MemalchemyVersionedTaskStore])
async def test_a_task_goes_on_after_a_restart(
    shared_url: str, db: Database, lasting: None, cls: type[Any]
) -> None:
    @asynccontextmanager
    async def server() -> AsyncIterator[DefaultRequestHandler]:
        """A server in a process that has just started."""
        async with Database(shared_url, tenant=db.tenant) as opened:
            hooks = MemalchemyPushNotificationConfigStore(opened)
            shares = cls is MemalchemyVersionedTaskStore
            stream = MemalchemyTaskEventStream(opened, poll_interval=0.01) if shares else None
            handler = DefaultRequestHandler(
                Counter(), cls(opened), CARD, push_config_store=hooks, event_stream=stream
            )
            yield handler
            await handler.aclose()

    async with server() as handler:
        first = await handler.on_message_send(asked("one"), CALL)
        assert isinstance(first, Task)
        hook = TaskPushNotificationConfig(task_id=first.id, url="https://x.test/hook")
        await handler.on_create_task_push_notification_config(hook, CALL)
    async with server() as handler:
        second = await handler.on_message_send(asked("two", first), CALL)
        assert isinstance(second, Task)
    async with server() as handler:
        found = await handler.on_get_task(GetTaskRequest(id=first.id), CALL)
        assert found is not None
        assert found == second
        assert texts_of(found) == ["one", "message 1", "two"]
        assert found.status.message.parts[0].text == "message 2"
        assert [one.parts[0].text for one in found.artifacts] == ["2"]
        short = await handler.on_get_task(GetTaskRequest(id=first.id, history_length=1), CALL)
        assert short is not None
        assert len(short.history) == 1

        await handler.on_cancel_task(CancelTaskRequest(id=first.id), CALL)
        listed = await handler.on_list_tasks(
            ListTasksRequest(status=TaskState.TASK_STATE_CANCELED, page_size=5), CALL
        )
        assert [task.id for task in listed.tasks] == [first.id]
    hooks = await MemalchemyPushNotificationConfigStore(db).get_info_for_dispatch(first.id)
    assert [one.url for one in hooks] == ["https://x.test/hook"]


async def test_a_replica_follows_a_task_that_another_one_runs(db: Database) -> None:
    agent, store = Counter(), MemalchemyVersionedTaskStore(db)
    agent.goes_on.clear()

    def replica() -> DefaultRequestHandler:
        stream = MemalchemyTaskEventStream(db, poll_interval=0.01)
        return DefaultRequestHandler(agent, store, CARD, event_stream=stream)

    one, other = replica(), replica()
    asking = aclosing(one.on_message_send_stream(asked("one"), CALL))
    async with asking as events:
        task, working = await anext(events), await anext(events)
        assert isinstance(task, Task)
        assert isinstance(working, TaskStatusUpdateEvent)
        subscribed = SubscribeToTaskRequest(id=task.id)
        async with aclosing(other.on_subscribe_to_task(subscribed, CALL)) as followed:
            snapshot = await anext(followed)
            agent.goes_on.set()
            assert [event async for event in followed] == [event async for event in events]
    assert isinstance(snapshot, Task)
    assert snapshot.status.state == TaskState.TASK_STATE_WORKING
    stored = await store.get(task.id, CALL)
    assert stored is not None
    assert stored.task.status.message.parts[0].text == "message 1"
    assert await MemalchemyTaskEventStream(db).events.count(task.id) == 4
    for handler in (one, other):
        await handler.aclose()
