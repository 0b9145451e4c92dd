"""Seal payloads: encrypt what a program writes, for the very place at which it writes it.

`Database.run` is the one door through which programs run, so it is the one place where payloads are
sealed: no road can forget it. A statement says whose payload it binds (`memalchemy.rows`), and a
program of a database with keys binds the columns of the place with it: positions and versions are
known before a row is sent, see `Guard.allots_first`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, TypeVar

from sqlalchemy import Executable, Select

from memalchemy.codec.encryption import Keyring, is_encrypted
from memalchemy.protection.key_registry import before_payloads
from memalchemy.rows import DELTA, VECTOR, RowKind, kind_of_delta
from memalchemy.statements import NOTHING, WRITES, Parameters, Program, Written

T = TypeVar("T")


def seal_payloads(program: Callable[[], Program[T]], keyring: Keyring) -> Callable[[], Program[T]]:
    """Return *program* so that each payload it binds is encrypted for its place.

    The binds of a statement are changed in place: the program finds there what was stored.
    """

    def seal(statement: Executable, given: Parameters) -> None:
        kind = _sealed_by(statement)
        if kind is not None:
            for binds in [given] if isinstance(given, Mapping) else given or ():
                (_seal_many if kind.is_many else _seal)(kind, binds, keyring)  # type: ignore[arg-type]

    return before_payloads(program, seal)


def _sealed_by(statement: Executable) -> RowKind | None:
    """Return the kind of rows whose payloads a statement writes; ``None`` if it has vectors."""
    written: Written = statement.get_execution_options().get(WRITES, NOTHING)
    searches = not written.kinds and isinstance(statement, Select)
    is_placed = written.sealed is not None or written.kinds == (VECTOR,) or searches
    assert is_placed, f"a payload without a place: {statement}"
    return written.sealed


def _seal(kind: RowKind, binds: MutableMapping[str, Any], keyring: Keyring) -> None:
    """Encrypt the payload of a row that is sent alone."""
    if kind is DELTA:
        kind = kind_of_delta(binds["p_kind"])
    for name, value in zip(_names(kind), _sealed(kind, binds, keyring), strict=True):
        binds[f"p_{name}"] = value


def _seal_many(kind: RowKind, binds: MutableMapping[str, Any], keyring: Keyring) -> None:
    """Encrypt the payloads of rows that are sent as arrays; all have one codec, if it is shared."""
    stored = [_sealed(kind, one, keyring) for one in kind.each(binds)]
    for name, values in zip(_names(kind), zip(*stored, strict=True), strict=True):
        if name in kind.shared:
            binds[f"p_{name}"] = values[0]
        else:
            binds[f"{kind.prefix}_{name}"] = list(values)


def _names(kind: RowKind) -> tuple[str, str, str]:
    assert kind.payload is not None
    return "codec", "checksum", kind.payload


def _sealed(kind: RowKind, binds: Mapping[str, Any], keyring: Keyring) -> tuple[str, int, bytes]:
    """Return the codec, the checksum and the payload of a row, encrypted."""
    codec, checksum, payload = (binds[f"p_{name}"] for name in _names(kind))
    assert not is_encrypted(codec), "a payload is sealed once, where it is sent"
    return keyring.encrypt(codec, checksum, payload, kind.place_of(binds))
