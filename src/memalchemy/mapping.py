"""Convert states to the mappings that are stored, and back.

A state is a mapping, a pydantic model, or an object with ``to_checkpoint()`` whose class has
``from_checkpoint()``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

from memalchemy.errors import NotSerialisable

Fallback = Callable[[Any], Any]


def to_mapping(state: Any) -> tuple[Mapping[str, Any], Fallback | None]:
    """Return the mapping to store, and a function that simplifies leaves unknown to the codec.

    ``to_checkpoint()`` is used before everything else. A pydantic model keeps its Python values
    (datetimes, tuples, sets, bytes, Decimals). Leaves that the codec cannot store, such as enums
    and URLs, take their JSON form, and ``state_type`` validates them back on load. Fields of
    subclasses are kept, computed fields are not, and names are the aliases. A secret is refused and
    not masked.

    Raises:
        NotSerialisable: *state* is none of the three.
    """
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
    raise NotSerialisable(
        "",
        f"is a {type(state).__name__}; a state is a mapping, a pydantic model, or an object with "
        "to_checkpoint() and from_checkpoint()",
    )


def _is_model(kind: Any) -> bool:
    # No model exists unless pydantic was imported, which takes longer than everything here.
    pydantic = sys.modules.get("pydantic")
    return pydantic is not None and isinstance(kind, type) and issubclass(kind, pydantic.BaseModel)


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
    return state_type(stored)


def check_state_type(state_type: Any) -> Any:
    """Return *state_type* if `from_mapping` can build one.

    Raises:
        TypeError: it is a class that cannot be built from a mapping, or no class at all.
    """
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
            "state_type is a pydantic model, or a class with from_checkpoint() and "
            f"to_checkpoint(), not {what}"
        )
    return state_type


def plain(value: Any) -> Any:
    """Return *value* with pydantic models, at any depth, replaced by their JSON form."""
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(map(plain, value))
    return value.model_dump(mode="json") if _is_model(type(value)) else value
