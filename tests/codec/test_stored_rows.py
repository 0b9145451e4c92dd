"""The rows of a save are, byte for byte, those that were stored before.

Threads of many shapes are saved, and every row is held to a digest in stored_rows.txt: payload,
checksum, kind, base, depth and search text. Another digest means that databases hold something else
from now on, which a release has to intend. Then ``MEMALCHEMY_REGENERATE=1`` writes the digests.

What zstd and deflate make of the same bytes depends on their versions. So the digests are of what
they are given, and a test of its own says what becomes of that.
"""

from __future__ import annotations

import itertools
import os
import random
import sqlite3
import string
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from hashlib import blake2b
from pathlib import Path, PurePosixPath
from typing import Any
from uuid import UUID

import numpy as np
import ormsgpack
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st
from states import hashed_states, tried

from memalchemy import Checkpointer, Database
from memalchemy.codec import deltas
from memalchemy.codec.compression import compress, decompress
from memalchemy.contracts import Packed

DIGESTS = Path(__file__).with_name("stored_rows.txt")

States = Iterator[dict[str, Any]]

# --- Shapes of states -----------------------------------------------------------------------------

WORDS = [
    *("tide", "ebb", "flow", "Straße", "naïve", "東京", "дом", "한국", "ok42", "it's", "a_b"),
    *("e\u0301te\u0301", "🙂", "Ångström", "½"),
]


def words(dice: random.Random, count: int) -> str:
    return " ".join(dice.choices(WORDS, k=count))


def letters(dice: random.Random, count: int) -> str:
    return "".join(dice.choices(string.ascii_letters + "     .,\n", k=count))


def message(dice: random.Random, number: int) -> dict[str, Any]:
    return {"role": dice.choice(["user", "assistant"]), "content": f"m{number} {words(dice, 12)}"}


def appended(dice: random.Random, start: int = 0, encode: Callable[[Any], Any] = list) -> States:
    messages = [message(dice, number) for number in range(start)]
    while True:
        messages += [message(dice, len(messages)) for _ in range(dice.choice([1, 1, 2, 3]))]
        yield {"messages": encode(messages), "step": len(messages)}


def edited_in_the_middle(dice: random.Random) -> States:
    messages = [message(dice, number) for number in range(60)]
    while True:
        messages = messages.copy()
        for _ in range(dice.choice([1, 2, 5])):
            at = dice.randrange(len(messages))
            content = messages[at]["content"]
            cut = dice.randrange(len(content))
            messages[at] = messages[at] | {"content": content[:cut] + "new" + content[cut + 3 :]}
        yield {"head": {"title": "edits"}, "messages": messages}


def a_window(dice: random.Random) -> States:
    messages = [message(dice, number) for number in range(14)]
    for number in itertools.count(14):
        messages = [*messages[dice.choice([0, 1, 2]) :], message(dice, number)]
        yield {"messages": messages, "summary": letters(dice, 40) * (number % 5)}


def removed(dice: random.Random) -> States:
    messages = [message(dice, number) for number in range(70)]
    while True:
        for _ in range(min(dice.choice([1, 3, 8]), len(messages))):
            messages = messages.copy()
            del messages[dice.randrange(len(messages))]
        yield {"messages": messages}


def nested(dice: random.Random) -> States:
    tree: dict[str, Any] = {f"branch {n}": {"leaves": [], "of": {"x": {}}} for n in range(6)}
    for number in itertools.count():
        branch = tree[f"branch {dice.randrange(6)}"]
        branch["leaves"] = [*branch["leaves"], [number, words(dice, 3), {"n": number / 7}]]
        branch["of"]["x"][f"key {number % 9}"] = words(dice, number % 12)
        yield {"tree": ormsgpack.unpackb(ormsgpack.packb(tree)), "also": {"n": number, "ok": None}}


def tagged(dice: random.Random) -> States:
    seen: list[Any] = []
    for number in itertools.count():
        seen = [
            *seen,
            dice.choice(
                [
                    (number, words(dice, 4)),
                    dice.randbytes(9),
                    datetime(2026, 1, 1 + number % 28, 2, tzinfo=UTC),
                    datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2))),
                    date(2026, 2, 1 + number % 28),
                    UUID(int=dice.getrandbits(128)),
                    Decimal(number).scaleb(-2),
                    {words(dice, 1), words(dice, 2), number},
                    frozenset({words(dice, 2), (number, "in a tuple")}),
                    2**70 + number,
                    PurePosixPath("/srv/notes") / str(number),
                    np.float32(number),
                    {"~t": ["no tuple"], "plain": words(dice, 3)},
                ]
            ),
        ]
        yield {"seen": seen, "last": seen[-1], "pair": (number, [words(dice, 2)])}


def lone_surrogates(dice: random.Random) -> States:
    texts: list[str] = []
    for number in itertools.count():
        texts = [*texts, dice.choice(["cut \ud83d off", "\udc00", "whole 🙂", words(dice, 5)])]
        yield {"texts": texts, "key \ud83d": texts[-1], "joined": "".join(texts), "n": number}


def json_in_texts(dice: random.Random) -> States:
    calls: list[dict[str, str]] = []
    for number in itertools.count():
        call = f'{{"name": "find", "of": [{number}, "{words(dice, 3)}", {{"x": 1.5, "y": null}}]}}'
        calls = [*calls, {"args": dice.choice([call, call[:-1], "[1, 2", "{}", f"[{call}]"])}]
        yield {"calls": calls, "last": call, "list": '["a\\nb", "c"]' if number % 3 else "[]"}


def a_text_that_grows(dice: random.Random, start: int = 0, encode: Any = str) -> States:
    text = letters(dice, start)
    while True:
        text += words(dice, dice.choice([1, 5, 30])) + dice.choice([" ", "", "\n"])
        yield {"draft": encode(text), "length": len(text)}


def a_text_that_is_revised(dice: random.Random) -> States:
    text = letters(dice, 3000)
    while True:
        for _ in range(dice.choice([1, 2, 80])):
            at = dice.randrange(len(text))
            text = (
                text[:at] + letters(dice, dice.choice([0, 1, 9])) + text[at + dice.choice([0, 4]) :]
            )
        yield {"text": text, "words": text.split()}


def keys_that_come_and_go(dice: random.Random) -> States:
    state: dict[str, Any] = {}
    for number in itertools.count():
        key = dice.choice(["a", "b", "~c", "__d", "ключ", "e/f", ""])
        if key in state and dice.random() < 0.4:
            del state[key]
        else:
            state[key] = dice.choice(
                [words(dice, 20), [number] * 30, {"k": words(dice, 4)}, number]
            )
        if dice.random() < 0.3:
            state = dict(dice.sample(list(state.items()), len(state)))
        yield dict(state)


def numbers(dice: random.Random) -> States:
    rows: list[list[float]] = []
    while True:
        rows = [*rows, [dice.randrange(300) / 4, dice.choice([1, 200, 70_000, -5, 2**40])]]
        yield {"rows": rows, "sum": sum(row[0] for row in rows), "last": rows[-1]}


def counters(dice: random.Random) -> States:
    """Small differences, closer to each other and to the end than elsewhere, and many of them."""
    tallies = [{"name": f"the tally number {n}", "count": n} for n in range(100)]
    for number in itertools.count(dice.randrange(120, 127)):
        few = dice.choice([tallies, tallies[:3], []])
        for tally in few:
            tally["count"] += dice.choice([1, 1, 200])
        ends = [letters(dice, 2), number, *range(number % 9)]
        text = "the same text in every one of the states, which takes over sixty-four bytes"
        yield {"tallies": [dict(one) for one in tallies], "row": [text, number * 2, *ends]}


def half_as_long(dice: random.Random) -> States:
    """States of 402 and of 201 bytes in turn: the second may just be based on the first."""
    while True:
        yield {"t": letters(dice, 398)}
        yield {"t": letters(dice, 198)}


def growing_and_shrinking(dice: random.Random) -> States:
    while True:
        size = dice.choice([0, 1, 40, 41, 400, 9_000])
        yield {"text": letters(dice, size), "list": [letters(dice, 5)] * (size // 90)}


def blobs(dice: random.Random) -> States:
    files: dict[str, bytes] = {}
    for number in itertools.count():
        files = files | {f"file {number % 4}": dice.randbytes(dice.choice([0, 3, 50, 2500]))}
        yield {"files": files, "tail": b"tail" * number, "note": words(dice, number % 7)}


def packed(dice: random.Random) -> States:
    said: list[Any] = []
    for number in itertools.count():
        fields = {"content": words(dice, 6), "type": "human", "id": str(number)}
        said = [*said, ormsgpack.Ext(5, ormsgpack.packb(["m", "Human", fields, "validate"]))]
        if number % 6 == 5:
            said = said[2:]
        content = ormsgpack.packb(said, option=ormsgpack.OPT_NON_STR_KEYS)
        yield {
            "messages": Packed("msgpack", content),
            "__start__": Packed("msgpack", ormsgpack.packb(words(dice, 2))),
            "other": Packed("json", b"[1]"),
        }


def a_random_tree(dice: random.Random) -> States:
    """Values of every kind, which change anywhere."""

    def leaf() -> Any:
        return dice.choice(
            [
                words(dice, dice.randrange(9)),
                letters(dice, dice.choice([3, 40, 300])),
                dice.randrange(-(2**40), 2**40),
                dice.random(),
                None,
                True,
                '{"in": ["json", 7]}',
                "x" * dice.choice([31, 32, 255, 256]),
            ]
        )

    def tree(depth: int) -> Any:
        kind = dice.random()
        if depth == 0 or kind < 0.2:
            return leaf()
        below = [tree(depth - 1) for _ in range(dice.choice([0, 1, 3, 15, 16]))]
        return below if kind < 0.6 else {f"k{n}": one for n, one in enumerate(below)}

    def changed(value: Any) -> Any:
        if type(value) is list and value:
            copy = list(value)
            at = dice.randrange(len(copy))
            done = dice.random()
            if done < 0.3:
                copy.insert(at, tree(1))
            elif done < 0.5:
                del copy[at]
            elif done < 0.7:
                copy.append(tree(1))
            else:
                copy[at] = changed(copy[at])
            return copy
        if type(value) is dict and value:
            key = dice.choice(list(value))
            return (
                value
                | {key: changed(value[key])}
                | ({"more": leaf()} if dice.random() < 0.1 else {})
            )
        if type(value) is str and value and dice.random() < 0.7:
            at = dice.randrange(len(value))
            return (
                value[:at] + words(dice, dice.choice([0, 1, 2])) + value[at + dice.choice([0, 1]) :]
            )
        return leaf()

    state = {"a": tree(3), "b": tree(2), "c": leaf()}
    while True:
        for _ in range(dice.choice([1, 1, 2, 6])):
            state = state | {(key := dice.choice(list(state))): changed(state[key])}
        yield state


def sets(dice: random.Random) -> States:
    yield from itertools.cycle(hashed_states(dice.randrange(100)))


# --- Threads --------------------------------------------------------------------------------------

Thread = tuple[Callable[[random.Random], States], int, dict[str, Any]]

THREADS: dict[str, Thread] = {
    "appended": (appended, 30, {}),
    "appended to 200": (lambda dice: appended(dice, 200), 24, {}),
    "appended without text": (lambda dice: appended(dice, 200), 8, {"index_text": False}),
    "appended, text of one key": (lambda dice: appended(dice, 9), 8, {"index_text": {"step"}}),
    "appended to a tuple": (lambda dice: appended(dice, 20, tuple), 20, {}),
    "short chains": (lambda dice: appended(dice, 40), 20, {"max_chain_depth": 3}),
    "compressed hard": (lambda dice: appended(dice, 40), 8, {"compression_level": 9}),
    "edited in the middle": (edited_in_the_middle, 24, {}),
    "a window": (a_window, 24, {}),
    "removed": (removed, 20, {}),
    "nested": (nested, 30, {}),
    "tagged": (tagged, 40, {}),
    "lone surrogates": (lone_surrogates, 20, {}),
    "JSON in texts": (json_in_texts, 24, {}),
    "a text that grows": (a_text_that_grows, 30, {}),
    "a long text that grows": (lambda dice: a_text_that_grows(dice, 70_000), 8, {}),
    "a longer text than is indexed": (lambda dice: a_text_that_grows(dice, 260_000), 3, {}),
    "bytes that grow": (lambda dice: a_text_that_grows(dice, 3000, str.encode), 12, {}),
    "a text that is revised": (a_text_that_is_revised, 20, {}),
    "keys that come and go": (keys_that_come_and_go, 40, {}),
    "numbers": (numbers, 20, {}),
    "counters": (counters, 30, {}),
    "half as long": (half_as_long, 6, {}),
    "growing and shrinking": (growing_and_shrinking, 24, {}),
    "blobs": (blobs, 20, {}),
    "packed": (packed, 24, {}),
    "sets": (sets, 12, {}),
    **{f"a random tree {number}": (a_random_tree, 20, {}) for number in range(24)},
}


def pack(body: bytes, level: int | None, dictionary: bytes = b"") -> bytes:
    """Stand in for `compress`: the same bytes in every version, and a trace of all arguments."""
    return ormsgpack.packb([body, level, blake2b(dictionary, digest_size=8).digest()])


def unpack(packed: bytes, limit: int, dictionary: bytes = b"") -> bytes:
    body, level, digest = ormsgpack.unpackb(packed)
    assert pack(body, level, dictionary) == packed, f"another dictionary than {digest}"
    assert len(body) <= limit
    return bytes(body)


ROWS = """
    SELECT seq, kind, base_seq, depth, radix, codec, checksum, payload, search_text, raw_size
    FROM deltas LEFT JOIN checkpoints USING (log_id, seq) ORDER BY seq
"""


async def stored_rows(name: str, file: Path) -> list[tuple[Any, ...]]:
    """The rows of a thread, of which some saves branch off, and some are those of a new process."""
    shape, steps, settings = THREADS[name]
    dice = random.Random(name)
    states = list(itertools.islice(shape(random.Random(f"states of {name}")), steps))
    ids: list[str] = []
    for part in (states[: steps * 2 // 3], states[steps * 2 // 3 :]):
        async with Database(f"sqlite:///{file}", durability="normal") as db:
            checkpointer = Checkpointer(db, **settings)
            for state in part:
                branches = ids and dice.random() < 0.15
                parent_id = dice.choice(ids[-6:]) if branches else None
                ids.append(f"c{len(ids)}")
                await checkpointer.save(state, "t", ids[-1], parent_id=parent_id)
        async with Database(f"sqlite:///{file}") as db:
            assert await Checkpointer(db).load("t") == part[-1]
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(ROWS).fetchall()


def digests() -> dict[str, list[str]]:
    lines = DIGESTS.read_text().splitlines()
    return {name: found.split() for name, found in (line.split(": ") for line in lines)}


@pytest.mark.parametrize("name", THREADS)
async def test_every_row_is_the_one_that_was_stored_before(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deltas, "compress", pack)
    monkeypatch.setattr(deltas, "decompress", unpack)

    rows = await stored_rows(name, tmp_path / "a.db")

    found = [blake2b(repr(row).encode(), digest_size=3).hexdigest() for row in rows]
    if os.environ.get("MEMALCHEMY_REGENERATE"):
        known = digests() if DIGESTS.exists() else {}
        known[name] = found
        lines = [f"{one}: {' '.join(known[one])}" for one in THREADS if one in known]
        DIGESTS.write_text("\n".join(lines) + "\n")
    expected = digests()[name]
    changed = [row for row, is_, was in zip(rows, found, expected, strict=True) if is_ != was]
    assert not changed, f"of {len(rows)} rows {len(changed)} differ, first {changed[0][:7]}"


def test_the_digests_are_of_these_threads() -> None:
    assert list(digests()) == list(THREADS)
    assert {len(found) for found in digests().values()} == {
        steps for _, steps, _ in THREADS.values()
    }


# --- Compression ----------------------------------------------------------------------------------


def expected_compression(body: bytes, level: int, dictionary: bytes) -> bytes:
    """What a payload is, put down a second time."""
    tiny = 8 if dictionary else 39
    if len(body) <= tiny:
        return b"\x00" + body
    if len(body) <= 4096 and len(body) + len(dictionary) <= 32_768:
        deflate = zlib.compressobj(min(level + 3, 9), zlib.DEFLATED, -15, 8, zdict=dictionary)
        compressed = b"\x02" + deflate.compress(body) + deflate.flush()
    else:
        level = max(level, min(level + 4, 9)) if len(body) <= 524_288 else level
        raw = zstandard.DICT_TYPE_RAWCONTENT
        given = zstandard.ZstdCompressionDict(dictionary, raw) if len(dictionary) >= 8 else None
        compressed = b"\x01" + zstandard.ZstdCompressor(level, given).compress(body)
    return compressed if len(compressed) <= len(body) else b"\x00" + body


@tried(150)
@given(
    st.integers(0, 2**32),
    st.sampled_from([0, 1, 8, 9, 39, 40, 41, 500, 4096, 4097, 20_000, 600_000]),
    st.sampled_from([0, 1, 7, 8, 9, 900, 16_384, 28_672, 28_673, 40_000]),
    st.sampled_from([1, 3, 9, 12]),
    st.booleans(),
)
def test_a_payload_is_compressed_as_ever(
    seed: int, size: int, size_of_dictionary: int, level: int, is_noise: bool
) -> None:
    dice = random.Random(seed)
    long = dice.randbytes(size) if is_noise else (letters(dice, 400).encode() * (size // 400 + 1))
    body = long[:size]
    dictionary = (letters(dice, 50).encode() + long * 9 + bytes(size_of_dictionary))[
        :size_of_dictionary
    ]

    compressed = compress(body, level, dictionary)

    assert compressed == expected_compression(body, level, dictionary)
    assert decompress(compressed, max(size, 1), dictionary) == body
