"""memalchemy over HTTP: `HTTPCheckpointer` is the client, `app` and `serve` are the server.

The extra ``http`` brings what the client needs, ``server`` what the server needs; each is imported
when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from memalchemy.http.asgi import app
    from memalchemy.http.client import HTTPCheckpointer
    from memalchemy.http.serving import serve
    from memalchemy.http.tokens import Tokens

__all__ = ["HTTPCheckpointer", "Tokens", "app", "serve"]

_LATER = {
    "HTTPCheckpointer": "memalchemy.http.client",
    "Tokens": "memalchemy.http.tokens",
    "app": "memalchemy.http.asgi",
    "serve": "memalchemy.http.serving",
}


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    value = globals()[name] = getattr(import_module(_LATER[name]), name)
    return value
