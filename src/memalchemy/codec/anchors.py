"""Anchors: lower bounds of the states of logs and items, against which a database is checked later.

A signature proves that a row was written with the key, but not that it is the newest one. An
anchor, which is kept outside of the database, proves that.

It is a sorted list of records of 32 bytes for each tenant: a keyed hash of the place of a log or an
item, the time at which its life began, and its position in that life. The position of a log is its
version and its next position together, that of an item is its version: each change moves one of
them up, and a new life has another beginning. For what was removed the list keeps the last
position, with a mark. So a look-up is a binary search in bytes, nothing is parsed, and the file
reveals no names. A keyed code authenticates all of it.
"""

from __future__ import annotations

import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from hmac import compare_digest
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

from memalchemy._files import open_to_replace
from memalchemy.codec.signatures import SigningKeys
from memalchemy.errors import Corrupt

TOLERANCE = timedelta(hours=1)
"""The time by which the clocks of processes may differ, and that a transaction may take, together.

Only the times at which lives of one log or item began are compared with the time of an anchor.
"""

SKEW = timedelta(seconds=10)
"""The time by which clocks may differ where they order two lives of one log or item.
"""

_MAGIC = b"memalchemy anchor 1\n"
_HEADER = struct.Struct(">20s4sI")
_SECTION = struct.Struct(">16s16sqQ")
_RECORD = struct.Struct(">16sqQ")
RECORD = _RECORD.size
"""The number of bytes of a record."""
_CODE = 16
_SEAL = 32
_DIGEST = 16
_GONE = 1 << 63
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Identity = tuple[str | UUID, ...]
"""Name of a log, an item or a tenant, of which an anchor has a keyed hash."""


class Life(NamedTuple):
    """State of a log or item in one of its lives; a later state of any life is greater."""

    created_at: int
    """Microseconds since 1970."""
    position: int


class Record(NamedTuple):
    """Lower bound of the state of one log or item."""

    life: Life
    is_gone: bool
    """True if the log or item was removed: neither this state nor an earlier one exists any more.
    """


def log_identity(tenant: str, log_id: UUID) -> Identity:
    """Return the name of a log in an anchor."""
    return "log", tenant, log_id


def item_identity(tenant: str, namespace: str, key: str) -> Identity:
    """Return the name of an item in an anchor; *namespace* is as stored."""
    return "item", tenant, namespace, key


def life_of_log(row: Any) -> Life:
    """Return the state of a log from a row of ``threads``."""
    return Life(microseconds(row.created_at), row.version + row.next_seq)


def life_of_item(row: Any) -> Life:
    """Return the state of an item from a row of ``store_items``."""
    return Life(microseconds(row.created_at), row.version)


def microseconds(moment: datetime) -> int:
    """Return a moment as an anchor keeps it."""
    return (moment - _EPOCH) // timedelta(microseconds=1)


def moment_of(number: int) -> datetime:
    """Return the moment of a number of `microseconds`."""
    return _EPOCH + timedelta(microseconds=number)


def is_born_after(life: Life, moment: datetime) -> bool:
    """Return whether a life began after *moment*, beyond the `TOLERANCE`."""
    return life.created_at > microseconds(moment + TOLERANCE)


def is_superseded(life: Life, removed: Life) -> bool:
    """Return whether *removed* is a later state of a life, or of a later life."""
    if life.created_at == removed.created_at:
        return life.position <= removed.position
    return life.created_at < removed.created_at - SKEW // timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Section:
    """The part of an anchor that is about one tenant.

    Attributes:
        tenant: the keyed hash of its name.
        database_id: the id of the database, as it has it for this tenant.
        taken_at: the time before which nothing is missing in it, by the clock of the server.
        records: the records, sorted, in one piece.
    """

    tenant: bytes
    database_id: bytes
    taken_at: datetime
    records: bytes | memoryview

    def __len__(self) -> int:
        return len(self.records) // RECORD

    def index(self, code: bytes) -> int:
        """Return the index of the first record that is not before *code*."""
        return bisect_left(range(len(self)), code, key=self.code)

    def code(self, index: int) -> bytes:
        """Return the hash that a record is found by."""
        start = index * RECORD
        return bytes(self.records[start : start + _CODE])

    def record(self, index: int) -> Record:
        """Return a record."""
        _, created_at, position = _RECORD.unpack_from(self.records, index * RECORD)
        return Record(Life(created_at, position & ~_GONE), bool(position & _GONE))

    def find(self, code: bytes) -> Record | None:
        """Return the record of a place, if it has one."""
        index = self.index(code)
        return self.record(index) if index < len(self) and self.code(index) == code else None

    def merged_records(self, changes: list[bytes]) -> bytes:
        """Return the records with *changes*: packed records that replace theirs, or are added.

        Of several changes of one hash the latest state counts. The list is sorted.
        """
        changes.sort()
        pieces: list[bytes | memoryview] = []
        start = 0
        for change in _latest_of_each_code(changes):
            code = change[:_CODE]
            index = self.index(code) if start < len(self) else start
            pieces += [self.records[start * RECORD : index * RECORD], change]
            is_replaced = index < len(self) and self.code(index) == code
            start = index + is_replaced
        pieces.append(self.records[start * RECORD :])
        return b"".join(pieces)

    def refusal(self, record: Record | None, life: Life) -> str | None:
        """Return why a stored state contradicts its *record*; ``None`` if it does not.

        An equal state of the same life does not, unless it was removed; nor does a later one, or a
        life that began after the anchor was taken.
        """
        if record is None:
            return None
        known, when = record.life, f"the anchor of {self.taken_at:%Y-%m-%d %H:%M:%S} UTC"
        if life.created_at == known.created_at:
            if record.is_gone and life.position <= known.position:
                return f"{when} knows that it was removed"
            if life.position < known.position:
                return f"it is at position {life.position}, and {when} has {known.position}"
        elif is_superseded(life, known):
            return f"it began before the one that {when} has"
        elif life.created_at < microseconds(self.taken_at - TOLERANCE):
            return f"it began before {when}, which has another one"
        return None


def _latest_of_each_code(changes: list[bytes]) -> Iterator[bytes]:
    """Yield the last of the sorted *changes* of each hash: its state is the latest."""
    for change, following in pairwise([*changes, b""]):
        if not following.startswith(change[:_CODE]):
            yield change


def pack_record(code: bytes, record: Record) -> bytes:
    """Return the bytes of a record."""
    position = record.life.position | (_GONE if record.is_gone else 0)
    return _RECORD.pack(code, record.life.created_at, position)


class Anchor:
    """Lower bounds of what a database holds, to be kept where its writers cannot change it.

    Made by `memalchemy.anchors.anchor`. It is given to ``Database(anchor=…)``, to
    `memalchemy.verify.verify` and to the next `anchor`.
    """

    def __init__(self, key_id: str, sections: Sequence[Section], data: bytes) -> None:
        self.key_id: str = key_id
        """The id of the signing key that it is made with."""
        self.sections: tuple[Section, ...] = tuple(sections)
        """A section for each tenant."""
        self._data = data

    def __repr__(self) -> str:
        return f"<Anchor {self.digest}: {len(self):,} records of {len(self.sections):,} tenants>"

    def __len__(self) -> int:
        return sum(map(len, self.sections))

    @property
    def digest(self) -> str:
        """Hash of the whole, short enough to be noted elsewhere."""
        return blake2b(self._data, digest_size=_DIGEST).hexdigest()

    @property
    def taken_at(self) -> datetime:
        """The time at which its newest section was taken."""
        return max((one.taken_at for one in self.sections), default=_EPOCH)

    @classmethod
    def from_bytes(cls, data: bytes) -> Anchor:
        """Read an anchor from what `to_bytes` returned. Whether it is genuine is checked at use.

        Raises:
            Corrupt: it is cut off, or is no anchor.
        """
        if not data.startswith(_MAGIC):
            raise Corrupt("this is not an anchor of this release of memalchemy")
        try:
            return cls._parse(data)
        except struct.error:
            raise _cut_off_error() from None

    @classmethod
    def _parse(cls, data: bytes) -> Anchor:
        _, key_id, count = _HEADER.unpack_from(data)
        if count > len(data) // _SECTION.size:
            raise _cut_off_error()
        heads = [
            _SECTION.unpack_from(data, _HEADER.size + _SECTION.size * at) for at in range(count)
        ]
        start, sections = _HEADER.size + _SECTION.size * count, []
        view = memoryview(data)
        for tenant, database_id, taken_at, length in heads:
            end = start + length * RECORD
            try:
                moment = moment_of(taken_at)
            except OverflowError:
                raise Corrupt("the time of the anchor is none: it was changed") from None
            sections.append(Section(tenant, database_id, moment, view[start:end]))
            start = end
        if start + _SEAL != len(data):
            raise _cut_off_error()
        return cls(key_id.hex(), sections, data)

    def to_bytes(self) -> bytes:
        """Return the anchor as bytes, for the host to keep."""
        return self._data

    @classmethod
    def read(cls, path: str | PathLike[str]) -> Anchor:
        """Read an anchor from a file.

        Raises:
            OSError: the file cannot be read.
            Corrupt: see `from_bytes`.
        """
        return cls.from_bytes(Path(path).read_bytes())

    def write(self, path: str | PathLike[str]) -> None:
        """Write the anchor to a file, which is replaced when the new one is on disk as a whole.

        Raises:
            OSError: it cannot be written; a file that was there is as it was.
        """
        with open_to_replace(path, mode=0o600, sync=True) as file:
            file.write(self._data)


def _cut_off_error() -> Corrupt:
    return Corrupt("the anchor is cut off, or something was added to it")


def make_anchor(keys: SigningKeys, sections: Iterable[Section]) -> Anchor:
    """Return an anchor of *sections*, authenticated with the first of *keys*."""
    key_id = keys.first_id
    assert key_id is not None
    ordered = sorted(sections, key=lambda one: one.tenant)
    heads = [
        _SECTION.pack(one.tenant, one.database_id, microseconds(one.taken_at), len(one))
        for one in ordered
    ]
    header = _HEADER.pack(_MAGIC, bytes.fromhex(key_id), len(ordered))
    content = b"".join([header, *heads, *(one.records for one in ordered)])
    return Anchor.from_bytes(content + keys.anchor_code(key_id, content))


class AnchorCheck:
    """Check of rows against an anchor, which is authenticated first.

    Raises:
        Corrupt: the anchor was changed after it was made.
        KeyMissing: its key is not among *keys*.
    """

    def __init__(self, anchor: Anchor, keys: SigningKeys) -> None:
        data = anchor.to_bytes()
        made = keys.anchor_code(anchor.key_id, data[:-_SEAL])
        if not compare_digest(made, data[-_SEAL:]):
            raise Corrupt("the anchor is not what was made with its key: it was changed")
        self.anchor: Anchor = anchor
        self._keys = keys
        self._by_code = {one.tenant: one for one in anchor.sections}
        self._by_name: dict[str, Section | None] = {}

    def code(self, identity: Identity) -> bytes:
        """Return the hash that stands for *identity* in the anchor."""
        return self._keys.identity_code(self.anchor.key_id, identity)

    def section(self, tenant: str) -> Section | None:
        """Return the section of a tenant, if there is one."""
        if tenant not in self._by_name:
            self._by_name[tenant] = self._by_code.get(self.code(tenant_identity(tenant)))
        return self._by_name[tenant]

    def find(self, tenant: str, identity: Identity) -> Record | None:
        """Return the anchor's record of a log or item of a tenant, if it has one."""
        section = self.section(tenant)
        return None if section is None else section.find(self.code(identity))

    def check_log(self, row: Any) -> None:
        """Check a row of ``threads``, whose signature was verified, against the anchor.

        Raises:
            Corrupt: the anchor has a later state of the log.
        """
        self.check(row.tenant, log_identity(row.tenant, row.log_id), life_of_log(row))

    def check_item(self, tenant: str, row: Any) -> None:
        """Check a row of ``store_items``, whose signature was verified, against the anchor.

        Raises:
            Corrupt: the anchor has a later state of the item.
        """
        self.check(tenant, item_identity(tenant, row.namespace, row.key), life_of_item(row))

    def check(self, tenant: str, identity: Identity, life: Life) -> None:
        """Check the state of a log or item against the anchor.

        Raises:
            Corrupt: the anchor has a later state of it.
        """
        section = self.section(tenant)
        if section is None:
            return
        why = section.refusal(section.find(self.code(identity)), life)
        if why is not None:
            raise refused_by_anchor(why)


def tenant_identity(tenant: str) -> Identity:
    """Return the name of a tenant in an anchor."""
    return "tenant", tenant


def refused_by_anchor(why: str) -> Corrupt:
    """Return the error for a row that contradicts an anchor."""
    return Corrupt(
        f"{why}. An older copy was put back, or something was removed; `memalchemy verify "
        "--anchor` lists what. If a backup was restored on purpose, `memalchemy anchor FILE "
        "--accept-rollback`, with the --tenant or --all-tenants that FILE was made with, makes a "
        "new anchor, to be given instead."
    )


def check_anchor(given: Anchor | str | PathLike[str], keys: SigningKeys) -> AnchorCheck:
    """Return the check of rows against an anchor that a user has given, or its path.

    Raises:
        ValueError: there are no *keys*.
        OSError, Corrupt, KeyMissing: see `Anchor.read` and `AnchorCheck`.
    """
    if not keys.signs:
        raise ValueError("anchor= needs the keys that the rows are signed with: signing_keys=[…]")
    if not isinstance(given, Anchor):
        given = Anchor.read(given)
    return AnchorCheck(given, keys)
