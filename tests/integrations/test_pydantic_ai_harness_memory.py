"""`MemalchemyMemoryStore`, with the harness' store in memory as the oracle."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic_ai import Agent
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart, ToolReturnPart
from pydantic_ai.models.function import AgentInfo, FunctionModel
from pydantic_ai_harness import memory
from pydantic_ai_harness.memory import (
    InMemoryStore,
    Memory,
    MemoryConflictError,
    MemoryFile,
    MemoryMutation,
    MemoryOperation,
    MemoryOperationConflictError,
    MemorySearchMatch,
    MemoryStore,
    MetadataMemoryStore,
    SearchableMemoryStore,
    _in_memory,
    _sqlite,
    _store,
)

from drawn_examples import examples
from lifetimes import end_lifetimes
from memalchemy import Database, Store, TooLarge
from memalchemy.inspection import Inspector
from memalchemy.integrations.pydantic_ai_harness import MemalchemyMemoryStore, memory_store


@pytest.fixture
def store(db: Database) -> MemalchemyMemoryStore:
    return MemalchemyMemoryStore(db)


async def read(store: MemalchemyMemoryStore, path: str) -> MemoryFile | None:
    return await store.read(path, max_chars=1_000)


# --- Against the harness' store in memory ---------------------------------------------------------

paths = st.sampled_from(["a", "a/b", "a/c", "a/b/d", "a-b", "a.b/c", "../a", "a//b", "a/é", ""])
contents = st.sampled_from(["", "tea or coffee", "Tea \x00 café\n" * 30, "nothing"])
versions = st.sampled_from(["seen", "seen", "seen", "none", "stale"])
operations = st.none() | st.builds(
    MemoryOperation,
    id=st.sampled_from(["op-1", "op-2", "o" * 300]),
    fingerprint=st.sampled_from(["f1", "f1", "f2"]),
)
metadata = st.sampled_from([None, {}, {"by": "ada"}, {"nul": "\x00"}, {"long": "x" * 5_000}])
sizes = st.sampled_from([0, 1, 2, 50, 1_000])
steps = st.one_of(
    *4 * [st.tuples(st.just("write"), paths, contents, versions, operations)],
    st.tuples(st.just("annotate"), paths, contents, versions, operations, metadata),
    *2 * [st.tuples(st.just("delete"), paths, versions, operations)],
    st.tuples(st.just("read"), paths, st.sampled_from([-1, 0, 3, 1_000])),
    st.tuples(st.just("receipt"), operations),
    st.tuples(
        st.just("list"), st.sampled_from(["", "a", "a/", "a/b", "..", "b"]), st.integers(0, 9)
    ),
    st.tuples(
        st.just("search"),
        st.sampled_from(["", "a/", "a/b/", "a."]),
        st.sampled_from(["", "tea", "COFFEE tea", "b"]),
        *4 * [sizes],
    ),
)


class Both:
    """Does everything in two stores; what differs is only how they name versions."""

    def __init__(self, db: Database) -> None:
        self.oracle = InMemoryStore()
        self.ours = [MemalchemyMemoryStore(db), MemalchemyMemoryStore(db)]
        self.names: dict[str | None, str | None] = {None: None, "stale": "stale"}
        """Our version for each of the oracle's."""

    async def outcome(self, call: Callable[[], Awaitable[Any]]) -> Any:
        try:
            return await call()
        except (MemoryConflictError, MemoryOperationConflictError, ValueError) as error:
            return type(error)

    async def both(
        self, call: Callable[[Any, dict[str | None, str | None]], Awaitable[Any]]
    ) -> None:
        self.ours.reverse()
        same = {name: name for name in self.names}
        expected = await self.outcome(lambda: call(self.oracle, same))
        found = await self.outcome(lambda: call(self.ours[0], self.names))
        if isinstance(expected, MemoryMutation | MemoryFile):
            assert isinstance(found, MemoryMutation | MemoryFile)
            known = self.names.setdefault(expected.version, found.version)
            assert found.version == known
            assert vars(found) | {"version": 0} == vars(expected) | {"version": 0}
        else:
            assert found == expected

    async def expected(self, path: str, which: str) -> str | None:
        """The version of the oracle's file, which the caller has seen or not."""
        if which == "none":
            return None
        if which == "stale":
            return "stale"
        try:
            found = await self.oracle.read(path, max_chars=1)
        except ValueError:
            return None
        if found is not None and found.version not in self.names:
            await self.both(lambda store, _: store.read(path, max_chars=1))
        return None if found is None else found.version

    async def write(
        self, path: str, content: str, which: str, operation: MemoryOperation | None
    ) -> None:
        at = await self.expected(path, which)
        await self.both(
            lambda store, names: store.write(
                path, content, expected_version=names[at], operation=operation
            )
        )

    async def annotate(
        self,
        path: str,
        content: str,
        which: str,
        operation: MemoryOperation | None,
        metadata: dict[str, str] | None,
    ) -> None:
        at = await self.expected(path, which)
        await self.both(
            lambda store, names: store.write_with_metadata(
                path, content, expected_version=names[at], metadata=metadata, operation=operation
            )
        )

    async def delete(self, path: str, which: str, operation: MemoryOperation | None) -> None:
        at = await self.expected(path, which)
        await self.both(
            lambda store, names: store.delete(path, expected_version=names[at], operation=operation)
        )

    async def read(self, path: str, max_chars: int) -> None:
        await self.both(lambda store, _: store.read(path, max_chars=max_chars))

    async def receipt(self, operation: MemoryOperation | None) -> None:
        if operation is not None:
            await self.both(lambda store, _: store.get_operation(operation))

    async def list(self, prefix: str, limit: int) -> None:
        await self.both(lambda store, _: store.list_paths(prefix, limit=limit))

    async def search(self, prefix: str, query: str, *sizes: int) -> None:
        names = ("limit", "max_files", "max_chars", "max_file_chars")
        given = dict(zip(names, sizes, strict=True))
        await self.both(lambda store, _: store.search(prefix, query, **given))


@given(st.lists(steps, min_size=10, max_size=40))
@settings(
    max_examples=examples(40),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
async def test_any_sequence_does_what_the_store_of_the_harness_does(
    db: Database, sequence: Any
) -> None:
    both = Both(db.for_tenant(f"t-{uuid.uuid4().hex[:16]}"))
    for name, *how in [*sequence, ("list", "", 9)]:
        await getattr(both, name)(*how)
    await both.search("a/", "tea", 50, 50, 1_000, 50)


# --- What the oracle does not show ----------------------------------------------------------------


def test_what_all_stores_of_the_harness_share_is_private_and_theirs() -> None:
    names = ("lexical_search", "validate_store_path", "validate_store_prefix", "encode_metadata")
    for name in (*names, "decode_metadata", "is_direct_child"):
        shared = getattr(_store, name)
        assert not hasattr(memory, name), "import it from pydantic_ai_harness.memory"
        assert getattr(memory_store, name) is shared
        theirs = (_in_memory, _sqlite)
        assert any(getattr(module, name, None) is shared for module in theirs)


def test_it_has_the_protocols_of_the_harness(store: MemalchemyMemoryStore) -> None:
    for protocol in (MemoryStore, MetadataMemoryStore, SearchableMemoryStore):
        assert isinstance(store, protocol)


async def test_of_those_who_write_the_same_version_one_succeeds(
    db: Database, reopen: Callable[[], Database], lasting: None
) -> None:
    async with reopen() as other_db:
        stores = [MemalchemyMemoryStore(db), MemalchemyMemoryStore(other_db)]
        version: str | None = None
        for turn in range(3):
            done = await asyncio.gather(
                *(
                    stores[n % 2].write("notes", f"{turn}.{n}", expected_version=version)
                    for n in range(6)
                ),
                return_exceptions=True,
            )
            winners = [n for n, one in enumerate(done) if isinstance(one, MemoryMutation)]
            assert len(winners) == 1
            assert sum(isinstance(one, MemoryConflictError) for one in done) == 5
            found = await read(stores[0], "notes")
            assert found is not None
            assert found.content == f"{turn}.{winners[0]}"
            version = found.version


async def test_an_operation_that_is_sent_at_once_is_done_once(
    db: Database, reopen: Callable[[], Database], lasting: None
) -> None:
    operation = MemoryOperation("op", "f")
    async with reopen() as other_db:
        stores = [MemalchemyMemoryStore(db), MemalchemyMemoryStore(other_db)]
        done = await asyncio.gather(
            *(
                stores[n % 2].write("notes", "x", expected_version=None, operation=operation)
                for n in range(6)
            )
        )
    assert sorted(one.replayed for one in done) == [False, *[True] * 5]
    assert len({one.version for one in done}) == 1


async def test_a_version_never_comes_again(store: MemalchemyMemoryStore) -> None:
    seen = set()
    for _ in range(3):
        made = await store.write("notes", "same", expected_version=None)
        seen.add(made.version)
        await store.delete("notes", expected_version=made.version)
    assert len(seen) == 3
    await store.write("notes", "new", expected_version=None)
    for version in seen:
        with pytest.raises(MemoryConflictError):
            await store.write("notes", "lost", expected_version=version)
    found = await read(store, "notes")
    assert found is not None
    assert found.content == "new"


async def test_receipts_end_when_they_shall(db: Database) -> None:
    store = MemalchemyMemoryStore(db, receipt_ttl=60)
    operation = MemoryOperation("op", "f")
    made = await store.write("notes", "x", expected_version=None, operation=operation)
    assert await store.get_operation(operation) == MemoryMutation(made.version, True, False)
    await end_lifetimes(db)
    assert await store.get_operation(operation) is None
    assert await store.store.sweep() == 1
    assert await read(store, "notes") is not None


async def test_a_refused_write_leaves_no_receipt(
    store: MemalchemyMemoryStore, db: Database
) -> None:
    operation = MemoryOperation("op", "f")
    with pytest.raises(MemoryConflictError):
        await store.write("notes", "x", expected_version="never", operation=operation)
    assert await store.get_operation(operation) is None
    with pytest.raises(TooLarge):
        await store.write("/".join(["p" * 100] * 3), "x", expected_version=None)
    assert await Store(db).list_namespaces() == []


@pytest.mark.parametrize("namespace", [(), ("app",), ("app", "eu")])
async def test_the_inspector_shows_files_and_no_receipts(
    db: Database, namespace: tuple[str, ...]
) -> None:
    store = MemalchemyMemoryStore(db, namespace=namespace)
    operation = MemoryOperation("op", "f")
    await store.write("notes", "x", expected_version=None, operation=operation)
    inspector = Inspector(db)

    assert [one["key"] for one in (await inspector.items())["items"]] == ["notes"]
    assert (await inspector.overview())["items"] == 1
    assert len((await inspector.items(internal=True))["items"]) == 2


async def test_words_are_found_by_an_index_too(store: MemalchemyMemoryStore) -> None:
    await store.write("ada/notes.md", "Where is the lighthouse?", expected_version=None)
    await store.write("ada/other.md", "Nothing.", expected_version=None)

    (hit,) = await store.store.search(("pydantic_ai_harness", "files"), "lighthouse")
    assert hit.key == "ada/notes.md"
    found = await store.search(
        "ada/", "lighthouse", limit=5, max_files=10, max_chars=500, max_file_chars=500
    )
    assert found.matches == [MemorySearchMatch("ada/notes.md", "Where is the lighthouse?", 1.0)]


async def test_files_of_other_namespaces_and_tenants_are_others(db: Database) -> None:
    stores = [
        MemalchemyMemoryStore(db),
        MemalchemyMemoryStore(db, namespace=("files",)),
        MemalchemyMemoryStore(db.for_tenant(f"{db.tenant}-2")),
    ]
    for number, store in enumerate(stores):
        made = await store.write("notes", str(number), expected_version=None)
        assert not made.existed
    assert [(await read(store, "notes")).content for store in stores] == ["0", "1", "2"]  # type: ignore[union-attr]
    await stores[2].store.clear_namespace(("pydantic_ai_harness",), prefix=True)


async def test_an_agent_remembers_after_a_restart(
    db: Database, reopen: Callable[[], Database]
) -> None:
    def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1].parts[-1]
        if isinstance(last, ToolReturnPart):
            return ModelResponse(parts=[TextPart("Noted.")])
        if "Ada likes tea." in str(messages):
            return ModelResponse(parts=[TextPart("You like tea.")])
        (write,) = [tool for tool in info.function_tools if tool.name == "write_memory"]
        content = {"content": "Ada likes tea."}
        known = write.parameters_json_schema["properties"]
        given = {"path": "MEMORY.md"} if "path" in known else {}
        return ModelResponse(parts=[ToolCallPart("write_memory", content | given)])

    def agent(db: Database) -> Agent:
        return Agent(FunctionModel(model), capabilities=[Memory(store=MemalchemyMemoryStore(db))])

    assert (await agent(db).run("I like tea.")).output == "Noted."
    async with reopen() as restarted:
        paths = await MemalchemyMemoryStore(restarted).list_paths(limit=10)
        assert len(paths) == 1
        assert (await agent(restarted).run("What do I like?")).output == "You like tea."
