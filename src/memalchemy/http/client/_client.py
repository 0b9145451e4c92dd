"""`RemoteClient`: the connection to a server that the clients of its stores and logs have."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Self

from memalchemy.contracts import (
    CheckpointerCapabilities,
    Match,
    Seconds,
    Unset,
    check_entry_position,
    check_log_version,
    check_match,
    check_position,
    to_timedelta,
)
from memalchemy.errors import DatabaseUnreachable
from memalchemy.http.client._remote import RemoteServer
from memalchemy.http.client._transport import Transport


class RemoteClient:
    """A client of ``memalchemy serve``. Construction does no I/O."""

    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str] | None = None,
        auth: tuple[str, str] | None = None,
        timeout: float = 30.0,
        *,
        token: str | None = None,
    ) -> None:
        self._server = RemoteServer(Transport(base_url, headers, auth, timeout, token))

    @property
    def base_url(self) -> str:
        """The server's address, without a password."""
        return self._server.url

    @property
    def identity(self) -> Transport:
        """The holder of the connections, which can be closed when this object is gone."""
        return self._server.transport

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_url!r})"

    async def __aenter__(self) -> Self:
        try:
            with suppress(DatabaseUnreachable):  # the first call will say so, if it is still away
                await self.connect()
        except BaseException:
            await self.close()  # nobody calls __aexit__ after a failed __aenter__
            raise
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def connect(self) -> CheckpointerCapabilities:
        """Ask the server for its capabilities, and return those of its checkpointer.

        Raises:
            DatabaseUnreachable, AuthenticationFailed: the server did not answer, or refused.
        """
        return (await self._server.offer()).capabilities

    async def close(self) -> None:
        """Close the connections of the running loop. A later use opens new ones."""
        await self._server.transport.close()


LARGEST_POSITION = 10**18 - 1
"""The largest position that a server takes. No log has as many entries."""


def log_position(position: int, name: str) -> int:
    """Return the position of an entry as it travels; 0, which no entry has, for those below it.

    Raises:
        TypeError: it is no whole number.
    """
    return max(0, min(check_entry_position(position, name), LARGEST_POSITION))


def log_bound(position: int | None, name: str) -> int | None:
    """Return the bound of a range of entries as it travels, as `log_position`."""
    return None if position is None else log_position(check_position(position, name), name)


def log_version(expected: int | Unset) -> int | None:
    """Return the expected version of a log as it travels: ``null`` if none was given.

    Raises:
        TypeError, ValueError: it is no version.
    """
    version = check_log_version(expected)
    return None if isinstance(version, Unset) else version


def lifetime_seconds(time: Seconds | None) -> float | None:
    """Return a lifetime or an age as it travels."""
    return None if time is None else to_timedelta(time).total_seconds()


def words_to_match(match: Match) -> dict[str, str]:
    """Return the field of a search's body; none for the default, which all servers have."""
    return {} if check_match(match) == "any" else {"match": match}
