"""The base of Haystack's adapters: they are written into a pipeline's YAML and read from it."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from haystack import default_from_dict, default_to_dict
from haystack.utils import Secret

from memalchemy.integrations._base import AnyDatabase, SyncAdapter, text_without_password

A = TypeVar("A", bound=SyncAdapter)
P = ParamSpec("P")
T = TypeVar("T")


class HaystackAdapter(SyncAdapter):
    """An adapter that a pipeline can be saved with, and whose URL may be a `Secret`."""

    root = "haystack"

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        url: Secret | None = None,
        namespace: Iterable[str] = (),
    ) -> None:
        if url is not None and db is not None:
            raise ValueError("give db or url, not both")
        if url is not None and not isinstance(url, Secret):
            raise TypeError(f"url is a Secret, not {type(url).__name__}; give a plain one as db")
        super().__init__(db if url is None else url.resolve_value(), namespace=namespace)
        self._given, self._url = db, url

    def to_dict(self) -> dict[str, Any]:
        """Return a dict from which `from_dict` makes an equal object; it never holds a password.

        Raises:
            ValueError: the database is an object, a `Secret` from a token, or a URL with a
                password. Give ``url=Secret.from_env_var(…)``, or nothing and the URL in
                ``MEMALCHEMY_URL``.
        """
        return default_to_dict(
            self, **self._database(), namespace=list(self.namespace[1:]), **self._options()
        )

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """Create an object from the result of `to_dict`.

        Raises:
            DeserializationError: it is that of another class.
        """
        return default_from_dict(cls, data)

    def _options(self) -> dict[str, Any]:
        """Return further arguments of the constructor."""
        return {}

    def _database(self) -> dict[str, Any]:
        if self._url is not None:
            return {"url": self._url}
        if self._given is None:
            return {}
        given = text_without_password(self._given)
        if given is None:
            raise ValueError(
                "a pipeline is saved with url=Secret.from_env_var(…) or a URL without a password, "
                f"not with this {type(self._given).__name__}"
            )
        return {"db": given}


def translated(
    method: Callable[Concatenate[A, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[A, P], Coroutine[Any, Any, T]]:
    """Make an asynchronous method raise Haystack's errors."""

    @functools.wraps(method)
    async def call(self: A, /, *args: P.args, **options: P.kwargs) -> T:
        with self.translated_errors():
            return await method(self, *args, **options)

    return call
