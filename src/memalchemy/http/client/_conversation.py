"""`HTTPConversation`: the messages of a thread, kept by a server over HTTP."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

from memalchemy.contracts import UNSET, Seconds, Unset, to_timedelta
from memalchemy.http import wire
from memalchemy.http.client._client import RemoteClient, namespace_path
from memalchemy.http.client._remote import RemoteServer
from memalchemy.http.client._thread_log import for_each
from memalchemy.keys import check_entry_key, check_namespace, check_thread_id
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
        flat = [m for one in messages for m in (one if isinstance(one, list | tuple) else [one])]
        records = [Message.of(message).to_record() for message in flat]
        names = for_each(keys, len(records), "keys", str)
        for key in names:
            if key is not None:
                check_entry_key(key)
        times = for_each(occurred_at, len(records), "occurred_at", datetime)
        body = {
            "messages": [
                {
                    "message": wire.encode_state(record),
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

    async def clear(self) -> int:
        """Remove all messages and the summary; return how many messages went."""
        tree = await self._server.change("DELETE", f"{self._path}/messages", once=True)
        return self._server.decode(lambda found: int(found["count"]), tree, writes=True)

    async def delete(self) -> bool:
        """Delete the conversation, not the thread's other logs; return whether it was there."""
        return await self._server.change("DELETE", self._path, once=True) is not None


def _message(tree: Mapping[str, Any]) -> Message:
    return Message.of(wire.decode_state(tree["message"]))
