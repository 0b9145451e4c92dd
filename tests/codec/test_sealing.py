"""Sealing: what comes out went in, and no changed byte, wrong key or lost key is believed."""

from __future__ import annotations

import base64
import hashlib
import pickle
import subprocess
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import pytest
from cryptography.fernet import Fernet
from hypothesis import given
from hypothesis import strategies as st
from states import tried

from memalchemy.codec.encryption import (
    NO_KEYS,
    OVERHEAD,
    Keyring,
    StoredPayload,
    check_ciphertext,
    ciphertext_checksum,
    generate_key,
    is_encrypted,
    key_id,
    plain_codec,
)
from memalchemy.codec.places import (
    Place,
    encode_place,
    entry_place,
    item_place,
    state_place,
    write_place,
)
from memalchemy.errors import CapabilityMissing, Corrupt, KeyMissing, NotEncrypted

KEY, OTHER = generate_key(), generate_key()
RING = Keyring([KEY])
LOG = UUID("0b6b5a0e-4d1f-8a3b-9a51-3f5d8c1b2a70")
PLACE = entry_place("a tenant", LOG, 7)

codecs = st.sampled_from(["splice", "zvalue1", "a tag of 11"])
checksums = st.integers(-(2**63), 2**63 - 1)
payloads = st.binary(min_size=1, max_size=300)


@tried(200)
@given(codecs, checksums, payloads)
def test_what_was_sealed_opens_as_it_was(codec: str, checksum: int, payload: bytes) -> None:
    sealed = RING.encrypt(codec, checksum, payload, PLACE)

    assert RING.decrypt(*sealed, PLACE) == (codec, checksum, payload)
    assert sealed.codec == codec + "+gcm2"
    assert len(sealed.codec) <= 16, "as long as the column"
    assert len(sealed.payload) == len(payload) + OVERHEAD
    assert -(2**63) <= sealed.checksum < 2**63


@tried(100)
@given(codecs, checksums, payloads)
def test_without_keys_everything_stays_as_it_is(codec: str, checksum: int, payload: bytes) -> None:
    assert NO_KEYS.encrypt(codec, checksum, payload, PLACE) == (codec, checksum, payload)
    assert NO_KEYS.decrypt(codec, checksum, payload, PLACE) == (codec, checksum, payload)


@tried(300)
@given(payloads, st.data())
def test_no_changed_bit_is_believed_even_if_its_checksum_is_made_to_fit(
    payload: bytes, data: st.DataObject
) -> None:
    sealed = RING.encrypt("zvalue1", 5, payload, PLACE)
    at = data.draw(st.integers(0, len(sealed.payload) - 1))
    changed = bytearray(sealed.payload)
    changed[at] ^= 1 << data.draw(st.integers(0, 7))

    with pytest.raises(Corrupt):
        RING.decrypt(sealed.codec, sealed.checksum, bytes(changed), PLACE)
    # In the key's id it is another key's.
    with pytest.raises(KeyMissing if 1 <= at < 9 else Corrupt):
        RING.decrypt(sealed.codec, ciphertext_checksum(bytes(changed)), bytes(changed), PLACE)


@tried(100)
@given(payloads, st.data())
def test_a_sealed_payload_that_ends_early_is_corrupt(payload: bytes, data: st.DataObject) -> None:
    sealed = RING.encrypt("zvalue1", 5, payload, PLACE)
    short = sealed.payload[: data.draw(st.integers(0, len(sealed.payload) - 1))]

    with pytest.raises(Corrupt):
        RING.decrypt(sealed.codec, sealed.checksum, short, PLACE)
    with pytest.raises(Corrupt):
        RING.decrypt(sealed.codec, ciphertext_checksum(short), short, PLACE)


def test_a_payload_is_not_opened_as_one_of_another_codec() -> None:
    sealed = RING.encrypt("zvalue1", 5, b"payload", PLACE)

    with pytest.raises(Corrupt):
        RING.decrypt("splice+gcm2", sealed.checksum, sealed.payload, PLACE)


def test_another_checksum_beside_it_is_corrupt_with_a_key_and_without_one() -> None:
    sealed = RING.encrypt("zvalue1", 5, b"payload", PLACE)

    for ring in (RING, NO_KEYS):
        with pytest.raises(Corrupt):
            ring.decrypt(sealed.codec, sealed.checksum + 1, sealed.payload, PLACE)
    with pytest.raises(Corrupt):
        check_ciphertext(sealed.checksum + 1, sealed.payload)
    check_ciphertext(sealed.checksum, sealed.payload)


def test_equal_payloads_have_nothing_in_common_once_they_are_sealed() -> None:
    first, second = (RING.encrypt("zvalue1", 5, b"the same", PLACE) for _ in range(2))

    assert first.checksum != second.checksum
    assert first.payload[9:] != second.payload[9:]
    assert first.payload[:9] == second.payload[:9] == RING.prefix


def test_the_first_key_seals_and_each_opens() -> None:
    old = RING.encrypt("zvalue1", 5, b"payload", PLACE)
    both = Keyring([OTHER, KEY])

    assert both.decrypt(*old, PLACE) == ("zvalue1", 5, b"payload")
    new = both.encrypt("zvalue1", 5, b"payload", PLACE)
    assert Keyring([OTHER]).decrypt(*new, PLACE) == ("zvalue1", 5, b"payload")
    assert both.has_key_of(old.payload)
    assert not Keyring([OTHER]).has_key_of(old.payload)


def test_a_key_that_is_not_there_is_named_by_an_id_that_does_not_give_it_away() -> None:
    sealed = RING.encrypt("zvalue1", 5, b"payload", PLACE)

    for ring, have in (
        (Keyring([OTHER]), "none of the 1 that were given"),
        (NO_KEYS, "no key was"),
    ):
        with pytest.raises(KeyMissing, match=have) as raised:
            ring.decrypt(*sealed, PLACE)
        assert raised.value.key_id == key_id(sealed.payload)
        assert raised.value.key_id in str(raised.value)
    secret = base64.urlsafe_b64decode(KEY)
    assert bytes.fromhex(key_id(sealed.payload)) not in secret
    assert secret not in sealed.payload


def test_what_is_not_sealed_is_refused_unless_that_is_allowed() -> None:
    with pytest.raises(NotEncrypted, match=r"rotate-keys.*allow_plaintext=True"):
        RING.decrypt("zvalue1", 5, b"payload", PLACE)

    allowing = Keyring([KEY], allow_plaintext=True)
    assert allowing.decrypt("zvalue1", 5, b"payload", PLACE) == ("zvalue1", 5, b"payload")


@pytest.mark.parametrize(
    "key", [Fernet.generate_key(), Fernet.generate_key().decode()], ids=["bytes", "text"]
)
def test_a_fernet_key_is_taken_as_bytes_or_as_text(key: Any) -> None:
    sealed = Keyring([key]).encrypt("zvalue1", 5, b"payload", PLACE)

    same = key.encode() if isinstance(key, str) else key.decode()
    assert Keyring([same]).decrypt(*sealed, PLACE).payload == b"payload"


@pytest.mark.parametrize("key", [KEY, KEY.encode()], ids=["text", "bytes"])
def test_one_key_is_given_without_a_list(key: Any) -> None:
    assert (
        Keyring(key)
        .decrypt(*Keyring([KEY]).encrypt("zvalue1", 5, b"payload", PLACE), PLACE)
        .payload
        == b"payload"
    )
    assert Keyring(key).ids == Keyring([KEY]).ids


def test_a_generated_key_is_a_fernet_key() -> None:
    assert Fernet(KEY).decrypt(Fernet(KEY).encrypt(b"x")) == b"x"
    assert len({generate_key() for _ in range(50)}) == 50


STORED_CHECKSUM = 6418156955378633298
STORED = (
    "02c29a2b62ed24d536000102030405060708090a0b1ddb9b275541cd7f5fc96a1167a96e7c5bcded"
    "ef999fc35298a062d911dfbe"
)

SECRET = "hunter2-hunter2-hunter2-hunter2-hunter2-hunter2"


@pytest.mark.parametrize(
    "keys",
    [
        [SECRET],
        [SECRET.encode()],
        [KEY, SECRET],
        [KEY[:-1]],
        [KEY + KEY],
        [base64.urlsafe_b64encode(b"x" * 31)],
        [KEY.replace(KEY[5], "\u00e4")],
        ["\ud800" + SECRET],
        [bytearray(KEY.encode())],
        [None],
        [42],
        [],
        SECRET,
        SECRET.encode(),
    ],
)
def test_anything_else_is_a_value_error_that_shows_no_key(keys: Any) -> None:
    with pytest.raises(ValueError, match="key") as raised:
        Keyring(keys)

    said = "".join(traceback.format_exception(raised.value, chain=True))
    for secret in (SECRET, KEY, KEY[:20]):
        assert secret not in said.split("Error")[-1]
        assert secret not in str(raised.value)
    assert raised.value.__cause__ is None


@pytest.mark.parametrize("around", ["{}\n", " {}\r\n", "\n{} "])
def test_a_key_as_it_is_read_from_a_file_is_the_key(around: str) -> None:
    read = around.format(KEY)
    sealed = RING.encrypt("zvalue1", 5, b"payload", PLACE)

    for given_as in (read, read.encode()):
        assert Keyring([given_as]).decrypt(*sealed, PLACE) == ("zvalue1", 5, b"payload")


def test_what_is_not_a_key_is_called_that() -> None:
    for wrong in ("", "\n", KEY[:-2], f"{KEY[:20]}\n{KEY[20:]}"):
        with pytest.raises(ValueError, match=r"^this is not a key: it has \d+ bytes; a key is"):
            Keyring([wrong])


def test_no_key_is_in_what_is_shown_of_a_keyring() -> None:
    ring = Keyring([KEY, OTHER])

    for shown in (repr(ring), str(ring), f"{ring}", repr(ring._keys)):
        assert KEY not in shown
        assert OTHER not in shown
        assert repr(base64.urlsafe_b64decode(KEY)) not in shown
    assert repr(ring) == "Keyring(2 keys)"
    with pytest.raises(TypeError):
        pickle.dumps(ring)


def test_what_may_be_readable_is_named() -> None:
    assert NO_KEYS.is_readable("text")
    assert not RING.is_readable("text")
    assert Keyring([KEY], readable=["text"]).is_readable("text")
    assert not Keyring([KEY], readable=["text"]).is_readable("vectors")
    with pytest.raises(CapabilityMissing, match=r'a search .* readable=\("text",\)'):
        RING.check_readable("text", "a search")
    for wrong in ("text", ["words"], ["text", "everything"]):
        with pytest.raises(ValueError, match="readable="):
            Keyring([KEY], readable=wrong)


def test_threads_share_a_keyring() -> None:
    ring = Keyring([KEY, OTHER])

    def work(number: int) -> bool:
        payload = str(number).encode() * 2000
        return ring.decrypt(*ring.encrypt("zvalue1", number, payload, PLACE), PLACE) == (
            "zvalue1",
            number,
            payload,
        )

    with ThreadPoolExecutor(8) as threads:
        assert all(threads.map(work, range(2000)))


PLACES = [
    PLACE,
    entry_place("another tenant", LOG, 7),
    entry_place("a tenant", UUID(int=LOG.int ^ 1), 7),
    entry_place("a tenant", LOG, 8),
    state_place("a tenant", LOG, 7),
    write_place("a tenant", LOG, 7, "c1"),
    write_place("a tenant", LOG, 7, "c2"),
    item_place("a tenant", "/notes/", "k", 1),
    item_place("a tenant", "/notes/", "k", 2),
    item_place("a tenant", "/note/", "sk", 1),
    item_place("a tenant", "/notes/", "l", 1),
    item_place("another tenant", "/notes/", "k", 1),
]


@pytest.mark.parametrize("at", range(len(PLACES)))
def test_a_payload_opens_at_its_own_place_only(at: int) -> None:
    sealed = RING.encrypt("zvalue1", 5, b"payload", PLACES[at])

    for other, place in enumerate(PLACES):
        if other == at:
            assert RING.decrypt(*sealed, place).payload == b"payload"
            continue
        with pytest.raises(Corrupt, match="moved from another row"):
            RING.decrypt(*sealed, place)


texts = st.text(max_size=5)
places = st.one_of(
    st.builds(entry_place, texts, st.uuids(), st.integers(0, 2**62)),
    st.builds(state_place, texts, st.uuids(), st.integers(0, 2**62)),
    st.builds(write_place, texts, st.uuids(), st.integers(0, 2**62), texts),
    st.builds(item_place, texts, texts, texts, st.integers(1, 2**62)),
)


@tried(300)
@given(places, places)
def test_two_places_are_the_same_bytes_only_if_they_are_the_same(a: Place, b: Place) -> None:
    assert (encode_place(a) == encode_place(b)) == (a == b)


@pytest.mark.parametrize("value", [None, 1.5, b"bytes", True], ids=repr)
def test_a_damaged_key_of_a_row_is_corrupt(value: Any) -> None:
    with pytest.raises(Corrupt, match="key of a row"):
        encode_place(("entry", "a tenant", LOG, value))


def test_a_payload_that_an_earlier_release_has_sealed_still_opens() -> None:
    """The format, byte for byte: whoever changes it gives it another suffix."""
    key = base64.urlsafe_b64encode(bytes(range(32)))
    sealed = StoredPayload("zvalue1+gcm2", STORED_CHECKSUM, bytes.fromhex(STORED))

    assert Keyring([key]).decrypt(*sealed, PLACE) == ("zvalue1", -7, b"\x00\xa5hello")
    assert is_encrypted(sealed.codec)
    assert plain_codec(sealed.codec) == "zvalue1"


WITHOUT = """
import sys
sys.modules["cryptography"] = None
from memalchemy import Database, DriverMissing
Database("sqlite://")
try:
    Database("sqlite://", keys=["{key}"])
except DriverMissing as error:
    print(error)
"""


def test_without_the_package_the_error_says_what_to_install() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT.format(key=KEY)], capture_output=True, text=True, check=True
    )

    assert "'cryptography' is not installed" in ended.stdout
    assert 'pip install "cryptography>=43" (' in ended.stdout
    assert "memalchemy[encryption]" in ended.stdout
    assert KEY not in ended.stdout + ended.stderr


def test_a_database_without_keys_does_not_import_the_package() -> None:
    program = "import sys, memalchemy; memalchemy.Database('sqlite://'); "
    program += "print('cryptography' in sys.modules)"
    ended = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )

    assert ended.stdout.strip() == "False"


def test_a_name_of_a_text_is_its_keys_and_without_keys_its_hash() -> None:
    first, second = generate_key(), generate_key()
    name = Keyring([first]).pseudonym("likes tea", 24)

    assert name == Keyring([first, second]).pseudonym("likes tea", 24)
    assert len({name, Keyring([second, first]).pseudonym("likes tea", 24)}) == 2
    assert len(name) == 24
    assert name != Keyring([first]).pseudonym("likes tea!", 24)
    # What was kept under such names is found again by every release.
    assert Keyring().pseudonym("likes tea", 64) == hashlib.sha256(b"likes tea").hexdigest()
    assert Keyring([first]).pseudonym("\ud800", 12) != Keyring().pseudonym("\ud800", 12)
