"""The collector looks at the objects of the tests alone, and sees these."""

from __future__ import annotations

import gc
import weakref

from garbage import freeze_heap, no_collector


class Knot:
    """Refers to itself, so that only a collection frees it."""

    def __init__(self) -> None:
        self.knot = self


def test_what_is_made_in_the_block_is_collected_at_its_end_and_not_before() -> None:
    with no_collector():
        made = weakref.ref(Knot())
        assert not gc.isenabled()
        assert made() is not None
    assert made() is None
    assert gc.isenabled()


def test_garbage_is_collected_before_the_collector_looks_away() -> None:
    garbage = weakref.ref(Knot())
    freeze_heap()
    assert garbage() is None


def test_what_is_made_afterwards_is_collected() -> None:
    freeze_heap()
    made = weakref.ref(Knot())
    gc.collect()
    assert made() is None


def test_modules_and_tests_are_not_looked_at() -> None:
    assert gc.get_freeze_count() > 100_000
