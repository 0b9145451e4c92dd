"""Values of requests, whose JSON has tags for what JSON lacks."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from memalchemy.codec.values import from_jsonable
from memalchemy.errors import NotSerialisable
from memalchemy.http._offload import offload

T = TypeVar("T")


async def decode_part(tree: Any, path: str, make: Callable[[Any], T] = from_jsonable) -> T:
    """Return ``make(tree)``, the value that a part of a body stands for.

    Args:
        path: the place of *tree* in the body, for the error.

    Raises:
        NotSerialisable: a tag in it has no meaning.
    """
    try:
        return await offload([tree], lambda: make(tree))
    except ValueError as error:
        raise NotSerialisable(path, str(error)) from error


async def decode_list(trees: list[Any], path: str) -> list[Any]:
    """Return the values that the members of a list in a body stand for, as `decode_part`."""
    return await decode_part(trees, path, lambda trees: [from_jsonable(tree) for tree in trees])
