"""What the model makes of the facts and prompts, recorded for tests, which have no model.

``python -m benchmarks.memory_relevance.recorded`` writes it anew after a change of people.txt.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.memory_relevance.people import PEOPLE

PATH = Path(__file__).with_name("vectors.npy")

DIMENSIONS = 96
"""Of 384: the principal components, in bytes. They rank as the whole vectors do, but for 0.001."""

TEXTS = [text for known in PEOPLE.values() for pair in known for text in pair]


class RecordedModel:
    """An embedder of the facts and prompts, and of no other texts."""

    def __init__(self) -> None:
        vectors = np.load(PATH, allow_pickle=False)
        if vectors.shape != (len(TEXTS), DIMENSIONS):
            raise ValueError("people.txt has changed: run benchmarks.memory_relevance.recorded")
        self._vectors = dict(zip(TEXTS, vectors.astype(np.float32), strict=True))

    def __call__(self, texts: Sequence[str]) -> list[np.ndarray[Any, Any]]:
        return [self._vectors[text] for text in texts]


def record() -> None:
    from benchmarks.memory_relevance.model import SentenceModel

    model = SentenceModel()
    whole = np.vstack([model(TEXTS[at : at + 32]) for at in range(0, len(TEXTS), 32)])
    components = np.linalg.svd(whole, full_matrices=False)[2][:DIMENSIONS]
    vectors = whole @ components.T
    np.save(PATH, np.round(vectors / np.abs(vectors).max() * 127).astype(np.int8))


if __name__ == "__main__":
    record()
