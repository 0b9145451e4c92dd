"""Closing asyncpg's connections whose event loop does not run any more."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any


def close_asyncpg_without_loop(raw: Any) -> None:
    """Close the connection *raw* of asyncpg, whose event loop is closed or does not run.

    asyncio closes a socket in its loop, at the loop's next step. So the server is told here, by the
    end of the stream. A loop that is not closed closes the socket when it runs again; that of one
    that is closed would stay open until it is collected as garbage, with a ResourceWarning.
    """
    transport = raw._transport
    is_over = raw._loop.is_closed()
    if transport is None:
        return
    connected = transport.get_extra_info("socket")
    with suppress(RuntimeError):  # the loop is closed
        raw.terminate()  # sends a farewell
    if connected is not None:
        with suppress(OSError):  # the server was faster
            connected.shutdown(socket.SHUT_RDWR)
    if is_over:
        under_tls = getattr(transport, "_ssl_protocol", None)
        lowest = transport if under_tls is None else under_tls._transport
        # asyncio has no public way to close the socket of a closed loop; uvloop has closed it.
        close = getattr(lowest, "_call_connection_lost", None)
        if close is not None and getattr(lowest, "_sock", None) is not None:
            with suppress(RuntimeError):
                close(None)
