"""`MemalchemyCache`: answers of language models, for the same prompt to the same model."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any

from langchain_core.caches import BaseCache
from langchain_core.outputs import (
    ChatGeneration,
    ChatGenerationChunk,
    Generation,
    GenerationChunk,
)

from memalchemy.contracts import Seconds
from memalchemy.integrations._base import AnyDatabase, blocking
from memalchemy.integrations._stored_forms import StoredForm
from memalchemy.integrations.langchain._adapter import LangChainAdapter
from memalchemy.integrations.langchain._records import message_to_record, record_to_message
from memalchemy.store import Store

_GENERATIONS: dict[str, type[Generation]] = {
    "Generation": Generation,
    "GenerationChunk": GenerationChunk,
    "ChatGeneration": ChatGeneration,
    "ChatGenerationChunk": ChatGenerationChunk,
}


class MemalchemyCache(LangChainAdapter, BaseCache):
    """Answers of language models, which any number of processes share.

    An answer is found by the SHA-256 of the prompt and of the model's settings; neither of them is
    stored. Every lookup builds new objects.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        namespace: keeps several caches apart in one database.
        ttl: the lifetime of an answer, in seconds or as a timedelta; for ever, if not given.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        Corrupt, KeyMissing, NotEncrypted: a stored answer cannot be read.
    """

    kind = "cache"

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        namespace: Iterable[str] = (),
        ttl: Seconds | None = None,
    ) -> None:
        super().__init__(db, namespace=namespace)
        self.store: Store = Store(self.db, index_text=False, ttl=ttl)
        """The answers as items, with asynchronous methods."""

    async def alookup(self, prompt: str, llm_string: str) -> list[Generation] | None:
        """Return the answer to *prompt* by the model with these settings, or ``None``."""
        found = await self.store.get(self.namespace, _key_of_prompt(prompt, llm_string))
        return None if found is None else _to_generations(found)

    lookup = blocking(alookup)

    async def aupdate(self, prompt: str, llm_string: str, return_val: Sequence[Generation]) -> None:
        """Store an answer in place of an earlier one.

        Raises:
            TypeError: it is none of LangChain's own generations or messages.
            NotSerialisable, TooLarge: it cannot be stored.
        """
        records = [_to_record(one) for one in return_val]
        await self.store.put(self.namespace, _key_of_prompt(prompt, llm_string), records)

    update = blocking(aupdate)

    async def aclear(self, **kwargs: Any) -> None:
        """Delete all answers of the namespace. *kwargs*, which other caches take, are ignored."""
        await self.store.clear_namespace(self.namespace)

    def clear(self, **kwargs: Any) -> None:
        """Delete all answers, as `aclear`."""
        self.wait(self.aclear())


def _key_of_prompt(prompt: str, llm_string: str) -> str:
    return sha256(json.dumps([prompt, llm_string]).encode()).hexdigest()


def _to_record(generation: Generation) -> dict[str, Any]:
    name = type(generation).__name__
    if _GENERATIONS.get(name) is not type(generation):
        raise TypeError(f"a {name} is not one of LangChain's own generations")
    # The text of a message is an object of a subclass of str.
    text = str(generation.text)
    record = {"class": name, "text": text, "info": generation.generation_info}
    if isinstance(generation, ChatGeneration):
        record["message"] = message_to_record(generation.message)
    return record


@StoredForm("answer of LangChain")
def _to_generations(records: list[dict[str, Any]]) -> list[Generation]:
    return [_to_generation(one) for one in records]


def _to_generation(record: dict[str, Any]) -> Generation:
    fields = {"text": record["text"], "generation_info": record["info"]}
    if "message" in record:
        fields["message"] = record_to_message(record["message"])
    return _GENERATIONS[record["class"]](**fields)
