"""The embedders of docs/embeddings.md run, on models that stand in for the real ones."""

from __future__ import annotations

import re
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy
import pytest

from memalchemy import Database, Store
from pages import ROOT

PAGE = (ROOT / "docs" / "embeddings.md").read_text()
BLOCKS = re.findall(r"^```py\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
MOST = 2048
"""OpenAI refuses a request of more texts."""


class OpenAIModel:
    def __init__(self) -> None:
        self.embeddings = self

    async def create(self, *, model: str, input: list[str]) -> Any:
        assert model
        assert len(input) <= MOST
        return SimpleNamespace(data=[SimpleNamespace(embedding=vector_of(one)) for one in input])


class LocalModel:
    def __init__(self, name: str) -> None:
        assert name

    def encode(self, texts: list[str]) -> Any:
        return numpy.array([vector_of(one) for one in texts], "float32")


def vector_of(text: str) -> list[float]:
    return [1.0, float(len(text))]


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.split("from ")[1].split()[0])
async def test_an_embedder_of_the_page_embeds_any_number_of_texts(
    block: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, member, value in (
        ("openai", "AsyncOpenAI", OpenAIModel),
        ("sentence_transformers", "SentenceTransformer", LocalModel),
    ):
        module = ModuleType(name)
        setattr(module, member, value)
        monkeypatch.setitem(sys.modules, name, module)
    names: dict[str, Any] = {}
    exec(block, names)
    embedder = names["embedder"]
    texts = ["word " * (1 + number % 7) for number in range(MOST + 1)]

    assert [list(vector) for vector in await embedder(texts)] == [vector_of(one) for one in texts]
    async with Database("sqlite://") as db:
        store = Store(db, embedder=embedder)
        await store.put(("docs",), "a", "some text")
        assert [hit.key for hit in await store.search(("docs",), "text", mode="vector")] == ["a"]


def test_the_page_shows_a_service_and_a_model_on_ones_own_machine() -> None:
    assert len(BLOCKS) == 2
