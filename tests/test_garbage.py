"""The collector that looks at a test's own objects alone sees these."""

from __future__ import annotations

import gc
import weakref

from garbage import no_collector, small_heap


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


def test_what_was_there_before_is_not_looked_at_until_the_end_of_the_block() -> None:
    with no_collector():
        before = weakref.ref(Knot())
        with small_heap():
            made = weakref.ref(Knot())
            gc.collect()
            assert made() is None
            assert before() is not None
        gc.collect()
        assert before() is None
