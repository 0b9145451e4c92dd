"""A chat client with scripted answers, for the Agent Framework, a workflow, and a program.

Run as a program, it saves messages and checkpoints until it is killed.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent_framework import (
    BaseChatClient,
    ChatResponse,
    Executor,
    Message,
    Workflow,
    WorkflowBuilder,
    WorkflowCheckpoint,
    WorkflowContext,
    handler,
    response_handler,
)

from memalchemy import Database
from memalchemy.integrations.agent_framework import (
    MemalchemyCheckpointStorage,
    MemalchemyHistoryProvider,
)


class Scripted(BaseChatClient[Any]):
    """Answers with the next of *steps*; keeps what it heard."""

    def __init__(self, *steps: str) -> None:
        super().__init__()
        self.steps = list(steps)
        self.heard: list[list[str]] = []

    def _inner_get_response(
        self,
        *,
        messages: Sequence[Message],
        stream: bool,
        options: Mapping[str, Any],
        **kwargs: Any,
    ) -> Awaitable[ChatResponse[Any]]:
        async def answer() -> ChatResponse[Any]:
            self.heard.append([one.text for one in messages])
            return ChatResponse(messages=[Message("assistant", [self.steps.pop(0)])])

        return answer()


@dataclass
class Draft:
    """What the executors send to each other."""

    text: str
    tags: tuple[str, ...] = ()


@dataclass
class Approval:
    """What the workflow asks a person."""

    draft: Draft


class Writer(Executor):
    @handler
    async def write(self, topic: str, ctx: WorkflowContext[Draft]) -> None:
        ctx.set_state("topics", {topic})
        await ctx.send_message(Draft(f"About {topic}", ("new",)))


class Editor(Executor):
    @handler
    async def ask(self, draft: Draft, ctx: WorkflowContext[Draft, str]) -> None:
        await ctx.request_info(request_data=Approval(draft), response_type=str)

    @response_handler
    async def publish(
        self, request: Approval, answer: str, ctx: WorkflowContext[Draft, str]
    ) -> None:
        await ctx.yield_output(f"{request.draft.text} {request.draft.tags}: {answer}")


def workflow(storage: MemalchemyCheckpointStorage) -> Workflow:
    """Return a workflow of a writer and an editor, who waits for a person."""
    writer, editor = Writer(id="writer"), Editor(id="editor")
    builder = WorkflowBuilder(
        name="paper", start_executor=writer, checkpoint_storage=storage
    ).add_edge(writer, editor)
    return builder.build()


async def save_until_killed(url: str, tenant: str) -> None:
    """Save messages and checkpoints, and print the number of each that was acknowledged."""
    async with Database(url, tenant=tenant) as db:
        history, storage = MemalchemyHistoryProvider(db), MemalchemyCheckpointStorage(db)
        number = len(await history.get_messages("s"))
        while True:
            await history.save_messages(
                "s", [Message("user", [str(number)], message_id=str(number))]
            )
            await storage.save(WorkflowCheckpoint("w", "h", str(number), state={"n": [number] * 9}))
            print(number, flush=True)
            number += 1


if __name__ == "__main__":
    asyncio.run(save_until_killed(*sys.argv[1:]))
