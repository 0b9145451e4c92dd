"""`@remember`: an agent that knows what its users said in earlier turns.

It wraps functions that take messages, and gives hooks to classes that a runner drives. Before a
call it does `UserMemoryStore.recall`, and after it `UserMemoryStore.learn`.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from memalchemy.adapters import ADAPTERS
from memalchemy.events import operation
from memalchemy.memory._fact_extraction import Extract
from memalchemy.memory._user_functions import awaited, log_failure
from memalchemy.memory.facts import check_user
from memalchemy.memory.prompt_block import FACTS_TAG, is_block, without_blocks
from memalchemy.memory.user_memory import UserMemoryStore
from memalchemy.messages import (
    check_messages,
    create_message,
    latest_prompt,
    read,
    role_of,
    text_of,
)

_log = logging.getLogger(__name__)

T = TypeVar("T", bound=Callable[..., Any])
R = TypeVar("R")

Arguments = Mapping[str, Any]
"""Arguments of a call by their names."""

UserResolver = Callable[[Arguments], str | Awaitable[str | None] | None]
"""Function of a call's arguments that gives the user's id; ``None`` for nobody."""

Settle = Callable[[Any], Coroutine[Any, Any, Any]]
"""Function that gives the result of a store or of a function, which may have to be awaited."""

RUNNER_HOOKS = ("on_start", "on_turn_complete", "on_tool_result", "on_finish")
"""Methods that a runner such as lauren-ai's calls on its agents."""

_TURN = "_memalchemy_remember"
"""Attribute of a runner's context that holds the turn, and mark of the hooks that set it."""


def remember(
    *bare: Any,
    store: UserMemoryStore | Any = None,
    user_id: UserResolver | None = None,
    extract: bool | Extract = True,
    inject: bool = True,
    top_k: int = 5,
    llm: Callable[[str], Any] | None = None,
    messages: str = "messages",
    method: str | None = None,
    on_error: Literal["log", "raise"] = "log",
) -> Callable[[T], T]:
    """Decorate a function, or a class of agents, so that it remembers its users.

    Before each call a block with the user's facts is added to the messages; the function gets a
    list of its own. After the call, facts are learnt from the turn, with the answer if it is a
    text, a message or a list of messages. Coroutine functions and async generators need a
    `UserMemoryStore`, plain functions and generators one of `memalchemy.sync`.

    Of a class, the method that takes messages is decorated. A class without such a method gets the
    hooks ``on_start(ctx)`` and ``on_finish(response, ctx)`` beside its own, if a runner drives it:
    if it is marked so, as lauren-ai's ``@agent`` does (above or below), has a hook, or has no
    methods. While a run lasts ``ctx.memory.messages()`` has the facts in a message before the
    user's latest; they are not stored in that memory. The arguments of a call are then the items of
    ``ctx.metadata``, with ``self``, ``ctx`` and ``conversation_id``.

    Args:
        store: the store with the facts; or a function of the call's arguments that returns it.
        user_id: function of the call's arguments, by name, that returns the user's id; by default
            the argument ``user_id``. If it returns ``None`` or an empty text, or raises, nothing is
            read or written in this call; an error is logged.
        extract: learn new facts; or a function that extracts them, see `UserMemoryStore.learn`.
        inject: add the block of facts.
        top_k: maximum number of facts in the block.
        llm: function of a prompt that returns a model's answer, to extract facts.
        messages: name of the argument with the messages.
        method: method of a class to decorate; by default the only one that takes messages.
        on_error: an error before the call is raised. One after it, when there is an answer, is
            logged and published as ``memory.facts.extract_failed``; ``raise`` raises it, too.

    The argument ``conversation_id``, if there is one, becomes the source of the facts.

    Raises:
        TypeError: the decorator is used without parentheses, *store* is no store, or what is
            decorated takes no messages and is not driven by a runner.
    """
    if bare:
        raise TypeError("@remember needs parentheses and a store: @remember(store=facts)")
    store = _check_store(store)
    if on_error not in ("log", "raise"):
        raise ValueError(f"on_error is 'log' or 'raise', not {on_error!r}")
    options = Options(
        store=store,
        user_id=user_id or (lambda arguments: arguments.get("user_id")),
        user_id_is_argument=user_id is None,
        extract=extract if callable(extract) else None,
        learns=bool(extract),
        inject=inject,
        top_k=top_k,
        llm=llm,
        messages=messages,
        on_error=on_error,
    )

    def decorate(target: T) -> T:
        if not inspect.isclass(target):
            wrapped: T = wrap_function(target, options)
            return wrapped
        if method is None and messages == "messages" and _is_driven_by_runner(target):
            add_hooks(target, options)
        else:
            wrap_method(target, method or _only_method(target, messages), options)
        return target

    return decorate


@dataclass(frozen=True, slots=True)
class Options:
    """Arguments of `remember`."""

    store: Any
    user_id: UserResolver
    user_id_is_argument: bool
    extract: Extract | None
    learns: bool
    inject: bool
    top_k: int
    llm: Callable[[str], Any] | None
    messages: str
    on_error: str


class Turn:
    """One turn of a conversation: recall before it, and learning after it.

    Args:
        arguments: function that gives the arguments of the call.
        settle: `awaited`, or `must_not_await` in synchronous code.
    """

    def __init__(
        self, options: Options, arguments: Callable[[], Arguments], settle: Settle
    ) -> None:
        self._options = options
        self._arguments = arguments
        self._settle = settle
        self._user: str | None = None
        self._store: Any = None
        self.messages: list[Any] = []
        """Messages of the turn without a block of facts."""

    async def recall(self, messages: list[Any]) -> list[Any]:
        """Find out the user, and return the messages with the block of their facts."""
        options = self._options
        # The block of an earlier turn, perhaps another user's, is removed in any case.
        self.messages = without_blocks(messages, FACTS_TAG)
        self._user = await self._resolve_user()
        if self._user is None:
            return list(self.messages)
        is_function = callable(options.store)
        self._store = options.store(self._arguments()) if is_function else options.store
        if not options.inject:
            return list(self.messages)
        recalled = self._store.recall(self._user, self.messages, options.top_k)
        with_facts: list[Any] = await self._settle(recalled)
        return with_facts

    async def learn(self, messages: list[Any]) -> None:
        """Learn facts about the user from the messages of the turn."""
        options = self._options
        if self._user is None or not options.learns:
            return
        conversation = self._arguments().get("conversation_id")
        try:
            await self._settle(
                self._store.learn(
                    self._user,
                    messages,
                    extract=options.extract,
                    llm=options.llm,
                    conversation_id=conversation if isinstance(conversation, str) else None,
                )
            )
        except Exception as error:
            if options.on_error == "raise":
                raise
            # The store has published it as an event.
            log_failure(_log, "facts of a user's turn were not kept", error)

    async def _resolve_user(self) -> str | None:
        """Return the user's id; ``None`` without a valid one, or after an error."""
        try:
            user = await self._settle(self._options.user_id(self._arguments()))
            return None if user is None or user == "" else check_user(user)
        except Exception as error:  # noqa: BLE001 - fails closed: the call goes on without a memory
            log_failure(_log, "@remember found no user, so this call has no memory", error)
            with operation("memory.facts.injected") as event:
                event.error, event.details["facts"] = type(error).__name__, 0
            return None


class Call:
    """Call of a decorated function."""

    def __init__(self, bound: inspect.BoundArguments, options: Options, settle: Settle) -> None:
        bound.apply_defaults()
        self._bound = bound
        self._messages = options.messages
        self._turn = Turn(options, self._named_arguments, settle)

    @property
    def args(self) -> tuple[Any, ...]:
        """Positional arguments for the function."""
        return self._bound.args

    @property
    def kwargs(self) -> dict[str, Any]:
        """Keyword arguments for the function."""
        return self._bound.kwargs

    async def before(self) -> None:
        """Replace the messages by those with the user's facts."""
        arguments = self._bound.arguments
        given = check_messages(arguments[self._messages])
        arguments[self._messages] = await self._turn.recall(given)

    async def after(self, reply: Any) -> None:
        """Learn from the turn and the reply."""
        messages = self._turn.messages
        await self._turn.learn([*messages, *_reply_messages(reply, messages)])

    def _named_arguments(self) -> dict[str, Any]:
        """Return the arguments by name, those of ``**kw`` among them."""
        named = dict(self._bound.arguments)
        for parameter in self._bound.signature.parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                named |= named.pop(parameter.name, {})
        return named


def wrap_function(function: Any, options: Options) -> Any:
    """Return *function* with a memory; the wrapper is a function of the same kind.

    Raises:
        TypeError: it is no function, or does not take messages or the user's id.
    """
    if not callable(function):
        raise TypeError(f"@remember is for functions and classes, not {function!r}")
    signature, name = inspect.signature(function), getattr(function, "__qualname__", function)
    if options.messages not in signature.parameters:
        raise TypeError(
            f"{name} has no argument {options.messages!r}: @remember is for functions that take "
            "messages; messages= names the argument"
        )
    if options.user_id_is_argument and not _accepts(signature, "user_id"):
        raise TypeError(
            f"{name} has no argument 'user_id': give @remember a user_id=, a function of the "
            "arguments that returns the user's id"
        )
    return functools.wraps(function)(_wrap(function, signature, options))


def _wrap(function: Any, signature: inspect.Signature, options: Options) -> Any:
    """Return the wrapper of a function: `answer` for a call, `stream` for a generator.

    Both are asynchronous. Around a plain function they never suspend, and run without a loop.
    """
    # The kind of an object that can be called is that of its method.
    is_object = not (inspect.isroutine(function) or isinstance(function, functools.partial))
    code = type(function).__call__ if is_object else function
    is_async = inspect.iscoroutinefunction(code) or inspect.isasyncgenfunction(code)
    settle = awaited if is_async else must_not_await

    async def answer(*args: Any, **kw: Any) -> Any:
        call = Call(signature.bind(*args, **kw), options, settle)
        await call.before()
        reply = function(*call.args, **call.kwargs)
        reply = await reply if is_async else reply
        await call.after(reply)
        return reply

    async def stream(*args: Any, **kw: Any) -> AsyncGenerator[Any]:
        call = Call(signature.bind(*args, **kw), options, settle)
        await call.before()
        pieces: list[Any] = []
        given = function(*call.args, **call.kwargs)
        if is_async:
            async for piece in given:
                pieces.append(piece)
                yield piece
        else:
            for piece in given:
                pieces.append(piece)
                yield piece
        await call.after(_join_pieces(pieces))

    def plain_answer(*args: Any, **kw: Any) -> Any:
        return run_without_loop(answer(*args, **kw))

    def plain_stream(*args: Any, **kw: Any) -> Generator[Any]:
        pieces = stream(*args, **kw)
        try:
            while True:
                try:
                    piece = run_without_loop(pieces.__anext__())
                except StopAsyncIteration:
                    return
                yield piece
        finally:
            run_without_loop(pieces.aclose())

    if inspect.isasyncgenfunction(code):
        return stream
    if inspect.iscoroutinefunction(code):
        return answer
    return plain_stream if inspect.isgeneratorfunction(code) else plain_answer


async def must_not_await(result: Any) -> Any:
    """Return a result in synchronous code.

    Raises:
        TypeError: it would have to be awaited.
    """
    if not inspect.isawaitable(result):
        return result
    close = getattr(result, "close", None)
    if close is not None:
        close()
    raise TypeError(
        "a plain function cannot await: give @remember a UserMemoryStore of memalchemy.sync and "
        "plain functions, or decorate an asynchronous function"
    )


def run_without_loop(work: Coroutine[Any, Any, R]) -> R:
    """Run a coroutine that never suspends, and return its result."""
    try:
        work.send(None)
    except StopIteration as done:
        result: R = done.value
        return result
    raise AssertionError("a coroutine around a plain function waited for something")


def wrap_method(cls: type, name: str, options: Options) -> None:
    """Decorate a method of a class; a static or a class method stays one.

    Raises:
        TypeError: there is no such method.
    """
    member = inspect.getattr_static(cls, name, None)
    if member is None:
        raise TypeError(f"{cls.__name__} has no method {name!r} for @remember to wrap")
    if isinstance(member, (staticmethod, classmethod)):
        setattr(cls, name, type(member)(wrap_function(member.__func__, options)))
    else:
        setattr(cls, name, wrap_function(getattr(cls, name), options))


class Run:
    """Run of an agent that a runner drives."""

    def __init__(self, agent: Any, ctx: Any, options: Options) -> None:
        self._agent, self._ctx = agent, ctx
        self._options = options
        self._turn = Turn(options, self._named_arguments, awaited)
        self._block: str | None = None

    async def before(self) -> None:
        """Add the user's facts to the messages of the agent's memory while the run lasts."""
        messages = await self._turn.recall(check_messages(self._stored_messages()))
        if self._options.user_id_is_argument and "user_id" not in self._named_arguments():
            _log.warning("a run has no user_id in its metadata, so it has no memory")
        self._block = next((text_of(one) for one in messages if is_block(one, FACTS_TAG)), None)
        if self._block:
            self._ctx.memory.messages = self.messages

    async def after(self) -> None:
        """Learn from the messages of the run."""
        vars(self._ctx.memory).pop("messages", None)
        await self._turn.learn(self._stored_messages())

    def messages(self) -> list[Any]:
        """Return the memory's messages with the facts before the user's latest one.

        The facts are in a message of the user: no provider accepts a system message there.
        """
        given = self._stored_messages()
        place = latest_prompt(given) or 0
        block = create_message(given or [{}], "user", self._block, {})
        return [*given[:place], block, *given[place:]]

    def _stored_messages(self) -> list[Any]:
        memory = self._ctx.memory
        return list(type(memory).messages(memory))

    def _named_arguments(self) -> dict[str, Any]:
        ctx = self._ctx
        known = {"self": self._agent, "ctx": ctx, "conversation_id": ctx.conversation_id}
        return {**ctx.metadata, **known}


def add_hooks(cls: type, options: Options) -> None:
    """Add hooks to a class of agents that a runner drives.

    Raises:
        TypeError: it has them already.
    """
    start, finish = (getattr(cls, name, None) for name in ("on_start", "on_finish"))
    if hasattr(start, _TURN):
        raise TypeError(f"{cls.__name__} remembers its users already")

    async def on_start(self: Any, ctx: Any) -> None:
        if start is not None:
            await awaited(start(self, ctx))
        run = Run(self, ctx, options)
        await run.before()
        setattr(ctx, _TURN, run)

    async def on_finish(self: Any, response: Any, ctx: Any) -> None:
        run = vars(ctx).pop(_TURN, None)
        try:
            if run is not None:
                await run.after()
        finally:
            if finish is not None:
                await awaited(finish(self, response, ctx))

    setattr(on_start, _TURN, True)
    cls.on_start, cls.on_finish = on_start, on_finish  # type: ignore[attr-defined]


def _check_store(store: Any) -> Any:
    """Return a store of facts, or a function that gives one."""
    store = getattr(store, "native", store)  # of an adapter
    is_store = all(callable(getattr(store, name, None)) for name in ("recall", "learn"))
    if isinstance(store, type) or not (is_store or callable(store)):
        given = repr(store) if store is None or isinstance(store, str) else type(store).__name__
        raise TypeError(
            "@remember needs to know where the facts are: store= is a UserMemoryStore, or a "
            f"function of a call's arguments that returns one, not {given}"
        )
    return store


def _is_driven_by_runner(cls: type) -> bool:
    """Return whether a runner drives a class by hooks; no method of it takes messages then."""
    methods = [n for n in dir(cls) if not n.startswith("_") and callable(getattr(cls, n, None))]
    if any(_takes_messages(getattr(cls, name), "messages") for name in (*methods, "__call__")):
        return False
    is_marked = any(hasattr(cls, mark) for one in ADAPTERS.all() for mark in one.agent_marks)
    return is_marked or not methods or any(name in RUNNER_HOOKS for name in methods)


def _only_method(cls: type, messages: str) -> str:
    """Return the name of the only method that takes messages."""
    public = [name for name in dir(cls) if not name.startswith("_") or name == "__call__"]
    found = [name for name in public if _takes_messages(getattr(cls, name, None), messages)]
    if len(found) == 1:
        return found[0]
    what = "no method" if not found else f"several methods ({', '.join(found)})"
    raise TypeError(
        f"{cls.__name__} has {what} with an argument {messages!r}: method= names the one to wrap"
    )


def _takes_messages(member: Any, messages: str) -> bool:
    is_method = inspect.isfunction(member) or inspect.ismethod(member)
    return is_method and messages in inspect.signature(member).parameters


def _accepts(signature: inspect.Signature, name: str) -> bool:
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    return name in signature.parameters or inspect.Parameter.VAR_KEYWORD in kinds


def _reply_messages(reply: Any, before: list[Any]) -> list[Any]:
    """Return the messages of an agent's reply that were not among those before it."""
    if isinstance(reply, str):
        return [create_message(before or [{}], "assistant", reply, {})]
    if isinstance(reply, (list, tuple)):
        known = {id(message) for message in before}
        return [m for m in reply if role_of(m) and id(m) not in known]
    if role_of(reply):
        return [reply]
    content = read(reply, "content")
    return _reply_messages(content, before) if isinstance(content, str) else []


def _join_pieces(pieces: list[Any]) -> Any:
    """Return the reply that was streamed: the pieces of a text as one, or the messages."""
    if all(isinstance(piece, str) for piece in pieces):
        return "".join(pieces)
    return pieces
