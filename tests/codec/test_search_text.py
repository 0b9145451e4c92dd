"""A row's search text is the tokens of its texts, and that of a step is what the step added."""

from __future__ import annotations

import math
import re
from collections import Counter
from itertools import pairwise
from typing import Any

import ormsgpack
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from states import states as any_states
from states import tried
from texts import texts

from memalchemy.codec import search_text as search_text_module
from memalchemy.codec import touched_parts
from memalchemy.codec.deltas import Comparison
from memalchemy.codec.search_text import (
    MAX_TEXT,
    MOST_COUNTED,
    added_texts,
    count_words,
    is_cut,
    join_search_texts,
    keep_words,
    number_of_words,
    occurrences_at,
    search_text,
)
from memalchemy.codec.search_text import words_in as stored_words
from memalchemy.codec.tokens import tokens
from memalchemy.codec.values import encode_state


def counted(words: list[str]) -> dict[str, int]:
    return {word: min(count, MOST_COUNTED) for word, count in Counter(words).items()}


repetitive = st.lists(st.sampled_from(["ebb", "Flow", "flow", "中文", "é", "a"]), max_size=40)
any_texts = st.one_of(texts, repetitive.map(" ".join))


@tried(120)
@given(st.lists(any_texts, max_size=4))
def test_search_text_has_each_token_of_all_strings_once_with_its_number(
    strings: list[str],
) -> None:
    expected = [token for string in strings for token in tokens(string)]
    stored = search_text(strings)
    assert count_words(stored) == counted(expected)
    assert sorted(stored_words(stored)) == sorted({*expected})
    assert (stored is None) == (expected == [])
    once = [token for token in dict.fromkeys(expected) if expected.count(token) == 1]
    assert stored_words(stored)[len({*expected}) - len(once) :] == once


def test_search_text_is_written_like_this() -> None:
    assert search_text(["the cat bit", "the other"]) == "## the # cat bit other"
    assert search_text(["a b a b"]) == "## a b"
    assert search_text(["a" + " b" * 99 + " a"]) == f"{'#' * MOST_COUNTED} b ## a"


@tried(120)
@given(st.lists(any_texts, min_size=1, max_size=4))
def test_words_as_this_version_first_wrote_them_count_as_much(strings: list[str]) -> None:
    stored = search_text(strings)
    assume(stored)
    assert stored is not None
    before = "# " + " ".join(token for string in strings for token in tokens(string))
    assert counted([*count_words(before).elements()]) == count_words(stored)
    if max(count_words(before).values()) <= MOST_COUNTED:
        assert number_of_words(stored) == number_of_words(before)
    for text in (stored, before):
        for padding in ("", "other # words "):
            joined, start = f"{padding}{text} ", len(padding)
            for word, count in count_words(text).items():
                at = [m.start() for m in re.finditer(f" (?={re.escape(word)} )", joined[start:])]
                assert sum(occurrences_at(joined, start, start + one) for one in at) == count


@tried(120)
@given(st.lists(st.one_of(any_texts, st.none()), max_size=5), st.data())
def test_joined_texts_hold_the_words_of_each_and_kept_ones_no_others(
    strings: list[str | None], data: st.DataObject
) -> None:
    stored = [None if one is None else search_text([one]) for one in strings]
    joined = join_search_texts(stored)
    every = sum((count_words(one) for one in stored), Counter())
    assert count_words(joined) == {w: min(n, MOST_COUNTED) for w, n in every.items()}
    some = data.draw(st.sets(st.sampled_from([*every, "none of them"])))
    kept = keep_words(joined, some)
    assert count_words(kept) == {w: n for w, n in count_words(joined).items() if w in some}
    assert bool(kept) == bool(count_words(kept))


def test_search_text_ends_at_its_limit_with_a_whole_token() -> None:
    stored = search_text([" ".join(f"word{n}" for n in range(30_000))])
    assert stored is not None
    assert MAX_TEXT - 10 <= len(stored) - len("# ") - len(" #") <= MAX_TEXT
    assert is_cut(stored)
    assert stored_words(stored) == [f"word{n}" for n in range(len(stored_words(stored)))]
    again = search_text(["abcdefghi " * 30_000])
    assert again == f"{'#' * MOST_COUNTED} abcdefghi #"
    assert is_cut(again)
    assert not is_cut("# abcdefghi")


@given(st.lists(texts, max_size=8), st.integers(1, 120), st.integers(1, 60))
def test_texts_that_are_split_together_give_the_words_of_each_and_are_cut_between_words(
    several: list[str], room: int, together: int
) -> None:
    words = [word for text in several for word in tokens(text)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_text_module, "MAX_TEXT", room)
        patch.setattr(search_text_module, "_TOGETHER", together)
        stored = search_text(several)
    whole = next(
        (n for n in range(len(words)) if len(" ".join(words[: n + 1])) >= room), len(words)
    )
    assert count_words(stored) == counted(words[:whole])


def test_long_runs_without_a_break_are_not_indexed() -> None:
    assert search_text(["x" * 101, "é" * 101]) is None
    assert search_text(["x" * 100]) == "# " + "x" * 100


# --- What a step added ---------------------------------------------------------------------------

LONG = "lorem ipsum dolor sit amet " * 40
alphabet = 'abc \n"\\é中\u3099/\x01한'
plain_texts = st.text(alphabet, max_size=12)
json_values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-9, 9), plain_texts),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(plain_texts, inner, max_size=4)
    ),
    max_leaves=8,
)


def strings_in(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, list):
        return [string for item in value for string in strings_in(item)]
    if isinstance(value, dict):
        return [string for item in value.values() for string in strings_in(item)]
    return []


def added(before: dict[str, Any] | None, after: dict[str, Any]) -> list[str]:
    """The tokens of what a step from *before* to *after* added."""
    parent = None if before is None else Comparison(encode_state(before))
    return [t for s in added_texts(after, encode_state(after), parent) for t in tokens(s)]


def words_in(value: Any) -> set[str]:
    return {token for string in strings_in(value) for token in tokens(string)}


@tried(80)
@given(st.dictionaries(plain_texts, json_values, max_size=4))
def test_a_first_state_adds_all_its_words(state: dict[str, Any]) -> None:
    assert set(added(None, state)) == words_in(state)


@tried(80)
@given(st.dictionaries(plain_texts, json_values, max_size=4))
def test_an_unchanged_state_adds_nothing(state: dict[str, Any]) -> None:
    assert added(state, dict(state)) == []


@tried(150)
@given(st.lists(json_values, max_size=5), json_values, json_values)
def test_an_appended_item_adds_its_words_and_not_the_others(
    items: list[Any], item: Any, last: Any
) -> None:
    before = {"messages": [LONG, *items]}
    words = added(before, {"messages": [LONG, *items, item, last]})
    assert words_in([item, last]) <= set(words)
    assert "lorem" not in words


@tried(150)
@given(st.dictionaries(plain_texts, json_values, max_size=5), plain_texts, json_values)
def test_a_new_entry_of_a_dict_adds_its_words_and_not_the_others(
    entries: dict[str, Any], key: str, item: Any
) -> None:
    before = {"memory": {"long": LONG} | entries}
    words = added(before, {"memory": before["memory"] | {"new" + key: item}})
    assert words_in(item) <= set(words)
    assert "lorem" not in words


@tried(150)
@given(st.lists(json_values, max_size=5), st.integers(0, 5), json_values)
def test_an_item_put_anywhere_adds_its_words(items: list[Any], at: int, item: Any) -> None:
    before = {"messages": [*items[:at], *items[at:]]}
    after = {"messages": [*items[:at], item, *items[at:]]}
    assert words_in(item) - words_in(items) <= set(added(before, after))


@tried(250)
@given(st.data(), plain_texts, plain_texts)
def test_an_edited_text_adds_the_words_it_did_not_have(
    data: st.DataObject, old: str, new: str
) -> None:
    wrap = data.draw(st.sampled_from([lambda t: t, lambda t: ["x", t, "y"], lambda t: {"k": t}]))
    words = added({"note": wrap(old)}, {"note": wrap(new)})
    assert words_in(new) - words_in(old) <= set(words)


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        ("running", "planning", "planning"),
        ("Berlin", "Dublin", "Dublin"),
        ("the cat sat", "the cut sat", "cut"),
        ("中", "伭", "伭"),
        ("say\nno more", "say\nso more", "so"),
        ("état", "était", "etait"),
        ("snowball", "snow", "snow"),
        ("a snowball", "a ball", "ball"),
    ],
)
def test_a_word_that_begins_or_ends_like_the_old_one_is_added_whole(
    old: str, new: str, word: str
) -> None:
    assert word in added({"status": old}, {"status": new})


@tried(80)
@given(plain_texts, st.text("xyz ", min_size=1, max_size=20))
def test_a_growing_text_adds_its_end_and_the_word_it_grew_from(old: str, more: str) -> None:
    before, after = LONG + old, LONG + old + more
    words = added({"draft": before}, {"draft": after})
    assert words_in(after) - words_in(before) <= set(words)
    assert words.count("lorem") <= 4, "at most the window before the change is read again"


@tried(80)
@given(any_states, any_states)
def test_any_step_between_any_states_has_words_or_none(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    assert all(added(before, after | before))
    assert all(added(before, after))


@pytest.mark.parametrize(
    "beside",
    [(1,), {"set"}, b"bytes", math.nan, 2**70, ({"~tilde": 1},)],
    ids=["tuple", "set", "bytes", "nan", "huge", "tag"],
)
def test_a_value_that_json_lacks_does_not_hide_the_words_beside_it(beside: Any) -> None:
    before = {"messages": [LONG, beside]}
    words = added(before, {"messages": [LONG, beside, "fresh news", {"deep": ("tupled",)}]})
    assert {"fresh", "news", "tupled"} <= set(words)
    assert "lorem" not in words


def test_the_first_value_that_json_lacks_does_not_add_the_words_before_it_again() -> None:
    """From there on the whole list is stored in another form."""
    words = added({"messages": [LONG]}, {"messages": [LONG, ("tupled",)]})
    assert words == ["tupled"]


def test_words_beside_a_lone_surrogate_are_found() -> None:
    """Half an emoji is what a stream that was cut leaves behind."""
    assert {"hello", "world"} <= set(added({}, {"said": "hello \ud83d world"}))


@pytest.mark.parametrize("wrap", [lambda text: text, lambda text: [LONG, {"k": text}, LONG]])
def test_an_edited_text_with_a_lone_surrogate_adds_its_words(wrap: Any) -> None:
    before, after = wrap("hello \ud83d world"), wrap("hello \ud83d wide world")
    words = added({"said": before}, {"said": after})
    assert "wide" in words
    assert "lorem" not in words


@pytest.mark.parametrize("size", [0, 1, 14, 15, 16, 30, 31, 32, 254, 255, 256, 65_535])
def test_the_words_of_a_step_do_not_depend_on_how_wide_lengths_are(size: int) -> None:
    filling = ["old"] * size
    nests = [
        (filling, [*filling, "fresh"]),
        ([[LONG], filling, LONG], [[LONG], [*filling, "fresh"], LONG]),
        ({"step": 1, "in": [{"log": filling}]}, {"step": 2, "in": [{"log": [*filling, "fresh"]}]}),
        (dict.fromkeys(map(str, range(size)), 1), dict.fromkeys(map(str, range(size)), 1) | WORD),
        ((filling, 2**70), ([*filling, "fresh"], 2**70)),
        ("x " * size, "x " * size + "fresh"),
        ([LONG, "x" * size], [LONG, "x" * size + " fresh"]),
    ]
    for before, after in nests:
        words = added({"v": before}, {"v": after})
        assert words.count("fresh") == 1
        assert words.count("old") <= 2, "what was there is not read again"
        assert "lorem" not in words


WORD = {"word": "fresh"}


def test_bytes_are_not_words() -> None:
    assert added({}, {"image": bytes(range(256)), "said": ("ok",)}) == ["ok"]


@pytest.mark.parametrize("depth", [100, 900, 1020, 5000])
@pytest.mark.parametrize(("opening", "closing"), [("[", "]"), ('{"a":', "}")])
def test_a_text_that_nests_deeply_is_a_text(depth: int, opening: str, closing: str) -> None:
    """A tool may return anything, and a save must not fail on it."""
    said = opening * depth + '"deep"' + closing * depth
    assert "deep" in added({}, {"said": said})


def test_the_work_for_a_step_does_not_grow_with_the_history() -> None:
    """Only the end of a long history is serialised again."""
    history = [{"role": "user", "content": f"message {i} {LONG}"} for i in range(2000)]
    before = {"messages": history}
    after = {"messages": [*history, {"role": "user", "content": "goodbye"}]}
    parent, new = encode_state(before), encode_state(after)
    calls = 0
    real = ormsgpack.packb

    class Counting:
        unpackb = staticmethod(ormsgpack.unpackb)

        @staticmethod
        def packb(value: Any) -> bytes:
            nonlocal calls
            calls += 1
            return real(value)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(touched_parts, "ormsgpack", Counting)
        assert list(added_texts(after, new, Comparison(parent))) == ["user", "goodbye"]
    assert calls < 10


def test_tokens_come_in_the_order_of_the_text() -> None:
    assert list(tokens("One 二 three! Four")) == ["One", "二", "three", "Four"]
    numbers = [f"w{i}" for i in range(50)]
    assert all(a != b for a, b in pairwise(tokens(" ".join(numbers))))


@pytest.mark.parametrize("word", ["word ", "wörter ", "語 ", "語"])
def test_the_words_of_a_very_long_text_are_those_of_its_beginning(word: str) -> None:
    begun = word * (2 * MAX_TEXT)
    found = search_text([begun * 5])
    assert found is not None
    assert found == search_text([begun])
    assert is_cut(found)
    apart = search_text(["." * 3_000_000 + " last"])
    assert apart is not None
    assert apart.endswith("last")
