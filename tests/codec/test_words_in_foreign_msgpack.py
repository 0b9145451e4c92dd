"""The words of MessagePack that a framework has made: of what was added, and of nothing else."""

from __future__ import annotations

from typing import Any

import ormsgpack
import pytest

from memalchemy.codec import foreign_msgpack, values
from memalchemy.codec.deltas import Comparison
from memalchemy.codec.payloads import WRITES_CODEC, decode_writes, encode_writes
from memalchemy.codec.search_text import added_texts
from memalchemy.contracts import Packed
from memalchemy.errors import Corrupt


def message(content: str, name: str = "1") -> Any:
    fields = {"content": content, "type": "human", "id": name}
    return ormsgpack.Ext(5, ormsgpack.packb(["a.module", "AClass", fields, "validate"]))


def state(value: Any, key: str = "messages") -> dict[str, Any]:
    return {key: Packed("msgpack", ormsgpack.packb(value, option=ormsgpack.OPT_NON_STR_KEYS))}


def words_added(old: dict[str, Any] | None, new: dict[str, Any]) -> list[str]:
    parent = None if old is None else Comparison(values.encode_state(old))
    return list(added_texts(new, values.encode_state(new), parent))


@pytest.mark.parametrize("count", [0, 1, 14, 15, 16, 200, 70_000])
def test_of_a_list_that_grew_only_what_was_appended_is_read(count: int) -> None:
    old = [message(f"word {n}") for n in range(count)]
    new = [*old, message("the new one"), message("and another")]

    assert words_added(state(old), state(new)) == ["the new one", "and another"]


def test_what_was_replaced_or_put_in_between_is_read_and_at_most_a_neighbour() -> None:
    old = [message(f"word {n}") for n in range(300)]
    replaced = [*old[:100], message("replaced"), *old[101:]]
    put_in = [*old[:200], message("put in"), *old[200:]]

    assert words_added(state(old), state(replaced)) == ["replaced"]
    assert words_added(state(old), state(put_in)) == ["put in", "word 200"]
    assert words_added(state(old), state(old[:50])) == []


def test_without_a_parent_all_is_read_but_names_of_classes_and_ids() -> None:
    whole = state({"list": [message("one", "an-id"), "two"], 3: "three", "n": 1, "b": b"four"})

    assert words_added(None, whole) == ["one", "two", "three"]
    assert words_added(state([1]), whole) == ["one", "two", "three"]


def test_what_a_framework_keeps_for_itself_and_other_formats_have_no_words() -> None:
    assert words_added(None, state([message("hidden")], "__start__")) == []
    assert words_added(None, {"x": Packed("msgpack+aes", b"\x91\xa5hello")}) == []
    assert words_added(None, {"x": Packed("msgpack", b"\x91\xa5hel")}) == []


def test_a_packed_value_comes_back_as_it_was_and_can_be_looked_at() -> None:
    given = state([message("one"), {"k": (1, None)}]) | {"other": Packed("any", b"\x00\xff")}

    assert values.decode_state(values.encode_state(given)) == given
    assert values.from_jsonable(values.jsonable(given["other"])) == given["other"]
    assert foreign_msgpack.plain_tree(given["messages"]) == [
        {"content": "one", "type": "human", "id": "1"},
        {"k": [1, None]},
    ]
    assert foreign_msgpack.plain_tree(given["other"]) == given["other"]


def test_writes_come_back_and_damage_is_seen() -> None:
    writes = [(0, "a", Packed("msgpack", b"\x01")), (-3, "b", {"x": [1, 2.5, None]})]
    payload, checksum = encode_writes("task", "~path", writes)

    assert decode_writes(payload, checksum, WRITES_CODEC) == ("task", "~path", writes)
    for damaged in (payload[:-1], payload[:5] + b"?" + payload[6:]):
        with pytest.raises(Corrupt):
            decode_writes(damaged, checksum, WRITES_CODEC)
    with pytest.raises(Corrupt, match="unknown codec"):
        decode_writes(payload, checksum, "zwrite9")


@pytest.mark.parametrize(
    "given",
    [
        ({"a": 1}, "", [(0, "channel", 1)]),
        ("task", None, [(0, "channel", 1)]),
        ("task", "", [("0", "channel", 1)]),
        ("task", "", [(0, 1, 1)]),
    ],
    ids=repr,
)
def test_writes_with_names_that_are_no_text_are_corrupt(given: Any) -> None:
    payload, checksum = encode_writes(*given)

    with pytest.raises(Corrupt):
        decode_writes(payload, checksum, WRITES_CODEC)
