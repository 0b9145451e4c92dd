"""Encode single values, such as items and entries, and pending writes as payloads.

A payload is the encoded value, compressed. It is stored with a codec tag and its CRC-32.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence
from typing import Any

from memalchemy.codec.compression import (
    UNCOMPRESSED,
    compress,
    compress_for_bulk_reads,
    decompress,
)
from memalchemy.codec.values import decode_value, decode_values, encode_value
from memalchemy.errors import Corrupt, TooLarge

VALUE_CODEC = "zvalue1"
"""Tag of the encoding of a value, stored with each row so that the encoding can change."""

WRITES_CODEC = "zwrite1"
"""Tag of the encoding of pending writes. Another dictionary is another encoding."""

MAX_VALUE_BYTES = 64 * 1024 * 1024
"""Size of the largest encoded value."""

_MIN_COMPRESSED_BYTES = 512
_WRITES_LEVEL = 3


# --- Values of items and entries ------------------------------------------------------------------


def encode_payload(value: Any) -> tuple[bytes, int]:
    """Return the payload of *value* and its checksum.

    Raises:
        NotSerialisable: the value would not load back equal and of the same types.
        TooLarge: the encoded value takes more than `MAX_VALUE_BYTES`.
    """
    encoded = encode_value(value)
    if len(encoded) > MAX_VALUE_BYTES:
        raise TooLarge("the value", len(encoded), MAX_VALUE_BYTES)
    if len(encoded) >= _MIN_COMPRESSED_BYTES:
        payload = compress_for_bulk_reads(encoded)
    else:
        payload = compress(encoded, None)
    return payload, zlib.crc32(payload)


def decode_payload(payload: bytes, checksum: int, codec: str) -> Any:
    """Return the value that `encode_payload` was given. Every call creates new objects.

    Raises:
        Corrupt: the payload is not the one that was stored, or its codec is unknown.
    """
    if codec != VALUE_CODEC:
        raise Corrupt(f"a stored value has the unknown codec {codec!r}")
    if zlib.crc32(payload) != checksum:
        raise Corrupt("a stored value does not match its checksum")
    return decode_value(decompress(payload, MAX_VALUE_BYTES))


def decode_payloads(
    payloads: Sequence[bytes], checksums: Iterable[int], codecs: Iterable[str]
) -> list[Any]:
    """Decode many payloads, in half of the time that `decode_payload` takes for each.

    Raises:
        Corrupt: one of them is not as it was stored; `decode_payload` says what is wrong with it.
    """
    if not {VALUE_CODEC}.issuperset(codecs) or list(map(zlib.crc32, payloads)) != list(checksums):
        raise Corrupt("a stored value does not match its checksum, or has an unknown codec")
    if not all(payloads):
        raise Corrupt("a stored value is empty")
    return decode_values(
        [
            payload[1:] if payload[0] == UNCOMPRESSED else decompress(payload, MAX_VALUE_BYTES)
            for payload in payloads
        ]
    )


# --- Pending writes -------------------------------------------------------------------------------
#
# They are many and short, and each is read by itself. So they are compressed with a dictionary of
# what such writes consist of: common English words, the most frequent last, and how frameworks
# spell a message.

_WORDS = (
    " respectively temperature development experience performance environment international "
    "community education management application conversation assistant information government "
    "understand description connection transaction checkpoint namespace directory available "
    "possible including following according something different important everything together "
    "necessary especially therefore although certain question problem example function message "
    "document database response request result customer company service product account number "
    "several another however whether without through against between because before after under "
    "during while since until where which these those their there other about would could should "
    "might being having doing using making taking called given known found shown stored written "
    "people things world country system program history process review section table column "
    "value values state states thread store memory search index string object return returns "
    "today tomorrow yesterday morning evening night week month year hours minutes seconds "
    "please thank you very much I think that it is I have been able to help you with "
    "do you want me to let me know if you need any more. Here is a list of the "
    "first, second, next, then, finally, for example, as well as, at least, in order to, "
    "such as the, each of the, one of the most, some of the, part of the, end of the, "
    "does not have, did not, can not be, will not be, has been, have been, had been, was not, "
    "were not, are not, is not, may be, must be, should be, would be, could be, can be, "
    "There are many, This is the, These are, When the, If you, What is the, How do I, It was, "
    "It is, In the, He was, She was, They were, We are, You can, But the, And the, The "
    "from one to the other, over the, into the, out of the, up to the, by the, with a, with the, "
    "as a, is a, for a, on a, at a, in a, of a, from the, at the, that the, for the, on the, "
    "and the, to the, in the, of the, . The , and "
)
_SPELLING = (
    "\xc1\x93\xd9$00000000-0000-0000-0000-000000000000\xd9~__pregel_pull, __pregel_push, "
    "tools, agent, model, __start__, ~__pregel_pull, \xd9$langchain_core.messages.tool"
    "\xabToolMessage\xa6status\xa7success\xactool_call_id\xa5call_\xa8artifact\xa4name\xa4args"
    "\xa9tool_call\xaatool_calls\xb2invalid_tool_calls\xaeusage_metadata\xacinput_tokens"
    "\xadoutput_tokens\xactotal_tokens\xa4type\xa2ai\x00\xb8branch:to:tools\x82\xa2~p\x92\xa4null"
    "\xc4\x00\xaabranch:to:agent\xafbranch:to:model\x81\xa2~p\x92\xa7msgpack\xc5\x04"
    "\xbalangchain_core.messages.ai\xa9AIMessage\x87\xa7content\xd9\xda\x04\x00"
    "\xb1additional_kwargs\x80\xb1response_metadata\x80\xa4type\xa5human\xa4name\xc0\xa2id\xd9$"
    "\xb3model_validate_json\x93\x00\xa8messages\x81\xa2~p\x92\xa7msgpack\xc5\x04\x91\xc7\x05"
    "\x94\xbflangchain_core.messages.human\xacHumanMessage\x87\xa7content\xda\x04\x00"
)
_DICTIONARY = (_WORDS.encode() + _SPELLING.encode("latin-1"))[-16_000:]


def encode_writes(
    task_id: str, task_path: str, writes: Sequence[tuple[int, str, Any]]
) -> tuple[bytes, int]:
    """Return the payload of one call's writes, each an index, a channel and a value; its checksum.

    Raises:
        NotSerialisable: a value would not load back equal; ``path`` says which.
        TooLarge: the encoded writes take more than `MAX_VALUE_BYTES`.
    """
    encoded = encode_value([task_id, task_path, [list(write) for write in writes]])
    if len(encoded) > MAX_VALUE_BYTES:
        raise TooLarge("the writes", len(encoded), MAX_VALUE_BYTES)
    payload = compress(encoded, _WRITES_LEVEL, _DICTIONARY)
    return payload, zlib.crc32(payload)


def decode_writes(
    payload: bytes, checksum: int, codec: str
) -> tuple[str, str, list[tuple[int, str, Any]]]:
    """Return what `encode_writes` was given.

    Raises:
        Corrupt: the payload is not the one that was stored, or its codec is unknown.
    """
    if codec != WRITES_CODEC:
        raise Corrupt(f"stored writes have the unknown codec {codec!r}")
    if zlib.crc32(payload) != checksum:
        raise Corrupt("stored writes do not match their checksum")
    try:
        task_id, task_path, writes = decode_value(decompress(payload, MAX_VALUE_BYTES, _DICTIONARY))
        found = [(index, channel, value) for index, channel, value in writes]
        names = [task_id, task_path, *(channel for _, channel, _ in found)]
        if not all(isinstance(name, str) for name in names):
            raise TypeError("a name that is no text")
        if not all(isinstance(index, int) for index, _, _ in found):
            raise TypeError("an index that is no whole number")
    except (TypeError, ValueError) as error:
        raise Corrupt("stored writes cannot be read") from error
    return task_id, task_path, found
