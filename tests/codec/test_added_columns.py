"""A signed column that a later release adds: what was signed before it stays valid."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalchemy.codec import signed_rows
from memalchemy.codec.places import write_place
from memalchemy.codec.secret_keys import generate_key
from memalchemy.codec.signatures import SigningKeys
from memalchemy.codec.signed_rows import delta_words
from memalchemy.errors import Corrupt
from memalchemy.keys import log_key
from memalchemy.rows import DELTA

PLACE = write_place("t", log_key("t", "thread", "/"), 3, "c1")
LATER = replace(DELTA, words=(*DELTA.words, "note", "mark"))

texts = st.none() | st.text(max_size=3)
words = st.tuples(st.none() | st.integers(2, 64), texts, texts, texts)


@pytest.fixture(scope="module")
def keys() -> SigningKeys:
    return SigningKeys([generate_key()])


@pytest.fixture
def later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signed_rows, "DELTA", LATER)


def test_words_are_signed_as_they_were_before_a_column_was_added(
    keys: SigningKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = keys.sign(PLACE, delta_words(PLACE, (None, "words")))
    monkeypatch.setattr(signed_rows, "DELTA", LATER)
    keys.check_words(before, delta_words(PLACE, (None, "words", None, None)))
    for forged in ((None, "words", "x", None), (None, "words", None, "x")):
        with pytest.raises(Corrupt):
            keys.check_words(before, delta_words(PLACE, forged))


@pytest.mark.usefixtures("later")
@given(signed=words, read=words)
def test_any_other_values_are_refused(
    keys: SigningKeys, signed: tuple[Any, ...], read: tuple[Any, ...]
) -> None:
    signature = keys.sign(PLACE, delta_words(PLACE, signed))
    keys.check_words(signature, delta_words(PLACE, signed))
    if read != signed:
        with pytest.raises(Corrupt):
            keys.check_words(signature, delta_words(PLACE, read))
