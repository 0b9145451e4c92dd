"""memalchemy over HTTP: clients such as `HTTPCheckpointer`, and `app` and `serve`, the server.

`serve_inspector` shows the inspector.

The extra ``http`` installs what the client needs, ``server`` what the server needs. Each name is
imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memalchemy._lazy_imports import lazy_exports

if TYPE_CHECKING:
    from memalchemy.http.client import (
        HTTPCheckpointer,
        HTTPConversation,
        HTTPStore,
        HTTPThreadLog,
    )
    from memalchemy.http.inspector._running import serve_inspector
    from memalchemy.http.server._application import app
    from memalchemy.http.server._limits import Limits
    from memalchemy.http.server._running import serve
    from memalchemy.http.server._tokens import Grant, Tokens
else:
    __getattr__, __dir__ = lazy_exports(
        __name__,
        {
            "client": ("HTTPCheckpointer", "HTTPConversation", "HTTPStore", "HTTPThreadLog"),
            "inspector._running": ("serve_inspector",),
            "server._application": ("app",),
            "server._limits": ("Limits",),
            "server._running": ("serve",),
            "server._tokens": ("Grant", "Tokens"),
        },
    )

__all__ = [
    "Grant",
    "HTTPCheckpointer",
    "HTTPConversation",
    "HTTPStore",
    "HTTPThreadLog",
    "Limits",
    "Tokens",
    "app",
    "serve",
    "serve_inspector",
]
