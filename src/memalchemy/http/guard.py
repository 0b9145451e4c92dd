"""What stands before every endpoint: tokens, origins, limits, times, and a line of log for each.

Knows nothing of endpoints but which are open to all. The log has the route, never the path: an id
may be a person's name. Nothing of a body is in it.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

from memalchemy.http import wire
from memalchemy.http.limits import InFlight, Limits
from memalchemy.http.problems import Problem, away, problem_of
from memalchemy.http.tokens import Rates, Tokens

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
ASGI = Callable[[Scope, Receive, Send], Awaitable[None]]

OPEN = frozenset({"/openapi.json", "/health", "/health/live", "/health/ready"})
"""What needs no token: none of it is of a tenant."""

_READING = frozenset({"GET", "HEAD", "OPTIONS"})
_SIMPLE = frozenset({"text/plain", "application/x-www-form-urlencoded", "multipart/form-data"})
"""Types of bodies that a page of any site may send without asking (CORS)."""

access = logging.getLogger("memalchemy.http.access")


class Guard:
    """An ASGI application before another one."""

    def __init__(
        self,
        inner: ASGI,
        *,
        tokens: Tokens | None,
        tenant: str,
        rates: Rates,
        max_body: int,
        timeout: float,
        hosts: Iterable[str] | None,
        origins: Iterable[str],
        limits: Limits,
    ) -> None:
        self._inner = inner
        self.in_flight = InFlight(limits)
        self._origins = frozenset(origins)
        self._tokens = tokens
        self._tenant = tenant
        self._rates = rates
        self._max_body = max_body
        self._timeout = timeout
        self._hosts = None if hosts is None else frozenset(hosts)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._inner(scope, receive, send)
            return
        # An id may hold a slash: segments are told apart before they are decoded.
        raw = scope.get("raw_path")
        if raw is not None:
            scope["path"] = raw.split(b"?", 1)[0].decode("ascii", "surrogateescape")
        await Request(self, scope, receive, send).answer()

    def check_origin(self, scope: Scope) -> None:
        """Refuse what a page of another site makes a browser send.

        Raises:
            Problem: 403 for another site's page; 415 for a body that a form of one could send.
        """
        if scope["method"] in _READING:
            return
        headers = {k: v.decode("latin-1") for k, v in scope["headers"]}
        kind = headers.get(b"content-type", "").split(";")[0].strip().lower()
        if kind in _SIMPLE:
            raise Problem(415, "send the body as JSON with Content-Type: application/json")
        origin, site = headers.get(b"origin"), headers.get(b"sec-fetch-site")
        if origin in self._origins:
            return
        # A browser says same-origin even where a proxy has changed the header Host.
        if site is not None:
            theirs = site not in ("same-origin", "none")
        else:
            theirs = origin is not None and origin.partition("://")[2] != headers.get(b"host")
        if theirs:
            raise Problem(
                403,
                "this request comes from a page of another origin; nothing was done. The operator "
                "of this server may allow the origin",
            )

    def tenant_of(self, scope: Scope) -> str:
        """Whose request it is.

        Raises:
            Problem: nobody's who may come in, or of somebody who comes too often.
        """
        headers = dict(scope["headers"])
        if self._hosts is not None:
            # A page of a browser's may reach this address under a name of its own (DNS rebinding).
            host = headers.get(b"host", b"").decode("latin-1")
            name = host.rsplit(":", 1)[0] if not host.endswith("]") else host
            if name not in self._hosts:
                raise Problem(421, "this server answers to the name of the local machine only")
        tenant: str | None = self._tenant
        if self._tokens is not None:
            kind, _, token = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
            tenant = self._tokens.tenant_of(token.strip()) if kind.lower() == "bearer" else None
        if tenant is None:
            raise Problem(
                401,
                "give a token that this server knows: Authorization: Bearer TOKEN",
                headers={"WWW-Authenticate": 'Bearer realm="memalchemy"'},
            )
        wait = self._rates.take(tenant)
        if wait:
            raise away(
                "too many requests; nothing was done. Retry-After says when the next may come",
                status=429,
                busy=True,
                headers={"Retry-After": str(math.ceil(wait))},
            )
        return tenant


class Request:
    """One request on its way through the guard."""

    def __init__(self, guard: Guard, scope: Scope, receive: Receive, send: Send) -> None:
        self._guard, self._scope = guard, scope
        self._receive, self._send = receive, send
        self._received = self._counted = 0
        self._has_body = False
        self._status = 0

    async def answer(self) -> None:
        """Let it in, or say why not."""
        guard, scope = self._guard, self._scope
        started = time.perf_counter()
        tenant = None
        try:
            guard.check_origin(scope)
            if scope["path"].removeprefix(scope.get("root_path", "")) not in OPEN:
                tenant = guard.tenant_of(scope)
            scope["memalchemy.tenant"] = tenant
            with guard.in_flight.request(tenant):
                self._check_length()
                async with asyncio.timeout(guard._timeout):
                    await guard._inner(scope, self._take, self._give)
        except TimeoutError:
            await self._refuse(self._too_slow())
        except Exception as error:  # noqa: BLE001 - `problem_of` logs what it does not tell
            await self._refuse(problem_of(error))
        finally:
            guard.in_flight.give_back(self._counted)
            access.info(
                "%s %s %s %.0fms tenant=%s",
                scope["method"],
                scope.get("memalchemy.route", "-"),
                self._status or "aborted",
                (time.perf_counter() - started) * 1000,
                tenant,
            )

    def _check_length(self) -> None:
        length = dict(self._scope["headers"]).get(b"content-length", b"0")
        if length.isdigit():
            if int(length) > self._guard._max_body:
                raise self._too_large(int(length))
            self._guard.in_flight.check(int(length))

    async def _take(self) -> Message:
        message = await self._receive()
        if message["type"] == "http.request":
            self._received += len(message.get("body", b""))
            self._has_body = not message.get("more_body", False)
            if self._received > self._guard._max_body:
                raise self._too_large(self._received)
            self._guard.in_flight.take(self._received - self._counted)
            self._counted = self._received
        return message

    async def _give(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
        await self._send(message)

    async def _refuse(self, problem: Problem) -> None:
        if self._status:
            return  # half of an answer is out; the server closes the connection
        body = wire.dumps(problem.document)
        headers = {
            "Content-Type": wire.PROBLEM,
            "Content-Length": str(len(body)),
            "Cache-Control": "no-store",
            **problem.headers,
        }
        if not self._has_body and self._scope["method"] not in ("GET", "HEAD"):
            headers["Connection"] = "close"  # what is still to come is not read
        self._status = problem.status
        await self._send(
            {
                "type": "http.response.start",
                "status": problem.status,
                "headers": [(k.lower().encode(), v.encode()) for k, v in headers.items()],
            }
        )
        await self._send({"type": "http.response.body", "body": body})

    def _too_large(self, size: int) -> Problem:
        limit = self._guard._max_body
        return Problem(
            413,
            f"the body is {size:,} bytes or more; the limit is {limit:,}",
            code="MA-TOO-LARGE",
            error="TooLarge",
            size=size,
            limit=limit,
        )

    def _too_slow(self) -> Problem:
        seconds = self._guard._timeout
        if not self._has_body and self._scope["method"] not in ("GET", "HEAD"):
            return Problem(408, f"the body did not come within {seconds:g} s; nothing was done")
        return away(
            f"there was no answer within {seconds:g} s; a write may or may not have happened",
            status=504,
            maybe_applied=self._scope["method"] not in ("GET", "HEAD"),
            busy=True,
        )
