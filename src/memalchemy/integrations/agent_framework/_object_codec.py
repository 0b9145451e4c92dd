"""Objects as storable values and back: of the framework's classes, and of those that are allowed.

An object is taken apart by the protocol that `copy.copy` uses, into its class, the arguments of
``__new__`` and its attributes. It is put together from a class that is looked up among those that
are allowed: what is stored never causes an import, nor the call of any other function.
"""

from __future__ import annotations

import copyreg
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Iterable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from types import GenericAlias
from typing import Any
from uuid import UUID

from agent_framework._workflows._checkpoint_encoding import _REGISTERED_CHECKPOINT_TYPE_KEYS

from memalchemy._json_pointers import pointer
from memalchemy.integrations._declarations.agent_framework import MARK

_ATOMS = frozenset({str, int, float, bool, type(None), bytes, datetime, date, UUID, Decimal})
_BUILTIN: tuple[Any, ...] = (
    *(*_ATOMS, list, dict, tuple, set, frozenset, object, bytearray, complex, range, slice),
    *(time, timedelta, timezone, Counter, OrderedDict, defaultdict, deque, GenericAlias, type),
)
_NEW, _NEW_WITH_NAMES = (getattr(copyreg, name) for name in ("__newobj__", "__newobj_ex__"))
_PACKAGES = ("agent_framework", "agent_framework_orchestrations")


class ObjectNotStorable(TypeError):
    """An object cannot be stored, or may not be restored: its class is not allowed."""


def qualified_name(cls: type) -> str:
    """Return the name under which a class is stored: ``module:qualname``."""
    return f"{cls.__module__}:{cls.__qualname__}"


class ObjectCodec:
    """Turns objects of allowed classes into storable values, and builds new objects of these.

    Allowed are the built-in types of values, the framework's classes, those registered with
    `agent_framework.register_checkpoint_type`, and those that are given.
    """

    def __init__(self, allowed: Iterable[type]) -> None:
        given = tuple(allowed)
        for cls in given:
            if not isinstance(cls, type):
                raise TypeError(f"allowed= takes classes, not {type(cls).__name__}")
        self._allowed = {qualified_name(cls): cls for cls in (*_BUILTIN, *given)}

    def encode(self, value: Any, path: str = "") -> Any:
        """Return a storable value; *path* is a JSON pointer to *value*, for errors.

        Raises:
            ObjectNotStorable: there is an object whose class is not allowed, or that cannot be
                taken apart, such as a function.
        """
        try:
            return self._encode(value, path, set())
        except RecursionError as error:
            raise ObjectNotStorable("the value is nested too deeply") from error

    def decode(self, stored: Any) -> Any:
        """Return the value that was encoded, made of new objects.

        Raises:
            ObjectNotStorable: there is an object whose class is not allowed.
        """
        kind = type(stored)
        if kind is dict:
            if MARK in stored:
                return self._build_object(stored)
            return {name: self.decode(one) for name, one in stored.items()}
        if kind is list or kind is tuple:
            return kind(map(self.decode, stored))
        return stored

    def _encode(self, value: Any, path: str, above: set[int]) -> Any:
        kind = type(value)
        if kind in _ATOMS:
            return value
        if isinstance(value, type):
            return {MARK: "type", "of": self._name_of_class(value, path)}
        if id(value) in above:
            raise ObjectNotStorable(f"{path or '/'} contains itself")
        above.add(id(value))
        try:
            if kind is list or kind is tuple:
                inner = [
                    self._encode(one, pointer(path, at), above) for at, one in enumerate(value)
                ]
                return kind(inner)
            if kind is dict:
                return self._encode_dict(value, path, above)
            if kind is set or kind is frozenset:
                if all(type(one) in _ATOMS for one in value):
                    return kind(value)
                members = [self._encode(one, f"{path}/*", above) for one in value]
                return {MARK: qualified_name(kind), "call": [members]}
            return self._encode_object(value, path, above)
        finally:
            above.discard(id(value))

    def _encode_dict(self, value: dict[Any, Any], path: str, above: set[int]) -> dict[str, Any]:
        if MARK not in value and all(type(name) is str for name in value):
            return {
                name: self._encode(one, pointer(path, name), above) for name, one in value.items()
            }
        return {MARK: "builtins:dict", "call": [self._encode_pairs(value.items(), path, above)]}

    def _encode_pairs(
        self, pairs: Iterable[tuple[Any, Any]], path: str, above: set[int]
    ) -> list[Any]:
        return [
            (self._encode(name, f"{path}/*", above), self._encode(one, f"{path}/*", above))
            for name, one in pairs
        ]

    def _encode_object(self, value: Any, path: str, above: set[int]) -> dict[str, Any]:
        cls = type(value)
        found: dict[str, Any] = {MARK: self._name_of_class(cls, path)}
        if isinstance(value, Enum):
            return found | {"call": [self._encode(value.value, path, above)]}
        reduce = copyreg.dispatch_table.get(cls)
        reduced = value.__reduce_ex__(4) if reduce is None else reduce(value)
        if not isinstance(reduced, tuple):
            raise ObjectNotStorable(
                f"{path or '/'} is a {qualified_name(cls)}, which is not a plain object"
            )
        function, args, state, items, pairs = (*reduced, None, None, None)[:5]
        named: dict[str, Any] = {}
        made: Any = None
        if function is _NEW_WITH_NAMES:
            made, args, named = args
        elif function is _NEW:
            made, *args = args
        if (function if made is None else made) is not cls:
            name = qualified_name(cls)
            raise ObjectNotStorable(
                f"{path or '/'} is a {name}, which only a function of its own can restore"
            )
        form = "call" if made is None else "new"
        found[form] = [self._encode(one, path, above) for one in args]
        for name, part in (("named", named or None), ("state", state)):
            if part is not None:
                found[name] = self._encode(part, path, above)
        if items is not None:
            found["items"] = [self._encode(one, f"{path}/*", above) for one in items]
        if pairs is not None:
            found["pairs"] = self._encode_pairs(pairs, path, above)
        self._check_form(cls, form)
        return found

    def _build_object(self, stored: dict[str, Any]) -> Any:
        if stored[MARK] == "type":
            return self._class_named(stored["of"])
        cls: Any = self._class_named(stored[MARK])
        form = "call" if "call" in stored else "new"
        self._check_form(cls, form)
        args = [self.decode(one) for one in stored[form]]
        named = self.decode(stored.get("named", {}))
        made = cls(*args, **named) if form == "call" else cls.__new__(cls, *args, **named)
        if "state" in stored:
            _set_state(made, self.decode(stored["state"]))
        for one in stored.get("items", ()):
            made.append(self.decode(one))
        for name, one in stored.get("pairs", ()):
            made[self.decode(name)] = self.decode(one)
        return made

    def _name_of_class(self, cls: type, path: str) -> str:
        """Return the name of a class that may be restored.

        Raises:
            ObjectNotStorable: it may not.
        """
        key = qualified_name(cls)
        try:
            known = self._class_named(key)
        except ObjectNotStorable:
            known = None
        if known is not cls:
            raise ObjectNotStorable(
                f"{path or '/'} is a {key}; a class that may be restored is named in allowed=[…]"
            )
        return key

    def _class_named(self, key: object) -> Any:
        """Return an allowed class by its name.

        Raises:
            ObjectNotStorable: no class of this name is allowed.
        """
        if (known := self._allowed.get(str(key))) is not None:
            return known
        module, _, name = str(key).partition(":")
        if module.partition(".")[0] in _PACKAGES or key in _REGISTERED_CHECKPOINT_TYPE_KEYS:
            found: Any = sys.modules.get(module)
            for part in name.split("."):
                found = getattr(found, part, None)
            if isinstance(found, type) and qualified_name(found) == key:
                return found
        raise ObjectNotStorable(f"the class {key} is not allowed: name it in allowed=[…]")

    def _check_form(self, cls: type, form: str) -> None:
        """Refuse to call a class of the framework: its objects are restored without that."""
        if (
            form == "call"
            and qualified_name(cls) not in self._allowed
            and not issubclass(cls, Enum)
        ):
            raise ObjectNotStorable(
                f"the class {qualified_name(cls)} can only be restored by calling it: name it in "
                "allowed=[…] if that may happen"
            )


def _set_state(made: Any, state: Any) -> None:
    """Give a new object its attributes, as `copy.copy` does."""
    if hasattr(made, "__setstate__"):
        made.__setstate__(state)
        return
    slots: dict[str, Any] = {}
    if isinstance(state, tuple):
        state, slots = state
    if state:
        made.__dict__.update(state)
    for name, value in (slots or {}).items():
        object.__setattr__(made, name, value)
