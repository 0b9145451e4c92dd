"""`@remember`: an agent that knows its users, by what it learnt of them in earlier turns.

It wraps whatever takes messages, or gives hooks to a class that a runner drives; the work is
`UserMemoryStore.recall` before a call and `UserMemoryStore.learn` after it.
"""

from __future__ import annotations

import functools
import inspect
import logging
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

from memalchemy.events import operation
from memalchemy.memory.extracting import Extract
from memalchemy.memory.facts import check_user
from memalchemy.memory.fence import FACTS, is_block, without_blocks
from memalchemy.memory.managers.making import make
from memalchemy.memory.sessions import awaited, report
from memalchemy.memory.states import check_messages, latest_prompt
from memalchemy.memory.user_memory import UserMemoryStore
from memalchemy.messages import read, role_of, text_of

_log = logging.getLogger(__name__)

T = TypeVar("T", bound=Callable[..., Any])

UserResolver = Callable[[Mapping[str, Any]], str | Awaitable[str | None] | None]
"""The arguments of a call by name in, the user's id out; ``None`` for nobody."""

HOOKS = ("on_start", "on_turn_complete", "on_tool_result", "on_finish")
"""The methods that a runner calls on the agents that it drives, as lauren-ai's does."""
DRIVEN = ("__lauren_ai_agent__",)
"""Attributes of classes that a runner drives."""

_RUN = "_memalchemy_remember"
"""Where a context has its run; and the mark of a hook of ours."""

Steps = Generator[Any, Any, Any]
"""What a call does: yields what to wait for, if there is anything to wait for."""


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
    """Have a function, or a class of agents, remember its users.

    Before each call the messages get a block of the user's facts; the function is given a list of
    its own. After it, what the turn says of the user is kept, with the answer if it is a text, a
    message or a list of messages. Coroutine functions and asynchronous generators take a
    `UserMemoryStore`, plain functions and generators one of `memalchemy.sync`.

    A class without such a method is taken for one that a runner drives, as lauren-ai's ``@agent``
    classes are, if it is marked as one, has a hook, or has no methods; ``@agent`` may stand above
    or below. It gets the hooks ``on_start(ctx)`` and ``on_finish(response, ctx)``, beside its own.
    While a run lasts ``ctx.memory.messages()`` has the facts in a message before the user's latest,
    and nothing of it is kept in the memory. The arguments of a call are then what ``ctx.metadata``
    holds, with ``self``, ``ctx`` and ``conversation_id``.

    Args:
        store: where the facts are; or a function of the call's arguments that says where.
        user_id: a function of the call's arguments, by name, that gives the user's id. Without it,
            the argument ``user_id``. If there is no user, because it gives ``None``, an empty
            text, or raises, nothing is read or written in this call; an error is logged.
        extract: keep new facts; or a function that finds them, see `UserMemoryStore.learn`.
        inject: tell the function what is known.
        top_k: how many facts, at most.
        llm: a function of a prompt that gives a model's answer, to find new facts.
        messages: the name of the argument that holds the messages.
        method: of a class, the method to wrap; otherwise the only one that takes messages.
        on_error: an error before the call is raised. One after it, when there is an answer
            already, is logged and is the event ``memory.facts.extract_failed``; or ``raise``.

    The argument ``conversation_id``, if there is one, becomes the facts' source.

    Raises:
        TypeError: used without parentheses; with something else for a store, a name for one, too;
            or on something that takes no messages and that no runner drives.
    """
    if bare:
        raise TypeError("@remember needs parentheses and a store: @remember(store=facts)")
    store = _checked_store(store)
    if on_error not in ("log", "raise"):
        raise ValueError(f"on_error is 'log' or 'raise', not {on_error!r}")
    about = Remembering(
        store=store,
        user_id=user_id,
        extract=extract if callable(extract) else None,
        learns=bool(extract),
        inject=inject,
        top_k=top_k,
        llm=llm,
        messages=messages,
        on_error=on_error,
    )

    def apply(what: T) -> T:
        if not inspect.isclass(what):
            wrapped: T = about.around(what)
            return wrapped
        if method is None and messages == "messages" and _is_driven(what):
            add_hooks(what, about)
            return what
        name = method or _only_method(what, messages)
        member = inspect.getattr_static(what, name, None)
        if member is None:
            raise TypeError(f"{what.__name__} has no method {name!r} for @remember to wrap")
        if isinstance(member, (staticmethod, classmethod)):
            # What it wraps remembers: a class is then an argument of the call, as a self is.
            setattr(what, name, type(member)(about.around(member.__func__)))
        else:
            setattr(what, name, about.around(getattr(what, name)))
        return what

    return apply


@dataclass(frozen=True, slots=True)
class Remembering:
    """What a decorated function does before and after its own work."""

    store: Any
    user_id: UserResolver | None
    extract: Extract | None
    learns: bool
    inject: bool
    top_k: int
    llm: Callable[[str], Any] | None
    messages: str
    on_error: str

    def around(self, function: Any) -> Any:
        """*function*, with a memory."""
        if not callable(function):
            raise TypeError(f"@remember is for functions and classes, not {function!r}")
        signature, name = inspect.signature(function), getattr(function, "__qualname__", function)
        if self.messages not in signature.parameters:
            raise TypeError(
                f"{name} has no argument {self.messages!r}: @remember is for what "
                "takes messages; messages= names the argument"
            )
        if self.user_id is None and not _takes(signature, "user_id"):
            raise TypeError(
                f"{name} has no argument 'user_id': give @remember a user_id=, a "
                "function of the arguments that says whose facts"
            )
        return functools.wraps(function)(self._wrapper(function, signature))

    def _wrapper(self, function: Any, signature: inspect.Signature) -> Any:
        # An object that can be called says what it is by its method.
        is_object = not (inspect.isroutine(function) or isinstance(function, functools.partial))
        runs = type(function).__call__ if is_object else function
        if inspect.isasyncgenfunction(runs):

            async def streamed(*args: Any, **kw: Any) -> Any:
                call = Call(signature.bind(*args, **kw), self)
                await _awaiting(call.before())
                said = []
                async for piece in function(*call.args, **call.kwargs):
                    said.append(piece)
                    yield piece
                await _awaiting(call.after(_joined(said)))

            return streamed
        if inspect.iscoroutinefunction(runs):

            async def asynchronous(*args: Any, **kw: Any) -> Any:
                call = Call(signature.bind(*args, **kw), self)
                await _awaiting(call.before())
                reply = await function(*call.args, **call.kwargs)
                await _awaiting(call.after(reply))
                return reply

            return asynchronous
        if inspect.isgeneratorfunction(runs):

            def pulled(*args: Any, **kw: Any) -> Any:
                call = Call(signature.bind(*args, **kw), self)
                _waiting(call.before())
                said = []
                for piece in function(*call.args, **call.kwargs):
                    said.append(piece)
                    yield piece
                _waiting(call.after(_joined(said)))

            return pulled

        def plain(*args: Any, **kw: Any) -> Any:
            call = Call(signature.bind(*args, **kw), self)
            _waiting(call.before())
            reply = function(*call.args, **call.kwargs)
            _waiting(call.after(reply))
            return reply

        return plain


class Turn:
    """A turn of a conversation: whose it is, and what was said in it."""

    _said: list[Any]

    def __init__(self, about: Remembering) -> None:
        self._about = about
        self._user: str | None = None
        self._store: Any = None

    def _named(self) -> dict[str, Any]:
        """What is known of the turn, by name."""
        raise NotImplementedError

    def _begun(self, messages: list[Any]) -> Steps:
        """Find out whose turn it is; the messages, with the user's facts if that is wanted."""
        about = self._about
        self._said = without_blocks(messages, FACTS)
        # A block of an earlier turn, perhaps another user's, goes in any case.
        self._user = yield from self._resolved()
        if self._user is None:
            return list(self._said)
        self._store = about.store(self._named()) if callable(about.store) else about.store
        if not about.inject:
            return list(self._said)
        return (yield self._store.recall(self._user, self._said, about.top_k))

    def _ended(self, messages: list[Any]) -> Steps:
        """Keep what the turn says of the user."""
        about = self._about
        if self._user is None or not about.learns:
            return
        conversation = self._named().get("conversation_id")
        try:
            yield self._store.learn(
                self._user,
                messages,
                extract=about.extract,
                llm=about.llm,
                conversation_id=conversation if isinstance(conversation, str) else None,
            )
        except Exception as error:
            if about.on_error == "raise":
                raise
            report(_log, "what a user has said was not kept", error)  # beside the store's event

    def _resolved(self) -> Steps:
        """The user's id; ``None``, whatever goes wrong, if it is not a good one."""
        resolve = self._about.user_id or (lambda arguments: arguments.get("user_id"))
        try:
            user = yield resolve(self._named())
            return None if user is None or user == "" else check_user(user)
        except Exception as error:  # noqa: BLE001 - fails closed: the call goes on without a memory
            report(_log, "@remember found no user, so this call has no memory", error)
            with operation("memory.facts.injected") as event:
                event.error, event.details["facts"] = type(error).__name__, 0
            return None


class Call(Turn):
    """A call of a decorated function, with its arguments."""

    def __init__(self, bound: inspect.BoundArguments, about: Remembering) -> None:
        super().__init__(about)
        bound.apply_defaults()
        self._bound = bound

    @property
    def args(self) -> tuple[Any, ...]:
        """The positional arguments for the function."""
        return self._bound.args

    @property
    def kwargs(self) -> dict[str, Any]:
        """The named arguments for the function."""
        return self._bound.kwargs

    def before(self) -> Steps:
        """Put the user's facts among the messages that the function is given."""
        name, given = self._about.messages, self._bound.arguments
        given[name] = yield from self._begun(check_messages(given[name]))

    def after(self, reply: Any) -> Steps:
        """Keep what the turn says of the user."""
        yield from self._ended([*self._said, *_messages_in(reply, self._said)])

    def _named(self) -> dict[str, Any]:
        """The arguments by name, those of ``**kw`` among them."""
        named = dict(self._bound.arguments)
        for parameter in self._bound.signature.parameters.values():
            if parameter.kind is parameter.VAR_KEYWORD:
                named |= named.pop(parameter.name, {})
        return named


class Run(Turn):
    """A run of an agent that a runner drives."""

    def __init__(self, agent: Any, ctx: Any, about: Remembering) -> None:
        super().__init__(about)
        self._agent, self._ctx = agent, ctx
        self._block: str | None = None

    def before(self) -> Steps:
        """Have the memory give the user's facts with its messages while the run lasts."""
        messages = yield from self._begun(check_messages(self._messages()))
        if self._about.user_id is None and "user_id" not in self._named():
            _log.warning("a run has no user_id in its metadata, so it has no memory")
        self._block = next((text_of(one) for one in messages if is_block(one, FACTS)), None)
        if self._block:
            self._ctx.memory.messages = self.messages

    def after(self) -> Steps:
        """Keep what the run says of the user."""
        vars(self._ctx.memory).pop("messages", None)
        yield from self._ended(self._messages())

    def messages(self) -> list[Any]:
        """The memory's messages, and the facts before the latest thing that the user has said.

        They are in a message of the user's: no provider takes one of the system's in this place.
        """
        given = self._messages()
        at = latest_prompt(given) or 0
        block = make(given or [{}], "user", self._block, {})
        return [*given[:at], block, *given[at:]]

    def _messages(self) -> list[Any]:
        memory = self._ctx.memory
        return list(type(memory).messages(memory))

    def _named(self) -> dict[str, Any]:
        ctx = self._ctx
        known = {"self": self._agent, "ctx": ctx, "conversation_id": ctx.conversation_id}
        return {**ctx.metadata, **known}


def add_hooks(cls: type, about: Remembering) -> None:
    """Have the agents of a class that a runner drives remember their users.

    Raises:
        TypeError: the class remembers already.
    """
    start, finish = (getattr(cls, name, None) for name in ("on_start", "on_finish"))
    if hasattr(start, _RUN):
        raise TypeError(f"{cls.__name__} remembers its users already")

    async def on_start(self: Any, ctx: Any) -> None:
        if start is not None:
            await awaited(start(self, ctx))
        run = Run(self, ctx, about)
        await _awaiting(run.before())
        setattr(ctx, _RUN, run)

    async def on_finish(self: Any, response: Any, ctx: Any) -> None:
        run = vars(ctx).pop(_RUN, None)
        try:
            if run is not None:
                await _awaiting(run.after())
        finally:
            if finish is not None:
                await awaited(finish(self, response, ctx))

    setattr(on_start, _RUN, True)
    cls.on_start, cls.on_finish = on_start, on_finish  # type: ignore[attr-defined]


async def _awaiting(steps: Steps) -> None:
    """Take *steps*, each of which may have to be awaited."""
    try:
        step = next(steps)
        while True:
            try:
                answer = await step if inspect.isawaitable(step) else step
            except Exception as error:  # noqa: BLE001 - for the steps to deal with, or to raise
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration:
        return


def _waiting(steps: Steps) -> None:
    """Take *steps* that nothing has to be awaited of."""
    try:
        step = next(steps)
        while True:
            if inspect.isawaitable(step):
                close = getattr(step, "close", None)
                if close is not None:
                    close()
                step = steps.throw(
                    TypeError(
                        "a plain function cannot await: give @remember a UserMemoryStore of "
                        "memalchemy.sync and plain functions, or decorate an asynchronous function"
                    )
                )
            else:
                step = steps.send(step)
    except StopIteration:
        return


def _checked_store(store: Any) -> Any:
    """A store of facts, or a function that gives one."""
    store = getattr(store, "native", store)  # an adapter's
    is_store = all(callable(getattr(store, name, None)) for name in ("recall", "learn"))
    if isinstance(store, type) or not (is_store or callable(store)):
        given = repr(store) if store is None or isinstance(store, str) else type(store).__name__
        raise TypeError(
            "@remember needs to know where the facts are: store= is a UserMemoryStore, or a "
            f"function of a call's arguments that gives one, not {given}"
        )
    return store


def _is_driven(of: type) -> bool:
    """Whether a runner calls the hooks of a class, as no method of it takes messages."""
    methods = [n for n in dir(of) if not n.startswith("_") and callable(getattr(of, n, None))]
    if any(_takes_messages(getattr(of, name), "messages") for name in (*methods, "__call__")):
        return False
    marked = any(hasattr(of, name) for name in DRIVEN)
    return marked or not methods or any(name in HOOKS for name in methods)


def _only_method(of: type, messages: str) -> str:
    """The name of the method that takes messages."""
    public = [name for name in dir(of) if not name.startswith("_") or name == "__call__"]
    found = [name for name in public if _takes_messages(getattr(of, name, None), messages)]
    if len(found) == 1:
        return found[0]
    what = "no method" if not found else f"several methods ({', '.join(found)})"
    raise TypeError(
        f"{of.__name__} has {what} with an argument {messages!r}: method= names the one to remember"
    )


def _takes_messages(member: Any, messages: str) -> bool:
    is_method = inspect.isfunction(member) or inspect.ismethod(member)
    return is_method and messages in inspect.signature(member).parameters


def _takes(signature: inspect.Signature, name: str) -> bool:
    kinds = [parameter.kind for parameter in signature.parameters.values()]
    return name in signature.parameters or inspect.Parameter.VAR_KEYWORD in kinds


def _messages_in(reply: Any, before: list[Any]) -> list[Any]:
    """What an agent has answered, as messages."""
    if isinstance(reply, str):
        return [make(before or [{}], "assistant", reply, {})]
    if isinstance(reply, (list, tuple)):
        known = {id(message) for message in before}
        return [m for m in reply if role_of(m) and id(m) not in known]
    if role_of(reply):
        return [reply]
    content = read(reply, "content")
    return _messages_in(content, before) if isinstance(content, str) else []


def _joined(pieces: list[Any]) -> Any:
    """What was streamed: pieces of a text, or messages."""
    if all(isinstance(piece, str) for piece in pieces):
        return "".join(pieces)
    return pieces
