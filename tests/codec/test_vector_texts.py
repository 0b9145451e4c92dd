"""Vectors that a database gives as text."""

from __future__ import annotations

import struct

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from memalchemy.column_types import vector_floats

SINGLES = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(st.lists(SINGLES, min_size=1, max_size=8))
def test_a_vector_as_text_is_read_to_the_last_bit(numbers: list[float]) -> None:
    # As PostgreSQL writes them: the shortest digits, and whole numbers without a point.
    text = f"[{','.join(str(np.float32(number)).removesuffix('.0') for number in numbers)}]"
    read = vector_floats(text)
    assert {type(number) for number in read} == {float}
    assert struct.pack(f"{len(read)}f", *read) == struct.pack(f"{len(numbers)}f", *numbers)
