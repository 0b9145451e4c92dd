"""The route table's vocabulary: what a call is, and what is known of a route."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel

from memalchemy.checkpoints import Checkpointer
from memalchemy.database import Database
from memalchemy.errors import NotFound
from memalchemy.http.readiness import Readiness
from memalchemy.store import Store


@dataclass(frozen=True, slots=True)
class Call:
    """One request, checked: for whom, with what."""

    db: Database
    checkpointer: Checkpointer
    store: Store
    path: dict[str, str]
    query: Any
    body: Any
    max_body: int
    readiness: Readiness

    @property
    def thread_id(self) -> str:
        return self.path["thread_id"]

    @property
    def checkpoint_id(self) -> str | None:
        return self.path.get("checkpoint_id")


@dataclass(frozen=True, slots=True)
class Route:
    """An operation: what it is called with, and what it answers with."""

    method: str
    path: str
    name: str
    summary: str
    endpoint: Callable[[Call], Awaitable[Any]]
    answer: type[BaseModel]
    query: type[BaseModel] | None = None
    body: type[BaseModel] | None = None
    status: int = 200
    errors: tuple[int, ...] = ()
    """Statuses beside those that every operation may answer with."""

    @property
    def tag(self) -> str:
        first = self.path.split("/")[1]
        return {"store": "store", "health": "server", "capabilities": "server"}.get(
            first, "checkpoints"
        )


def missing(what: str) -> NotFound:
    """The error that says that something asked for by its name is not there."""
    return NotFound(f"there is no {what}")
