"""A step costs what it adds, wherever in a value that is and whatever lengths before it change."""

from __future__ import annotations

import gc
import random
from collections.abc import Callable
from typing import Any

import ormsgpack
import pytest

from memalchemy import Checkpointer, Database, NotSerialisable
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


# --- Letters that begin as bytes do ---------------------------------------------------------------

SHARED = [*range(0xC4, 0xCA), *range(0xD4, 0xD9)]
"""The bytes that begin bytes or an extension of MessagePack, and a letter in UTF-8 as well."""
PLAIN = {name: nest for name, nest in NESTS.items() if name != "tagged"}


def written_in(lead: int) -> list[str]:
    """Messages of letters that begin with the byte *lead*, as Polish or Hebrew ones do."""
    letters = bytes([lead, 0x80]).decode(), *(bytes([lead, n]).decode() for n in range(0x81, 0xBF))
    return ["".join(NOISE.choices(letters, k=40)) for _ in range(300)]


@pytest.mark.parametrize(
    "nest", sorted(PLAIN.keys() - {"two of them"})
)  # whose middle is written anew
@pytest.mark.parametrize("lead", SHARED, ids=hex)
async def test_a_step_looks_at_what_it_adds_in_whatever_script(
    lead: int, nest: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    messages, wrap, looked_at = written_in(lead), PLAIN[nest], [0]
    referents = gc.get_referents

    def counting(*given: Any) -> list[Any]:
        looked_at[0] += len(given)
        return referents(*given)

    async with Database("sqlite://") as db:
        checkpointer = Checkpointer(db)
        await checkpointer.save({"v": wrap(messages[:290])}, "t")
        monkeypatch.setattr(gc, "get_referents", counting)
        for count in range(291, 300):
            await checkpointer.save({"v": wrap(messages[:count])}, "t")
        monkeypatch.undo()
        assert await checkpointer.load("t") == {"v": wrap(messages[:299])}

    assert looked_at[0] < 9 * 40


BINARY: dict[str, Callable[[], Any]] = {
    "bytes": lambda: b"\xff" * 150,
    "no bytes": lambda: b"",
    "bytes that are text": lambda: "ł".encode() * 70,
    "a bytearray": lambda: bytearray(150),
    "a memoryview": lambda: memoryview(b"abc"),
    "an extension": lambda: ormsgpack.Ext(5, b"abc"),
}


@pytest.mark.parametrize("nest", PLAIN)
@pytest.mark.parametrize("kind", BINARY)
@pytest.mark.parametrize("lead", [0xC5, 0xD7], ids=hex)
async def test_what_is_added_is_of_its_own_type_in_whatever_script(
    lead: int, kind: str, nest: str
) -> None:
    messages: list[Any] = written_in(lead)
    wrap, dice = PLAIN[nest], random.Random(f"{lead} {kind} {nest}")

    def put_in(value: Any) -> list[Any]:
        at = dice.choice([0, len(messages), dice.randrange(len(messages))])
        return [*messages[:at], dice.choice([value, {"image": value}, [value]]), *messages[at:]]

    async with Database("sqlite://") as db:
        checkpointer = Checkpointer(db)
        for _ in range(8):
            await checkpointer.save({"v": wrap(messages)}, "t")
            state = {"v": wrap(put_in(BINARY[kind]()))}
            if "bytes" in kind and "array" not in kind:
                await checkpointer.save(state, "t")
                assert await checkpointer.load("t") == state
                messages = messages[1:]
            else:
                with pytest.raises(NotSerialisable):
                    await checkpointer.save(state, "t")
