"""`serve_inspector`: the inspector alone on a socket, for whoever has its token."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable

from memalchemy.database import Database
from memalchemy.http.inspector._application import inspector_app
from memalchemy.http.server._running import LOCAL_HOSTS, is_loopback, run_application

MAX_CONNECTIONS = 200
GRACE = 2.0


async def serve_inspector(
    db: Database,
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    all_tenants: bool = False,
    started: Callable[[str], object] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Show what the tenant of *db* holds, on a page in the browser, until SIGINT or SIGTERM comes.

    With *all_tenants* the page can be switched to every other tenant of the database. Nothing is
    written. Whoever has the token reads everything. The page takes it out of the URL's fragment,
    which browsers send to no server.

    Args:
        host: the address to listen on. On a local one, requests under other names are refused.
        port: 0 is any free port.
        token: 16 characters or more; random, if not given.
        all_tenants: show all tenants, not that of *db* alone.
        started: called with the URL of the page, token included, once requests can come.
        stop: ends the server when it is set.

    Raises:
        ValueError: the token is too short.
        OSError: the address cannot be listened on.
    """
    token = secrets.token_urlsafe(24) if token is None else token
    application = inspector_app(
        db,
        tokens={token: db.tenant},
        hosts=LOCAL_HOSTS if is_loopback(host) else None,
        all_tenants=all_tenants,
    )

    def show(url: str) -> None:
        if started is not None:
            started(f"{url}/#token={token}")

    await run_application(
        application,
        host=host,
        port=port,
        max_connections=MAX_CONNECTIONS,
        grace=GRACE,
        started=show,
        stop=stop,
    )
