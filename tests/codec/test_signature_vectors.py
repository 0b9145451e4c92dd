"""Signatures that were made once are valid for ever: these are of the first release that signs."""

from __future__ import annotations

import base64
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

import pytest

from memalchemy.codec.signatures import SigningKeys, Sums
from memalchemy.errors import Corrupt

KEY = base64.urlsafe_b64encode(bytes(range(32))).decode()
LOG = UUID("12345678-1234-8234-9234-123456789abc")
TIME = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)

ROWS: dict[str, tuple[Any, ...]] = {
    "state": ("state", "default", LOG, 3, 2, 1, None, None, None, None, "ma2", b"\x01" * 50),
    "large": ("state", "default", LOG, 4, None, 0, None, None, None, None, "ma2", b"\x02" * 20_000),
    "checkpoint": (
        "checkpoint",
        LOG,
        "default",
        3,
        "c3",
        "c2",
        3,
        None,
        None,
        {"b": 1.0, "a": [2]},
        TIME,
        TIME,
    ),
    "entry": ("entry", "default", LOG, 7, None, 0, "key \ud800", None, TIME, TIME, "v1", b"x"),
    "item": ("item", "default", "/a/", "k", 2, None, TIME, TIME, None, 1 << 70, "v1", b"value"),
}
HEAD = (
    "head",
    LOG,
    "default",
    "t",
    "/",
    4,
    3,
    3,
    "c3",
    "c2",
    TIME,
    TIME,
    None,
    None,
    {"title": "é"},
)
SUMS = Sums(1 << 120, (1 << 127) + 5, 7)

SIGNED = {
    "state": "0195e6c140c811f5ee6aef115e26c319d84095e57eebd30737bd3ab806e24b9662d0277929",
    "large": "0195e6c1401ce0c6d535d1ec50fefb3ed87b4590c15057d2f2235e0951549a4fbedf3995e6",
    "checkpoint": "0195e6c140819cc833430aefeb44d5f2b2e5bce9dc8f6072829f2cebe03aede5b2eaef9c09",
    "entry": "0195e6c14032166163b8f50f8832bcd182683c968a52bd9bd9f5bac1ae7e9875ebbd4ab32a",
    "item": "0195e6c14084f47c3b0adab04fd9982e3bcf0814b6cd43aeb2540f62e39c1bfdf6d7794ee4",
}
SIGNED_HEAD = bytes.fromhex(
    "0195e6c1400001020304050607000000000000000766572d569486d6ee20f18c46d9b5522f3e1dbb01ca3fd0"
    "55515107388b4e21e878924ed1eeab9b77f39cf39cfc40d956"
)
ELEMENT = 234115580953907353973458247786075383421


@pytest.mark.parametrize("kind", ROWS)
def test_a_row_has_the_signature_that_it_had(kind: str) -> None:
    keys, row, words = SigningKeys(KEY), ROWS[kind], (ROWS[kind][0], "words")
    signature = bytes.fromhex(SIGNED[kind])
    assert keys.sign(row, words) == signature
    keys.check_whole(signature, row, words)
    with pytest.raises(Corrupt):
        keys.check(signature, (*row[:-1], "another"))


def test_a_head_tells_the_sums_that_it_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.urandom", lambda size: bytes(range(size)))
    keys = SigningKeys(KEY)
    assert keys.sign_head(HEAD, SUMS) == SIGNED_HEAD
    assert keys.check_head(SIGNED_HEAD, HEAD) == SUMS
    keys.check_head_alone(SIGNED_HEAD, HEAD)
    with pytest.raises(Corrupt):
        keys.check_head_alone(SIGNED_HEAD, (*HEAD[:-1], {}))


def test_a_row_adds_to_a_sum_what_it_added() -> None:
    keys = SigningKeys(KEY)
    assert keys.element(keys.sign(ROWS["checkpoint"])) == ELEMENT
    assert keys.sum_of([keys.sign(ROWS["checkpoint"])] * 2) == 2 * ELEMENT % (1 << 128)
