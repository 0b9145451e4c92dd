"""What a store is filled with: vectors with clusters, texts, and pairs of a name and what it names.

All of it is made from what is at hand wherever this runs, by seeds: no model, and no network.
"""

from __future__ import annotations

import ast
import random
import re
import sysconfig
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import cache
from importlib.metadata import distributions
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from benchmarks.workload import Message, prose

Floats = npt.NDArray[np.float32]

DIMENSIONS = 384
LATENT, TOPICS = 96, 300
"""Real embeddings fill a small part of their space, and lie in clusters of unequal size."""


class Named(NamedTuple):
    """Something real: what it is called, and what its author says of it."""

    name: str
    text: str


def vectors(count: int, seed: int) -> Floats:
    """Unit vectors: a topic, a second one to a lesser degree, and what is of this vector alone."""
    world = np.random.default_rng(1)
    topics = world.standard_normal((TOPICS, LATENT), dtype=np.float32)
    shares = 1 / np.arange(1, TOPICS + 1) ** 0.7
    outward = world.standard_normal((LATENT, DIMENSIONS), dtype=np.float32)
    chosen = np.random.default_rng(seed)
    first, second = chosen.choice(TOPICS, size=(2, count), p=shares / shares.sum())
    inner = 0.7 * topics[first] + 0.35 * topics[second]
    inner += 0.8 * chosen.standard_normal((count, LATENT), dtype=np.float32)
    made: Floats = (inner @ outward).astype(np.float32)
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    return made


def nearest(matrix: Floats, query: Floats, count: int) -> list[int]:
    """The rows of unit vectors that are nearest, by brute force."""
    return [int(row) for row in np.argsort(-(matrix @ query), kind="stable")[:count]]


@cache
def named() -> tuple[Named, ...]:
    """Installed packages with their summaries, and after them what the standard library's modules
    define with their docstrings; both in an order of their own.
    """
    packages = {
        Named(one.metadata["Name"], one.metadata["Summary"])
        for one in distributions()
        if one.metadata["Name"] and one.metadata["Summary"]
    }
    found = set(packages)
    library = Path(sysconfig.get_paths()["stdlib"])
    for pattern in ("*.py", "*/*.py"):
        for path in library.glob(pattern):
            if path.parent.name not in ("site-packages", "test", "idlelib", "lib2to3"):
                found |= set(_documented(path))
    once = Counter(one.name.lower() for one in found)
    kept = sorted(one for one in found if once[one.name.lower()] == 1)
    random.Random(7).shuffle(kept)
    return tuple(sorted(kept, key=lambda one: one not in packages))


def _documented(path: Path) -> Iterator[Named]:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError):  # a template, or a test of the parser
        return
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            text = (ast.get_docstring(node) or "").split("\n\n")[0]
            if not node.name.startswith("_") and len(text.split()) >= 5:
                yield Named(node.name, text)


def words_of_name(name: str) -> str:
    """A name as somebody would ask for it: ``get_file_type`` and ``FileType`` are several words."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
    return re.sub(r"[-_.\s]+", " ", spaced).lower().strip()


def texts(messages: list[Message], count: int, seed: int) -> list[str]:
    """Some forty words each: a piece of the conversation, and a description, some of them often."""
    chosen = random.Random(seed)
    spoken = prose(messages, 200_000, seed).split()
    described = named()
    weights = [1 / (1 + rank) for rank in range(len(described))]
    some = chosen.choices(described, weights, k=count)
    made = []
    for one in some:
        start = chosen.randrange(len(spoken) - 25)
        made.append(" ".join(spoken[start : start + 25]) + " " + one.text)
    return made


def plain_words(text: str) -> set[str]:
    """The words of nothing but letters, of which each kind of search means the same."""
    return {word for word in re.findall(r"[^\W_]+", text.lower()) if re.fullmatch("[a-z]+", word)}


def embedder(dimensions: int = 1024) -> Any:
    """A deterministic one: the pieces of three to five letters of each word, hashed and counted.

    It knows that *copied* is like *copy*, as a model would, and nothing of meaning.
    """

    def embed(given: Sequence[str]) -> list[Floats]:
        return [_pieces(text, dimensions) for text in given]

    return embed


def _pieces(text: str, dimensions: int) -> Floats:
    made = np.zeros(dimensions, dtype=np.float32)
    counted: Counter[str] = Counter()
    for word in re.findall(r"[^\W_]+", words_of_name(text)):
        marked = f"<{word}>"
        for size in (3, 4, 5):
            counted.update(marked[at : at + size] for at in range(len(marked) - size + 1))
    for piece, number in counted.items():
        hashed = crc32(piece.encode())
        made[hashed % dimensions] += (1 if hashed & 1 << 31 else -1) * (1 + np.log(number))
    if not made.any():
        made[0] = 1
    return made / np.float32(np.linalg.norm(made))
