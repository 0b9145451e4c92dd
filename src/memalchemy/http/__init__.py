"""memalchemy over HTTP: `HTTPCheckpointer` is the client, `app` and `serve` are the server.

The extra ``http`` brings what the client needs, ``server`` what the server needs; each is imported
when it is first asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from memalchemy._later import later

if TYPE_CHECKING:
    from memalchemy.http.asgi import app
    from memalchemy.http.client import HTTPCheckpointer
    from memalchemy.http.limits import Limits
    from memalchemy.http.serving import serve
    from memalchemy.http.tokens import Tokens
else:
    __getattr__, __dir__ = later(
        __name__,
        {
            "asgi": ("app",),
            "client": ("HTTPCheckpointer",),
            "limits": ("Limits",),
            "serving": ("serve",),
            "tokens": ("Tokens",),
        },
    )

__all__ = ["HTTPCheckpointer", "Limits", "Tokens", "app", "serve"]
