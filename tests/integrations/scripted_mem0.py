"""mem0 without a network: its telemetry is off, its models are scripts, its directory is temporary.

mem0 reads its environment when it is imported, so this module is imported before it.
"""

from __future__ import annotations

import json
import os
import zlib
from typing import Any

import scratch

os.environ["MEM0_TELEMETRY"] = "False"
os.environ["MEM0_DIR"] = scratch.directory("MEM0_DIR", "ma-mem0-")

from mem0.configs.embeddings.base import BaseEmbedderConfig
from mem0.embeddings.base import EmbeddingBase
from mem0.llms.base import LLMBase
from mem0.utils.factory import EmbedderFactory, LlmFactory

SIZE = 64


class WordsEmbedding(EmbeddingBase):
    """A vector counts the words of a text: texts with the same words are near."""

    def __init__(self, config: BaseEmbedderConfig | None = None) -> None:
        super().__init__(config)

    def embed(self, text: str, memory_action: Any = None) -> list[float]:
        vector = [0.01] * SIZE
        for word in text.lower().split():
            vector[zlib.crc32(word.strip(".,!?'\"").encode()) % SIZE] += 1.0
        return vector

    def embed_batch(self, texts: list[str], memory_action: Any = None) -> list[list[float]]:
        return [self.embed(text) for text in texts]


class ScriptedLLM(LLMBase):
    """A model that finds the memories in `SCRIPT`, one list for each call."""

    SCRIPT: list[list[str]] = []  # noqa: RUF012

    def generate_response(self, messages: Any, *args: Any, **options: Any) -> str:
        found = self.SCRIPT.pop(0) if self.SCRIPT else []
        return json.dumps({"memory": [{"text": text} for text in found]})


# mem0 has no other hook for models of one's own; the mappings are public.
EmbedderFactory.provider_to_class["fastembed"] = f"{__name__}.WordsEmbedding"
LlmFactory.register_provider("openai", f"{__name__}.ScriptedLLM")
