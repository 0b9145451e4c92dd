"""Process that saves turns of a conversation until it is killed.

    python conversation_to_kill.py URL TENANT

It prints the number of each turn after its save.
"""

from __future__ import annotations

import asyncio
import os
import sys

from pydantic_ai.conversation import Conversation
from pydantic_ai_messages import answer, user

from memalchemy import Database
from memalchemy.integrations.pydantic_ai import MemalchemyConversationStore


async def talk_until_killed(url: str, tenant: str) -> None:
    async with Database(url, tenant=tenant) as db:
        store = MemalchemyConversationStore(db)
        while True:
            talk = await store.load("talk") or Conversation(conversation_id="talk")
            turn = str(len(talk.messages) // 2)
            talk.messages += [user(turn), answer(turn)]
            await store.save(talk)
            os.write(1, f"{turn}\n".encode())


if __name__ == "__main__":
    asyncio.run(talk_until_killed(*sys.argv[1:3]))
