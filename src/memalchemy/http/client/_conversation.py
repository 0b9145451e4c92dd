"""`HTTPConversation`: the messages of a thread, kept by a server over HTTP."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from memalchemy.codec.values import jsonable
from memalchemy.contracts import UNSET, Match, Seconds, Unset, check_limit, check_time
from memalchemy.conversations import MessageHit
from memalchemy.conversations.conversation import parse_messages
from memalchemy.conversations.tool_exchange import ToolExchange
from memalchemy.http import operations, wire
from memalchemy.http.client._client import (
    RemoteClient,
    lifetime_seconds,
    log_bound,
    log_version,
    words_to_match,
)
from memalchemy.http.client._remote import RemoteServer
from memalchemy.http.client._thread_log import keys_and_times
from memalchemy.keys import check_list, check_namespace, check_thread_id
from memalchemy.state import Message


class HTTPConversation(RemoteClient):
    """Messages of a thread in order, on ``memalchemy serve``, as in `memalchemy.Conversation`.

    A policy that selects messages for the model runs in the client: ``manager.async_apply`` with
    what `history` returns. Outages are exceptions, as of `HTTPCheckpointer`, whose arguments these
    are.

    Args:
        thread_id: the thread.
        namespace: keeps several conversations of one thread apart.
    """

    _server: RemoteServer

    thread_id: str
    namespace: tuple[str, ...]

    def __init__(
        self,
        base_url: str,
        thread_id: str,
        headers: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None,
        timeout: float = 30.0,
        *,
        token: str | None = None,
        namespace: Iterable[str] = ("conversation",),
    ) -> None:
        super().__init__(base_url, headers, auth, timeout, token=token)
        self.thread_id = check_thread_id(thread_id)
        self.namespace = check_namespace(namespace)
        self._place = (self.namespace, self.thread_id)

    async def add(
        self,
        *messages: Any,
        keys: Sequence[str | None] | str | None = None,
        occurred_at: datetime | Sequence[datetime] | None = None,
        expected_version: int | Unset = UNSET,
        ttl: Seconds | None = None,
    ) -> list[int]:
        """Add messages, all or none, and return their positions.

        A message is a `Message`, a dict in OpenAI's format, or an object with role and content. A
        list of messages is accepted as well. Two texts are a message of the user and the
        assistant's answer. It is repeated if its answer is lost, and done once.

        Raises:
            TypeError, ValueError: one of them is not a message; nothing was added.
            NotSerialisable, TooLarge, Conflict: as `memalchemy.Conversation.add`.
        """
        records = _encode_messages(parse_messages(messages))
        marks = keys_and_times(len(records), keys, occurred_at)
        body = {
            "messages": [
                {"message": record} | mark for record, mark in zip(records, marks, strict=True)
            ],
            "expected_version": log_version(expected_version),
            "ttl": lifetime_seconds(ttl),
        }
        request = operations.conversation_add(*self._place, body=body)
        return (await self._server.call(request)).value("positions", list)

    async def history(self, *, after: int | None = None, limit: int | None = None) -> list[Message]:
        """Return all messages, oldest first.

        Args:
            after: only messages beyond this position.
            limit: only the newest so many; not together with *after*.

        Raises:
            ValueError: both are given.
        """
        if after is not None and limit is not None:
            raise ValueError("give after= or limit=, not both")
        query: dict[str, Any] = (
            {"after": log_bound(after, "after")} if limit is None else {"newest_first": True}
        )
        request = operations.conversation_messages(*self._place, query=query)
        found = await self._server.all_pages(request, "messages", _decode_message, limit)
        return found if limit is None else found[::-1]

    async def search(
        self,
        query: str,
        limit: int = 10,
        *,
        match: Match = "any",
        all_conversations: bool = False,
    ) -> list[MessageHit]:
        """Return messages that hold words of *query*, as `memalchemy.Conversation.search`."""
        body: dict[str, Any] = {"query": query, "limit": check_limit(limit)}
        body |= {"all_conversations": all_conversations, **words_to_match(match)}
        request = operations.conversation_search(*self._place, body=body)
        return (await self._server.call(request)).members("messages", wire.decode_message_hit)

    async def count(self) -> int:
        """Return the number of messages."""
        request = operations.conversation_count(*self._place)
        return await self._server.count(request)

    async def amend_last(self, content: str | list[Any]) -> bool:
        """Replace the content of the assistant's last message; return whether there is one."""
        body = {"content": jsonable(content)}
        request = operations.conversation_amend_last(*self._place, body=body)
        return await self._server.find(request) is not None

    async def set_summary(self, text: str | None, *, summarized: int = 0) -> None:
        """Store *text* as the summary of what was said before the messages, or remove it.

        With *summarized* it stands for the first so many messages. `snapshot` returns it.

        Raises:
            TypeError: *text* is no text; nothing was written.
        """
        if text is not None and not isinstance(text, str):
            raise TypeError(f"a summary is a text, not {type(text).__name__}")
        body = {"text": text, "summarized": summarized}
        await self._server.call(operations.conversation_set_summary(*self._place, body=body))

    async def snapshot(self) -> dict[str, Any]:
        """Return the whole conversation as plain values, for `restore`.

        The keys are those of `memalchemy.Conversation.snapshot`.
        """
        request = operations.conversation_snapshot(*self._place)
        return (await self._server.call(request)).value("snapshot", wire.decode_state_tree)

    async def restore(
        self,
        snapshot: Mapping[str, Any] | Sequence[Any],
        *,
        occurred_at: datetime | None = None,
    ) -> None:
        """Make the conversation equal to a `snapshot`, or to a list of messages; all or nothing.

        Raises:
            TypeError, ValueError: it is no snapshot; nothing was written.
            NotSerialisable, TooLarge: it cannot be stored; nothing was written.
        """
        if isinstance(snapshot, Mapping):
            body: dict[str, Any] = {"snapshot": wire.encode_state_tree(snapshot)}
        else:
            body = {"messages": _encode_messages(check_list(snapshot, "restore"))}
        time = None if occurred_at is None else check_time(occurred_at, "occurred_at").isoformat()
        body["occurred_at"] = time
        await self._server.call(operations.conversation_restore(*self._place, body=body))

    async def begin_tool_exchange(self, message: Any) -> ToolExchange:
        """Store an assistant's *message* with tool calls until all their results are there.

        `history` does not show it before `commit_tool_exchange`. It survives a crash:
        `active_tool_exchange` returns it to whoever continues.

        Raises:
            ValueError: the message has no tool call, a call without an id, or two calls of one id.
            Conflict: another exchange is open.
        """
        (record,) = _encode_messages([message])
        body = {"message": record}
        request = operations.conversation_begin_exchange(*self._place, body=body)
        return (await self._server.call(request)).read(_decode_exchange)

    async def add_tool_results(self, *results: Any) -> ToolExchange:
        """Store results of the open exchange, all or none, and return the exchange.

        Raises:
            ValueError: a result belongs to no call of the exchange, or to one that has another.
            NotFound: no exchange is open.
        """
        body = {"results": _encode_messages(results)}
        request = operations.conversation_add_results(*self._place, body=body)
        return (await self._server.call(request)).read(_decode_exchange)

    async def commit_tool_exchange(self, *results: Any) -> list[int]:
        """Move the open exchange into the conversation and return the positions of its messages.

        *results* are added before. It is one transaction.

        Raises:
            ValueError: a call has no result yet; or as `add_tool_results`.
            NotFound: no exchange is open.
        """
        body = {"results": _encode_messages(results)}
        request = operations.conversation_commit_exchange(*self._place, body=body)
        return (await self._server.call(request)).value("positions", list)

    async def abort_tool_exchange(self) -> ToolExchange | None:
        """Remove the open exchange and return it, or ``None``."""
        answer = await self._server.find(operations.conversation_abort_exchange(*self._place))
        return None if answer is None else answer.read(_decode_exchange)

    async def active_tool_exchange(self) -> ToolExchange | None:
        """Return the open exchange, whoever began it, or ``None``."""
        answer = await self._server.find(operations.conversation_exchange(*self._place))
        return None if answer is None else answer.read(_decode_exchange)

    async def clear(self) -> int:
        """Remove all messages and the summary; return how many messages went."""
        request = operations.conversation_clear(*self._place)
        return await self._server.count(request)

    async def delete(self) -> bool:
        """Delete the conversation, not the thread's other logs; return whether it was there."""
        request = operations.conversation_delete(*self._place)
        return await self._server.find(request) is not None


def _decode_message(tree: Mapping[str, Any]) -> Message:
    return Message.of(wire.decode_state_tree(tree["message"]))


def _encode_messages(messages: Iterable[Any]) -> list[dict[str, Any]]:
    """Return messages, and those of lists of them, as they travel."""
    flat = [m for one in messages for m in (one if isinstance(one, list | tuple) else [one])]
    return [wire.encode_state_tree(Message.of(message).to_record()) for message in flat]


def _decode_exchange(tree: Mapping[str, Any]) -> ToolExchange:
    calls, *results = (
        Message.of(wire.decode_state_tree(one)) for one in (tree["calls"], *tree["results"])
    )
    return ToolExchange(calls, tuple(results), datetime.fromisoformat(tree["begun_at"]))
