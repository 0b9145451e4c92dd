"""Garbage collection where a test asks for it: beside all tests a full one takes a second."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def small_heap() -> Iterator[None]:
    """Let the collector look at nothing but what is made in the block."""
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


@contextmanager
def no_collector() -> Iterator[None]:
    """Turn the collector off, and at the end collect what was made in the block.

    What is collected then must not warn: warnings are errors.
    """
    gc.disable()
    try:
        with small_heap():
            yield
            gc.collect()
    finally:
        gc.enable()
