"""An embedder that the command line can import: ``tests/embedders.py:embed``."""

from __future__ import annotations

from pathlib import Path
from zlib import crc32

NAME = f"{Path(__file__)}:embed"


def embed(texts: list[str]) -> list[list[float]]:
    """Return counts of words, each at a place of its own."""
    return [_embed_text(text) for text in texts]


async def embed_slowly(texts: list[str]) -> list[list[float]]:
    """Do the same as a coroutine function."""
    return embed(texts)


def refuse(texts: list[str]) -> list[list[float]]:
    """Work for no text."""
    raise OSError("no route to the model")


def refuse_long(texts: list[str]) -> list[list[float]]:
    """Work for texts of few characters."""
    if any(len(text) > 100 for text in texts):
        raise ValueError("a text is too long")
    return embed(texts)


class Model:
    """An object with the method of LangChain's embeddings."""

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return embed(texts)


model = Model()

NO_FUNCTION = 5


def _embed_text(text: str) -> list[float]:
    vector = [0.01] * 16
    for word in text.lower().split():
        vector[crc32(word.encode()) % 16] += 1.0
    return vector
