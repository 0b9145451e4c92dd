"""Sign rows: a keyed hash of what a row holds and of the place at which it stands.

A signature proves that its row was written with the key. It is a version byte, the id of its key
and two hashes of 16 bytes. The first covers what a load reads, the second the first hash and what
only a search reads, such as the words of a state. So a load need not read the words. The signature
of an item with vectors has a third hash, of their signatures, which the second covers as well.

The version says how values become the bytes that are hashed. Rows are signed with version 2, and
those of version 1 are checked as well: it left fractions of seconds out.

The signature of a row proves nothing about its neighbours. That none is missing and none was added
is proven by the *head* of the log, whose signature also holds two sums: of its checkpoints, and of
its entries and pending writes. A row adds a hash of its signature, made with a second key, to a
sum; when it is deleted, that is subtracted. The sums are masked, so that nobody can look for other
rows with the same sum.

The hashes are BLAKE2b with a key (RFC 7693). No error and no representation shows a key.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from memalchemy.codec.secret_keys import read_secret
from memalchemy.codec.signed_fields import encode_fields
from memalchemy.codec.signed_fields_v1 import encode_fields_v1
from memalchemy.errors import Corrupt, KeyMissing, NotSigned

if TYPE_CHECKING:
    from memalchemy.codec.anchors import AnchorCheck

_Encode = Callable[[Sequence[Any]], bytes]

_VERSION = b"\x02"
"""The version that rows are signed with."""
_ENCODINGS: dict[bytes, _Encode] = {_VERSION: encode_fields, b"\x01": encode_fields_v1}
"""The bytes that a signature of each version is made of."""
_ID, _HASH, _NONCE = 4, 16, 8
_PREFIX = len(_VERSION) + _ID
_WORDS_LENGTHS = {_PREFIX + 2 * _HASH, _PREFIX + 3 * _HASH}
_ROW_LENGTHS = {_PREFIX + _HASH, *_WORDS_LENGTHS}
_POSITION = 8
_HEAD_LENGTH = _PREFIX + _NONCE + _POSITION + 3 * _HASH
_MODULUS = 1 << 8 * _HASH


class Sums(NamedTuple):
    """Sums over the rows of a log, as its head tells them."""

    checkpoints: int
    """The sum over its checkpoints."""
    others: int
    """The sum over its entries and pending writes."""
    last_entry: int
    """The position of its newest entry; 0 if it has none."""


NO_ROWS = Sums(0, 0, 0)


class _Scheme(NamedTuple):
    """Key with which a signature was made, and the encoding of the bytes that it signs."""

    prefix: bytes
    """The version and the id of the key, with which the signature begins."""
    key: _Key
    encode: _Encode

    def hash(self, fields: Sequence[Any]) -> bytes:
        """Return the hash of the values of a row, or of some of them."""
        made = self.key.row.copy()
        made.update(self.encode(fields))
        return made.digest()

    def mask(self, nonce: bytes, place: Sequence[Any], sums: Sums) -> bytes:
        """Return both sums masked, or masked ones open, as bytes."""
        mask = self.key.mask.copy()
        mask.update(nonce + self.encode(place))
        both = sums.checkpoints << 8 * _HASH | sums.others
        return (int.from_bytes(mask.digest()) ^ both).to_bytes(2 * _HASH)


class _Key:
    """Signing key, with an empty keyed hash for each use, from keys that are derived from it.

    Copying a hash takes less time than making one from its key.
    """

    __slots__ = ("anchor", "element", "id", "identity", "mask", "row")

    def __init__(self, given: object) -> None:
        secret = read_secret(given)

        def derive(use: bytes, size: int = 32) -> bytes:
            return blake2b(use, digest_size=size, key=secret, person=b"memalchemy sign").digest()

        # The secret may be an encryption key as well: those are derived in another way.
        self.id = derive(b"id", _ID)
        self.row = blake2b(digest_size=_HASH, key=derive(b"row"))
        self.element = blake2b(digest_size=_HASH, key=derive(b"element"))
        self.mask = blake2b(digest_size=2 * _HASH, key=derive(b"mask"))
        self.anchor = blake2b(digest_size=2 * _HASH, key=derive(b"anchor"))
        self.identity = blake2b(digest_size=_HASH, key=derive(b"identity"))


class SigningKeys:
    """The signing keys of a database: the first signs, each checks. Without keys nothing is done.

    Args:
        keys: what `generate_key` returns, as text or bytes, or several.
        allow_unsigned: read and change rows without a signature as well, while a database is being
            signed. A signature that is there is checked all the same.

    Raises:
        ValueError: a key is invalid. No key is shown.
    """

    def __init__(
        self,
        keys: str | bytes | Iterable[str | bytes] | None = None,
        *,
        allow_unsigned: bool = False,
    ) -> None:
        if isinstance(keys, (str, bytes)):
            keys = [keys]
        given = None if keys is None else list(keys)
        if given == []:
            raise ValueError("signing_keys= is empty: give at least one key, or leave it out")
        known = list(map(_Key, given or ()))
        self._keys = {key.id: key for key in known}
        self._schemes = {
            version + key.id: _Scheme(version + key.id, key, encode)
            for version, encode in _ENCODINGS.items()
            for key in known
        }
        self._first = self._schemes[_VERSION + known[0].id] if known else None
        self.allow_unsigned = allow_unsigned
        self.anchor: AnchorCheck | None = None
        """The anchor that heads and items are held to when they are read."""
        self.signs: bool = self._first is not None
        """True if there is a key, so that rows are signed and checked."""

    def __repr__(self) -> str:
        return f"SigningKeys({len(self._keys)} keys)" if self._keys else "SigningKeys()"

    def __reduce__(self) -> Any:
        raise TypeError("signing keys are not pickled; give signing_keys= to another Database")

    @property
    def first_id(self) -> str | None:
        """The id of the key that signs."""
        return None if self._first is None else self._first.key.id.hex()

    @property
    def ids(self) -> frozenset[str]:
        """The ids of all keys; an id tells nothing of its key."""
        return frozenset(key.id.hex() for key in self._keys.values())

    # --- Rows ------------------------------------------------------------------------------------

    def sign(self, content: Sequence[Any], words: Sequence[Any] | None = None) -> bytes:
        """Return the signature of a row.

        Args:
            content: the kind of the row, its place, and all that a load reads of it.
            words: the place once more, and what only a search reads; ``None`` for a row that has no
                such columns.
        """
        scheme = self._first
        assert scheme is not None
        first = scheme.hash(content)
        signature = scheme.prefix + first
        return signature if words is None else signature + scheme.hash((first, *words))

    def check(self, signature: bytes | None, content: Sequence[Any]) -> None:
        """Verify a row by the first hash of its signature.

        Raises:
            Corrupt: the row is not what was signed at its place.
            NotSigned: it has no signature, and there are keys.
            KeyMissing: it is signed with a key that is not here.
        """
        scheme = self._scheme_of(signature)
        if scheme is None:
            return
        assert signature is not None
        if len(signature) not in _ROW_LENGTHS:
            raise Corrupt("a signature has not the length of one")
        if scheme.hash(content) != signature[_PREFIX : _PREFIX + _HASH]:
            raise _not_what_was_signed()

    def check_words(self, signature: bytes | None, words: Sequence[Any]) -> None:
        """Verify what only a search reads of a row by the second hash of its signature.

        Raises:
            Corrupt, NotSigned, KeyMissing: see `check`.
        """
        scheme = self._scheme_of(signature)
        if scheme is None:
            return
        assert signature is not None
        if len(signature) not in _WORDS_LENGTHS:
            raise Corrupt("a signature has not the length of one")
        first, second, *third = _hashes_of(signature)
        if scheme.hash((first, *words, *third)) != second:
            raise _not_what_was_signed()

    def check_whole(
        self, signature: bytes | None, content: Sequence[Any], words: Sequence[Any] | None
    ) -> None:
        """Verify a row by its signature, as `sign` made it of *content* and *words*.

        Raises:
            Corrupt, NotSigned, KeyMissing: see `check`.
        """
        self.check(signature, content)
        if words is not None:
            self.check_words(signature, words)

    def with_vectors(
        self, signature: bytes, words: Sequence[Any], vectors: Iterable[bytes | None]
    ) -> bytes:
        """Return the signature of an item so that it proves which vectors the item has.

        Args:
            words: as they were given to `sign`.
            vectors: the signatures of the vectors, in any order.
        """
        scheme = self._scheme_of(signature)
        assert scheme is not None
        first, *_ = _hashes_of(signature)
        listed = _signed_vectors(vectors)
        third = [scheme.hash((first, *listed))] if listed else []
        second = scheme.hash((first, *words, *third))
        return b"".join((signature[: _PREFIX + _HASH], second, *third))

    def proves_vectors(self, signature: bytes | None) -> bool:
        """Return whether an item's signature tells that the item has vectors."""
        return signature is not None and len(signature) == _PREFIX + 3 * _HASH

    def check_vectors(self, signature: bytes | None, vectors: Iterable[bytes | None]) -> None:
        """Verify which vectors an item has, given their signatures, by the third hash of its own.

        Raises:
            Corrupt, NotSigned, KeyMissing: see `check`.
        """
        scheme = self._scheme_of(signature)
        if scheme is None or not self.proves_vectors(signature):
            return
        assert signature is not None
        first, _, third = _hashes_of(signature)
        if scheme.hash((first, *_signed_vectors(vectors))) != third:
            raise Corrupt(
                "its vectors are not those that it was signed with: some were removed, added, or "
                "replaced by older ones."
            )

    def is_up_to_date(self, signature: bytes | None) -> bool:
        """Return whether a signature has the newest version, and was made with the first key."""
        return (
            signature is not None
            and self._first is not None
            and signature.startswith(self._first.prefix)
        )

    def _scheme_of(self, signature: bytes | None) -> _Scheme | None:
        """Return the scheme of a signature; ``None`` if there is none to verify."""
        if signature is None:
            if self._keys and not self.allow_unsigned:
                raise NotSigned
            return None
        scheme = self._schemes.get(signature[:_PREFIX])
        if scheme is not None or not self._keys:
            return scheme
        if signature[:1] not in _ENCODINGS:
            raise Corrupt("a row is signed in a way that this release does not know")
        raise _key_missing(signing_key_id(signature), len(self._keys))

    # --- Heads -----------------------------------------------------------------------------------

    def element(self, signature: bytes) -> int:
        """Return the number that a row with this *signature* adds to the sum of its log."""
        scheme = self._scheme_of(signature)
        assert scheme is not None
        made = scheme.key.element.copy()
        made.update(signature[: _PREFIX + _HASH])
        return int.from_bytes(made.digest())

    def sum_of(self, signatures: Iterable[bytes | None], so_far: int = 0) -> int:
        """Return the sum over rows. Rows without a signature add nothing.

        Raises:
            NotSigned: a row has none, and unsigned rows are not allowed.
        """
        for signature in signatures:
            if signature is not None:
                so_far += self.element(signature)
            elif not self.allow_unsigned:
                raise NotSigned
        return so_far % _MODULUS

    def replaced(self, so_far: int, new: bytes, old: bytes | None) -> int:
        """Return a sum after a row was signed anew; *old* is ``None`` for a row that was added."""
        less = 0 if old is None else self.element(old)
        return (so_far + self.element(new) - less) % _MODULUS

    def sign_head(self, content: Sequence[Any], sums: Sums) -> bytes:
        """Return the signature of a head, with the sums of its log."""
        scheme = self._first
        assert scheme is not None
        nonce = os.urandom(_NONCE)
        masked = scheme.mask(nonce, content[:2], sums)
        last = sums.last_entry.to_bytes(_POSITION)
        begins = scheme.prefix + nonce + last + masked
        return begins + scheme.hash((begins, *content))

    def check_head_alone(self, signature: bytes | None, content: Sequence[Any]) -> None:
        """Verify a head, for a reader that does not need the sums of its log.

        Raises:
            Corrupt, NotSigned, KeyMissing: see `check`.
        """
        self._verify_head(signature, content)

    def check_head(self, signature: bytes | None, content: Sequence[Any]) -> Sums | None:
        """Verify a head; return the sums of its log, ``None`` if it is unsigned.

        Raises:
            Corrupt, NotSigned, KeyMissing: see `check`.
        """
        scheme = self._verify_head(signature, content)
        if scheme is None:
            return None
        assert signature is not None
        begins = signature[:-_HASH]
        nonce, rest = begins[_PREFIX : _PREFIX + _NONCE], begins[_PREFIX + _NONCE :]
        last, masked = int.from_bytes(rest[:_POSITION]), rest[_POSITION:]
        opened = scheme.mask(nonce, content[:2], _to_sums(masked))
        return _to_sums(opened)._replace(last_entry=last)

    def _verify_head(self, signature: bytes | None, content: Sequence[Any]) -> _Scheme | None:
        """Verify a head; return the scheme of its signature."""
        scheme = self._scheme_of(signature)
        if scheme is None:
            return None
        assert signature is not None
        if len(signature) != _HEAD_LENGTH:
            raise Corrupt("the signature of a head has not the length of one")
        if scheme.hash((signature[:-_HASH], *content)) != signature[-_HASH:]:
            raise _not_what_was_signed()
        return scheme

    # --- Anchors ---------------------------------------------------------------------------------

    def anchor_code(self, key_id: str, content: bytes) -> bytes:
        """Return the code of 32 bytes that authenticates the *content* of an anchor.

        Raises:
            KeyMissing: the key is not here.
        """
        made = self._key_named(key_id).anchor.copy()
        made.update(content)
        return made.digest()

    def identity_code(self, key_id: str, identity: Sequence[Any]) -> bytes:
        """Return the code of 16 bytes that stands for *identity* in an anchor without revealing it.

        Raises:
            KeyMissing: the key is not here.
        """
        made = self._key_named(key_id).identity.copy()
        made.update(encode_fields_v1(identity))  # anchors are of the first version
        return made.digest()

    def _key_named(self, key_id: str) -> _Key:
        key = self._keys.get(bytes.fromhex(key_id))
        if key is None:
            raise _key_missing(key_id, len(self._keys))
        return key


UNSIGNED = SigningKeys()


def is_signature(given: object) -> bool:
    """Return whether a value has the form of a row's or a head's signature, whoever made it."""
    return (
        isinstance(given, bytes)
        and given[: len(_VERSION)] in _ENCODINGS
        and (len(given) in _ROW_LENGTHS or len(given) == _HEAD_LENGTH)
    )


def signing_key_id(signature: bytes) -> str:
    """Return the id of the key that a row was signed with; it tells nothing of the key."""
    return signature[len(_VERSION) : _PREFIX].hex()


def last_entry(signature: bytes) -> int:
    """Return the position of the newest entry that a head's signature tells; 0 if there is none.

    The signature of the head has to be verified before.
    """
    begins = _PREFIX + _NONCE
    return int.from_bytes(signature[begins : begins + _POSITION])


def _hashes_of(signature: bytes) -> list[bytes]:
    """Return the hashes of the signature of a row."""
    ends = range(_PREFIX, len(signature), _HASH)
    return [signature[start : start + _HASH] for start in ends]


def _signed_vectors(vectors: Iterable[bytes | None]) -> list[Any]:
    """Return the values to hash of the vectors of an item, in any order; none without vectors."""
    signed = sorted(one for one in vectors if one is not None)
    return ["vectors", *signed] if signed else []


def _to_sums(both: bytes) -> Sums:
    return Sums(int.from_bytes(both[:_HASH]), int.from_bytes(both[_HASH:]), 0)


def json_field(value: Any) -> Any:
    """Return JSON in which whole numbers are of one type: a database may return 1.0 as 1."""
    if isinstance(value, dict):
        return {key: json_field(one) for key, one in value.items()} if value else value
    if isinstance(value, list | tuple):
        return [json_field(one) for one in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def _not_what_was_signed() -> Corrupt:
    return Corrupt(
        "a row is not what was signed with its key at its place: it was changed, or moved from "
        "another place"
    )


def _key_missing(key_id: str, given: int) -> KeyMissing:
    return KeyMissing(
        key_id,
        given=given,
        message=(
            f"this is signed with the key {key_id}, and it is none of the {given} that were given. "
            "Give Database that key in signing_keys=[…], after the one that signs (on the command "
            "line MEMALCHEMY_SIGNING_KEYS, or --signing-keys-file)."
        ),
    )
