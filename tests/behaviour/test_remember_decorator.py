"""`@remember`: agents that know what their users said in earlier turns."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest
from memory_helpers import Said, assistant, events, system, user

import memalchemy
from memalchemy import Database, Store, UserMemoryStore, remember

MEMORY = {"user_id": lambda call: call["user_id"]}


@pytest.fixture
def facts(store: Store) -> UserMemoryStore:
    return memalchemy.UserMemoryStore(store)


def block_of(messages: list[Any]) -> str:
    return "\n".join(m["content"] for m in messages if m["role"] == "system")


async def test_the_next_call_knows_what_the_user_said(facts: UserMemoryStore) -> None:
    @remember(store=facts)
    async def agent(messages: list[Any], user_id: str) -> str:
        """Answers."""
        return block_of(messages) or "nothing"

    assert agent.__name__ == "agent"
    assert agent.__doc__ == "Answers."
    assert await agent([user("Hello, I like tea.")], user_id="ada") == "nothing"
    assert "- Hello, I like tea. (confidence: high)" in await agent([user("?")], "ada")
    assert await agent([user("?")], user_id="bob") == "nothing"


async def test_the_callers_messages_are_left_as_they_are(facts: UserMemoryStore) -> None:
    await facts.learn("ada", [user("I like tea")])

    @remember(store=facts)
    async def agent(messages: list[Any], *, user_id: str) -> str:
        messages.append(assistant("x"))
        return "x"

    given = [system("s"), user("hello")]
    await agent(given, user_id="ada")
    assert given == [system("s"), user("hello")]


async def test_a_class_of_agents_remembers_in_the_method_that_takes_messages(
    facts: UserMemoryStore,
) -> None:
    @remember(store=facts, user_id=lambda call: call["self"].user)
    class Agent:
        def __init__(self, name: str) -> None:
            self.user = name

        async def run(self, messages: list[Any], **options: Any) -> Said:
            return Said("assistant", block_of(messages))

        async def other(self, text: str) -> str:
            return text

    ada = Agent("ada")
    await ada.run([user("I live in Oslo")])
    assert "I live in Oslo" in (await ada.run([user("where?")])).content
    assert (await Agent("bob").run([user("where?")])).content == ""
    assert await ada.other("x") == "x"


async def test_the_method_can_be_named(facts: UserMemoryStore) -> None:
    class Agent:
        async def run(self, messages: list[Any], user_id: str) -> str:
            return "run"

        async def __call__(self, history: list[Any], user_id: str) -> str:
            return block_of(history)

    with pytest.raises(TypeError, match="no method with an argument 'turns'"):
        remember(store=facts, messages="turns")(Agent)
    remember(store=facts, method="__call__", messages="history")(Agent)
    await Agent()([user("I like tea")], "ada")
    assert "I like tea" in await Agent()([user("?")], "ada")


@pytest.mark.parametrize("named", [None, "run"])
async def test_a_static_method_stays_one(facts: UserMemoryStore, named: str | None) -> None:
    @remember(store=facts, method=named)
    class Agent:
        @staticmethod
        async def run(messages: list[Any], user_id: str) -> str:
            return block_of(messages)

    await Agent.run([user("I like tea")], "ada")
    assert "I like tea" in await Agent().run([user("?")], user_id="ada")


@pytest.mark.parametrize("named", [None, "run"])
async def test_a_class_method_stays_one(facts: UserMemoryStore, named: str | None) -> None:
    @remember(store=facts, method=named, user_id=lambda call: call["cls"].user)
    class Agent:
        user = "ada"

        @classmethod
        async def run(cls, messages: list[Any]) -> str:
            return cls.user + block_of(messages)

    class Other(Agent):
        user = "bob"

    await Agent.run([user("I like tea")])
    assert "I like tea" in await Agent().run([user("?")])
    assert await Other.run([user("?")]) == "bob"


async def test_several_methods_that_take_messages_are_asked_about(facts: UserMemoryStore) -> None:
    class Agent:
        async def run(self, messages: list[Any], user_id: str) -> None: ...
        async def chat(self, messages: list[Any], user_id: str) -> None: ...

    with pytest.raises(TypeError, match=r"several methods \(chat, run\).*method="):
        remember(store=facts)(Agent)


async def test_a_stream_is_passed_on_and_learnt_from_at_its_end(facts: UserMemoryStore) -> None:
    heard: list[Any] = []

    def extract(messages: list[Any]) -> list[str]:
        heard.extend(messages)
        return ["User likes tea"]

    @remember(store=facts, extract=extract)
    async def agent(messages: list[Any], user_id: str) -> AsyncIterator[str]:
        for word in ("No", "ted."):
            yield word

    assert [word async for word in agent([user("tea!")], "ada")] == ["No", "ted."]
    assert heard == [user("tea!"), assistant("Noted.")]
    assert await facts.count("ada") == 1


@pytest.mark.parametrize(
    "reply",
    ["Noted.", assistant("Noted."), [user("tea!"), assistant("Noted.")], Said("", "Noted.")],
)
async def test_the_answer_is_part_of_the_turn(facts: UserMemoryStore, reply: Any) -> None:
    heard: list[Any] = []
    said = [user("tea!")]
    if isinstance(reply, list):
        reply = [said[0], reply[1]]

    @remember(store=facts, extract=lambda messages: heard.extend(messages))
    async def agent(messages: list[Any], user_id: str) -> Any:
        return reply

    assert await agent(said, "ada") is reply
    assert heard == [user("tea!"), assistant("Noted.")]


async def test_extract_and_inject_can_be_left_out(facts: UserMemoryStore) -> None:
    async def agent(messages: list[Any], user_id: str) -> str:
        return block_of(messages)

    silent = remember(store=facts, extract=False)(agent)
    deaf = remember(store=facts, inject=False)(agent)
    await silent([user("I like tea")], "ada")
    assert await facts.count("ada") == 0
    await deaf([user("I like tea")], "ada")
    assert await deaf([user("I like milk")], "ada") == ""
    assert "I like tea" in await silent([user("?")], "ada")
    one = remember(store=facts, extract=False, top_k=1)(agent)
    assert (await one([user("?")], "ada")).count("(confidence") == 1


async def test_a_model_is_asked_for_facts(facts: UserMemoryStore) -> None:
    @remember(store=facts, llm=lambda prompt: '[{"content": "User likes tea", "topics": ["tea"]}]')
    async def agent(messages: list[Any], user_id: str, conversation_id: str) -> str:
        return "ok"

    await agent([user("tea, please")], "ada", "c9")
    (found,) = await facts.list("ada", "tea")
    assert (found.content, found.source_conversation_id) == ("User likes tea", "c9")


async def test_the_user_may_be_among_any_keywords(facts: UserMemoryStore) -> None:
    @remember(store=facts)
    async def agent(messages: list[Any], **options: Any) -> Any:
        return options

    assert await agent([user("I like tea")], user_id="ada", n=1) == {"user_id": "ada", "n": 1}
    assert await facts.count("ada") == 1


async def test_objects_that_can_be_called_and_partial_functions_remember(
    facts: UserMemoryStore,
) -> None:
    class Agent:
        async def __call__(self, messages: list[Any], user_id: str) -> str:
            return block_of(messages)

    async def agent(prefix: str, messages: list[Any], user_id: str) -> str:
        return prefix + block_of(messages)

    await remember(store=facts)(Agent())([user("I like tea")], "ada")
    answer = await remember(store=facts)(partial(agent, "> "))([user("?")], "ada")
    assert answer.startswith("> ")
    assert "I like tea" in answer
    with pytest.raises(TypeError, match="no argument 'messages'"):
        remember(store=facts)(partial(agent, "> ", []))


async def test_the_store_may_be_a_function_of_the_call(facts: UserMemoryStore) -> None:
    @remember(store=lambda call: call["self"].facts)
    class Agent:
        def __init__(self) -> None:
            self.facts = facts

        async def run(self, messages: list[Any], user_id: str) -> None: ...

    await Agent().run([user("I like tea")], "ada")
    assert await facts.count("ada") == 1


async def _fails(call: Any) -> str:
    raise LookupError(str(call["messages"]))


@pytest.mark.parametrize(
    ("user_id", "is_error"),
    [
        (lambda call: None, False),
        (lambda call: "", False),
        (lambda call: " ", True),
        (lambda call: 7, True),
        (_fails, True),
        (lambda call: call["nothing"], True),
    ],
)
async def test_without_a_user_nothing_is_read_or_written(
    facts: UserMemoryStore, user_id: Any, is_error: bool, caplog: pytest.LogCaptureFixture
) -> None:
    await facts.learn("ada", [user("I like tea")])
    stale = await facts.recall("ada", [user("Secret: I like milk")])

    @remember(store=facts, user_id=user_id)
    async def agent(messages: list[Any]) -> list[Any]:
        return messages

    with events() as told:
        assert await agent(stale) == [user("Secret: I like milk")]
    assert [e.name for e in told if e.error] == ["memory.facts.injected"] * is_error
    assert ("found no user" in caplog.text) is is_error
    assert "Secret" not in caplog.text
    assert await facts.store.count((), prefix=True) == 1


async def test_a_failing_extraction_costs_no_answer_and_is_told(
    facts: UserMemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    def extract(messages: list[Any]) -> list[str]:
        raise LookupError(str(messages))

    async def agent(messages: list[Any], user_id: str) -> str:
        return "answer"

    with events() as told, caplog.at_level(logging.DEBUG):
        assert await remember(store=facts, extract=extract)(agent)([user("Secret")], "ada") == (
            "answer"
        )
    assert [(e.name, e.error) for e in told if e.error] == [
        ("memory.facts.extract_failed", "LookupError")
    ]
    assert "were not kept: LookupError" in caplog.text
    assert "Secret" not in caplog.text
    strict = remember(store=facts, extract=extract, on_error="raise")(agent)
    with pytest.raises(LookupError):
        await strict([user("x")], "ada")


async def test_an_outage_before_the_call_is_an_error(tmp_path: Any) -> None:
    gone = memalchemy.Database(f"sqlite:///{tmp_path}/none.db", migrate="check")
    called = []

    @remember(store=memalchemy.UserMemoryStore(gone))
    async def agent(messages: list[Any], user_id: str) -> None:
        called.append(messages)

    with pytest.raises(memalchemy.SchemaOutdated):
        await agent([user("x")], "ada")
    assert called == []
    await gone.close()


async def test_an_agents_own_error_is_its_own(facts: UserMemoryStore) -> None:
    @remember(store=facts)
    async def agent(messages: list[Any], user_id: str) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        await agent([user("I like tea")], "ada")
    assert await facts.count("ada") == 0


def test_wrong_uses_are_errors_that_say_what_to_do() -> None:
    async def agent(messages: list[Any], user_id: str) -> None: ...
    async def prompt(text: str, user_id: str) -> None: ...
    async def anonymous(messages: list[Any]) -> None: ...

    with pytest.raises(TypeError, match=r"parentheses and a store: @remember\(store=facts\)"):
        remember(agent)
    with pytest.raises(TypeError, match="where the facts are"):
        remember()(agent)
    with pytest.raises(TypeError, match="no argument 'messages'"):
        remember(store=lambda call: None)(prompt)
    with pytest.raises(TypeError, match="no argument 'user_id'"):
        remember(store=lambda call: None)(anonymous)
    with pytest.raises(ValueError, match="on_error"):
        remember(store=lambda call: None, on_error="ignore")  # type: ignore[arg-type]


async def test_messages_must_be_a_list_of_messages(facts: UserMemoryStore) -> None:
    @remember(store=facts)
    async def agent(messages: Any, user_id: str) -> None: ...

    with pytest.raises(TypeError, match="list of messages"):
        await agent("I like tea", "ada")


def test_a_plain_function_remembers_with_a_synchronous_store(tmp_path: Any) -> None:
    from memalchemy import sync

    with sync.Database(f"sqlite:///{tmp_path}/agent.db") as db:
        facts = sync.UserMemoryStore(db)

        @remember(store=facts)
        def agent(messages: list[Any], user_id: str) -> str:
            return block_of(messages)

        @remember(store=facts)
        def stream(messages: list[Any], user_id: str) -> Any:
            yield block_of(messages)

        assert agent([user("I like tea")], "ada") == ""
        assert "I like tea" in agent([user("?")], "ada")
        assert "I like tea" in "".join(stream([user("I like milk")], "ada"))
        assert "I like milk" in agent([user("milk?")], "ada")


def test_a_plain_generator_may_be_closed_early_and_in_a_running_loop(tmp_path: Any) -> None:
    from memalchemy import sync

    closed: list[bool] = []
    with sync.Database(f"sqlite:///{tmp_path}/agent.db") as db:
        facts = sync.UserMemoryStore(db)

        @remember(store=facts)
        def stream(messages: list[Any], user_id: str) -> Any:
            try:
                yield from ("I", " see")
            finally:
                closed.append(True)

        async def first_piece() -> str:
            pieces = stream([user("I like tea")], "ada")
            piece: str = next(pieces)
            pieces.close()
            return piece

        assert inspect.isgeneratorfunction(stream)
        assert asyncio.run(first_piece()) == "I"
        assert closed == [True]
        assert facts.count("ada") == 0  # the turn did not end
        assert list(stream([user("I like tea")], "ada")) == ["I", " see"]
        assert facts.count("ada") == 1


@pytest.mark.asyncio_only("it is about the wrong store for a plain function")
async def test_a_plain_function_with_an_asynchronous_store_is_told_what_to_do(
    db: Database,
) -> None:
    @remember(store=memalchemy.UserMemoryStore(db))
    def agent(messages: list[Any], user_id: str) -> None: ...

    with pytest.raises(TypeError, match=r"memalchemy\.sync"):
        agent([user("x")], "ada")


class Runner:
    """Drives agents by hooks, as lauren-ai's runner does."""

    def __init__(self) -> None:
        self.heard: list[list[Any]] = []
        self.memory = Buffer()

    async def run(self, agent: Any, text: str, **metadata: Any) -> None:
        self.memory.kept.append(user(text))
        ctx = SimpleNamespace(memory=self.memory, metadata=metadata, conversation_id="c")
        for name, given in (("on_start", [ctx]), ("on_finish", ["Noted.", ctx])):
            if name == "on_finish":
                self.heard.append(self.memory.messages())
                self.memory.kept.append(assistant("Noted."))
            if hook := getattr(agent, name, None):
                await hook(*given)


class Buffer:
    def __init__(self) -> None:
        self.kept: list[Any] = []

    def messages(self) -> list[Any]:
        return list(self.kept)


async def test_an_agent_without_a_method_remembers_where_a_runner_calls_its_hooks(
    facts: UserMemoryStore,
) -> None:
    @remember(store=facts, extract=True, inject=True, top_k=5)
    class PersonalAssistant: ...

    first = Runner()
    await first.run(PersonalAssistant(), "I like tea.", user_id="ada")
    (learnt,) = await facts.list("ada")
    assert (learnt.content, learnt.source_conversation_id) == ("I like tea.", "c")
    assert first.heard == [[user("I like tea.")]]

    other = Runner()
    await other.run(PersonalAssistant(), "What do I like?", user_id="ada")
    (heard,) = other.heard
    assert [message["role"] for message in heard] == ["user", "user"]
    assert "- I like tea. (confidence: high)" in heard[0]["content"]
    assert heard[1] == user("What do I like?")
    assert other.memory.messages() == [user("What do I like?"), assistant("Noted.")]

    await other.run(PersonalAssistant(), "And I?", user_id="bob")
    await other.run(PersonalAssistant(), "And who am I?")
    assert "tea" not in str(other.heard[1:])
    assert await facts.count("bob") == 0


async def test_a_run_without_a_user_is_said_to_have_no_memory(
    facts: UserMemoryStore, caplog: pytest.LogCaptureFixture
) -> None:
    @remember(store=facts)
    class Assistant: ...

    await Runner().run(Assistant(), "I like tea.")

    assert "no user_id in its metadata" in caplog.text


async def test_an_agents_own_hooks_are_called_as_well(facts: UserMemoryStore) -> None:
    called: list[Any] = []

    @remember(store=facts, user_id=lambda run: run["self"].user, inject=False)
    class Assistant:
        user = "ada"

        def on_start(self, ctx: Any) -> None:
            called.append(ctx.conversation_id)

        async def on_finish(self, response: Any, ctx: Any) -> None:
            called.append(response)

    await Runner().run(Assistant(), "I like tea.")

    assert called == ["c", "Noted."]
    assert await facts.count("ada") == 1


async def test_a_class_that_remembers_does_not_do_so_twice(facts: UserMemoryStore) -> None:
    @remember(store=facts)
    class Assistant: ...

    with pytest.raises(TypeError, match="Assistant remembers its users already"):
        remember(store=facts)(Assistant)


@pytest.mark.parametrize("store", [None, "user_memory", 5, UserMemoryStore, object()])
def test_an_invalid_store_is_refused_at_the_decoration(store: Any) -> None:
    with pytest.raises(TypeError, match="store= is a UserMemoryStore"):
        remember(store=store, extract=True, inject=True, top_k=5)


async def test_a_class_that_has_other_methods_only_is_refused(facts: UserMemoryStore) -> None:
    class Other:
        async def run(self, text: str) -> str:
            return text

    with pytest.raises(TypeError, match="no method with an argument 'messages'"):
        remember(store=facts)(Other)
    with pytest.raises(TypeError, match="no method 'chat'"):
        remember(store=facts, method="chat")(Other)
