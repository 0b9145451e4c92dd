"""What is asked of a search by vector, what it answers, and what a distance is worth. Knows no SQL.

Vectors are float32, as they are stored. Distances are computed in double precision at the end, so
that of two near ones the nearer comes first.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt

from memalchemy.statements import Program

Floats = npt.NDArray[np.float32]
Metric = Literal["cosine", "dot", "l2"]
METRICS: tuple[Metric, ...] = get_args(Metric)

MAX_DIMENSIONS = 16_000
SHORTEST, LONGEST = 1e-15, 1e18
"""A norm beyond these has a square that single precision cannot hold, as databases compute it."""

Item = tuple[str, str]
"""An item's encoded namespace and its key."""


@dataclass(frozen=True, eq=False)
class Wanted:
    """What is looked for: the items of a namespace, nearest first.

    ``path`` is the encoded namespace, ``below`` says whether those under it are meant too.
    ``among`` may name the only items that can match, to search fewer: a program that is given the
    most items that are worth naming, and returns them, or ``None`` if they are more.
    """

    tenant: str
    path: str
    below: bool
    model: str
    vector: Floats
    metric: Metric = "cosine"
    among: Callable[[int], Program[Sequence[Item] | None]] | None = None

    def __post_init__(self) -> None:
        if self.metric not in METRICS:
            raise ValueError(f"metric is one of {', '.join(METRICS)}, not {self.metric!r}")

    @property
    def dimensions(self) -> int:
        return len(self.vector)

    @cached_property
    def is_unit(self) -> bool:
        """Whether the vector has the length 1, as models that normalise give them."""
        return abs(length(self.vector) - 1) < 1e-3

    def near(
        self, item: Item, part: tuple[str, int], distance: float, stored: Any | None = None
    ) -> Near:
        """The answer for an item of which one part is so far away."""
        worth = score(self.metric, distance, unit=self.metric == "dot" and self.is_unit)
        return Near(*item, *part, distance, worth, stored)


class Near(NamedTuple):
    """An item that was found: its encoded namespace, its key, and which of its vectors is nearest.

    ``distance`` is 0 to 2 for ``cosine``, the negative product for ``dot``, and 0 upward for
    ``l2``.
    """

    namespace: str
    key: str
    field: str
    part: int
    distance: float
    score: float
    stored: Any | None = None
    """The columns of the item itself, if they were read along with the distance."""


def check_vector(vector: Any, what: str = "embedding") -> Floats:
    """A copy of *vector* as it is stored and compared.

    Raises:
        TypeError: it is not a sequence.
        ValueError: it is empty, has over 16,000 dimensions, holds what is no number, NaN or an
            infinity (or what is one in single precision), or is zero or nearly so: it has no
            direction, and an infinite or zero length ends every comparison.
    """
    if isinstance(vector, (str, bytes, bytearray, memoryview)) or not (
        hasattr(vector, "__len__") and hasattr(vector, "__getitem__")
    ):
        raise TypeError(f"{what} must be a sequence of numbers, not {type(vector).__name__}")
    if isinstance(vector, dict):
        raise TypeError(f"{what} must be a sequence of numbers, not a dict")
    if not isinstance(vector, np.ndarray):
        wrong = next((v for v in vector if isinstance(v, (str, bytes, bool)) or v is None), None)
        if wrong is not None:
            raise ValueError(f"{what} must hold numbers, and holds a {type(wrong).__name__}")
    try:
        given = np.asarray(vector)
        if given.dtype.kind not in "iuf":
            given = np.asarray(vector, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"{what} must hold numbers only") from error
    if given.ndim != 1:
        raise ValueError(f"{what} must have one dimension of numbers, not {given.ndim}")
    if not 1 <= len(given) <= MAX_DIMENSIONS:
        raise ValueError(f"{what} has {len(given):,} dimensions; 1 to {MAX_DIMENSIONS:,} can be")
    with np.errstate(over="ignore"):
        made: Floats = np.array(given, dtype=np.float32)
    norm = length(made)
    if not math.isfinite(norm):
        raise ValueError(f"{what} holds NaN, an infinity, or what is too large for float32")
    if not SHORTEST <= norm <= LONGEST:
        how = "zero" if norm == 0 else f"of the length {norm:.3g}"
        raise ValueError(f"{what} is {how}, which cannot be compared")
    return made


def length(vector: Floats) -> float:
    """The length of a vector: in double precision, which can hold the square of any number here."""
    doubles = vector.astype(np.float64)
    return math.sqrt(float(doubles @ doubles))


def score(metric: str, distance: float, *, unit: bool = False) -> float:
    """What a distance is worth, 0 to 1, higher is better; monotonic within one search.

    - ``cosine``: the same direction 1.0, orthogonal 0.5, opposite 0.0.
    - ``dot``: the same for *unit* vectors; else ``1 / (1 + exp(-product))``: 0.5 for a product of
      zero.
    - ``l2``: ``1 / (1 + distance)``: 1.0 for the same vector.
    """
    if metric == "cosine":
        return _clamped(1 - distance / 2)
    if metric == "l2":
        return _clamped(1 / (1 + distance))
    if unit:
        return _clamped((1 - distance) / 2)
    return _clamped(0.5 * (1 + math.tanh(-distance / 2)))


def _clamped(value: float) -> float:
    return min(1.0, max(0.0, value))
