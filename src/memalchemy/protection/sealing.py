"""Seal payloads: encrypt what a program writes, for the very place at which it writes it.

`Database.run` is the one door through which programs run, so it is the one place where payloads are
sealed: no road can forget it. A program of a database with keys names the place of each payload in
what it binds: positions and versions are known before a row is sent, see `binds_places`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, MutableMapping
from typing import Any, TypeVar

from memalchemy.codec.encryption import Keyring, is_encrypted
from memalchemy.codec.places import Place, entry_place, item_place, state_place, write_place
from memalchemy.protection.key_registry import before_payloads
from memalchemy.statements import Parameters, Program

T = TypeVar("T")


def seal_payloads(program: Callable[[], Program[T]], keyring: Keyring) -> Callable[[], Program[T]]:
    """Return *program* so that each payload it binds is encrypted for its place.

    The binds of a statement are changed in place: the program finds there what was stored.
    """

    def seal(given: Parameters) -> None:
        for binds in [given] if isinstance(given, Mapping) else given or ():
            _seal(binds, keyring)

    return before_payloads(program, seal)


def _seal(binds: Any, keyring: Keyring) -> None:
    """Encrypt the payload, the value or the lists of them that a statement binds."""
    if "p_payload" in binds:
        _seal_columns(binds, "payload", place_of_row(binds), keyring)
    elif "p_value" in binds:
        _seal_columns(binds, "value", _place_of_item(binds), keyring)
    elif "e_payload" in binds:
        _seal_entries(binds, keyring)
    elif "i_value" in binds:
        _seal_items(binds, keyring)
    else:
        assert "p_vector" in binds, f"a payload without a place: {sorted(binds)}"


def place_of_row(binds: Mapping[str, Any]) -> Place:
    """Return the place of a row of a log, of whatever kind a statement binds."""
    place = binds["k_tenant"], binds["k_log_id"], binds["p_seq"]
    if "p_kind" in binds:
        return state_place(*place)
    if "p_label" in binds:
        return write_place(*place, binds["p_label"])
    return entry_place(*place)


def _place_of_item(binds: Mapping[str, Any]) -> Place:
    return item_place(binds["k_tenant"], binds["k_namespace"], binds["k_key"], binds["p_version"])


def _seal_columns(
    binds: MutableMapping[str, Any], column: str, place: Place, keyring: Keyring
) -> None:
    codec = binds["p_codec"]
    assert not is_encrypted(codec), "a payload is sealed once, where it is sent"
    stored = keyring.encrypt(codec, binds["p_checksum"], binds[f"p_{column}"], place)
    binds["p_codec"], binds["p_checksum"], binds[f"p_{column}"] = stored


def _seal_entries(binds: MutableMapping[str, Any], keyring: Keyring) -> None:
    tenant, log_id = binds["k_tenant"], binds["k_log_id"]
    rows = zip(
        binds["e_codec"], binds["e_checksum"], binds["e_payload"], binds["e_seq"], strict=True
    )
    stored = [
        keyring.encrypt(codec, checksum, payload, entry_place(tenant, log_id, seq))
        for codec, checksum, payload, seq in rows
    ]
    for at, name in enumerate(("codec", "checksum", "payload")):
        binds[f"e_{name}"] = [one[at] for one in stored]


def _seal_items(binds: MutableMapping[str, Any], keyring: Keyring) -> None:
    """Seal items of one codec, at the versions that ``i_version`` lists beside them."""
    codec, tenant = binds["p_codec"], binds["k_tenant"]
    assert not is_encrypted(codec), "a payload is sealed once, where it is sent"
    rows = zip(
        *(binds[f"i_{name}"] for name in ("checksum", "value", "namespace", "key", "version")),
        strict=True,
    )
    stored = [
        keyring.encrypt(codec, checksum, value, item_place(tenant, namespace, key, version))
        for checksum, value, namespace, key, version in rows
    ]
    binds["p_codec"] = stored[0].codec
    binds["i_checksum"] = [one.checksum for one in stored]
    binds["i_value"] = [one.payload for one in stored]
