"""What counts as the same value, and what breaks a seal."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memalchemy.maintenance.row_comparison import (
    epoch_of_copy,
    is_unchanged_copy,
    same_rows,
    same_value,
    vector_bytes,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)
HEAD: dict[str, Any] = {
    "tenant": "acme", "thread_id": "\ud800", "namespace": "/", "next_seq": 5, "version": 9,
    "epoch": 0, "head_id": "x", "previous_id": None, "meta": {"n": 1.0, "l": [True, None]},
    "updated_at": NOW, "expires_at": None, "deleted_at": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(1.0, 1), (1e23, 10**23), ({"a": [1.5, None]}, {"a": [1.5, None]}), (b"", b""), (NOW, NOW)],
)
def test_equal_values_are_the_same(ours: Any, theirs: Any) -> None:
    assert same_value(ours, theirs)
    assert same_value(theirs, ours)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (True, 1), ({"a": True}, {"a": 1}), ("1", 1), (None, ""), (b"a", "a"), ([1], [1, 1]),
        ({"a": 1}, {"a": 1, "b": None}), (NOW, NOW + timedelta(microseconds=1)), (0, None),
        (2**62, 2**62 + 1), ([], {}),
    ],
)  # fmt: skip
def test_different_values_are_not_the_same(ours: Any, theirs: Any) -> None:
    assert not same_value(ours, theirs)
    assert not same_value(theirs, ours)


def test_rows_are_compared_in_number_and_in_every_column() -> None:
    assert same_rows([HEAD], [dict(HEAD)])
    assert not same_rows([HEAD], [])
    assert not same_rows([HEAD], [HEAD | {"more": 1}])
    assert not same_rows([HEAD], [HEAD | {"version": 10}])


def test_a_seal_holds_as_long_as_nothing_of_the_head_changes() -> None:
    sealed = HEAD | {"epoch": epoch_of_copy(HEAD)}

    assert is_unchanged_copy(sealed)
    assert is_unchanged_copy(
        sealed | {"meta": {"l": [True, None], "n": 1}}
    )  # as JSONB gives it back
    for column in HEAD:
        if column != "epoch":
            assert not is_unchanged_copy(sealed | {column: "other"}), column
    assert not is_unchanged_copy(sealed | {"epoch": sealed["epoch"] + 1})
    assert 0 <= sealed["epoch"] < 2**62


def test_no_two_seals_are_the_same_epoch() -> None:
    assert len({epoch_of_copy(HEAD) for _ in range(100)}) == 100


def test_a_vector_has_the_same_bytes_however_it_is_told() -> None:
    told = vector_bytes([0.1, -2.0])

    assert vector_bytes("[0.1,-2]") == vector_bytes(memoryview(told)) == told == vector_bytes(told)
    assert len(told) == 8
