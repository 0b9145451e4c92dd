"""Closing asyncpg's connections at once, whether or not their event loop runs any more."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from memalchemy._per_loop import close_transport_in_loop, close_transport_without_loop


def close_asyncpg_in_loop(raw: Any) -> None:
    """Close a connection of asyncpg in its running loop, even if this is the loop's last step."""
    transport = raw._transport
    raw.terminate()  # sends a farewell
    if transport is not None:
        close_transport_in_loop(transport)


def close_asyncpg_without_loop(raw: Any, *, is_over: bool) -> None:
    """Close a connection of asyncpg whose event loop is closed (*is_over*) or does not run."""
    transport = raw._transport
    if transport is None:
        return
    with suppress(RuntimeError):  # the loop is closed
        raw.terminate()  # sends a farewell
    close_transport_without_loop(transport, is_over=is_over)
