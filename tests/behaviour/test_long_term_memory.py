"""Long-term memory in a store: saving, recalling, removing, and the owners of memories."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from typing import Any

import pytest
from memory_helpers import Said, Session, assistant, events, memory, system, user, words_of
from store_helpers import Embedder

import memalchemy
from memalchemy import Database, LLMMemoryManager, Memory, MemoryScope, MemoryType, Store
from memalchemy.events import Event
from memalchemy.memory import RunInfo
from memalchemy.state import AgentState, Message
from waiting import A_WHILE, steps

ADA = ("users", "ada")
BOB = ("users", "bob")


def contents(memories: list[Memory]) -> list[str]:
    return [one.content for one in memories]


@pytest.fixture
def manager(store: Store) -> LLMMemoryManager:
    return memalchemy.LLMMemoryManager(store, extract_fn=words_of, namespace_prefix=ADA)


async def test_saved_memories_are_recalled_complete(manager: LLMMemoryManager) -> None:
    given = Memory(MemoryType.PROJECT, "deadline", "Friday", {"why": "the fair", "n": 1})
    await manager.save([given])

    (found,) = await manager.retrieve()
    assert found == given
    assert found.updated_at is not None
    assert found.updated_at.utcoffset() is not None
    assert given.metadata == {"why": "the fair", "n": 1}


async def test_it_works_on_a_database_as_on_a_store(db: Database) -> None:
    one = memalchemy.LLMMemoryManager(db)
    await one.save([memory("likes tea")])

    assert contents(await memalchemy.LLMMemoryManager(memalchemy.Store(db)).retrieve()) == [
        "likes tea"
    ]


async def test_a_memory_lies_under_its_namespace_and_type_by_its_key(
    store: Store, manager: LLMMemoryManager
) -> None:
    await manager.save([memory("no mocks", key="tests", of="feedback")])

    assert await store.get((*ADA, "feedback"), "tests") == {
        "type": "feedback",
        "key": "tests",
        "content": "no mocks",
        "metadata": {},
    }


async def test_the_same_type_and_key_is_replaced(manager: LLMMemoryManager) -> None:
    await manager.save([memory("writes Go", key="language")])
    await manager.save(
        [memory("writes Python", key="language"), memory("x", "language", "project")]
    )

    found = await manager.retrieve()
    assert sorted(contents(found)) == ["writes Python", "x"]


async def test_without_a_query_the_last_saved_come_first(manager: LLMMemoryManager) -> None:
    for n in range(5):
        await manager.save([memory(f"m{n}", key=f"k{n}", of=list(MemoryType)[n % 4])])

    assert contents(await manager.retrieve()) == ["m4", "m3", "m2", "m1", "m0"]
    assert contents(await manager.retrieve(2)) == ["m4", "m3"]
    assert await manager.retrieve(0) == []


async def test_of_memories_saved_together_the_last_is_the_newest(
    manager: LLMMemoryManager,
) -> None:
    await manager.save([memory(f"m{n}", key=f"k{99 - n}") for n in range(30)])

    assert contents(await manager.retrieve(3)) == ["m29", "m28", "m27"]


async def test_with_a_query_what_fits_comes_first_and_the_newest_fill_up(
    manager: LLMMemoryManager,
) -> None:
    await manager.save([memory("the tea is in Lisbon", key="old")])
    for n in range(4):
        await manager.save([memory(f"other {n}", key=f"k{n}")])

    found = await manager.retrieve_relevant("Where is TEA?", 3)
    assert contents(found) == ["the tea is in Lisbon", "other 3", "other 2"]
    assert contents(await manager.retrieve_relevant(None, 1)) == ["other 3"]
    assert contents(await manager.retrieve_relevant("  ", 1)) == ["other 3"]


async def test_every_type_has_its_turn_in_a_ranking(manager: LLMMemoryManager) -> None:
    await manager.save([memory(f"tea {n}", key=f"u{n}") for n in range(5)])
    await manager.save([memory("tea deadline", key="p", of="project")])

    assert "tea deadline" in contents(await manager.retrieve(2, query="tea"))


async def test_with_an_embedder_memories_are_found_by_meaning(db: Database) -> None:
    embedder = Embedder()
    store = memalchemy.Store(db, embedder=embedder)
    manager = memalchemy.LLMMemoryManager(store)
    await manager.save([memory("likes oolong", key="a"), memory("lives in Lisbon", key="b")])

    assert embedder.calls == [["likes oolong", "lives in Lisbon"]]
    assert contents(await manager.retrieve(1, query="oolong"))[0] == "likes oolong"


async def test_the_oldest_of_a_type_go_beyond_the_limit(store: Store) -> None:
    manager = memalchemy.LLMMemoryManager(store, max_memories=3, namespace_prefix=ADA)
    await manager.save([memory("other type", of="project")])
    for n in range(6):
        await manager.save([memory(f"m{n}", key=f"k{9 - n}")])
    await manager.save([memory("m3 again", key="k6")])

    found = await manager.retrieve()
    assert contents(found) == ["m3 again", "m5", "m4", "other type"]
    assert await store.count(ADA, prefix=True) == 4


async def test_concurrent_saves_keep_the_limit_and_the_newest(store: Store) -> None:
    managers = [memalchemy.LLMMemoryManager(store, max_memories=3) for _ in range(2)]
    await asyncio.gather(*(managers[n % 2].save([memory(str(n), key=str(n))]) for n in range(12)))
    await managers[0].save([memory("last", key="last")])

    found = contents(await managers[1].retrieve())
    assert len(found) == 3
    assert found[0] == "last"


@pytest.mark.asyncio_only("it puts a method of the store's in between")
async def test_a_memory_that_is_saved_again_while_it_is_pruned_stays(db: Database) -> None:
    class Racing(Store):
        async def delete(self, namespace: Any, key: str, **how: Any) -> bool:
            await self.put(namespace, key, memory("said again", key=key).to_store_value())
            return await super().delete(namespace, key, **how)

    manager = LLMMemoryManager(Racing(db), max_memories=1)
    await manager.save([memory("old", key="old")])
    await manager.save([memory("new", key="new")])

    assert contents(await manager.retrieve()) == ["said again", "new"]


async def test_a_limit_of_none_keeps_all(store: Store) -> None:
    manager = memalchemy.LLMMemoryManager(store, max_memories=None)
    await manager.save([memory(f"m{n}", key=f"k{n}") for n in range(60)])

    assert len(await manager.retrieve(100)) == 60


async def test_a_batch_with_a_bad_memory_saves_none(manager: LLMMemoryManager) -> None:
    with pytest.raises(memalchemy.NotSerialisable):
        await manager.save([memory("good", key="a"), memory("bad", key="b", what=object())])

    assert await manager.retrieve() == []


async def test_items_that_are_no_memories_are_left_out_with_a_warning(
    store: Store, manager: LLMMemoryManager, caplog: pytest.LogCaptureFixture
) -> None:
    await store.put((*ADA, "user"), "strange", {"no": "memory"})
    await manager.save([memory("tea")])

    with caplog.at_level(logging.WARNING):
        assert contents(await manager.retrieve()) == ["tea"]
    assert "1 items in a namespace of memories are no memories" in caplog.text
    assert "strange" not in caplog.text


# Sessions


async def test_the_next_session_gets_the_memories_of_the_last(manager: LLMMemoryManager) -> None:
    await manager.on_session_end([user("I like tea"), assistant("Noted.")])

    state = await manager.on_session_start([system("Be brief."), user("What do I like?")])
    assert [m["role"] for m in state] == ["system", "user", "system"]
    block = state[-1]["content"]
    assert block.startswith("<memory-context>\n[System note:")
    assert block.endswith("[Long-term Memory]\nUSER [I]: I like tea\n</memory-context>")
    assert set(state[-1]) == {"role", "content"}, "services refuse keys that they do not know"


async def test_the_block_is_replaced_and_goes_when_nothing_is_remembered(
    store: Store, manager: LLMMemoryManager
) -> None:
    await manager.save([memory("likes tea")])
    once = await manager.on_session_start([user("hello")])
    twice = await manager.on_session_start([*once, assistant("Hi."), user("again")])

    assert ["memory-context" in m["content"] for m in twice] == [False, False, False, True]
    await store.clear_namespace(ADA, prefix=True)
    assert await manager.on_session_start(twice) == [user("hello"), assistant("Hi."), user("again")]


async def test_a_state_without_memories_is_given_back_itself(manager: LLMMemoryManager) -> None:
    state = {"messages": [user("hello")], "n": 1}

    assert await manager.on_session_start(state) is state


@pytest.mark.parametrize("kind", [list, tuple, dict, Session])
async def test_a_state_of_any_kind_gets_its_block(manager: LLMMemoryManager, kind: Any) -> None:
    await manager.save([memory("likes tea")])
    said = [Said("user", "hello"), Said("assistant", "hi")]
    state = {
        list: said,
        tuple: tuple(said),
        dict: {"messages": said, "n": 1},
        Session: Session(tuple(said)),
    }[kind]

    found = await manager.on_session_start(state)
    assert type(found) is type(state)
    messages = found["messages"] if kind is dict else getattr(found, "messages", found)
    assert [m.role for m in messages] == ["user", "system", "assistant"]
    assert messages[0] is said[0]
    assert messages[2] is said[1]
    assert isinstance(messages[1], Said)
    assert messages[1].metadata == {"memory_block": "memory-context"}
    assert len(said) == 2
    assert memalchemy.memory.without_memory_blocks(found) == state


async def test_a_state_of_the_librarys_own_gets_its_block_in_its_users_namespace(
    store: Store,
) -> None:
    manager = memalchemy.LLMMemoryManager(
        store, namespace_resolver=lambda run: ("users", run.metadata["user"])
    )
    state = AgentState(messages=[Message.user("I'm a nurse.")], metadata={"user": "ada"})
    await manager.on_session_end(state)

    found = await manager.on_session_start(state)
    assert isinstance(found, AgentState)
    assert [m.role for m in found.messages] == ["user", "system"]
    assert "I'm a nurse." in found.messages[1].text
    assert found.messages[1].metadata == {"memory_block": "memory-context"}
    other = state.model_copy(update={"metadata": {"user": "bob"}})
    assert await manager.on_session_start(other) is other


async def test_the_block_stands_behind_the_prompt_and_not_behind_the_loops_own_notes(
    manager: LLMMemoryManager,
) -> None:
    await manager.save([memory("likes tea")])
    note = Said("user", "You have 3 steps left.", {"automated_note": True})
    state = [Said("system", "a"), Said("user", "hello"), Said("assistant", "x"), note]

    found = await manager.on_session_start(state)
    assert [m.role for m in found] == ["system", "user", "system", "assistant", "user"]
    alone = await manager.on_session_start([Said("system", "a"), Said("system", "b"), note])
    assert [m.role for m in alone] == ["system", "system", "system", "user"]
    assert alone[2].metadata


async def test_injected_memories_are_not_extracted_again(store: Store) -> None:
    seen: list[list[Any]] = []

    def extract(messages: list[Any]) -> list[Memory]:
        seen.append(messages)
        return []

    manager = memalchemy.LLMMemoryManager(store, extract_fn=extract)
    await manager.save([memory("likes tea")])
    state = await manager.on_session_start([user("hello")])
    await manager.on_session_end(state)

    assert seen == [[user("hello")]]


async def test_an_extract_function_may_be_a_coroutine_and_give_mappings(store: Store) -> None:
    class Extractor:
        async def __call__(self, messages: list[Any]) -> list[Any]:
            await asyncio.sleep(0)
            return [{"type": "reference", "key": "wiki", "content": messages[0]["content"]}]

    manager = memalchemy.LLMMemoryManager(store, extract_fn=Extractor())
    await manager.on_session_end([user("see the wiki")])

    assert await manager.retrieve() == [Memory(MemoryType.REFERENCE, "wiki", "see the wiki")]


async def test_keywords_find_each_type_and_the_same_memories_again(store: Store) -> None:
    manager = memalchemy.LLMMemoryManager(store)
    said = [
        user("I’m a nurse."),
        user("The deadline is near"),
        user("See https://example.org/board"),
        user("Please don't use tabs"),
        user("Perfect, thanks"),
        user("What is the weather?"),
        assistant("I'm a model. Never mind the deadline."),
    ]
    await manager.on_session_end(said)
    await manager.on_session_end(said)

    found = {one.key.rsplit("_", 1)[0]: one for one in await manager.retrieve()}
    assert {kind: one.type.value for kind, one in found.items()} == {
        "user_context": "user",
        "project_context": "project",
        "reference": "reference",
        "feedback": "feedback",
        "feedback_confirmed": "feedback",
    }
    assert await store.count(("memory",), prefix=True) == 5
    assert found["feedback"].metadata == {"source": "heuristic", "signal": "correction"}


async def test_events_say_how_many_and_of_which_types_and_nothing_that_was_said(
    db: Database, manager: LLMMemoryManager
) -> None:
    with events() as told:
        await manager.on_session_end([user("Secret plans")])
        await manager.on_session_start([user("hello")])

    assert [e.name for e in told] == ["memory.manager.extracted", "memory.manager.injected"]
    for event in told:
        assert event.tenant == db.tenant
        assert event.details["memory_count"] == 1
        assert event.details["types"] == ["user"]
        assert "Secret" not in repr(event)


async def test_a_failing_extraction_is_logged_and_told_and_costs_no_run(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    def extract(messages: list[Any]) -> list[Memory]:
        raise LookupError(f"cannot read {messages}")

    manager = memalchemy.LLMMemoryManager(store, extract_fn=extract)
    with events() as told, caplog.at_level(logging.DEBUG):
        await manager.on_session_end([user("Secret plans")])

    (event,) = told
    assert (event.name, event.error) == ("memory.manager.extract_failed", "LookupError")
    assert event.details["mode"] == "inline"
    assert f"LookupError at {__file__}:" in caplog.text
    assert "Secret" not in caplog.text


async def test_an_outage_at_the_start_is_an_error_and_no_empty_memory(tmp_path: Any) -> None:
    gone = memalchemy.Database(f"sqlite:///{tmp_path}/none.db", migrate="check")
    manager = memalchemy.LLMMemoryManager(gone)

    with pytest.raises(memalchemy.SchemaOutdated):
        await manager.on_session_start([user("hello")])
    with events() as told:
        await manager.on_session_end([user("I am a nurse")])
    assert [(e.name, e.error) for e in told] == [
        ("memory.manager.extract_failed", "SchemaOutdated")
    ]
    await gone.close()


# In the background


async def test_background_extraction_ends_by_drain_and_keeps_the_order_of_sessions(
    store: Store,
) -> None:
    async def extract(messages: list[Any]) -> list[Memory]:
        # Later sessions are faster: only their order makes the last one win.
        await steps(60 - 10 * int(messages[0]["content"]))
        return [memory(messages[0]["content"], key="last")]

    manager = memalchemy.LLMMemoryManager(store, extract_fn=extract, extract_mode="background")
    for n in range(6):
        await manager.on_session_end([user(str(n))])
    assert manager.extract_mode == "background"
    assert manager.pending_extractions > 0
    await manager.drain()

    assert manager.pending_extractions == 0
    assert contents(await manager.retrieve()) == ["5"]
    item = await store.get_item(("memory", "user"), "last")
    assert item is not None
    assert item.version == 6


@pytest.mark.asyncio_only("a caller without await has one extraction after the other")
async def test_at_most_so_many_extractions_run_at_once(store: Store) -> None:
    running, most = 0, 0

    async def extract(messages: list[Any]) -> list[Memory]:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await steps(50)
        running -= 1
        return []

    manager = memalchemy.LLMMemoryManager(
        store,
        extract_fn=extract,
        extract_mode="background",
        max_concurrent_extractions=2,
        namespace_resolver=lambda run: ("users", run.metadata["user"]),
    )
    for n in range(8):
        await manager.on_session_end([user("x")], metadata={"user": str(n)})
    await manager.drain()

    assert most == 2


async def test_a_background_failure_is_told_and_the_next_one_runs(store: Store) -> None:
    def extract(messages: list[Any]) -> list[Memory]:
        if messages[0]["content"] == "bad":
            raise LookupError
        return [memory("good")]

    manager = memalchemy.LLMMemoryManager(store, extract_fn=extract, extract_mode="background")
    with events() as told:
        await manager.on_session_end([user("bad")])
        await manager.on_session_end([user("good")])
        await manager.drain()

    assert [e.name.rsplit(".", 1)[1] for e in told] == ["extract_failed", "extracted"]
    assert told[0].details["mode"] == "background"
    assert contents(await manager.retrieve()) == ["good"]


async def test_a_background_job_writes_where_its_session_was(store: Store) -> None:
    manager = memalchemy.LLMMemoryManager(
        store, extract_fn=words_of, extract_mode="background", namespace_prefix=ADA
    )
    with manager.scoped(BOB):
        await manager.on_session_end([user("bob's")])
    await manager.on_session_end([user("ada's")])
    await manager.drain()

    assert contents(await manager.retrieve()) == ["ada's"]
    assert contents(await manager.retrieve(namespaces=[BOB])) == ["bob's"]


@pytest.mark.asyncio_only("without await there is one event loop")
def test_a_manager_serves_several_event_loops(tmp_path: Any) -> None:
    db = memalchemy.Database(f"sqlite:///{tmp_path}/loops.db")
    manager = memalchemy.LLMMemoryManager(db, extract_fn=words_of, extract_mode="background")

    async def session(said: str) -> None:
        await manager.on_session_end([user(said)])
        await manager.drain()

    async def left_alone() -> None:
        await manager.on_session_end([user("gone with its loop")])

    asyncio.run(session("first of all"))
    asyncio.run(left_alone())
    assert manager.pending_extractions == 0
    asyncio.run(session("second of all"))

    async def found() -> list[Memory]:
        try:
            return await manager.retrieve()
        finally:
            await db.close()

    assert contents(asyncio.run(found()))[:1] == ["second of all"]


@pytest.mark.asyncio_only("without await there is one event loop")
def test_a_job_whose_loop_was_closed_keeps_nobody_waiting(tmp_path: Any) -> None:
    db = memalchemy.Database(f"sqlite:///{tmp_path}/loops.db")
    is_stuck = asyncio.Event()

    async def extract(messages: list[Any]) -> list[Memory]:
        if messages[0]["content"] == "stuck":
            is_stuck.set()
            await asyncio.get_running_loop().create_future()
        return [memory("saved")]

    manager = memalchemy.LLMMemoryManager(db, extract_fn=extract, extract_mode="background")

    async def begin() -> None:
        await manager.on_session_end([user("stuck")])
        await is_stuck.wait()

    async def session() -> list[Memory]:
        async with asyncio.timeout(A_WHILE):
            await manager.on_session_end([user("x")])
            assert manager.pending_extractions == 1
            await manager.drain()
            found = await manager.retrieve()
            await db.close()
            return found

    loop = asyncio.new_event_loop()
    # The job that is left would be told of whenever it is collected, in another test's log.
    loop.set_exception_handler(lambda *_: None)
    loop.run_until_complete(begin())
    loop.close()
    assert contents(asyncio.run(session())) == ["saved"]


async def test_a_background_extraction_takes_no_connection(db: Database, store: Store) -> None:
    manager = memalchemy.LLMMemoryManager(store, extract_mode="background")

    async with db.transaction() as tx:
        with pytest.raises(ValueError, match="outlives a transaction"):
            await manager.on_session_end([user("x")], connection=tx)


async def test_a_rolled_back_host_transaction_leaves_no_memory(
    db: Database, manager: LLMMemoryManager
) -> None:
    async with db.transaction() as tx:
        await manager.on_session_end([user("I like tea")], connection=tx)
        state = await manager.on_session_start([user("hello")], connection=tx)
        assert "I like tea" in state[-1]["content"]
        await tx.rollback()

    assert await manager.retrieve() == []


# Whose memories


async def test_users_do_not_see_each_others_memories(store: Store) -> None:
    manager = memalchemy.LLMMemoryManager(
        store,
        extract_fn=words_of,
        namespace_resolver=lambda run: ("users", run.metadata["user_id"]),
    )
    for name in ("ada", "bob", "a/b", "a~1b"):
        await manager.on_session_end(
            {"messages": [user(f"{name} was here")], "metadata": {"user_id": name}}
        )
    for name in ("ada", "bob", "a/b", "a~1b"):
        state = await manager.on_session_start([user("who?")], metadata={"user_id": name})
        assert state[-1]["content"].count("was here") == 1
        assert f"{name} was here" in state[-1]["content"]


async def test_tenants_do_not_see_each_others_memories(db: Database) -> None:
    await memalchemy.LLMMemoryManager(db).save([memory("mine")])

    other = memalchemy.LLMMemoryManager(db.for_tenant(f"{db.tenant}-2"))
    assert await other.retrieve() == []


async def test_an_asynchronous_resolver_is_told_of_the_run(store: Store) -> None:
    told: list[RunInfo] = []

    async def resolver(run: RunInfo) -> tuple[str, ...]:
        told.append(run)
        return ADA

    manager = memalchemy.LLMMemoryManager(store, extract_fn=words_of, namespace_resolver=resolver)
    state = {"messages": [user("x")], "run_id": "r1", "agent_id": "a1", "metadata": {"n": 1}}
    await manager.on_session_end(state, metadata={"m": 2})

    assert told == [RunInfo("r1", {"n": 1, "m": 2}, "a1")]
    assert contents(await manager.retrieve(namespaces=[ADA])) == ["x"]


def _raises(run: RunInfo) -> Any:
    raise LookupError(str(run.metadata))


async def session_of(store: Store, resolver: Callable[[RunInfo], Any]) -> list[Event]:
    """A session that reads and writes nothing; the events that it told."""
    every = memalchemy.LLMMemoryManager(store)
    await every.save([memory("everybody's")])
    injected = await every.on_session_start([user("hello")])
    assert len(injected) == 2
    manager = memalchemy.LLMMemoryManager(store, extract_fn=words_of, namespace_resolver=resolver)

    with events() as told:
        state = await manager.on_session_start(injected, metadata={"key": "Secret"})
        await manager.on_session_end(injected)

    assert state == [user("hello")], "the block of an earlier turn is somebody else's"
    assert await store.count((), prefix=True) == 1
    return told


async def test_a_resolver_that_says_nobody_leaves_a_run_without_memory(store: Store) -> None:
    assert await session_of(store, lambda run: None) == []


@pytest.mark.parametrize(
    "resolver",
    [
        _raises,
        lambda run: (),
        lambda run: "users",
        lambda run: ("users", ""),
        lambda run: ("users", " "),
        lambda run: ("users", None),
        lambda run: 7,
        lambda run: MemoryScope(()),
    ],
)
async def test_a_resolver_that_fails_leaves_a_run_without_memory_and_says_so(
    store: Store, resolver: Callable[[RunInfo], Any], caplog: pytest.LogCaptureFixture
) -> None:
    told = await session_of(store, resolver)

    assert [e.name for e in told] == ["memory.manager.injected", "memory.manager.extract_failed"]
    assert all(event.error for event in told)
    assert "namespace_resolver failed" in caplog.text
    assert "Secret" not in caplog.text


async def test_with_a_resolver_a_call_outside_a_session_has_no_namespace(store: Store) -> None:
    manager = memalchemy.LLMMemoryManager(store, namespace_resolver=lambda run: ADA)

    for call in (lambda: manager.retrieve(), lambda: manager.save([memory("x")])):
        with pytest.raises(ValueError, match="resolved for each run"):
            await call()
    with manager.scoped(ADA):
        await manager.save([memory("x")])
        assert contents(await manager.retrieve()) == ["x"]
    assert contents(await manager.retrieve(namespaces=[ADA])) == ["x"]


async def test_each_task_has_its_own_scope(store: Store) -> None:
    manager = memalchemy.LLMMemoryManager(store, namespace_prefix=("nobody",))

    async def work(name: str) -> list[str]:
        with manager.scoped(("users", name)):
            await manager.save([memory(name)])
            await asyncio.sleep(0)
            return contents(await manager.retrieve())

    assert await asyncio.gather(*map(work, "abc")) == [["a"], ["b"], ["c"]]
    assert manager.active_namespace == ("nobody",)
    assert await manager.retrieve() == []


async def test_a_scope_recalls_from_shared_namespaces_and_writes_to_its_own(store: Store) -> None:
    team = ("users", "team")
    manager = memalchemy.LLMMemoryManager(store)
    with manager.scoped(team):
        await manager.save([memory("the team meets on Monday", key="meets")])
    with manager.scoped(ADA, recall=[team]):
        assert manager.active_recall == (ADA, team)
        await manager.save([memory("likes tea")])
        assert sorted(contents(await manager.retrieve())) == [
            "likes tea",
            "the team meets on Monday",
        ]

    assert contents(await manager.retrieve(namespaces=[team])) == ["the team meets on Monday"]
    with manager.scoped(ADA):
        assert contents(await manager.retrieve()) == ["likes tea"]


async def test_a_resolver_may_name_what_is_recalled(store: Store) -> None:
    manager = memalchemy.LLMMemoryManager(
        store,
        extract_fn=words_of,
        namespace_resolver=lambda run: MemoryScope(ADA, (("users", "team"),)),
    )
    with manager.scoped(("users", "team")):
        await manager.save([memory("shared")])
    await manager.on_session_end([user("own")])

    text = (await manager.on_session_start([user("hello")]))[-1]["content"]
    assert "shared" in text
    assert "own" in text
    assert await store.count(("users", "team"), prefix=True) == 1


async def test_another_tenants_namespace_is_left_out_and_logged(
    store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    manager = memalchemy.LLMMemoryManager(store)
    with manager.scoped(("other", "x")):
        await manager.save([memory("not yours")])

    with manager.scoped(ADA, recall=[("other", "x")]):
        assert await manager.retrieve() == []
    assert "of another tenant" in caplog.text
    with pytest.raises(ValueError, match="several tenants"):
        await manager.retrieve(namespaces=[ADA, ("other", "x")])


async def test_many_shared_memories_leave_room_for_the_users_own(store: Store) -> None:
    team = ("users", "team")
    manager = memalchemy.LLMMemoryManager(store, retrieve_limit=4)
    with manager.scoped(ADA):
        await manager.save([memory("likes tea", key="tea")])
    with manager.scoped(team):
        await manager.save([memory(f"tea {n}", key=f"k{n}") for n in range(30)])

    with manager.scoped(ADA, recall=[team]):
        assert contents(await manager.retrieve())[0] == "likes tea"
        assert contents(await manager.retrieve_relevant("tea"))[0] == "likes tea"


# Its arguments


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"extract_mode": "later"}, ValueError),
        ({"max_concurrent_extractions": 0}, ValueError),
        ({"max_memories": 0}, ValueError),
        ({"retrieve_limit": -1}, ValueError),
        ({"namespace_prefix": "users"}, TypeError),
        ({"namespace_prefix": ()}, ValueError),
        ({"namespace_prefix": ("users", "")}, ValueError),
        ({"extract_fn": "extract"}, TypeError),
        ({"namespace_resolver": ADA}, TypeError),
    ],
)
async def test_a_wrong_argument_is_refused(
    store: Store, wrong: dict[str, Any], error: type[Exception]
) -> None:
    with pytest.raises(error):
        memalchemy.LLMMemoryManager(store, **wrong)


def test_a_memory_is_checked() -> None:
    for wrong in (("nothing", "k", "c"), ("user", "", "c")):
        with pytest.raises(ValueError, match="memory"):
            Memory(*wrong)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        Memory("user", "k", math.pi)  # type: ignore[arg-type]
    given = {"type": "user", "key": "k", "content": "c"}
    assert Memory.from_store_value(given).to_store_value() == given | {"metadata": {}}
    one = Memory(MemoryType.USER, "k", "c", {"n": 1})
    assert one.to_store_value() == given | {"metadata": {"n": 1}}
    assert Memory.from_store_value(one.to_store_value()) == one
    assert one.updated_at is None
    assert {str(one) for one in MemoryType} == {"user", "feedback", "project", "reference"}
    with pytest.raises(ValueError, match="nothing"):
        MemoryType("nothing")


@pytest.mark.asyncio_only("it works on no database")
async def test_a_manager_of_ones_own_needs_three_methods() -> None:
    kept: list[Memory] = []

    class Mine(memalchemy.BaseMemoryManager):
        async def extract(self, messages: list[Any]) -> list[Memory]:
            return words_of(messages)

        async def retrieve(self, limit: int = 20) -> list[Memory]:
            return kept[:limit]

        async def save(self, memories: list[Memory]) -> None:
            kept.extend(memories)

    mine = Mine()
    await mine.on_session_end([user("tea it is")])
    assert "tea it is" in (await mine.on_session_start([user("?")]))[-1]["content"]
    assert contents(await mine.retrieve_relevant("anything", 1)) == ["tea it is"]
    await mine.drain()
    assert mine.pending_extractions == 0


async def test_the_noop_manager_does_nothing() -> None:
    manager = memalchemy.NoopMemoryManager()
    state = [user("I am a nurse")]

    assert await manager.on_session_start(state) is state
    await manager.on_session_end(state)
    await manager.save([memory("x")])
    assert await manager.retrieve() == await manager.extract(state) == []
