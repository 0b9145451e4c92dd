"""Ids and namespaces are spelt so that no two of them meet in one row."""

from __future__ import annotations

import re
from typing import Any
from uuid import RFC_4122

import pytest
from hypothesis import given
from hypothesis import strategies as st
from states import tried

from memalchemy import keys
from memalchemy.errors import TooLarge
from memalchemy.keys import (
    check_name,
    check_tenant,
    check_thread_id,
    decode_id,
    decode_namespace,
    encode_id,
    encode_namespace,
    log_key,
    new_checkpoint_id,
)

ids = st.one_of(
    st.text(st.characters(), max_size=10),
    st.text("\x00\x1ae01ud8f\ud800\udfff", max_size=8),
)
parts = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"]), max_size=6), st.text("~/012\x00a", max_size=5)
)
namespaces = st.lists(parts, max_size=4).map(tuple)


@tried(200)
@given(ids)
def test_an_id_comes_back_as_it_was(text: str) -> None:
    assert decode_id(encode_id(text)) == text


@tried(200)
@given(ids, ids)
def test_two_ids_are_never_spelt_alike(one: str, other: str) -> None:
    assert (encode_id(one) == encode_id(other)) == (one == other)


@tried(120)
@given(ids)
def test_a_spelt_id_is_what_every_database_stores(text: str) -> None:
    stored = encode_id(text)
    assert stored != ""
    assert "\x00" not in stored
    stored.encode()  # raises on a lone surrogate


@tried(80)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\x00\x1a"), min_size=1))
def test_an_ordinary_id_is_stored_as_it_is(text: str) -> None:
    assert encode_id(text) == text


@pytest.mark.parametrize("character", ["a", "é", "語", "\U0001f600"])
def test_an_id_may_have_255_characters(character: str) -> None:
    assert check_thread_id(character * 255) == character * 255
    assert check_name(character * 255, "run_id") == character * 255
    with pytest.raises(TooLarge, match="thread_id") as caught:
        check_thread_id(character * 256)
    assert (caught.value.size, caught.value.limit) == (256, 255)
    with pytest.raises(TooLarge, match="run_id"):
        check_name(character * 256, "run_id")


@tried(120)
@given(st.one_of(ids, st.text(st.characters(), min_size=100, max_size=255)), st.integers(1, 30))
def test_an_id_that_is_taken_fits_its_column_and_index_as_it_is_stored(
    text: str, times: int
) -> None:
    text *= times
    for check, bytes_, characters in (
        (check_thread_id, keys.MAX_ID_BYTES, keys.MAX_STORED_CHARACTERS),
        (lambda given: check_name(given, "id"), keys.MAX_ID_BYTES, keys.MAX_ID_CHARACTERS),
    ):
        fits = (
            len(text) <= keys.MAX_ID_CHARACTERS
            and len(encode_id(text).encode()) <= bytes_
            and len(encode_id(text)) <= characters
        )
        if fits:
            assert check(text) == text
        else:
            with pytest.raises(TooLarge) as caught:
                check(text)
            assert caught.value.size > caught.value.limit


@pytest.mark.parametrize("stranger", [None, 1, b"x", ["x"], ("x",)])
def test_an_id_is_a_str(stranger: Any) -> None:
    with pytest.raises(TypeError, match="thread_id"):
        check_thread_id(stranger)
    with pytest.raises(TypeError, match="run_id"):
        check_name(stranger, "run_id")
    with pytest.raises(TypeError):
        check_tenant(stranger)


def test_a_tenant_is_not_empty_and_at_most_64_bytes() -> None:
    assert check_tenant("é" * 32) == "é" * 32
    with pytest.raises(ValueError, match="empty"):
        check_tenant("")
    for too_long in ("é" * 33, "x" * 65, "\x00" * 33):
        with pytest.raises(TooLarge):
            check_tenant(too_long)


@tried(200)
@given(namespaces)
def test_a_namespace_comes_back_as_it_was(namespace: tuple[str, ...]) -> None:
    assert decode_namespace(encode_namespace(namespace)) == namespace


@tried(200)
@given(namespaces, namespaces)
def test_two_namespaces_are_never_spelt_alike(one: tuple[str, ...], other: tuple[str, ...]) -> None:
    assert (encode_namespace(one) == encode_namespace(other)) == (one == other)


@tried(200)
@given(st.data(), namespaces)
def test_a_byte_range_holds_a_namespace_with_all_below_it_and_nothing_else(
    data: st.DataObject, above: tuple[str, ...]
) -> None:
    tail = data.draw(namespaces)
    other = data.draw(st.one_of(namespaces, st.just(above + tail)))
    low = encode_namespace(above).encode()
    high = low[:-1] + b"0"  # the byte after "/"
    assert (low <= encode_namespace(other).encode() < high) == (other[: len(above)] == above)


def test_the_empty_namespace_is_the_root() -> None:
    assert encode_namespace(()) == "/"
    assert encode_namespace(("a", "b")) == "/a/b/"
    assert encode_namespace(("",)) == "//"
    assert encode_namespace(("a/b", "~", "\x00")) == "/a~1b/~0/~2/"


def test_a_namespace_is_at_most_512_bytes_as_it_is_stored() -> None:
    assert len(encode_namespace(("é" * 255,))) == 257
    for too_long in (("é" * 256,), ("/" * 256,), ("a",) * 256):
        with pytest.raises(TooLarge):
            encode_namespace(too_long)


def test_a_namespace_is_a_sequence_of_strings() -> None:
    with pytest.raises(TypeError, match="one string"):
        encode_namespace("a/b")
    with pytest.raises(TypeError, match="int"):
        encode_namespace(("a", 1))  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="surrogate"):
        encode_namespace(("\ud800",))


@pytest.mark.parametrize(
    ("names", "key"),
    [
        (("default", "t", "/"), "205833d7-d7ba-8cb3-955c-b8f92f7e2737"),
        (("acme", "naïve/\x00/🧵", "/a/b~1c/"), "26e9c23a-125a-8352-bc6e-beefff50d2f1"),
        (("a", "\ud800", "/"), "6113f98b-51b2-85a4-ae5e-b8bc1361f9da"),
    ],
)
def test_the_key_of_a_log_stays_what_it_is(names: tuple[str, str, str], key: str) -> None:
    """It is stored in every row of the log, and hosts compute it: another one is another log."""
    assert str(log_key(*names)) == key


@tried(200)
@given(st.tuples(ids, ids, ids), st.tuples(ids, ids, ids))
def test_two_logs_never_have_one_key(
    one: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    assert (log_key(*one) == log_key(*other)) == (one == other)
    assert (log_key(*one).version, log_key(*one).variant) == (8, RFC_4122)


def test_what_is_moved_from_one_name_to_the_next_makes_another_key() -> None:
    texts = ("abc", "", "/"), ("ab", "c", "/"), ("a", "bc", "/"), ("", "abc", "/"), ("", "", "abc/")
    assert len({log_key(*names) for names in texts}) == len(texts)


def test_new_ids_of_checkpoints_are_short_unlike_and_in_the_order_of_time() -> None:
    made = [new_checkpoint_id() for _ in range(10_000)]
    assert len({*made}) == len(made)
    assert {len(one) for one in made} == {18}
    assert all(re.fullmatch("[0-9a-hjkmnp-tv-z]{18}", one) for one in made)
    times = [one[:11] for one in made]
    assert times == sorted(times)
