"""Encryption of what is stored: the last step of every encoding, the first of every decoding.

A sealed payload is a version byte, the id of its key, a nonce, and the checksum and the payload as
AES-256-GCM has them. The version, the key's id, the nonce and the codec's tag are authenticated
too. Which row it stands in is not: rows are copied as they are.

The checksum that stands beside a sealed payload is one of the sealed bytes: it says nothing of what
is in them, is another after every sealing, and can be compared without a key.

Knows no row and no database. No key is ever shown.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import os
import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from memalchemy.errors import (
    CapabilityMissing,
    Corrupt,
    DriverMissing,
    KeyMissing,
    NotEncrypted,
    StoreCapabilityError,
)

SUFFIX = "+gcm1"
"""What the codec tag of a sealed payload ends with."""

REVEALABLE = ("text", "fields", "vectors")
"""What can be kept readable beside a sealed payload, so that the database can search in it."""

_NEEDED = {
    "text": ("search", "words"),
    "fields": ("filter", "fields"),
    "vectors": ("semantic_search", "vectors"),
}
"""What cannot be done where one of `REVEALABLE` is not stored, and how that is called."""

_VERSION = b"\x01"
_ID, _NONCE, _TAG, _CHECKSUM = 8, 12, 16, 8
_HEADER = len(_VERSION) + _ID + _NONCE

LEADING = len(_VERSION) + _ID
"""How many of the first bytes of a sealed payload say how, and under which key, it was sealed."""

OVERHEAD = _HEADER + _CHECKSUM + _TAG
"""Bytes that sealing adds to a payload."""

_ADVICE = "a key is what `memalchemy generate-key` prints: 32 bytes as URL-safe base64"


class Sealed(NamedTuple):
    """The three columns of a payload: sealed, or as they were before."""

    codec: str
    checksum: int
    payload: bytes


class _Key:
    """One key: what seals with it, and the id that it is found by."""

    __slots__ = ("aead", "id", "naming")

    def __init__(self, given: object) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
            from cryptography.hazmat.primitives.hashes import SHA256
            from cryptography.hazmat.primitives.kdf.hkdf import HKDF
        except ImportError as error:
            raise DriverMissing("cryptography", "encryption", what="package") from error
        secret = _secret(given)
        # What was made of a secret for another program's use is of no use here, nor the reverse.
        about = b"memalchemy gcm1 "
        derived = HKDF(SHA256(), 32, salt=None, info=about + b"key").derive(secret)
        self.id = HKDF(SHA256(), _ID, salt=None, info=about + b"id").derive(secret)
        self.naming = HKDF(SHA256(), 32, salt=None, info=about + b"name").derive(secret)
        self.aead = AESGCM(derived)


class Keyring:
    """The keys of a database: the first one seals, each opens. Without keys nothing is changed.

    Args:
        keys: a Fernet key, as text or bytes, or several; whitespace around one is passed over.
        readable: which of `REVEALABLE` may be stored as they are beside sealed payloads.
        allow_plaintext: read what is not sealed, too, while a database is on its way to encryption.

    Raises:
        ValueError: a key is none, or *readable* names something else. No key is shown.
        DriverMissing: the package ``cryptography`` is not installed.
    """

    def __init__(
        self,
        keys: str | bytes | Iterable[str | bytes] | None = None,
        *,
        readable: Iterable[str] = (),
        allow_plaintext: bool = False,
    ) -> None:
        if isinstance(readable, str) or (unknown := sorted({*readable} - {*REVEALABLE})):
            wrong = readable if isinstance(readable, str) else unknown[0]
            raise ValueError(
                f"readable= is a list of {', '.join(map(repr, REVEALABLE))}; got {wrong!r}"
            )
        if isinstance(keys, (str, bytes)):
            keys = [keys]
        given = None if keys is None else list(keys)
        if given == []:
            raise ValueError("keys= is empty: give at least one key, or leave it away")
        self._keys = {key.id: key for key in map(_Key, given or ())}
        self._first = next(iter(self._keys.values()), None)
        self._readable = frozenset(readable)
        self.allow_plaintext = allow_plaintext

    def __repr__(self) -> str:
        return f"Keyring({len(self._keys)} keys)" if self._keys else "Keyring()"

    def __reduce__(self) -> Any:
        raise TypeError("a keyring holds keys and is not pickled; give keys= to another Database")

    @property
    def seals(self) -> bool:
        """Whether there is a key, so that what is written is sealed."""
        return self._first is not None

    @property
    def leading(self) -> bytes:
        """What a payload begins with that the first key has sealed; empty without keys."""
        return b"" if self._first is None else _VERSION + self._first.id

    @property
    def first_id(self) -> str | None:
        """The id of the key that seals."""
        return None if self._first is None else self._first.id.hex()

    @property
    def ids(self) -> frozenset[str]:
        """The ids of all keys, from which none can be told."""
        return frozenset(id_.hex() for id_ in self._keys)

    def knows(self, payload: bytes) -> bool:
        """Whether the key of a sealed payload, or of the beginning of one, is here."""
        return payload[len(_VERSION) : LEADING] in self._keys

    def reveals(self, what: str) -> bool:
        """Whether *what*, one of `REVEALABLE`, may be stored as it is."""
        assert what in REVEALABLE
        return not self._keys or what in self._readable

    def check_reveals(self, what: str, wanted: str, *, store: str | None = None) -> None:
        """Raise `CapabilityMissing` unless *what* may be stored, which *wanted* needs.

        Of a *store*, the name of its class, it is a `StoreCapabilityError`.
        """
        if self.reveals(what):
            return
        capability, means = _NEEDED[what]
        hint = f'To have them stored unencrypted open it with readable=("{what}",)'
        message = (
            f"{wanted} needs {means} that the database can read, and this one is encrypted. {hint};"
            " what was written before has none until it is written again"
        )
        if store is None:
            raise CapabilityMissing(message, capability=capability)
        raise StoreCapabilityError(capability, store, hint, message=message)

    def name_of(self, text: str, length: int) -> str:
        """A name for *text*, the same for the same text: up to 64 hexadecimal digits.

        With keys it is made under the first one: who has none cannot try whether the name is that
        of a text he guesses. Under another first key a text has another name.
        """
        told = text.encode("utf-8", "surrogatepass")
        if self._first is None:
            return hashlib.sha256(told).hexdigest()[:length]
        return hmac.digest(self._first.naming, told, "sha256").hex()[:length]

    def seal(self, codec: str, checksum: int, payload: bytes) -> Sealed:
        """The columns to store of a payload in this encoding, with the checksum it has itself."""
        key = self._first
        if key is None:
            return Sealed(codec, checksum, payload)
        nonce = os.urandom(_NONCE)
        header = _VERSION + key.id + nonce
        plain = checksum.to_bytes(_CHECKSUM, "big", signed=True) + payload
        sealed = header + key.aead.encrypt(nonce, plain, header + codec.encode())
        return Sealed(codec + SUFFIX, checksum_of(sealed), sealed)

    def open(self, codec: str, checksum: int, payload: bytes) -> Sealed:
        """What `seal` was given, for what it gave.

        Raises:
            KeyMissing: it is sealed, and none of the keys is the one that it was sealed with.
            NotEncrypted: it is not sealed, and there are keys; unless that is allowed.
            Corrupt: it is not what was sealed.
        """
        if not is_sealed(codec):
            if self._keys and not self.allow_plaintext:
                raise NotEncrypted()
            return Sealed(codec, checksum, payload)
        check_sealed(checksum, payload)
        key = self._keys.get(payload[len(_VERSION) : LEADING])
        if key is None:
            raise KeyMissing(key_id(payload), given=len(self._keys))
        from cryptography.exceptions import InvalidTag

        codec = inner(codec)
        header = payload[:_HEADER]
        try:
            plain = key.aead.decrypt(
                header[LEADING:], payload[_HEADER:], header + codec.encode(errors="replace")
            )
        except InvalidTag:
            raise Corrupt(
                "an encrypted payload is not what was encrypted with its key: it was changed"
            ) from None
        inside = int.from_bytes(plain[:_CHECKSUM], "big", signed=True)
        return Sealed(codec, inside, plain[_CHECKSUM:])


PLAIN = Keyring()
"""Without keys."""


def is_sealed(codec: str) -> bool:
    """Whether a codec tag is that of a sealed payload."""
    return codec.endswith(SUFFIX)


def inner(codec: str) -> str:
    """The codec tag of what is inside."""
    return codec.removesuffix(SUFFIX)


def key_id(payload: bytes) -> str:
    """The id of the key that a payload was sealed with; nothing can be told from it."""
    return payload[len(_VERSION) : LEADING].hex()


def checksum_of(sealed: bytes) -> int:
    """The checksum to store beside sealed bytes: what authenticates them, above their CRC-32."""
    return (int.from_bytes(sealed[-4:], "big") << 32 | zlib.crc32(sealed)) - 2**63


def check_sealed(checksum: int, payload: bytes) -> None:
    """Raise `Corrupt` unless these are bytes that were sealed; needs no key."""
    if len(payload) < OVERHEAD or checksum_of(payload) != checksum:
        raise Corrupt("an encrypted payload does not match its checksum")
    if payload[: len(_VERSION)] != _VERSION:
        raise Corrupt("a payload is encrypted in a way that this release does not know")


def generate_key() -> str:
    """A new key, of the operating system's random numbers."""
    return base64.urlsafe_b64encode(os.urandom(32)).decode("ascii")


def _secret(given: object) -> bytes:
    # Nothing of what was given may stand in the error, nor in what it was caused by.
    if isinstance(given, str):
        given = given.encode("utf-8", "surrogatepass")
    if not isinstance(given, bytes):
        raise ValueError(f"a key is text or bytes, not {type(given).__name__}; {_ADVICE}")
    try:
        # A key that is read from a file has the end of its line.
        secret = base64.b64decode(given.strip(), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if len(secret) != 32:
        raise ValueError(f"this is not a key: it has {len(given.strip())} bytes; {_ADVICE}")
    return secret
