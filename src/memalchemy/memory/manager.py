"""`BaseMemoryManager`: the start and the end of a session, wherever memories are stored."""

from __future__ import annotations

import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Literal

from memalchemy.database import HostConnection
from memalchemy.events import operation
from memalchemy.memory._background import KeyedQueue
from memalchemy.memory._user_functions import log_failure
from memalchemy.memory.memories import Memory, memory_block
from memalchemy.memory.prompt_block import FACTS_TAG, MEMORY_TAG, with_block, without_blocks
from memalchemy.messages import latest_prompt, state_messages, text_of, with_messages

_log = logging.getLogger(__name__)

ExtractMode = Literal["inline", "background"]
MODES = ("inline", "background")

ExtractFn = Callable[[list[Any]], Any]
"""Function of a list of messages that gives a list of `Memory`, or of mappings of their fields;
plain or a coroutine.
"""


class BaseMemoryManager(ABC):
    """Long-term memory, called by an agent's runtime when a session starts and ends.

    A subclass implements `extract`, `save` and `retrieve`. A state is a list of messages, or has
    them under ``messages``: a mapping, a pydantic model or a dataclass.
    """

    extract_mode: ExtractMode
    """``inline``, unless a subclass sets ``background``."""
    max_concurrent_extractions: int
    """Number of background extractions that run at once; 4, unless a subclass sets another."""

    @abstractmethod
    async def extract(self, messages: list[Any]) -> list[Memory]:
        """Return what is worth remembering of a conversation."""

    @abstractmethod
    async def retrieve(self, limit: int = 20) -> list[Memory]:
        """Return memories, the last saved first."""

    @abstractmethod
    async def save(self, memories: list[Memory]) -> None:
        """Store memories; one with the same type and key is replaced."""

    async def retrieve_relevant(self, query: str | None, limit: int | None = None) -> list[Memory]:
        """Return memories for *query*; unless overridden, those of `retrieve`."""
        return await (self.retrieve() if limit is None else self.retrieve(limit))

    async def on_session_start(
        self,
        state: Any,
        *,
        metadata: Mapping[str, Any] | None = None,
        connection: HostConnection | None = None,
    ) -> Any:
        """Return a copy of *state* with the memories for its latest prompt in one block.

        The block replaces that of an earlier turn; without memories there is no block. It is for
        the model only: `without_memory_blocks` returns the state to save.

        Args:
            metadata: description of the run, for managers that use it.

        Raises:
            Whatever `retrieve_relevant` raises: an outage does not look like an empty memory.
        """
        messages = without_blocks(state_messages(state), MEMORY_TAG)
        prompt = latest_prompt(messages)
        query = None if prompt is None else text_of(messages[prompt])
        with operation("memory.manager.injected", **self._event_fields()) as event:
            memories = await self.retrieve_relevant(query, **_host_arguments(connection))
            event.details |= _memory_counts(memories)
        return with_messages(state, with_block(messages, memory_block(memories), tag=MEMORY_TAG))

    async def on_session_end(
        self,
        state: Any,
        *,
        metadata: Mapping[str, Any] | None = None,
        connection: HostConnection | None = None,
    ) -> None:
        """Extract what is worth remembering and save it; with ``background`` after the call.

        Blocks that were injected are not extracted again. A run does not fail because its memory
        does: an error of extraction or of saving is logged, and published as the event
        ``memory.manager.extract_failed``; it is not raised.

        Raises:
            ValueError: *connection* is given, and extraction runs in the background.
        """
        messages = without_blocks(state_messages(state), MEMORY_TAG, FACTS_TAG)
        if self._extract_mode() == "inline":
            return await self._extract_and_save(messages, connection)
        if connection is not None:
            raise ValueError(
                "background extraction outlives a transaction: it cannot take connection="
            )
        self._background_queue().submit(
            self._order_key(), lambda: self._extract_and_save(messages, None)
        )

    @property
    def pending_extractions(self) -> int:
        """Number of background extractions that have not ended yet."""
        return len(self._background_queue())

    async def drain(self) -> None:
        """Wait for all background extractions, also those that begin meanwhile.

        Call it before the database is closed. Cancelling the call cancels no extraction.
        """
        await self._background_queue().drain()

    async def _extract_and_save(
        self, messages: list[Any], connection: HostConnection | None
    ) -> None:
        try:
            # The name of the event, unless the block reaches its end.
            with operation("memory.manager.extract_failed", **self._event_fields()) as event:
                event.details["mode"] = self._extract_mode()
                memories = await self.extract(messages)
                if memories:
                    await self.save(memories, **_host_arguments(connection))
                event.name = "memory.manager.extracted"
                event.details |= _memory_counts(memories)
        except Exception as error:  # noqa: BLE001 - logged and published: a run must not fail of it
            log_failure(_log, "long-term memory was not extracted", error)

    def _event_fields(self) -> dict[str, Any]:
        return {}

    def _extract_mode(self) -> ExtractMode:
        return getattr(self, "extract_mode", "inline")

    def _order_key(self) -> tuple[str, ...]:
        """Return the key whose background extractions run one after another."""
        return ()

    def _background_queue(self) -> KeyedQueue:
        # Created on demand, because a subclass need not call __init__.
        max_concurrent = getattr(self, "max_concurrent_extractions", 4)
        queue: KeyedQueue = self.__dict__.setdefault("_background", KeyedQueue(max_concurrent))
        return queue


class NoopMemoryManager(BaseMemoryManager):
    """Memory manager that remembers nothing."""

    def __init__(self) -> None:
        pass

    async def extract(self, messages: list[Any]) -> list[Memory]:
        """Return ``[]``."""
        return []

    async def retrieve(self, limit: int = 20) -> list[Memory]:
        """Return ``[]``."""
        return []

    async def save(self, memories: list[Memory]) -> None:
        """Do nothing."""

    async def on_session_start(
        self,
        state: Any,
        *,
        metadata: Mapping[str, Any] | None = None,
        connection: HostConnection | None = None,
    ) -> Any:
        """Return *state* itself."""
        return state

    async def on_session_end(
        self,
        state: Any,
        *,
        metadata: Mapping[str, Any] | None = None,
        connection: HostConnection | None = None,
    ) -> None:
        """Do nothing."""


def without_memory_blocks(state: Any) -> Any:
    """Return a copy of *state* without the blocks that were injected: the state to save."""
    return with_messages(state, without_blocks(state_messages(state), MEMORY_TAG, FACTS_TAG))


def _host_arguments(connection: HostConnection | None) -> dict[str, Any]:
    # A subclass of an application need not accept connection=.
    return {} if connection is None else {"connection": connection}


def _memory_counts(memories: list[Memory]) -> dict[str, Any]:
    return {
        "memory_count": len(memories),
        "types": sorted({memory.type.value for memory in memories}),
    }
