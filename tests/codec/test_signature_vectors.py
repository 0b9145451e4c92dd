"""Signatures that were made once are valid for ever: these are of both versions."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest

from memalchemy.codec.signatures import SigningKeys, Sums
from memalchemy.errors import Corrupt

KEY = base64.urlsafe_b64encode(bytes(range(32))).decode()
LOG = UUID("12345678-1234-8234-9234-123456789abc")
TIME = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)
EARLIER = datetime(2026, 1, 2, 3, 4, 5, 536870, tzinfo=UTC)
"""The last microsecond of a second that version 1 signed."""

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
    "early entry": ("entry", "default", LOG, 7, None, 0, "k", None, EARLIER, EARLIER, "v1", b"x"),
    "write": ("write", "default", LOG, 9, "c3", None, 0, "task", 2, None, TIME, "v1", b"w"),
    "vector": ("vector", "default", "/a/", "k", 2, "", "m", 0, 2, b"\0\0\x80?\0\0\0@"),
    "json": ("item", "default", "/a/", "k", 1, {"deep": [{"é": 0.5, "e": 1e-9}, True, None, -1]}),
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

WITH_TIMES = [
    kind for kind, row in ROWS.items() if any(isinstance(value, datetime) for value in row)
]

FIRST = {
    "state": "0195e6c140c811f5ee6aef115e26c319d84095e57eebd30737bd3ab806e24b9662d0277929",
    "large": "0195e6c1401ce0c6d535d1ec50fefb3ed87b4590c15057d2f2235e0951549a4fbedf3995e6",
    "checkpoint": "0195e6c140819cc833430aefeb44d5f2b2e5bce9dc8f6072829f2cebe03aede5b2eaef9c09",
    "entry": "0195e6c14032166163b8f50f8832bcd182683c968a52bd9bd9f5bac1ae7e9875ebbd4ab32a",
    "early entry": "0195e6c140be4a765ee6e77d0ff1ea41de9deb2ad29b9deb5fca100856871a123bd557e2b5",
    "write": "0195e6c140da13e47ff72695fcd56537d3b97637a9cba263a1fcff8ea2a7ab44101d5096ab",
    "vector": "0195e6c140d08bc4c55b9093ee2001fd84368127d60e1f031a3fcae2245c62c55facc01ef6",
    "json": "0195e6c140aa0bc0b205671df8518f5605e97b79465d11e7d858d34b499e0618869aedea2f",
    "item": "0195e6c14084f47c3b0adab04fd9982e3bcf0814b6cd43aeb2540f62e39c1bfdf6d7794ee4",
}
"""Signatures of version 1, as they were made with ormsgpack 1.13.1."""

SIGNED = {
    "state": "0295e6c1406d3f0552db58bc36792018c4753927af46d1c4aebc706dd8b66b74e11355b54c",
    "large": "0295e6c140b4b86c04a783bb7270745ed376340521ebf8efa570fb3b3a62bc2c8855d7ad7e",
    "checkpoint": "0295e6c140132215c5bee3433ac8eb06c606a2c46b51af1e22c4782ee0b704dbce6977ce61",
    "entry": "0295e6c140aa02d81274501f8901f0d4cc2b761abba17e467a80e21cf360a5d013513df881",
    "early entry": "0295e6c140cc5bed9acd96a5eaf24024805eb57df089e47470c7879185fe82ed018261248c",
    "write": "0295e6c1401374eef0c1d832f89c017b1a362f5e147907ad15082187125927c77c1a768707",
    "vector": "0295e6c1402fa8077488912fcc718df6cd8d5a7412d0a1c350a1987d9422f6bb0a78febfea",
    "json": "0295e6c140a0b737aaa22e59d1ea9e3940176c8aeb2921a375b82dbe4edc65935577dacadf",
    "item": "0295e6c14067a6bbd084436e8513f7cf8ff9bea7cca2a9238621c46d53f3d0ddab358f0ae3",
}
FIRST_HEAD = bytes.fromhex(
    "0195e6c1400001020304050607000000000000000766572d569486d6ee20f18c46d9b5522f3e1dbb01ca3fd0"
    "55515107388b4e21e878924ed1eeab9b77f39cf39cfc40d956"
)
SIGNED_HEAD = bytes.fromhex(
    "0295e6c140000102030405060700000000000000072813166969821d20239d1740cfaf61b0dbad0c27fb4ca1"
    "44b81aca94b54c71e91bf06a0f34048f9dee4fa9f8a0564c01"
)
FIRST_ELEMENT = 234115580953907353973458247786075383421
ELEMENT = 246162618773073643075102215773736645404


def check(signature: str, kind: str) -> None:
    """Hold a row to a signature, and see that another row is not held to be it."""
    keys, row, words = SigningKeys(KEY), ROWS[kind], (ROWS[kind][0], "words")
    keys.check_whole(bytes.fromhex(signature), row, words)
    for at in range(len(row)):
        with pytest.raises(Corrupt):
            keys.check(bytes.fromhex(signature), (*row[:at], "another", *row[at + 1 :]))
    with pytest.raises(Corrupt):
        keys.check_words(bytes.fromhex(signature), (*words[:-1], "other words"))


@pytest.mark.parametrize("kind", ROWS)
def test_a_row_has_the_signature_that_it_had(kind: str) -> None:
    signature = SigningKeys(KEY).sign(ROWS[kind], (ROWS[kind][0], "words"))
    assert signature.hex() == SIGNED[kind]
    check(SIGNED[kind], kind)


@pytest.mark.parametrize("kind", ROWS)
def test_a_row_of_the_first_version_is_what_it_was(kind: str) -> None:
    check(FIRST[kind], kind)
    assert not SigningKeys(KEY).is_up_to_date(bytes.fromhex(FIRST[kind]))
    assert SigningKeys(KEY).is_up_to_date(bytes.fromhex(SIGNED[kind]))


@pytest.mark.parametrize("kind", WITH_TIMES)
def test_each_microsecond_of_each_time_is_signed(kind: str) -> None:
    keys, row = SigningKeys(KEY), ROWS[kind]
    signature = keys.sign(row)
    for at, value in enumerate(row):
        if isinstance(value, datetime):
            for moved in (-1, 1):
                changed = value + timedelta(microseconds=moved)
                with pytest.raises(Corrupt):
                    keys.check(signature, (*row[:at], changed, *row[at + 1 :]))


@pytest.mark.parametrize(
    ("signature", "is_new"), [(FIRST_HEAD, False), (SIGNED_HEAD, True)], ids=["first", "second"]
)
def test_a_head_tells_the_sums_that_it_told(
    signature: bytes, is_new: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.urandom", lambda size: bytes(range(size)))
    keys = SigningKeys(KEY)
    assert (keys.sign_head(HEAD, SUMS) == signature) == is_new
    assert keys.check_head(signature, HEAD) == SUMS
    keys.check_head_alone(signature, HEAD)
    with pytest.raises(Corrupt):
        keys.check_head_alone(signature, (*HEAD[:-1], {}))


def test_a_row_adds_to_a_sum_what_it_added() -> None:
    keys = SigningKeys(KEY)
    assert keys.element(bytes.fromhex(FIRST["checkpoint"])[:21]) == FIRST_ELEMENT
    assert keys.element(keys.sign(ROWS["checkpoint"])) == ELEMENT
    assert keys.sum_of([keys.sign(ROWS["checkpoint"])] * 2) == 2 * ELEMENT % (1 << 128)


def test_an_anchor_names_things_as_it_did() -> None:
    keys = SigningKeys(KEY)
    named = keys.identity_code(keys.first_id or "", ("log", "default", LOG))
    assert named.hex() == "0c6089afffc18a7c50e1a69259b07845"
