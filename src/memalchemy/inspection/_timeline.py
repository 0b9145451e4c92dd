"""Lanes of a thread's steps: each branch is a line of its own, newest step first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

MAX_LANES = 32
"""Lanes that are told apart; what is beyond them is in the last one."""

GAP = ""
"""Stands for a parent that was deleted: its lane goes on with the next older step."""


@dataclass
class Lanes:
    """The lanes that are open at a place of the timeline.

    ``expected`` has for each lane the id of the step that it goes on with: `GAP` if that one was
    deleted, ``None`` if the lane has ended.
    """

    expected: list[str | None] = field(default_factory=list)

    def place(self, step: str, parent: str | None) -> int:
        """Return the lane of the next older step, and let the lane go on with its *parent*."""
        found = [at for at, wanted in enumerate(self.expected) if wanted == step]
        if not found and GAP in self.expected:
            found = [self.expected.index(GAP)]
        if not found:
            found = [self._free()]
        lane, *merged = found
        self.expected[lane] = parent
        for other in merged:
            self.expected[other] = None
        return lane

    def _free(self) -> int:
        for lane, wanted in enumerate(self.expected):
            if wanted is None and lane:  # the first is the newest step's alone
                return lane
        if len(self.expected) < MAX_LANES:
            self.expected.append(None)
        return len(self.expected) - 1


def parent_to_follow(parent: str | None, seq: int, positions: Mapping[str, int]) -> str | None:
    """Return what a lane goes on with behind a step at *seq*.

    *positions* are those of the parents that exist. A parent that was saved anew stands above its
    child, so the lane ends.
    """
    if parent is None:
        return None
    if parent not in positions:
        return GAP
    return parent if positions[parent] < seq else None
