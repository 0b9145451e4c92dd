"""The base of CrewAI's adapters: copies share the database, and values become storable."""

from __future__ import annotations

from typing import Any, ClassVar, Self

from pydantic import SecretBytes, SecretStr
from pydantic_core import to_jsonable_python

from memalchemy.integrations._base import SyncAdapter

ROOT = "crewai"


class CrewAdapter(SyncAdapter):
    """A storage of CrewAI on a database."""

    root: ClassVar[str] = ROOT

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return this object: CrewAI deep-copies crews, and a copy uses the same database."""
        return self


def text_of_leaf(value: Any) -> Any:
    """Return the JSON form of a value that the codec does not know; if it has none, its text.

    Raises:
        TypeError: it is a secret, of which asterisks would be stored.
    """
    if isinstance(value, SecretStr | SecretBytes):
        raise TypeError("a secret's JSON form is a row of asterisks")
    return to_jsonable_python(value, fallback=str)


def with_text_keys(value: Any) -> Any:
    """Return *value* with the keys of its mappings as JSON writes them: as texts."""
    if isinstance(value, dict):
        return {_text_key(key): with_text_keys(item) for key, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(with_text_keys, value))
    return value


def _text_key(key: Any) -> str:
    if isinstance(key, str):
        return key
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    return str(to_jsonable_python(key, fallback=str))
