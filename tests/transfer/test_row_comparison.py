"""Comparison of rows across databases, and the epoch that marks a log as copied."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from asyncpg.pgproto import pgproto

from memalchemy.log.reencoding import REENCODED
from memalchemy.maintenance.copying.row_comparison import (
    comparable_vector,
    epoch_of_copy,
    is_of_same_epoch,
    is_unchanged_copy,
    same_rows,
    same_value,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)
KEY = UUID(int=7)
HEAD: dict[str, Any] = {
    "tenant": "acme", "thread_id": "\ud800", "namespace": "/", "next_seq": 5, "version": 9,
    "epoch": 0, "head_id": "x", "previous_id": None, "meta": {"n": 1.0, "l": [True, None]},
    "updated_at": NOW, "expires_at": None, "deleted_at": None,
}  # fmt: skip


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (1.0, 1), (1e23, 10**23), ({"a": [1.5, None]}, {"a": [1.5, None]}), (b"", b""), (NOW, NOW),
        (KEY, pgproto.UUID(KEY.bytes)),
    ],
)  # fmt: skip
def test_equal_values_are_the_same(ours: Any, theirs: Any) -> None:
    assert same_value(ours, theirs)
    assert same_value(theirs, ours)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (True, 1), ({"a": True}, {"a": 1}), ("1", 1), (None, ""), (b"a", "a"), ([1], [1, 1]),
        ({"a": 1}, {"a": 1, "b": None}), (NOW, NOW + timedelta(microseconds=1)), (0, None),
        (2**62, 2**62 + 1), ([], {}), (KEY, pgproto.UUID(UUID(int=8).bytes)), (KEY, str(KEY)),
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


def test_a_copied_head_counts_as_unchanged_until_a_column_of_it_changes() -> None:
    copied = HEAD | {"epoch": epoch_of_copy(HEAD)}
    as_jsonb_gives_it_back = {"l": [True, None], "n": 1}

    assert is_unchanged_copy(copied)
    assert is_unchanged_copy(copied | {"meta": as_jsonb_gives_it_back})
    for column in HEAD:
        if column != "epoch":
            assert not is_unchanged_copy(copied | {column: "other"}), column
    assert not is_unchanged_copy(copied | {"epoch": copied["epoch"] + 1})
    assert 0 <= copied["epoch"] < 2**62


def test_the_epoch_of_a_copy_tells_the_epoch_of_the_source_and_every_column() -> None:
    copied = HEAD | {"epoch": epoch_of_copy(HEAD)}
    others = [HEAD | {"epoch": number} for number in range(1, 100)]

    assert is_of_same_epoch(copied, HEAD)
    assert is_of_same_epoch(copied, HEAD | {"next_seq": 6, "version": 10})
    assert not any(is_of_same_epoch(copied, other) for other in others)
    assert len({epoch_of_copy(other) for other in others}) == len(others)


def test_rows_in_another_form_leave_a_copy_a_copy_of_another_epoch() -> None:
    copied = HEAD | {"epoch": epoch_of_copy(HEAD)}
    encoded_anew = copied | {"epoch": copied["epoch"] + REENCODED}

    assert is_unchanged_copy(encoded_anew)
    assert not is_of_same_epoch(encoded_anew, HEAD)


def test_a_vector_has_the_same_bytes_as_bytes_as_text_and_as_numbers() -> None:
    raw = comparable_vector([0.1, -2.0])

    assert (
        comparable_vector("[0.1,-2]")
        == comparable_vector(memoryview(raw))
        == comparable_vector(raw)
        == raw
    )
    assert len(raw) == 8
