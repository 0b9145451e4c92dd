"""The empty text is an id like any other: in each public method, on each road."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, aclosing, nullcontext
from typing import Any

import pytest

import memalchemy
from httpserver import running
from id_parameters import takes_several
from memalchemy import Conflict, Database
from memalchemy.checkpoints import Checkpointer
from memalchemy.contracts import LEAVE
from memalchemy.errors import MemalchemyError
from memalchemy.http import HTTPCheckpointer, HTTPStore, HTTPThreadLog
from memalchemy.signing import generate_key
from memalchemy.store import Store
from memalchemy.threads import ThreadLog

NATIVE: tuple[type, ...] = (Checkpointer, ThreadLog, Store)
REMOTE: tuple[type, ...] = (HTTPCheckpointer, HTTPThreadLog, HTTPStore)
IDS = {
    "thread_id", "checkpoint_id", "key", "keys", "new_thread_id", "parent_id", "expected_parent",
    "lineage", "run_id", "a", "b", "before", "after", "task_id", "checkpoint_ids", "source",
    "source_thread_id", "dest_thread_id", "thread_ids", "namespace", "namespaces",
}  # fmt: skip
"""The names of parameters that are ids of the caller's, where they are texts or hold some."""
GIVEN: dict[str, Any] = {
    "state": {"n": 3},
    "function": lambda stored: LEAVE,
    "entries": [1],
    "value": 1,
    "values": [1],
    "embedding": [1.0, 2.0],
    "vector": [1.0, 2.0],
    "embeddings": {},
    "query": "word",
    "path": "/n",
    "filter": {"m": 1},
    "metadata": {"m": 1},
    "items": [],
    "writes": [("channel", 1)],
    "position": 1,
    "after": 0,
    "positions": [1],
    "values_by_position": {},
    "index": 0,
    "limit": 10,
}
NOT_CALLED = {
    "Checkpointer.prune(thread_id)",
    "Checkpointer.save(expected_parent)",
    "Store.change_matching",
    "Store.hold",
    "Store.list_items(after)",
    "Store.list_namespaces(after)",
    "Store.reembed",
    "Store.search_by_embedding",
    "Store.search_many",
    "ThreadLog.hold",
    "ThreadLog.list_older(after)",
    "ThreadLog.read_columns",
    "ThreadLog.scan",
}
"""Calls that need more than ids: they are refused with any."""
LEFT_OUT = {"export_files", "read_columns_beside"}
"""Methods that write files, or that take another log."""
BY_CHANCE = {"epoch", "mark", "task_path", "stored_size", "raw_size", "total_size_bytes"}
"""What differs between two databases, or is the empty text for another reason."""


def methods(classes: tuple[type, ...]) -> Iterator[tuple[type, str, str | None]]:
    """Yield each public method with ids: with those that it needs, and with each of the others."""
    for cls in classes:
        for name, method in inspect.getmembers(cls, inspect.isfunction):
            if name.startswith("_") or name in LEFT_OUT:
                continue
            ids = [p for p in inspect.signature(method).parameters.values() if is_id(p)]
            if any(p.default is p.empty for p in ids):
                yield cls, name, None
            yield from ((cls, name, p.name) for p in ids if p.default is not p.empty)


def is_id(parameter: inspect.Parameter) -> bool:
    annotation = str(parameter.annotation)
    return parameter.name in IDS and not annotation.startswith(("int", "bool", "datetime"))


def argument(parameter: inspect.Parameter, id_: str) -> Any:
    annotation = str(parameter.annotation)
    if not is_id(parameter):
        return GIVEN.get(parameter.name, "x")
    if parameter.name in ("new_thread_id", "dest_thread_id"):
        return f"{id_} copied"
    if "Namespace, str" in annotation or "tuple[Namespace" in annotation or annotation == "Batch":
        return [((id_,), id_)]
    if parameter.name == "namespace" or annotation == "Namespace":
        return (id_,)
    return [id_] if takes_several(annotation) else id_


async def fill(db: Database, id_: str) -> None:
    """Store under *id_* as an id of a thread, a checkpoint, an entry, an item, and a namespace."""
    for namespace in ((), (id_,)):
        checkpointer = memalchemy.Checkpointer(db, namespace=namespace)
        await checkpointer.save({"n": 1, "text": "a word"}, id_, id_, {"m": 1}, run_id=id_)
        await checkpointer.save({"n": 2}, id_, "second")
    await memalchemy.Checkpointer(db).put_writes([("channel", 1)], id_, id_, id_)
    await memalchemy.ThreadLog(db).append(id_, ["a word", "other"], keys=[id_, "other"])
    store = memalchemy.Store(db)
    for namespace in ((id_,), (id_, id_)):
        await store.put(namespace, id_, "a word", {"m": 1}, embedding=[1.0, 2.0])
        await store.put(namespace, "other", 2)


def renamed(value: Any, id_: str) -> Any:
    """Return what does not differ between two databases, and *id_* under a name."""
    if isinstance(value, str):
        known = {id_: "<id>", f"{id_} copied": "<copy>", "second": "second", "other": "other"}
        return known.get(value, "a text")
    if isinstance(value, dict):
        return {renamed(k, id_): renamed(v, id_) for k, v in value.items() if k not in BY_CHANCE}
    if isinstance(value, (list, tuple)):
        return type(value)(renamed(one, id_) for one in value)
    if isinstance(value, (set, frozenset)):
        return {renamed(one, id_) for one in value}
    if hasattr(value, "__dataclass_fields__"):
        names = {*value.__dataclass_fields__} - BY_CHANCE
        return [(name, renamed(getattr(value, name), id_)) for name in sorted(names)]
    if isinstance(value, (int, bytes, type(None))):
        return value
    return type(value).__name__


async def contents(db: Database, id_: str) -> Any:
    """Return what there is, as the lists and reads of the native classes tell it."""
    found: list[Any] = []
    for namespace in ((), (id_,)):
        checkpointer = memalchemy.Checkpointer(db, namespace=namespace)
        for thread in sorted(await checkpointer.list_threads()):
            ids = await checkpointer.list_checkpoints(thread)
            found.append([thread, [(one, await checkpointer.load(thread, one)) for one in ids]])
    log, store = memalchemy.ThreadLog(db), memalchemy.Store(db)
    for thread in (id_, f"{id_} copied"):
        found.append(
            [(entry.position, entry.key, entry.value) for entry in await log.range(thread)]
        )
    for namespace in ((id_,), (id_, id_)):
        keys = sorted(await store.list_keys(namespace))
        found.append([(key, await store.get(namespace, key)) for key in keys])
    return [renamed(one, id_) for one in found]


class Refused(str):
    """The name of an error that a call raised."""


async def outcome(made: Any, name: str, optional: str | None, id_: str) -> Any:
    method = getattr(made, name)
    parameters = inspect.signature(method).parameters.values()
    wanted = [
        p
        for p in parameters
        if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        and (p.default is p.empty or p.name == optional)
    ]
    arguments = [argument(p, id_) for p in wanted if p.kind is p.POSITIONAL_ONLY]
    named = {p.name: argument(p, id_) for p in wanted if p.kind is not p.POSITIONAL_ONLY}
    try:
        result = method(*arguments, **named)
        if inspect.isawaitable(result):
            result = await result
        elif hasattr(result, "__anext__"):
            async with aclosing(result) as items:
                result = [one async for one in items]
    except (MemalchemyError, TypeError, ValueError) as error:
        return Refused(type(error).__name__)
    return renamed(result, id_)


def spelt(case: tuple[type, str, str | None]) -> str:
    cls, name, optional = case
    return f"{cls.__name__}.{name}" + (f"({optional})" if optional else "")


NATIVE_CASES = list(methods(NATIVE))
REMOTE_CASES = list(methods(REMOTE))


@pytest.fixture(scope="module")
def server(shared_url: str) -> Iterator[tuple[str, Iterator[tuple[str, str]]]]:
    """The URL of a server, and pairs of a token and its tenant, as many as the tests need."""
    pairs = [(f"token-{new_name()}", f"t-{new_name()}") for _ in range(2 * len(REMOTE_CASES))]
    with running(Database(shared_url), tokens=dict(pairs)) as url:
        yield url, iter(pairs)


def new_name() -> str:
    return uuid.uuid4().hex[:20]


async def observed(db: Database, made: Any, case: tuple[type, str, str | None], id_: str) -> Any:
    """Return what a method answers, and what there is afterwards."""
    await fill(db, id_)
    answer = await outcome(made, *case[1:], id_)
    return answer, await contents(db, id_)


@pytest.mark.asyncio_only("it calls the methods of the asynchronous classes")
@pytest.mark.parametrize("case", NATIVE_CASES, ids=spelt)
async def test_a_method_does_with_an_empty_id_as_with_another(db: Database, case: Any) -> None:
    found = []
    for id_ in ("an id", ""):
        of_tenant = db.for_tenant(f"t-{new_name()}")
        found.append(await observed(of_tenant, case[0](of_tenant), case, id_))

    assert found[1] == found[0]


@pytest.mark.asyncio_only("it calls the methods of the asynchronous classes")
@pytest.mark.parametrize("case", REMOTE_CASES, ids=spelt)
async def test_a_client_over_http_does_with_an_empty_id_as_with_another(
    db: Database, server: tuple[str, Iterator[tuple[str, str]]], lasting: None, case: Any
) -> None:
    url, pairs = server
    found = []
    for id_ in ("an id", ""):
        token, tenant = next(pairs)
        async with case[0](url, token=token) as made:
            found.append(await observed(db.for_tenant(tenant), made, case, id_))

    assert found[1] == found[0]


@pytest.mark.asyncio_only("it calls the methods of the asynchronous classes")
async def test_the_calls_above_are_ones_that_succeed(db: Database) -> None:
    """Two refusals would be equal, and say nothing."""
    refused = set()
    for case in NATIVE_CASES:
        of_tenant = db.for_tenant(f"t-{new_name()}")
        answer, _ = await observed(of_tenant, case[0](of_tenant), case, "an id")
        if isinstance(answer, Refused):
            refused.add(spelt(case))

    assert refused == NOT_CALLED


@pytest.mark.parametrize("signed", [False, True], ids=["plain", "signed"])
@pytest.mark.parametrize("together", [False, True], ids=["alone", "in a transaction"])
@pytest.mark.parametrize("new_keys", [False, True], ids=["any keys", "new keys"])
@pytest.mark.parametrize("keys", [["{}"], ["{}", None], ["k", "{}"], [None, "{}", "{}"]])
async def test_an_entry_with_an_empty_key_is_there_once(
    shared_url: str,
    signed: bool,
    together: bool,
    new_keys: bool,
    keys: list[str | None],
) -> None:
    found = []
    keyed = {"signing_keys": [generate_key()]} if signed else {}
    async with Database(shared_url, tenant=f"t-{new_name()}", **keyed) as opened:
        log = memalchemy.ThreadLog(opened)
        for id_ in ("an id", ""):
            named = [key and key.format(id_) for key in keys]
            for _ in range(3):
                try:
                    async with transaction_of(opened, together) as on:
                        values = [1] * len(keys)
                        positions = await log.append(
                            id_, values, keys=named, new_keys=new_keys, connection=on
                        )
                        found.append(positions)
                except Conflict:
                    found.append("Conflict")
            entries = await log.range(id_)
            found.append([renamed(entry.key, id_) for entry in entries])

    assert found[4:] == found[:4]
    assert found[3].count("<id>") == int(not (new_keys and len(keys) == 3))


def transaction_of(db: Database, together: bool) -> AbstractAsyncContextManager[Any]:
    return db.transaction() if together else nullcontext()


async def test_a_hosts_transaction_survives_an_empty_key_that_is_there(db: Database) -> None:
    log = memalchemy.ThreadLog(db)
    await log.append("t", ["first"], keys=[""])
    async with db.transaction() as tx:
        assert await log.append("t", ["second"], keys="", connection=tx) == [1]
        with pytest.raises(Conflict):
            await log.append("t", ["third"], keys="", new_keys=True, connection=tx)
        await log.append("u", ["after it"], connection=tx)

    assert await log.count("u") == 1


def test_an_empty_tenant_is_refused(db: Database) -> None:
    with pytest.raises(ValueError, match="tenant"):
        db.for_tenant("")
