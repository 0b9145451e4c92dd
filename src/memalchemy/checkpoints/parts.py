"""Choice of the checkpoints of a thread's other logs that belong to those of its main log.

A framework may keep a thread in several logs: see `memalchemy.log.thread_parts`. Nothing here does
I/O.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from memalchemy.contracts import CheckpointInfo

Origin = Callable[[Mapping[str, Any]], str | None]
"""A function from the metadata of a part's checkpoint to the checkpoint of the main log in whose
step it was made."""


def newest_of_branch(
    main: Sequence[CheckpointInfo],
    checkpoint_id: str,
    part: Sequence[CheckpointInfo],
    origin: Origin,
) -> str | None:
    """Return the newest checkpoint of a part as the step after *checkpoint_id* of *main* left it.

    A checkpoint that was made in the step of an ancestor counts if it is older than the checkpoint
    to which that step led. Where ancestors were removed from the main log, all that are older than
    the oldest known ancestor count.
    """
    parents = {one.checkpoint_id: one.parent_id for one in main}
    led_to: dict[str, str | None] = {}
    child: str | None = None
    at: str | None = checkpoint_id
    while at is not None and at not in led_to:
        led_to[at], child = child, at
        at = parents.get(at)
    is_complete = child in parents

    def belongs(one: CheckpointInfo) -> bool:
        of = origin(one.metadata)
        if of in led_to:
            until = led_to[of]
            return until is None or one.checkpoint_id < until
        if of is None:
            return one.checkpoint_id < checkpoint_id
        return not is_complete and one.checkpoint_id < (child or "")

    return max((one.checkpoint_id for one in part if belongs(one)), default=None)


def needed_of_part(
    main: Sequence[CheckpointInfo],
    left: frozenset[str],
    part: Sequence[CheckpointInfo],
    origin: Origin,
    *,
    is_of_one_step: bool,
) -> set[str]:
    """Return the checkpoints of a part that the checkpoints *left* of the main log need.

    Args:
        main: the main log as it was before anything of it was removed.
        is_of_one_step: the part is used in one step, so no later one needs it.
    """
    newest = max(left, default="")
    needed = set()
    for one in part:
        of = origin(one.metadata)
        # It may be saved before the checkpoint in whose step it was made, which is the newest then.
        if of is None or of in left or of > newest:
            needed.add(one.checkpoint_id)
    if not is_of_one_step and part:
        needed.add(max(one.checkpoint_id for one in part))
        for each in left:
            found = newest_of_branch(main, each, part, origin)
            needed |= set() if found is None else {found}
    return needed
