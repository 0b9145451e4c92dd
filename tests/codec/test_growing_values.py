"""A step costs what it adds, wherever in a value that is and whatever lengths before it change."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from memalchemy.codec.deltas import Comparison, apply_deltas, edits, encode_delta
from memalchemy.codec.values import encode_state

NOISE = random.Random(11)
WIDTHS = [15, 16, 31, 32, 255, 256, 65_535, 65_536]


def noise(size: int) -> str:
    """A text that nothing compresses to less than half."""
    return NOISE.randbytes(size // 2).hex()


def step(before: Any, after: Any) -> bytes:
    """The delta from one state's value to the next; proved to rebuild it."""
    base, new = encode_state({"v": before}), encode_state({"v": after})
    payload = encode_delta(Comparison(base), new, 3)
    assert apply_deltas(base, [payload]) == new
    return payload


NESTS: dict[str, Callable[[Any], Any]] = {
    "a list": lambda items: items,
    "in a dict": lambda items: {"id": 7, "items": items},
    "in front of more": lambda items: {"items": items, "more": BESIDE},
    "deep": lambda items: [BESIDE, {"a": {"b": [BESIDE, {"c": items}, 5]}}, BESIDE],
    "tagged": lambda items: (items, 2**70),
    "two of them": lambda items: {"a": items, "mid": BESIDE, "b": items, "end": [items]},
}
BESIDE = noise(4000)


@pytest.mark.parametrize("nest", NESTS)
@pytest.mark.parametrize("size", [0, 1, *WIDTHS])
def test_an_element_more_costs_the_element_wherever_its_list_is(nest: str, size: int) -> None:
    items = [noise(100) for _ in range(min(size, 300))] + [1] * max(0, size - 300)
    wrap, more = NESTS[nest], noise(100)
    for before, after in ((items, [*items, more]), ([*items, more], items)):
        assert len(step(wrap(before), wrap(after))) < 300


@pytest.mark.parametrize("nest", NESTS)
@pytest.mark.parametrize("size", [0, 1, *WIDTHS])
def test_an_entry_more_costs_the_entry_wherever_its_dict_is(nest: str, size: int) -> None:
    entries = {f"{i:x}": noise(60) if i < 300 else 1 for i in range(size)}
    wrap, more = NESTS[nest], entries | {"more": noise(100)}
    for before, after in ((entries, more), (more, entries)):
        assert len(step(wrap(before), wrap(after))) < 300


@pytest.mark.parametrize("nest", NESTS)
@pytest.mark.parametrize("size", WIDTHS)
@pytest.mark.parametrize("binary", [False, True])
def test_a_text_that_grows_costs_its_end_wherever_it_is(nest: str, size: int, binary: bool) -> None:
    wrap, long = NESTS[nest], noise(size + 101)
    before: Any = long[:size]
    after: Any = long[: size + 100]
    if binary:
        before, after = before.encode(), after.encode()
    for one, other in ((before, after), (after, before), (before, long[: size + 1])):
        assert len(step(wrap(one), wrap(other))) < 300


def test_every_list_on_the_way_may_grow_at_once() -> None:
    """The lengths of a list, of the list in it and of a text in that change in one step."""
    text = noise(300)
    inner = [noise(50) for _ in range(15)]
    outer = [noise(50) for _ in range(30)]
    before = {"a": [*outer, {"b": [*inner, text[:200]]}], "n": 127}
    after = {"a": [*outer, {"b": [*inner, text[:270], noise(20)]}, noise(20)], "n": 128}
    assert len(step(before, after)) < 250


def test_counters_spread_over_a_value_cost_a_few_bytes_each() -> None:
    before = [{"n": 7, "t": noise(200), "at": 1.5 + i} for i in range(40)]
    after = [{**item, "n": 9} for item in before]
    assert len(edits(*(encode_state({"v": v})["v"] for v in (before, after)))) == 40
    assert len(step(before, after)) < 40 * 8
    # More of them than a value may have edits: one edit takes in the rest.
    assert len(step(before * 3, after * 3)) < 40 * 3 * 20


@pytest.mark.parametrize("size", [10, 14, 15, 16, 30, 100, 300])
def test_elements_put_in_and_taken_out_in_front_cost_little(size: int) -> None:
    items = [noise(200) for _ in range(size)]
    new = [noise(100), noise(100)]
    for before, after in ((items, [*new, *items]), ([*new, *items], items)):
        assert len(step(before, after)) < 400
        assert len(step({"m": before, "n": 5}, {"m": after, "n": 6})) < 400
    # A window that moves on changes at both ends.
    assert len(step({"m": items, "n": 5}, {"m": [*items[2:], *new], "n": 6})) < 600


@pytest.mark.parametrize("front", ["2026-01-01T12:34:56.123456+00:00", "8c9e4c1c" * 4])
def test_a_field_in_front_of_a_history_does_not_store_the_history_again(front: str) -> None:
    history = [noise(200) for _ in range(200)]
    before = {"at": front, "history": history}
    after = {"at": front[::-1], "history": [*history, noise(100)]}
    assert len(step(before, after)) < 1000
