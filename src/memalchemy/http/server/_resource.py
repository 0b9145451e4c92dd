"""Handlers of one path, as an ASGI application."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

Handler = Callable[[Request], Awaitable[Response]]


class Resource:
    """The handlers of one path by method. The access log reads the path."""

    def __init__(self, path: str, handlers: Mapping[str, Handler]) -> None:
        self.path = path
        self._handlers = handlers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive, send)
        handler = self._handlers["GET" if request.method == "HEAD" else request.method]
        response = await handler(request)
        await response(scope, receive, send)
