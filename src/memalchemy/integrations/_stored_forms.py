"""Reading of stored values by adapters, with `Corrupt` for a value of another form.

Something else may have written it, or a release of the framework that stores it in another form.
Frameworks' own errors quote the value, which may be anything that somebody said.
"""

from __future__ import annotations

from contextlib import ContextDecorator
from types import UnionType
from typing import Any

from pydantic import ValidationError

from memalchemy.errors import Corrupt, MemalchemyError


class StoredForm(ContextDecorator):
    """A function, or a block, that makes an object of what is stored, and does nothing else.

    Args:
        what: the object, with its framework: ``message of LangChain``.
        passing: errors of the framework that an adapter documents, and that stay as they are.

    Raises:
        Corrupt: no such object can be made of the value; the message quotes nothing of it.
    """

    def __init__(self, what: str, passing: tuple[type[Exception], ...] = ()) -> None:
        self.what = what
        self._passing: tuple[type[Exception], ...] = (MemalchemyError, MemoryError, *passing)

    def fields_of(self, value: Any, **kinds: type | UnionType) -> dict[str, Any]:
        """Return a stored *value*: a dict in which each of these names has a value of its kind."""
        with self:
            if not isinstance(value, dict):
                raise TypeError(f"not a dict but a {type(value).__name__}")
            for name, kind in kinds.items():
                if not isinstance(value[name], kind):
                    raise TypeError(f"{name} is a {type(value[name]).__name__}")
        return value

    def __enter__(self) -> None: ...

    def __exit__(self, _: Any, error: BaseException | None, __: Any) -> None:
        if isinstance(error, Exception) and not isinstance(error, self._passing):
            raise not_of_the_form(self.what, reason_of(error)) from None


def not_of_the_form(what: str, reason: str) -> Corrupt:
    """Return the error of a stored value of which no *what* can be made, with the *reason*."""
    return Corrupt(
        f"a stored value is no {what} ({reason}): something else has written it, or a release that "
        "stores it in another form. It was not changed."
    )


def reason_of(error: Exception) -> str:
    """Return what was wrong, in words that quote nothing of the value."""
    if isinstance(error, ValidationError):
        first, *_ = error.errors(include_url=False, include_context=False, include_input=False)
        return f"{first['type']} at /{'/'.join(map(str, first['loc']))}"
    return type(error).__name__
