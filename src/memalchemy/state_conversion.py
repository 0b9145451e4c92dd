"""Convert states to the mappings that are stored, and back.

A state is a mapping, a pydantic model, an object with ``to_checkpoint()`` whose class has
``from_checkpoint()``, or a dataclass that is the ``state_type``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, datetime
from decimal import Decimal
from functools import lru_cache
from pathlib import PurePath
from typing import Any, get_type_hints
from uuid import UUID

from memalchemy.errors import NotSerialisable

Fallback = Callable[[Any], Any]


def to_mapping(
    state: Any, state_type: Any | None = None
) -> tuple[Mapping[str, Any], Fallback | None]:
    """Return the mapping to store, and a function that simplifies leaves unknown to the codec.

    ``to_checkpoint()`` is used before everything else. A pydantic model keeps its Python values
    (datetimes, tuples, sets, bytes, Decimals). Leaves that the codec cannot store, such as enums
    and URLs, take their JSON form, and ``state_type`` validates them back on load. Fields of
    subclasses are kept, computed fields are not, and names are the aliases. A secret is refused and
    not masked. A dataclass is stored as its fields if *state_type* is its class, from which it is
    built again; a field that its annotation would not load back equal is refused.

    Raises:
        NotSerialisable: *state* is none of these.
    """
    if type(state) is dict:
        return state, None
    convert = getattr(state, "to_checkpoint", None)
    if callable(convert):
        mapping = convert()
        if not isinstance(mapping, Mapping):
            raise NotSerialisable("", "is what to_checkpoint() returned, and it is not a mapping")
        return mapping, None
    if _is_model(type(state)):
        dumped = state.model_dump(
            mode="python", round_trip=True, by_alias=True, serialize_as_any=True
        )
        return dumped, _json_form
    if isinstance(state, Mapping):
        return state, None
    if _is_dataclass(type(state)):
        if type(state) is not state_type:
            raise NotSerialisable(
                "",
                f"is the dataclass {type(state).__name__}; give state_type={type(state).__name__}, "
                "by which it comes back, or save dataclasses.asdict(x), which comes back as a dict",
            )
        return _fields_of(state), None
    raise NotSerialisable(
        "",
        f"is a {type(state).__name__}; a state is a mapping, a pydantic model, or an object with "
        "to_checkpoint() and from_checkpoint()",
    )


def _is_model(kind: Any) -> bool:
    # No model exists unless pydantic was imported, which takes longer than everything here.
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


def _is_dataclass(kind: Any) -> bool:
    return isinstance(kind, type) and is_dataclass(kind)


@lru_cache(64)
def _adapter_of_dataclass(kind: type) -> Any:
    """Return pydantic's reader and writer of a dataclass.

    Raises:
        TypeError: an annotation of a field says nothing to pydantic, or names what is not there.
    """
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        adapter: Any = TypeAdapter(kind)
        adapter.rebuild(raise_errors=True)
    except (PydanticUserError, NameError) as error:
        why = _unreadable_field(kind) or str(error).partition("\n")[0]
        raise TypeError(f"the fields of {kind.__name__} cannot be read back: {why}") from error
    return adapter


def _unreadable_field(kind: Any) -> str | None:
    """Describe the first field whose annotation pydantic does not understand, if there is one."""
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        hints = get_type_hints(kind, include_extras=True)
    except NameError:
        return None
    for field in fields(kind):
        try:
            TypeAdapter(hints[field.name])
        except PydanticUserError:
            hint = hints[field.name]
            named = hint.__qualname__ if isinstance(hint, type) else str(hint)
            return (
                f"{field.name}: {named}. Annotate the field with what is stored, such as "
                "list[float] for array.tolist() of numpy, or give the class to_checkpoint() and "
                "from_checkpoint(), which convert it"
            )
    return None


def _fields_of(state: Any) -> dict[str, Any]:
    """Return the fields of a dataclass as they are stored, if they come back equal from that."""
    from pydantic import ValidationError

    kind: Any = type(state)
    name, adapter = kind.__name__, _adapter_of_dataclass(kind)
    dumped = adapter.dump_python(
        state, round_trip=True, by_alias=True, serialize_as_any=True, warnings=False
    )
    stored: dict[str, Any] = _as_stored(dumped)
    try:
        again = adapter.validate_python(stored)
    except ValidationError as error:
        found = error.errors(include_url=False, include_context=False, include_input=False)[0]
        # Only the field is named: the rest of a location may be keys of the application's.
        path = _pointer_to(found["loc"][0]) if found["loc"] else ""
        raise NotSerialisable(path, f"does not fit its annotation in {name}") from None
    if again == state:
        return stored
    for field in fields(state):
        before, after = getattr(state, field.name), getattr(again, field.name)
        # By their texts NaN is NaN, and a class without __eq__ is its fields.
        if before != after and repr(before) != repr(after):
            raise NotSerialisable(
                _pointer_to(field.name), f"would not come back equal by its annotation in {name}"
            )
    return stored


def _as_stored(value: Any) -> Any:
    """Return *value* with its leaves as the codec stores them; one that it refuses stays."""
    kind = type(value)
    if kind is dict:
        return {key: _as_stored(item) for key, item in value.items()}
    if kind in (list, tuple, set, frozenset):
        return kind(map(_as_stored, value))
    if kind in _STORED or kind.__module__ == "numpy" or isinstance(value, PurePath):
        return value
    try:
        return _json_form(value)
    except (TypeError, ValueError):
        return value


_STORED = frozenset({str, int, float, bool, type(None), bytes, datetime, date, UUID, Decimal})


def _pointer_to(field: object) -> str:
    """Return the JSON pointer of a field."""
    return "/" + str(field).replace("~", "~0").replace("/", "~1")


def _json_form(value: Any) -> Any:
    from pydantic import SecretBytes, SecretStr
    from pydantic_core import to_jsonable_python

    if isinstance(value, (SecretStr, SecretBytes)):
        raise TypeError("a secret's JSON form is a row of asterisks")
    return to_jsonable_python(value)


def from_mapping(stored: dict[str, Any], state_type: Any | None) -> Any:
    """Build a *state_type* from a stored mapping; without a type return the mapping itself."""
    if state_type is None:
        return stored
    build = getattr(state_type, "from_checkpoint", None)
    if callable(build):
        return build(stored)
    if _is_model(state_type):
        return state_type.model_validate(stored)
    if _is_dataclass(state_type):
        return _adapter_of_dataclass(state_type).validate_python(stored)
    return state_type(stored)


def check_state_type(state_type: Any) -> Any:
    """Return *state_type* if `from_mapping` can build one.

    Raises:
        TypeError: it is a class that cannot be built from a mapping, or no class at all.
    """
    if _is_dataclass(state_type) and not callable(getattr(state_type, "from_checkpoint", None)):
        _adapter_of_dataclass(state_type)
        return state_type
    known = (
        state_type is None
        or callable(getattr(state_type, "from_checkpoint", None))
        or _is_model(state_type)
        or (isinstance(state_type, type) and issubclass(state_type, Mapping))
        or (callable(state_type) and not isinstance(state_type, type))
    )
    if not known:
        what = state_type.__name__ if isinstance(state_type, type) else type(state_type).__name__
        raise TypeError(
            "state_type is a pydantic model, a dataclass, or a class with from_checkpoint() and "
            f"to_checkpoint(), not {what}"
        )
    return state_type


def plain(value: Any) -> Any:
    """Return *value* with pydantic models, at any depth, replaced by their JSON form."""
    try:
        return _plain(value)
    except RecursionError:
        return value  # no encoding takes what is nested so deeply, and says so


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(map(_plain, value))
    return value.model_dump(mode="json") if _is_model(type(value)) else value
