"""A process that appends events to a session of ADK, and says so after each, until it is killed."""

from __future__ import annotations

import asyncio
import sys

from google.adk.events import Event, EventActions
from google.genai import types

from memalchemy import Database
from memalchemy.integrations.google_adk import MemalchemySessionService

EVENTS = 100_000


async def main(url: str, tenant: str) -> None:
    service = MemalchemySessionService(Database(url, tenant=tenant))
    session = await service.create_session(app_name="app", user_id="ada", session_id="killed")
    for number in range(EVENTS):
        state = {"n": number, "app:n": number, "user:n": number}
        await service.append_event(
            session,
            Event(
                author="user",
                invocation_id="run",
                content=types.Content(role="user", parts=[types.Part(text=str(number))]),
                actions=EventActions(state_delta=state),
            ),
        )
        print(number, flush=True)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
