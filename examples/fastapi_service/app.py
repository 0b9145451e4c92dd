"""A FastAPI service whose tickets and whose agent's memory are in one database and one transaction.

export DATABASE_URL=sqlite+aiosqlite:///service.db       # or postgresql+asyncpg://…
alembic upgrade heads
uvicorn app:app
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any
from uuid import uuid4

from fastapi import Depends, FastAPI, HTTPException, Request
from models import Ticket
from pydantic import BaseModel
from sqlalchemy import event, make_url, select
from sqlalchemy.ext.asyncio import (
    AsyncEngine,
    AsyncSession,
    async_sessionmaker,
    create_async_engine,
)
from sqlalchemy.orm import joinedload

from memalchemy import Checkpointer, Database
from memalchemy.keys import log_key
from memalchemy.schema import ThreadRow

TENANT = "default"
LIMITS: dict[str, dict[str, Any]] = {
    "sqlite": {"timeout": 30},
    "postgresql": {"server_settings": {"lock_timeout": "5s", "statement_timeout": "30s"}},
}
"""How long a request waits: on SQLite to write, on PostgreSQL for a lock and in a statement."""


def check_foreign_keys(engine: AsyncEngine) -> None:
    """Let SQLite delete a ticket with its thread: it checks foreign keys only if it is asked to."""

    @event.listens_for(engine.sync_engine, "connect")
    def connected(connection: Any, record: Any) -> None:
        connection.execute("PRAGMA foreign_keys = ON")


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """Open the engine, which the service and memalchemy share."""
    url = make_url(os.environ["DATABASE_URL"])
    engine = create_async_engine(url, connect_args=LIMITS[url.get_backend_name()])
    if engine.dialect.name == "sqlite":
        check_foreign_keys(engine)
    app.state.sessions = async_sessionmaker(engine, expire_on_commit=False)
    db = Database(engine)
    await db.check()  # a schema that was not upgraded fails now, and not at the first request
    app.state.checkpointer = Checkpointer(db)
    yield
    await engine.dispose()


app = FastAPI(lifespan=lifespan)


async def transaction(request: Request) -> AsyncIterator[AsyncSession]:
    """Open a session whose transaction is the request's, and commit it when the request is done."""
    async with request.app.state.sessions() as session, session.begin():
        yield session


def checkpointer(request: Request) -> Checkpointer:
    return request.app.state.checkpointer


# With scope="function", which FastAPI has since 0.121, the commit comes before the answer is sent.
# Without it a client reads 201, and then the commit may fail.
Session = Annotated[AsyncSession, Depends(transaction, scope="function")]
Threads = Annotated[Checkpointer, Depends(checkpointer)]


class NewTicket(BaseModel):
    customer: str
    subject: str


class Question(BaseModel):
    text: str


@app.post("/tickets", status_code=201)
async def open_ticket(new: NewTicket, session: Session, threads: Threads) -> dict[str, Any]:
    """Store a ticket and the first state of its thread: both, or neither."""
    thread_id = f"ticket-{uuid4()}"
    state = {"messages": [{"role": "user", "content": new.subject}]}
    await threads.save(state, thread_id, connection=session)
    ticket = Ticket(log_id=log_key(TENANT, thread_id, "/"), **new.model_dump())
    session.add(ticket)
    await session.flush()
    if "refuse" in new.subject:
        raise HTTPException(
            422, "This subject is refused: neither the ticket nor the thread remains."
        )
    return {"id": ticket.id, "thread_id": thread_id}


@app.post("/tickets/{ticket_id}/messages")
async def ask(
    ticket_id: int, question: Question, session: Session, threads: Threads
) -> dict[str, Any]:
    """Let the agent answer, and save its state in the request's transaction.

    Other requests on the ticket may do the same at this moment: `change` loses no message of
    theirs.
    """
    ticket = await session.get(Ticket, ticket_id, options=[joinedload(Ticket.thread)])
    if ticket is None:
        raise HTTPException(404, f"There is no ticket {ticket_id}.")
    thread_id = ticket.thread.thread_id
    answer = ""

    def reply(state: dict[str, Any] | None) -> dict[str, Any]:
        nonlocal answer
        assert state is not None
        state["messages"].append({"role": "user", "content": question.text})
        answer = f"You have asked {sum(m['role'] == 'user' for m in state['messages'])} times."
        state["messages"].append({"role": "assistant", "content": answer})
        return state

    step = await threads.change(thread_id, reply, connection=session)
    return {"answer": answer, "step": step}


@app.get("/tickets/{ticket_id}/messages")
async def list_messages(ticket_id: int, session: Session, threads: Threads) -> list[dict[str, Any]]:
    """List what was said about a ticket."""
    ticket = await session.get(Ticket, ticket_id, options=[joinedload(Ticket.thread)])
    if ticket is None:
        raise HTTPException(404, f"There is no ticket {ticket_id}.")
    state = await threads.load(ticket.thread.thread_id, connection=session)
    return [] if state is None else state["messages"]


@app.get("/tickets")
async def list_tickets(session: Session) -> list[dict[str, Any]]:
    """List tickets with the time of their thread's last step, in one query over both schemas."""
    joined = (
        select(Ticket.id, Ticket.subject, ThreadRow.updated_at)
        .join(Ticket.thread)
        .order_by(Ticket.id)
    )
    found = await session.execute(joined)
    return [
        {"id": number, "subject": subject, "last_step_at": updated_at}
        for number, subject, updated_at in found
    ]


@app.get("/search")
async def search(words: str, threads: Threads) -> list[dict[str, Any]]:
    """Find steps by words, best first."""
    return [
        {"thread_id": hit["thread_id"], "text": hit["snippet"]}
        for hit in await threads.search(words)
    ]
