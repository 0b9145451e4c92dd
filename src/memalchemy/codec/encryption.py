"""Encrypt payloads with AES-256-GCM: the last step of each encoding, the first of each decoding.

An encrypted payload is a version byte, the id of its key, a nonce, and the ciphertext of the
checksum and the payload. Version, key id, nonce, codec and the place of the payload are
authenticated too: the tenant, the log and position or the namespace, key and version, and the kind
of its row. So a payload that was moved to another place does not open there.

The checksum column beside an encrypted payload is computed from the encrypted bytes. It tells
nothing of the payload, differs after each encryption, and is checked without a key.

No error and no representation shows a key.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import zlib
from collections.abc import Iterable
from typing import Any, NamedTuple

from memalchemy.codec.places import Place, encode_place
from memalchemy.codec.secret_keys import generate_key as generate_key
from memalchemy.codec.secret_keys import read_secret
from memalchemy.codec.signatures import UNSIGNED, SigningKeys
from memalchemy.errors import (
    CapabilityMissing,
    Corrupt,
    DriverMissing,
    KeyMissing,
    NotEncrypted,
    StoreCapabilityError,
)

CODEC_SUFFIX = "+gcm2"
"""End of the codec tag of an encrypted payload."""

READABLE = ("text", "fields", "vectors")
"""Data that may stay unencrypted beside a payload, so that the database can search in it."""

_CAPABILITIES = {
    "text": ("search", "words"),
    "fields": ("filter", "fields"),
    "vectors": ("semantic_search", "vectors"),
}
"""The capability that needs each of `READABLE`, and the word for it in an error."""

_VERSION = b"\x02"
_ID, _NONCE, _TAG, _CHECKSUM = 8, 12, 16, 8
_HEADER = len(_VERSION) + _ID + _NONCE

PREFIX_BYTES = len(_VERSION) + _ID
"""Bytes at the start of an encrypted payload that name the version and the key."""

OVERHEAD = _HEADER + _CHECKSUM + _TAG
"""Bytes that encryption adds to a payload."""


class StoredPayload(NamedTuple):
    """The columns of a payload, encrypted or not."""

    codec: str
    checksum: int
    payload: bytes


class _Key:
    """One key: its cipher, its id, and the secret that pseudonyms are made with."""

    __slots__ = ("aead", "id", "naming")

    def __init__(self, given: object) -> None:
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESGCM
            from cryptography.hazmat.primitives.hashes import SHA256
            from cryptography.hazmat.primitives.kdf.hkdf import HKDF
        except ImportError as error:
            raise DriverMissing("cryptography", "encryption", what="package") from error
        secret = read_secret(given)
        # Keys are derived for this use, so that the secret may be another program's as well.
        about = b"memalchemy gcm "
        derived = HKDF(SHA256(), 32, salt=None, info=about + b"key").derive(secret)
        self.id = HKDF(SHA256(), _ID, salt=None, info=about + b"id").derive(secret)
        self.naming = HKDF(SHA256(), 32, salt=None, info=about + b"name").derive(secret)
        self.aead = AESGCM(derived)


class Keyring:
    """The keys of a database: the first encrypts, each decrypts. Without keys nothing is changed.

    Args:
        keys: a Fernet key, as text or bytes, or several; whitespace around a key is ignored.
        readable: data of `READABLE` that may be stored unencrypted beside encrypted payloads.
        allow_plaintext: read unencrypted payloads as well, while a database is being encrypted.
        signing: the keys that rows are signed with, if they are.

    Raises:
        ValueError: a key is invalid, or *readable* names something else. No key is shown.
        DriverMissing: the package ``cryptography`` is not installed.
    """

    def __init__(
        self,
        keys: str | bytes | Iterable[str | bytes] | None = None,
        *,
        readable: Iterable[str] = (),
        allow_plaintext: bool = False,
        signing: SigningKeys = UNSIGNED,
    ) -> None:
        if isinstance(readable, str) or (unknown := sorted({*readable} - {*READABLE})):
            wrong = readable if isinstance(readable, str) else unknown[0]
            raise ValueError(
                f"readable= is a list of {', '.join(map(repr, READABLE))}; got {wrong!r}"
            )
        if isinstance(keys, (str, bytes)):
            keys = [keys]
        given = None if keys is None else list(keys)
        if given == []:
            raise ValueError("keys= is empty: give at least one key, or leave it out")
        self._keys = {key.id: key for key in map(_Key, given or ())}
        self._first = next(iter(self._keys.values()), None)
        self._readable = frozenset(readable)
        self.allow_plaintext = allow_plaintext
        self.signing = signing
        self.encrypts: bool = self._first is not None
        """True if there is a key, so that payloads are encrypted."""

    def __repr__(self) -> str:
        return f"Keyring({len(self._keys)} keys)" if self._keys else "Keyring()"

    def __reduce__(self) -> Any:
        raise TypeError("a keyring holds keys and is not pickled; give keys= to another Database")

    def with_signing(self, signing: SigningKeys) -> Keyring:
        """Return a keyring with the same keys, and with other keys for signatures."""
        other = Keyring(
            readable=self._readable, allow_plaintext=self.allow_plaintext, signing=signing
        )
        other._keys, other._first = self._keys, self._first
        other.encrypts = self.encrypts
        return other

    @property
    def refuses_plaintext(self) -> bool:
        """True if what is not encrypted is not read."""
        return self.encrypts and not self.allow_plaintext

    @property
    def prefix(self) -> bytes:
        """The first bytes of payloads that the first key has encrypted; empty without keys."""
        return b"" if self._first is None else _VERSION + self._first.id

    @property
    def first_id(self) -> str | None:
        """The id of the key that encrypts."""
        return None if self._first is None else self._first.id.hex()

    @property
    def ids(self) -> frozenset[str]:
        """The ids of all keys; an id tells nothing of its key."""
        return frozenset(id_.hex() for id_ in self._keys)

    def has_key_of(self, payload: bytes) -> bool:
        """Return whether the key of an encrypted payload is here; `PREFIX_BYTES` of it will do."""
        return payload[len(_VERSION) : PREFIX_BYTES] in self._keys

    def is_readable(self, what: str) -> bool:
        """Return whether *what*, one of `READABLE`, may be stored unencrypted."""
        assert what in READABLE
        return not self._keys or what in self._readable

    def check_readable(self, what: str, wanted: str, *, store: str | None = None) -> None:
        """Raise `CapabilityMissing` unless *what*, which *wanted* needs, may be stored unencrypted.

        Given *store*, the name of a store's class, the error is a `StoreCapabilityError`.
        """
        if self.is_readable(what):
            return
        capability, means = _CAPABILITIES[what]
        hint = (
            f'To have them stored unencrypted open it with readable=("{what}",), on the command '
            f"line --readable {what}"
        )
        message = (
            f"{wanted} needs {means} that the database can read, and this one is encrypted. {hint};"
            " what was written before has none until it is written again"
        )
        if store is None:
            raise CapabilityMissing(message, capability=capability)
        raise StoreCapabilityError(capability, store, hint, message=message)

    def pseudonym(self, text: str, length: int) -> str:
        """Return a name for *text*, always the same: up to 64 hexadecimal digits.

        With keys it is a MAC under the first key, so that a guess of the text cannot be tried
        without that key. Under another first key the text has another name.
        """
        encoded = text.encode("utf-8", "surrogatepass")
        if self._first is None:
            return hashlib.sha256(encoded).hexdigest()[:length]
        return hmac.digest(self._first.naming, encoded, "sha256").hex()[:length]

    def stored_size(self, payload: bytes) -> int:
        """Return the bytes that a payload takes once it is stored."""
        return len(payload) + (OVERHEAD if self._keys else 0)

    def encrypt(self, codec: str, checksum: int, payload: bytes, place: Place) -> StoredPayload:
        """Encrypt a payload, its checksum included, for the place at which it will be stored.

        Without keys the three are returned as they are.
        """
        key = self._first
        if key is None:
            return StoredPayload(codec, checksum, payload)
        nonce = os.urandom(_NONCE)
        header = _VERSION + key.id + nonce
        plain = checksum.to_bytes(_CHECKSUM, "big", signed=True) + payload
        encrypted = header + key.aead.encrypt(nonce, plain, _associated_data(header, codec, place))
        return StoredPayload(codec + CODEC_SUFFIX, ciphertext_checksum(encrypted), encrypted)

    def decrypt(self, codec: str, checksum: int, payload: bytes, place: Place) -> StoredPayload:
        """Return what `encrypt` was given; *place* is the one at which it was found.

        Raises:
            KeyMissing: the payload is encrypted with a key that is not here.
            NotEncrypted: there are keys, and the payload is not encrypted, which is not allowed.
            Corrupt: the payload was changed, or is that of another place.
        """
        if not is_encrypted(codec):
            if self.refuses_plaintext:
                raise NotEncrypted()
            return StoredPayload(codec, checksum, payload)
        check_ciphertext(checksum, payload)
        key = self._keys.get(payload[len(_VERSION) : PREFIX_BYTES])
        if key is None:
            raise KeyMissing(key_id(payload), given=len(self._keys))
        from cryptography.exceptions import InvalidTag

        codec = plain_codec(codec)
        header = payload[:_HEADER]
        try:
            plain = key.aead.decrypt(
                header[PREFIX_BYTES:], payload[_HEADER:], _associated_data(header, codec, place)
            )
        except InvalidTag:
            raise Corrupt(
                "an encrypted payload is not what was encrypted with its key for its place: it was "
                "changed, or moved from another row"
            ) from None
        inside = int.from_bytes(plain[:_CHECKSUM], "big", signed=True)
        return StoredPayload(codec, inside, plain[_CHECKSUM:])


NO_KEYS = Keyring()


def _associated_data(header: bytes, codec: str, place: Place) -> bytes:
    """Return the data that is authenticated beside the payload."""
    tag = codec.encode(errors="replace")
    return header + bytes([min(len(tag), 255)]) + tag + encode_place(place)


def is_encrypted(codec: str) -> bool:
    """Return whether a codec tag is that of an encrypted payload."""
    return codec.endswith(CODEC_SUFFIX)


def plain_codec(codec: str) -> str:
    """Return the codec tag of a payload once it is decrypted."""
    return codec.removesuffix(CODEC_SUFFIX)


def key_id(payload: bytes) -> str:
    """Return the id of the key that a payload was encrypted with; it tells nothing of the key."""
    return payload[len(_VERSION) : PREFIX_BYTES].hex()


def ciphertext_checksum(encrypted: bytes) -> int:
    """Return the checksum of encrypted bytes: the end of their MAC above their CRC-32."""
    return (int.from_bytes(encrypted[-4:], "big") << 32 | zlib.crc32(encrypted)) - 2**63


def check_ciphertext(checksum: int, payload: bytes) -> None:
    """Raise `Corrupt` unless these are encrypted bytes as they were stored; needs no key."""
    if len(payload) < OVERHEAD or ciphertext_checksum(payload) != checksum:
        raise Corrupt("an encrypted payload does not match its checksum")
    if payload[: len(_VERSION)] != _VERSION:
        raise Corrupt("a payload is encrypted in a way that this release does not know")
