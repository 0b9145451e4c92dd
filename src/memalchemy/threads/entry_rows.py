"""Convert entries to rows and back: values, keys, times and search text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from memalchemy.codec.encryption import Keyring
from memalchemy.codec.payloads import (
    VALUE_CODEC,
    decode_payload,
    decode_payloads,
    encode_payload,
)
from memalchemy.codec.places import entry_place
from memalchemy.codec.search_text import item_search_text, texts_in
from memalchemy.codec.snippets import best_text, excerpt
from memalchemy.codec.tokens import Term
from memalchemy.codec.values import frozen, is_heavy
from memalchemy.contracts import Entry, EntryHit, check_time
from memalchemy.database import OFF_LOOP_BYTES
from memalchemy.errors import Corrupt, MemalchemyError, about
from memalchemy.keys import check_entry_key, check_list
from memalchemy.log import Log
from memalchemy.protection.signed_logs import errors_about
from memalchemy.protection.signed_reads import check_entries, check_hit_words

Row = dict[str, Any]


def encode_entries(
    values: Sequence[Any],
    keys: Sequence[str | None],
    times: Sequence[datetime],
    indexes_text: bool,
) -> list[Row]:
    """Return the values to bind for each entry, in order.

    Raises:
        NotSerialisable, TooLarge: one of them cannot be stored; a note says which.
    """
    rows = []
    for at, (value, key, occurred_at) in enumerate(zip(values, keys, times, strict=True)):
        try:
            row = entry_binds(value, indexes_text)
        except MemalchemyError as error:
            error.add_note(f"of entry {at} of {len(values)}; nothing was written")
            raise
        rows.append(row | {"p_entry_key": key, "p_occurred_at": occurred_at})
    return rows


def entry_binds(value: Any, indexes_text: bool) -> Row:
    """Return the values to bind for the value of an entry."""
    payload, checksum = encode_payload(value)
    return {
        "p_codec": VALUE_CODEC,
        "p_checksum": checksum,
        "p_search_text": item_search_text(value, {}) if indexes_text else None,
        "p_payload": payload,
    }


def to_entry(log: Log, keyring: Keyring, row: Any) -> Entry:
    """Return a row as an entry.

    Raises:
        Corrupt: the payload is not what was stored; the message names thread and position.
    """
    return to_entries(log, keyring, [row])[0]


def to_entries(log: Log, keyring: Keyring, rows: Sequence[Any]) -> list[Entry]:
    """Return rows as entries, in their order.

    Raises:
        Corrupt, KeyMissing, NotEncrypted: as `decode_entry_values`.
    """
    check_entries(log, rows, keyring.signing)
    found = decode_entry_values(
        log,
        keyring,
        [row.seq for row in rows],
        [row.codec for row in rows],
        [row.checksum for row in rows],
        [row.payload for row in rows],
    )
    return [
        Entry(row.seq, content, row.entry_key, row.occurred_at, row.stored_at)
        for row, content in zip(rows, found, strict=True)
    ]


def to_hit(log: Log, row: Any, score: float, terms: Sequence[Term], keyring: Keyring) -> EntryHit:
    """Return a row that a search found as a hit."""
    check_entries(log, [row], keyring.signing)
    with errors_about(f"the words of entry {row.seq} of thread {log.thread_id!r}"):
        place = entry_place(log.tenant, log.key, row.seq)
        check_hit_words(place, row.signature, row, keyring.signing)
    value = _decode_value(log, keyring, row.seq, row.codec, row.checksum, row.payload)
    text = best_text(list(texts_in(value)), row.search_text, terms)
    return EntryHit(
        row.seq,
        value,
        row.entry_key,
        row.occurred_at,
        row.stored_at,
        row.thread_id,
        score,
        excerpt(text, row.search_text, terms),
    )


def decode_entry_values(
    log: Log,
    keyring: Keyring,
    positions: Sequence[int],
    codecs: Sequence[str],
    checksums: Sequence[int],
    payloads: Sequence[bytes],
) -> list[Any]:
    """Return the values of rows, given as columns: all at once where nothing has to be decrypted.

    Raises:
        Corrupt: a payload is not what was stored; the message names thread and position.
        KeyMissing, NotEncrypted: the database's keys are not those of the stored rows.
    """
    if not keyring.refuses_plaintext:
        try:
            return decode_payloads(payloads, checksums, codecs)
        except Corrupt:
            pass  # which of them it is, and what is wrong with it, is found one by one
    one = partial(_decode_value, log, keyring)
    return list(map(one, positions, codecs, checksums, payloads))


def _decode_value(
    log: Log, keyring: Keyring, position: int, tag: str, checksum: int, payload: bytes
) -> Any:
    try:
        place = entry_place(log.tenant, log.key, position)
        stored = keyring.decrypt(tag, checksum, bytes(payload), place)
        return decode_payload(stored.payload, stored.checksum, stored.codec)
    except MemalchemyError as error:
        raise about(error, f"entry {position} of thread {log.thread_id!r}") from error


def decoded_entry_size(rows: Iterable[Any]) -> int:
    """Return the number of bytes to decode."""
    return sum(len(row.payload) for row in rows if row.payload is not None)


def copy_if_heavy(values: list[Any]) -> tuple[list[Any], int]:
    """Return values to encode, copied if that takes long, and the estimate of it in bytes.

    A caller may change its objects while a thread encodes the copies.
    """
    if len(values) > 2_000 or is_heavy(values):
        return frozen(values), OFF_LOOP_BYTES
    return values, 0


def check_entry_keys(keys: Sequence[str | None] | str | None, count: int) -> list[str | None]:
    """Return a key for each entry, or ``None``; one string is the key of a single entry."""
    if keys is None:
        return [None] * count
    given = [keys] if isinstance(keys, str) else check_list(keys, "keys")
    if len(given) != count:
        raise ValueError(f"keys= has {len(given)} keys for {count} entries; give one for each")
    return [None if key is None else check_entry_key(key) for key in given]


def check_times(
    given: datetime | Sequence[datetime] | None, count: int, now: datetime
) -> list[datetime]:
    """Return the time at which each entry occurred: now, one time for all, or each its own."""
    times = [now] * count if given is None else given
    if isinstance(times, datetime):
        times = [times] * count
    if not isinstance(times, Sequence):
        raise TypeError(f"occurred_at= is a datetime or a list of them, not {type(times).__name__}")
    if len(times) != count:
        raise ValueError(f"occurred_at= has {len(times)} times for {count} entries")
    for time in times:
        check_time(time, "occurred_at=")
    return list(times)
