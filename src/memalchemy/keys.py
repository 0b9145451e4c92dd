"""Spelling of ids and namespaces in key columns, the limits that keep them indexable, and logs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from hashlib import sha256
from secrets import randbits
from time import time_ns
from typing import Any, NamedTuple, TypeVar
from uuid import UUID, uuid4

from memalchemy.errors import InvalidArgument, TooLarge

T = TypeVar("T")

ESCAPE = "\x1a"
MAX_ID_CHARACTERS = 255
MAX_ID_BYTES = 1020  # 255 characters of four bytes: fits every index of the schema everywhere
MAX_STORED_CHARACTERS = 510  # the column; only escaped characters take more than one
MAX_TENANT_BYTES = 64
MAX_NAMESPACE_BYTES = 512
MAX_ENTRY_KEY_CHARACTERS = 128
INTERNAL_PREFIX = "/~"
"""Prefix of memalchemy's own namespaces. In a user's namespace ``~`` is escaped: ~0, ~1 or ~2."""
INTERNAL_RANGE = (INTERNAL_PREFIX + "a", INTERNAL_PREFIX + "{")
"""Range of memalchemy's own namespaces, its end excluded: a letter follows the ``~``."""

_AWKWARD = re.compile("[\x00\x1a\ud800-\udfff]")
_ESCAPED = re.compile("\x1a(e|0|1|u[0-9a-f]{4})")
_PART = re.compile("[/~\x00]")
_PART_ESCAPES = {"~": "~0", "/": "~1", "\x00": "~2"}
_PART_ESCAPED = re.compile("~[012]")
_PART_UNESCAPES = {v: k for k, v in _PART_ESCAPES.items()}


def encode_id(text: str) -> str:
    """Spell an id so that every database stores it and gives it back unchanged."""
    if text == "":
        return ESCAPE + "e"
    if not _AWKWARD.search(text):
        return text

    def escape(match: re.Match[str]) -> str:
        character = match.group()
        if character == "\x00":
            return ESCAPE + "0"
        if character == ESCAPE:
            return ESCAPE + "1"
        return f"{ESCAPE}u{ord(character):04x}"

    return _AWKWARD.sub(escape, text)


def decode_id(stored: str) -> str:
    """Return the id that `encode_id` spelt."""
    if ESCAPE not in stored:
        return stored

    def restore(match: re.Match[str]) -> str:
        code = match.group(1)
        if code == "e":
            return ""
        if code == "0":
            return "\x00"
        if code == "1":
            return ESCAPE
        return chr(int(code[1:], 16))

    return _ESCAPED.sub(restore, stored)


def check_thread_id(text: object) -> str:
    """Return *text* if it can be a thread's id; raise before anything is sent if not.

    Raises:
        TypeError: not a string.
        TooLarge: over 255 characters, or over 1,020 bytes as stored.
    """
    return _check(text, "thread_id", MAX_STORED_CHARACTERS)


@lru_cache(maxsize=4096)
def log_key(tenant: str, thread_id: str, path: str) -> UUID:
    """Return the key of a thread's log in an encoded namespace, the same in every process."""
    digest = sha256()
    for part in (tenant, thread_id, path):
        encoded = part.encode("utf-8", "surrogatepass")
        digest.update(len(encoded).to_bytes(4))
        digest.update(encoded)
    number = int.from_bytes(digest.digest()[:16])
    number = number & ~(0xF << 76) | (8 << 76)  # the version
    return UUID(int=number & ~(0b11 << 62) | (0b10 << 62))  # the variant


class Log(NamedTuple):
    """Identity of a log. ``namespace`` is encoded: see `encode_namespace`."""

    tenant: str
    thread_id: str
    namespace: str

    @property
    def key(self) -> UUID:
        return log_key(*self)

    def binds(self) -> dict[str, Any]:
        """Return the binds of `memalchemy.log.tables.of_log`, and the tenant."""
        return {"k_log_id": log_key(*self), "k_tenant": self.tenant}

    def head_binds(self) -> dict[str, Any]:
        """Return the binds of a statement that may create the log's head."""
        tenant, thread_id, namespace = self
        return {
            "k_log_id": log_key(tenant, thread_id, namespace),
            "k_tenant": tenant,
            "k_thread_id": thread_id,
            "k_namespace": namespace,
        }


def new_fork_id(thread_id: str) -> str:
    """Return a new id for a copy of a thread: its own, ``-fork-`` and eight random digits.

    The thread's own id is cut off if the result would be too long.
    """
    suffix = f"-fork-{uuid4().hex[:8]}"
    kept = check_thread_id(thread_id)[: MAX_ID_CHARACTERS - len(suffix)]
    while not _fits(kept + suffix):
        kept = kept[:-1]
    return kept + suffix


def _fits(thread_id: str) -> bool:
    stored = encode_id(thread_id)
    return len(stored) <= MAX_STORED_CHARACTERS and len(stored.encode()) <= MAX_ID_BYTES


_DIGITS = "0123456789abcdefghjkmnpqrstvwxyz"
_TWO_DIGITS = [first + second for first in _DIGITS for second in _DIGITS]


def new_checkpoint_id() -> str:
    """Return a new id: eleven digits of the time in microseconds, then seven random ones.

    Short, because it stands in a row, in an index and in the row of what is built on it; and in the
    order of time, so that an index takes it at its end.
    """
    number = (time_ns() // 1000) << 35 | randbits(35)
    return "".join([_TWO_DIGITS[number >> shift & 1023] for shift in range(80, -1, -10)])


def check_name(text: object, what: str) -> str:
    """Return *text* if it can be the id of something within a thread, as `check_thread_id`.

    Its column is as wide as its limit, so characters that are stored escaped count twice or more.
    """
    checked = _check(text, what, MAX_ID_CHARACTERS)
    # A member of an Enum stands for what str() makes of it.
    return checked if type(checked) is str else _check(str(checked), what, MAX_ID_CHARACTERS)


def check_entry_key(text: object) -> str:
    """Return *text* if it can be the key of an entry: up to 128 characters as stored."""
    return _check(text, "key", MAX_ENTRY_KEY_CHARACTERS)


def _check(text: object, what: str, most: int) -> str:
    """Return *text* if it takes at most so many characters as stored, and `MAX_ID_BYTES`."""
    if not isinstance(text, str):
        raise TypeError(f"{what} must be a str, not {type(text).__name__}")
    if len(text) > MAX_ID_CHARACTERS:
        raise TooLarge(what, len(text), MAX_ID_CHARACTERS, "characters")
    # Printable ASCII, as almost all ids are, is stored as it is.
    if not (text.isascii() and text.isprintable() and len(text) <= most):
        stored = encode_id(text)
        if (size := len(stored.encode())) > MAX_ID_BYTES:
            raise TooLarge(f"{what} as stored", size, MAX_ID_BYTES)
        if len(stored) > most:
            raise TooLarge(f"{what} as stored", len(stored), most, "characters")
    return text


def check_tenant(text: object) -> str:
    """Return *text* if it can be a tenant: at most 64 bytes, neither empty nor ``~``."""
    if not isinstance(text, str):
        raise TypeError(f"tenant must be a str, not {type(text).__name__}")
    if not text or text == "~":
        raise ValueError("tenant must not be empty, nor '~', which is memalchemy's own")
    if (size := len(encode_id(text).encode())) > MAX_TENANT_BYTES:
        raise TooLarge("tenant", size, MAX_TENANT_BYTES)
    return text


def check_namespace(parts: Iterable[str]) -> tuple[str, ...]:
    """Return *parts* as a tuple if they can be a namespace; raise before anything is sent if not.

    Raises:
        TypeError: one string, which a tuple would take apart, or a part that is none.
        TooLarge: over 512 bytes as stored.
        ValueError: a part holds a lone surrogate.
    """
    checked = _strings(parts)
    _path_of(checked)
    return checked


def _strings(parts: Iterable[str]) -> tuple[str, ...]:
    if type(parts) is not tuple:
        if isinstance(parts, (str, bytes)) or not isinstance(parts, Iterable):
            what = "one string" if isinstance(parts, str) else type(parts).__name__
            raise TypeError(f"a namespace is a tuple of strings, not {what}")
        parts = tuple(parts)
    for part in parts:
        if not isinstance(part, str):
            raise TypeError(f"a namespace part must be a str, not {type(part).__name__}")
    return parts


def encode_namespace(parts: Iterable[str]) -> str:
    """Spell a namespace as a path: ``()`` is ``/``, ``("a", "b")`` is ``/a/b/``.

    Every part ends in ``/`` and escapes it, so no two namespaces collide and everything below a
    namespace is one byte range. Raises what `check_namespace` raises.
    """
    if isinstance(parts, InternalNamespace):
        return parts.path
    return _path_of(_strings(parts))


def beyond_namespace(path: str) -> str:
    """Return the end, itself excluded, of the range of all that is in or under a namespace."""
    return path[:-1] + "0"  # the character after a slash


class InternalNamespace(tuple[str, ...]):
    """Namespace of memalchemy's own, of one part, for items that a user can neither name nor list.

    A letter follows the ``~`` of its path; the ``~`` of a user's namespace is stored escaped.
    """

    __slots__ = ()

    @property
    def path(self) -> str:
        """Its spelling, such as ``/~requests/``."""
        (name,) = self
        return f"{INTERNAL_PREFIX}{name}/"


def is_internal(path: str) -> bool:
    """Return whether an encoded namespace is memalchemy's own."""
    return INTERNAL_RANGE[0] <= path < INTERNAL_RANGE[1]


@lru_cache(maxsize=1024)
def _path_of(parts: tuple[str, ...]) -> str:
    encoded = ["/"]
    for part in parts:
        try:
            part.encode()
        except UnicodeEncodeError:
            raise InvalidArgument("a namespace part must not hold a lone surrogate") from None
        encoded.append(_PART.sub(lambda m: _PART_ESCAPES[m.group()], part) + "/")
    path = "".join(encoded)
    if (size := len(path.encode())) > MAX_NAMESPACE_BYTES:
        raise TooLarge("namespace", size, MAX_NAMESPACE_BYTES)
    return path


@lru_cache(maxsize=1024)
def decode_namespace(path: str) -> tuple[str, ...]:
    """Return the namespace that `encode_namespace` spelt."""
    return tuple(
        _PART_ESCAPED.sub(lambda m: _PART_UNESCAPES[m.group()], part)
        for part in path[1:].split("/")[:-1]
    )


def format_namespace(parts: Iterable[str]) -> str:
    """Write a namespace in the shortest form that `parse_namespace` reads back."""
    path = encode_namespace(parts)
    needs_slashes = path.startswith("//") or path.endswith("//") or path == "/"
    return path if needs_slashes else path[1:-1]


def parse_namespace(text: str) -> tuple[str, ...]:
    """Read a namespace as people spell it: ``users/ada``; ``/`` is the root.

    In a part ``/`` is ``~1`` and ``~`` is ``~0``. A slash at either end may be there or not; with
    both, it is what `encode_namespace` gives, and a part at the end may be empty.

    Raises:
        ValueError, TooLarge: *text* spells no namespace.
    """
    if not text:
        raise InvalidArgument("a namespace is not empty; / is the root")
    inside = text.removeprefix("/").removesuffix("/")
    path = "/" if text == "/" else f"/{inside}/"
    parts = decode_namespace(path)
    if encode_namespace(parts) != path:
        raise InvalidArgument(f"{text!r} is not a namespace; a ~ in a part is written ~0")
    return parts


def check_list(several: Iterable[T], what: str) -> list[T]:
    """Return *several* as a list; one string, whose letters a loop would take for ids, is none.

    Raises:
        TypeError: a string, bytes, or nothing that can be iterated over.
    """
    if isinstance(several, (str, bytes, bytearray)) or not isinstance(several, Iterable):
        given = type(several).__name__
        raise TypeError(f"{what} takes a list, not a {given}: pass [one] for a single one")
    return list(several)
