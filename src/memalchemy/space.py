"""Measure the space that a database takes, and give back what deleted rows have left."""

from memalchemy.maintenance.space import (
    Advice,
    Framework,
    Growth,
    Kind,
    Piece,
    Reclaimed,
    Share,
    Space,
    measure,
    reclaim,
)

__all__ = [
    "Advice",
    "Framework",
    "Growth",
    "Kind",
    "Piece",
    "Reclaimed",
    "Share",
    "Space",
    "measure",
    "reclaim",
]
