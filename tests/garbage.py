"""Garbage collection beside all tests: a full one would look at each module and test of the suite,
which takes a second.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


def freeze_heap() -> None:
    """Collect what is garbage, and let the collector never again look at what is left."""
    gc.collect()
    gc.freeze()


@contextmanager
def no_collector() -> Iterator[None]:
    """Turn the collector off, and at the end collect what was made in the block.

    What is collected then must not warn: warnings are errors.
    """
    gc.disable()
    try:
        freeze_heap()
        yield
        gc.collect()
    finally:
        gc.enable()
