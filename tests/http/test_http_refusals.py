"""An argument that is refused without HTTP is refused by the clients, and nothing is sent."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import pytest
from test_http_operations import METHODS, argument

from memalchemy import (
    Checkpointer,
    Conflict,
    Conversation,
    Database,
    HTTPCheckpointer,
    MemalchemyError,
    Store,
    ThreadLog,
)
from memalchemy.http import HTTPConversation, HTTPStore, HTTPThreadLog

NATIVE: dict[type, Callable[[Database], Any]] = {
    HTTPCheckpointer: Checkpointer,
    HTTPStore: Store,
    HTTPThreadLog: ThreadLog,
    HTTPConversation: lambda db: Conversation(db, "a/thread"),
}

ODD: list[Any] = [None, math.nan, math.inf, -math.inf, 1.9, 2.0, True, "3", -1, object(), [2.7], {}]
"""Values that are no argument of most parameters."""

CHECKED = {
    "after",
    "alpha",
    "before",
    "below",
    "embedding",
    "expected_version",
    "filter",
    "limit",
    "mmr",
    "offset",
    "position",
    "positions",
    "prefix",
    "query_embedding",
    "threshold",
}
"""Parameters whose values the clients check themselves."""


def cases() -> Iterator[Any]:
    """Yield each method of the clients with each of its parameters that is checked."""
    for client, method in (one.values for one in METHODS):
        taken = inspect.signature(getattr(client, method)).parameters
        for name in sorted(CHECKED & taken.keys()):
            yield pytest.param(client, method, name, id=f"{client.__name__}.{method}.{name}")


async def refusal(object_: Any, method: str, named: dict[str, Any]) -> type | None:
    """Return the built-in type of the error of a call; ``None`` if there is none.

    An error of another kind, such as a conflict, is no refusal of an argument.
    """
    given: list[Any] = []
    for one in inspect.signature(getattr(object_, method)).parameters.values():
        if one.kind is one.VAR_POSITIONAL:
            given += named.pop(one.name)
    try:
        result = getattr(object_, method)(*given, **named)
        _ = [one async for one in result] if isinstance(result, AsyncIterator) else await result
    except (TypeError, ValueError) as error:
        return TypeError if isinstance(error, TypeError) else ValueError
    except MemalchemyError:
        return None
    return None


@pytest.mark.parametrize(("client", "method", "name"), list(cases()))
async def test_what_is_refused_without_http_is_refused_before_it_is_sent(
    client: type, method: str, name: str, db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []

    async def request(self: httpx.AsyncClient, method: str, url: str, **options: Any) -> Any:
        sent.append(url)
        raise httpx.ConnectError("nobody is there")

    monkeypatch.setattr(httpx.AsyncClient, "request", request)
    remote = client("http://nobody", *(["a/thread"] if client is HTTPConversation else []))
    native = NATIVE[client](db)
    parameters = inspect.signature(getattr(client, method)).parameters
    required = [one.name for one in list(parameters.values())[1:] if one.default is one.empty]
    for odd in ODD:
        named = {one: argument(client, method, one) for one in required} | {name: odd}
        expected = await refusal(native, method, dict(named))
        if expected is not None:
            assert await refusal(remote, method, dict(named)) is expected, odd
            assert not sent, odd
    await remote.close()


async def test_a_number_that_json_lacks_is_no_absence() -> None:
    async with HTTPCheckpointer("http://127.0.0.1:9", timeout=1) as client:
        for age in (math.nan, math.inf):
            with pytest.raises(ValueError, match="older_than_days"):
                await client.vacuum(age)


@pytest.mark.usefixtures("lasting")
async def test_no_item_is_at_the_version_of_another(db: Database, base_url: str) -> None:
    native = Store(db)
    await native.put(("notes",), "there", 1, embedding=[1.0, 2.0])
    async with HTTPStore(base_url) as client:
        stores: list[Any] = [native, client]
        for store, version, key in itertools.product(stores, (0, -1, 9, 2**70), ("there", "none")):
            with pytest.raises(Conflict) as conflict:
                await store.put(("notes",), key, 2, expected_version=version)
            assert conflict.value.current == await native.get_item(("notes",), key)
        for store, version in itertools.product(stores, (0, -1, 9, 2**70, None)):
            with pytest.raises(Conflict) as conflict:
                await store.put_embedding(("notes",), "there", [2.0, 1.0], expected_version=version)
            assert conflict.value.current == await native.get_item(("notes",), "there")
        for store, version in itertools.product(stores, (0, -1, 9, 2**70)):
            with pytest.raises(Conflict):
                await store.delete(("notes",), "there", expected_version=version)
    assert await native.get_embedding(("notes",), "there") == [1.0, 2.0]
