"""`Finished`: the result of a method that has done its work, whether or not it is awaited."""

from __future__ import annotations

from collections.abc import Awaitable, Generator


class Finished(Awaitable[None]):
    """Awaitable whose work is done; whoever does not await it loses nothing."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield
