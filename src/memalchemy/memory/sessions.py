"""What long-term memory does when a session starts and ends, wherever memories are kept.

Knows messages and memories; no store.
"""

from __future__ import annotations

import inspect
import logging
import traceback
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal

from memalchemy.database import HostConnection
from memalchemy.events import operation
from memalchemy.memory.background import InOrder
from memalchemy.memory.fence import FACTS, MEMORY, with_block, without_blocks
from memalchemy.memory.memories import Memory, memory_block
from memalchemy.memory.states import latest_prompt, messages_of, with_messages
from memalchemy.messages import text_of

_log = logging.getLogger(__name__)

ExtractMode = Literal["inline", "background"]
MODES = ("inline", "background")

ExtractFn = Callable[[list[Any]], Any]
"""Messages in, a list of `Memory` or of mappings of their fields out; plain or a coroutine."""


class BaseMemoryManager(ABC):
    """What an agent's runtime calls when a session starts and ends.

    A subclass says what to `extract`, and how to `save` and `retrieve` it. A state is a list of
    messages, or what has them under ``messages``: a mapping, a pydantic model or a dataclass.
    """

    extract_mode: ExtractMode
    """``inline`` unless a subclass says ``background``."""
    max_concurrent_extractions: int
    """How many background extractions run at once; 4 unless a subclass says otherwise."""

    @abstractmethod
    async def extract(self, messages: list[Any]) -> list[Memory]:
        """What is worth keeping of a conversation."""

    @abstractmethod
    async def retrieve(self, limit: int = 20) -> list[Memory]:
        """Memories, the last saved first."""

    @abstractmethod
    async def save(self, memories: list[Memory]) -> None:
        """Keep memories; one of the same type and key is replaced."""

    async def retrieve_relevant(self, query: str | None, limit: int | None = None) -> list[Memory]:
        """Memories for *query*; here, whatever it is, those of `retrieve`."""
        return await (self.retrieve() if limit is None else self.retrieve(limit))

    async def on_session_start(
        self,
        state: Any,
        *,
        metadata: Mapping[str, Any] | None = None,
        connection: HostConnection | None = None,
    ) -> Any:
        """A copy of *state* with the memories for its latest prompt in one block.

        The block takes the place of one of an earlier turn; if nothing is remembered, there is none
        any more. It is for the model only: `without_memory_blocks` gives what to save. *metadata*
        is what is known of the run, for managers that ask for it.

        Raises:
            What `retrieve_relevant` raises: an outage does not look like an empty memory.
        """
        messages = without_blocks(messages_of(state), MEMORY)
        at = latest_prompt(messages)
        query = None if at is None else text_of(messages[at])
        with operation("memory.manager.injected", **self._about()) as event:
            memories = await self.retrieve_relevant(query, **_hosted(connection))
            event.details |= _counts(memories)
        return replaced(state, with_block(messages, memory_block(memories), fence=MEMORY))

    async def on_session_end(
        self,
        state: Any,
        *,
        metadata: Mapping[str, Any] | None = None,
        connection: HostConnection | None = None,
    ) -> None:
        """Extract what is worth keeping and save it: now, or with ``background`` after this.

        What was injected is not extracted again. A run does not fail because its memory does: an
        error of the extraction or of saving is logged, and is the event
        ``memory.manager.extract_failed``; it is not raised.

        Raises:
            ValueError: *connection* is given, and extraction goes on in the background.
        """
        messages = without_blocks(messages_of(state), MEMORY, FACTS)
        if self._mode() == "inline":
            return await self._extract_and_save(messages, connection)
        if connection is not None:
            raise ValueError(
                "background extraction outlives a transaction: it cannot take connection="
            )
        self._jobs().submit(self._order_key(), lambda: self._extract_and_save(messages, None))

    @property
    def pending_extractions(self) -> int:
        """Background extractions that have not ended yet."""
        return len(self._jobs())

    async def drain(self) -> None:
        """Wait for all background extractions, also those that are begun meanwhile.

        Call it before the database is closed. To cancel it cancels none of them.
        """
        await self._jobs().drain()

    async def _extract_and_save(
        self, messages: list[Any], connection: HostConnection | None
    ) -> None:
        try:
            with operation("memory.manager.extracted", **self._about()) as event:
                # What fails is an event of its own name.
                event.name, event.details["mode"] = "memory.manager.extract_failed", self._mode()
                memories = await self.extract(messages)
                if memories:
                    await self.save(memories, **_hosted(connection))
                event.name = "memory.manager.extracted"
                event.details |= _counts(memories)
        except Exception as error:  # noqa: BLE001 - an event and a log: a run must not fail of it
            report(_log, "long-term memory was not extracted", error)

    def _about(self) -> dict[str, Any]:
        return {}

    def _mode(self) -> ExtractMode:
        return getattr(self, "extract_mode", "inline")

    def _order_key(self) -> tuple[str, ...]:
        return ()

    def _jobs(self) -> InOrder:
        # A subclass need not call __init__.
        most = getattr(self, "max_concurrent_extractions", 4)
        jobs: InOrder = self.__dict__.setdefault("_background", InOrder(most))
        return jobs


class NoopMemoryManager(BaseMemoryManager):
    """Remembers nothing."""

    def __init__(self) -> None:
        pass

    async def extract(self, messages: list[Any]) -> list[Memory]:
        """Nothing."""
        return []

    async def retrieve(self, limit: int = 20) -> list[Memory]:
        """Nothing."""
        return []

    async def save(self, memories: list[Memory]) -> None:
        """Forget them."""

    async def on_session_start(
        self,
        state: Any,
        *,
        metadata: Mapping[str, Any] | None = None,
        connection: HostConnection | None = None,
    ) -> Any:
        """*state* itself."""
        return state

    async def on_session_end(
        self,
        state: Any,
        *,
        metadata: Mapping[str, Any] | None = None,
        connection: HostConnection | None = None,
    ) -> None:
        """Nothing."""


def without_memory_blocks(state: Any) -> Any:
    """A copy of *state* without what was injected: what to save of it."""
    return replaced(state, without_blocks(messages_of(state), MEMORY, FACTS))


def report(log: logging.Logger, what: str, error: BaseException) -> None:
    """Log an error by its class and where it was: its own words may hold what was said."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    where = " < ".join(f"{frame.filename}:{frame.lineno}" for frame in reversed(frames))
    log.warning("%s: %s at %s", what, type(error).__name__, where or "an unknown place")


async def awaited(result: Awaitable[Any] | Any) -> Any:
    """What a function of the user's gives, plain or a coroutine."""
    return await result if inspect.isawaitable(result) else result


def replaced(state: Any, messages: list[Any]) -> Any:
    """*state* with *messages*; itself, if they are the ones it has."""
    before = messages_of(state)
    same = len(before) == len(messages) and all(map(_is, before, messages))
    return state if same else with_messages(state, messages)


def _is(one: object, other: object) -> bool:
    return one is other


def _hosted(connection: HostConnection | None) -> dict[str, Any]:
    # A subclass of the user's need not know connection=.
    return {} if connection is None else {"connection": connection}


def _counts(memories: list[Memory]) -> dict[str, Any]:
    return {
        "memory_count": len(memories),
        "types": sorted({memory.type.value for memory in memories}),
    }
