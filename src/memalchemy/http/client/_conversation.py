"""`HTTPConversation`: the messages of a thread, kept by a server over HTTP."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from memalchemy.codec.values import jsonable
from memalchemy.contracts import UNSET, Seconds, Unset, check_time, to_timedelta
from memalchemy.conversations.tool_exchange import ToolExchange
from memalchemy.http import wire
from memalchemy.http.client._client import RemoteClient, namespace_path
from memalchemy.http.client._remote import RemoteServer
from memalchemy.http.client._thread_log import for_each
from memalchemy.keys import check_entry_key, check_list, check_namespace, check_thread_id
from memalchemy.state import Message


class HTTPConversation(RemoteClient):
    """Messages of a thread in order, on ``memalchemy serve``, as in `memalchemy.Conversation`.

    A policy that selects those which go to the model runs here: ``manager.async_apply`` of what
    `history` returns. Outages are exceptions, as of `HTTPCheckpointer`, whose arguments these are.

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
        place = namespace_path(self.namespace)
        self._path = f"/conversations/{place}/{wire.quote_id(thread_id)}"

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
        list of messages is accepted as well. It is repeated if its answer is lost, and done once.

        Raises:
            TypeError, ValueError: one of them is not a message; nothing was added.
            NotSerialisable, TooLarge, Conflict: as `memalchemy.Conversation.add`.
        """
        records = _records(messages)
        names = for_each(keys, len(records), "keys", str)
        for key in names:
            if key is not None:
                check_entry_key(key)
        times = for_each(occurred_at, len(records), "occurred_at", datetime)
        body = {
            "messages": [
                {
                    "message": record,
                    "key": key,
                    "occurred_at": None if at is None else at.isoformat(),
                }
                for record, key, at in zip(records, names, times, strict=True)
            ],
            "expected_version": None if expected_version is UNSET else expected_version,
            "ttl": None if ttl is None else to_timedelta(ttl).total_seconds(),
        }
        tree = await self._server.change("POST", f"{self._path}/messages", body)
        return self._server.decode(lambda found: list(found["positions"]), tree, writes=True)

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
        query = {"after": after} if limit is None else {"newest_first": "true"}
        path = f"{self._path}/messages"
        trees = await self._server.all_pages(path, "messages", query, limit)
        found = [self._server.decode(_message, tree) for tree in trees]
        return found if limit is None else found[::-1]

    async def count(self) -> int:
        """Return the number of messages."""
        tree = await self._server.read("GET", f"{self._path}/count")
        return self._server.decode(lambda found: int(found["count"]), tree)

    async def amend_last(self, content: str | list[Any]) -> bool:
        """Replace the content of the assistant's last message; return whether there is one."""
        body = {"content": jsonable(content)}
        return await self._server.change("PUT", f"{self._path}/messages/last", body) is not None

    async def set_summary(self, text: str | None, *, summarized: int = 0) -> None:
        """Store *text* as the summary of what was said before the messages, or remove it.

        With *summarized* it stands for the first so many messages. `snapshot` returns it.

        Raises:
            TypeError: *text* is no text; nothing was written.
        """
        if text is not None and not isinstance(text, str):
            raise TypeError(f"a summary is a text, not {type(text).__name__}")
        body = {"text": text, "summarized": summarized}
        await self._server.change("PUT", f"{self._path}/summary", body)

    async def snapshot(self) -> dict[str, Any]:
        """Return the whole conversation as plain values, for `restore`.

        The keys are those of `memalchemy.Conversation.snapshot`.
        """
        tree = await self._server.read("GET", self._path)
        return self._server.decode(lambda found: wire.decode_state(found["snapshot"]), tree)

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
            body: dict[str, Any] = {"snapshot": wire.encode_state(snapshot)}
        else:
            body = {"messages": _records(check_list(snapshot, "restore"))}
        time = None if occurred_at is None else check_time(occurred_at, "occurred_at").isoformat()
        body["occurred_at"] = time
        await self._server.change("PUT", self._path, body)

    async def begin_tool_exchange(self, message: Any) -> ToolExchange:
        """Store an assistant's *message* with tool calls until all their results are there.

        `history` does not show it before `commit_tool_exchange`. It survives a crash:
        `active_tool_exchange` returns it to whoever continues.

        Raises:
            ValueError: the message has no tool call, a call without an id, or two calls of one id.
            Conflict: another exchange is open.
        """
        (record,) = _records([message])
        tree = await self._server.change("POST", f"{self._path}/exchange", {"message": record})
        return self._server.decode(_exchange, tree, writes=True)

    async def add_tool_results(self, *results: Any) -> ToolExchange:
        """Store results of the open exchange, all or none, and return the exchange.

        Raises:
            ValueError: a result belongs to no call of the exchange, or to one that has another.
            NotFound: no exchange is open.
        """
        path, body = f"{self._path}/exchange/results", {"results": _records(results)}
        tree = await self._server.write(path, body, once=False)
        return self._server.decode(_exchange, tree, writes=True)

    async def commit_tool_exchange(self, *results: Any) -> list[int]:
        """Move the open exchange into the conversation and return the positions of its messages.

        *results* are added before. It is one transaction.

        Raises:
            ValueError: a call has no result yet; or as `add_tool_results`.
            NotFound: no exchange is open.
        """
        path, body = f"{self._path}/exchange/commit", {"results": _records(results)}
        tree = await self._server.write(path, body, once=False)
        return self._server.decode(lambda found: list(found["positions"]), tree, writes=True)

    async def abort_tool_exchange(self) -> ToolExchange | None:
        """Remove the open exchange and return it, or ``None``."""
        tree = await self._server.change("DELETE", f"{self._path}/exchange")
        return None if tree is None else self._server.decode(_exchange, tree, writes=True)

    async def active_tool_exchange(self) -> ToolExchange | None:
        """Return the open exchange, whoever began it, or ``None``."""
        tree = await self._server.find(f"{self._path}/exchange")
        return None if tree is None else self._server.decode(_exchange, tree)

    async def clear(self) -> int:
        """Remove all messages and the summary; return how many messages went."""
        tree = await self._server.change("DELETE", f"{self._path}/messages")
        return self._server.decode(lambda found: int(found["count"]), tree, writes=True)

    async def delete(self) -> bool:
        """Delete the conversation, not the thread's other logs; return whether it was there."""
        return await self._server.change("DELETE", self._path) is not None


def _message(tree: Mapping[str, Any]) -> Message:
    return Message.of(wire.decode_state(tree["message"]))


def _records(messages: Iterable[Any]) -> list[dict[str, Any]]:
    """Return messages, and those of lists of them, as they travel."""
    flat = [m for one in messages for m in (one if isinstance(one, list | tuple) else [one])]
    return [wire.encode_state(Message.of(message).to_record()) for message in flat]


def _exchange(tree: Mapping[str, Any]) -> ToolExchange:
    calls, *results = (
        Message.of(wire.decode_state(one)) for one in (tree["calls"], *tree["results"])
    )
    return ToolExchange(calls, tuple(results), datetime.fromisoformat(tree["begun_at"]))
