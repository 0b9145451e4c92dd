"""The middleware of the server; `app` puts it in order.

Each class is an ASGI application in front of another one. A request that must not go on ends in a
`Problem`, which `ErrorMiddleware` answers.
"""

from __future__ import annotations

import asyncio
import logging
import math
import re
import time
import uuid
from collections.abc import Iterable
from urllib.parse import quote

from starlette.authentication import AuthCredentials, AuthenticationBackend, SimpleUser
from starlette.datastructures import Headers
from starlette.requests import HTTPConnection
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memalchemy.events import operation
from memalchemy.http.operations import Scope as Access
from memalchemy.http.server._compression import Inflater
from memalchemy.http.server._limits import (
    FailureLimiter,
    Limits,
    RateLimiter,
    Turns,
    UnansweredRequests,
    WorkSlots,
)
from memalchemy.http.server._problems import (
    Problem,
    problem_of,
    request_id,
    too_large,
    unavailable,
)
from memalchemy.http.server._tokens import Grant, Tokens

SAFE_METHODS = frozenset({"GET", "HEAD", "OPTIONS"})

FORM_TYPES = frozenset({"text/plain", "application/x-www-form-urlencoded", "multipart/form-data"})
"""Content types that a browser sends for a page of any site without asking the server (CORS)."""

PIECE = 256 * 1024
"""Bytes of an answer that are given to the server at once."""

SMALL_ANSWER = 64 * 1024
"""Bytes of an answer that is sent however much is in flight."""

RETRY_SECONDS = 1
"""Retry-After of a refusal whose end the server cannot foresee."""

TRACE_HEADERS = ("traceparent", "tracestate", "baggage")
"""Headers in which a request names the trace that it is a part of (W3C Trace Context)."""

_HOST = re.compile(r"(?P<name>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::[0-9]{1,5})?")
"""A name or address with a port, as a Host header has it (RFC 9110): without a userinfo."""

_REQUEST_ID = re.compile("[A-Za-z0-9._:/+=-]{1,128}")

access = logging.getLogger("memalchemy.http.access")


class Tenant(SimpleUser):
    """The authenticated tenant, as Starlette's user of a request, and what its token is good for.

    Without tokens there is no grant, and everything is allowed.
    """

    def __init__(self, tenant: str, grant: Grant | None = None) -> None:
        super().__init__(tenant)
        self.grant = grant


def tenant_of(scope: Scope) -> str | None:
    """Return the tenant of a request, or ``None`` if the request is for a public operation."""
    user = scope.get("user")  # perhaps one of the application that this one is mounted in
    return user.username if isinstance(user, Tenant) else None


def check_access(scope: Scope, access: Access) -> None:
    """Check that the token of a request has the scope that an operation needs.

    Raises:
        Problem: it has not (403).
    """
    grant = _grant_of(scope)
    if grant is not None and access not in grant.scopes:
        raise Problem(403, f"this token is not for this operation, which needs {access!r}")


def check_namespace_of_token(scope: Scope, namespace: tuple[str, ...] | None) -> None:
    """Check that the token of a request is good for a namespace.

    Args:
        namespace: the one that the request is about; ``None`` if it is about more than one.

    Raises:
        Problem: it is not (403).
    """
    grant = _grant_of(scope)
    if grant is not None and not grant.covers_namespace(namespace):
        raise Problem(403, "this token is for some namespaces only, and not for what was asked")


def _grant_of(scope: Scope) -> Grant | None:
    user = scope.get("user")
    return user.grant if isinstance(user, Tenant) else None


class EncodedPathMiddleware:
    """Route by the path as it was sent, percent-encoded: an id may hold a slash."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            raw = scope.get("raw_path")
            if raw is None:  # ASGI does not require it
                path = quote(scope["path"], errors="surrogatepass")
            else:
                path = raw.split(b"?", 1)[0].decode("ascii", "surrogateescape")
            scope = {**scope, "path": path}
        await self._app(scope, receive, send)


def _inflater_of(scope: Scope) -> Inflater | None:
    encoding = Headers(scope=scope).get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "gzip"):
        raise Problem(415, "send the body as it is, or with Content-Encoding: gzip")
    return Inflater() if encoding == "gzip" else None


class RequestIdMiddleware:
    """Give each request an id: that of its ``X-Request-Id``, or a new one. Answers have it, too."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        name = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        header = (b"x-request-id", name.encode())

        async def send_with_id(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], header]}
            await send(message)

        token = request_id.set(name)
        try:
            await self._app(scope, receive, send_with_id)
        finally:
            request_id.reset(token)


class AccessLogMiddleware:
    """Log one line for each request: method, route, status, time, tenant and id.

    The line has the route and not the path, because an id may be a person's name. The request is
    also the operation ``http.request`` of events, from before it is authenticated and its body is
    read.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        status: int | str = "aborted"

        async def watched_send(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        method, name = scope["method"], request_id.get()
        details: dict[str, object] = {"method": method, "request_id": name}
        headers = Headers(scope=scope)
        carrier = {header: headers[header] for header in TRACE_HEADERS if header in headers}
        started = time.perf_counter()
        with operation("http.request", details=details, carrier=carrier) as event:
            try:
                await self._app(scope, receive, watched_send)
            finally:
                route, tenant = getattr(scope.get("endpoint"), "path", "-"), tenant_of(scope)
                took = (time.perf_counter() - started) * 1000
                access.info(
                    "%s %s %s %.0fms tenant=%s request=%s",
                    method,
                    route,
                    status,
                    took,
                    tenant,
                    name,
                )
                details |= {"route": route, "status": status}
                event.tenant = tenant
                if not isinstance(status, int) or status >= 500:
                    event.error = str(status)


class ErrorMiddleware:
    """Answer an exception with a problem document.

    If the answer has begun, nothing is added to it, and the server closes the connection. It also
    closes the connection after an error if a part of the request's body was not read.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        has_begun = False
        is_read = False

        async def watched_receive() -> Message:
            nonlocal is_read
            message = await receive()
            is_read = not message.get("more_body", False)
            return message

        async def watched_send(message: Message) -> None:
            nonlocal has_begun
            has_begun = True
            await send(message)

        try:
            _check_framing(scope)
            await self._app(scope, watched_receive, watched_send)
        except Exception as error:  # noqa: BLE001 - `problem_of` logs what the caller is not told
            response = problem_of(error).response()
            if has_begun:
                return
            if not is_read and _has_body(scope):
                response.headers["Connection"] = "close"
            await response(scope, receive, send)


def _check_framing(scope: Scope) -> None:
    """Check that a request says in one way where its body ends.

    Servers and proxies that go by different ones take different bytes for the next request: RFC
    9112, 6.1. `ErrorMiddleware` closes the connection, because the body was not read.
    """
    headers = Headers(scope=scope)
    if "content-length" in headers and "transfer-encoding" in headers:
        raise Problem(400, "give Content-Length or Transfer-Encoding, and not both")


async def _send_in_pieces(send: Send, message: Message) -> None:
    """Send the message of an answer, a long body in pieces.

    The server waits for the reader between two pieces. After the last one it does not.
    """
    body = memoryview(message.get("body", b""))
    while len(body) > PIECE:
        piece = bytes(body[:PIECE])
        await send({"type": message["type"], "body": piece, "more_body": True})
        body = body[PIECE:]
    await send({**message, "body": bytes(body)} if "body" in message else message)


def _has_body(scope: Scope) -> bool:
    headers = Headers(scope=scope)
    return headers.get("content-length", "0") != "0" or "transfer-encoding" in headers


class OriginMiddleware:
    """Refuse writes that a browser sends for a page of another origin.

    A request is answered with 415 if a form could have sent its body, and with 403 if it comes from
    a page whose origin is neither this server's nor one of *origins*.
    """

    def __init__(self, app: ASGIApp, origins: Iterable[str]) -> None:
        self._app = app
        self._origins = frozenset(origins)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["method"] not in SAFE_METHODS:
            headers = Headers(scope=scope)
            if headers.get("content-type", "").split(";")[0].strip().lower() in FORM_TYPES:
                raise Problem(415, "send the body as JSON with Content-Type: application/json")
            if self._is_foreign(headers):
                raise Problem(
                    403,
                    "this request comes from a page of another origin; nothing was done. The "
                    "operator of this server may allow the origin",
                )
        await self._app(scope, receive, send)

    def _is_foreign(self, headers: Headers) -> bool:
        origin, site = headers.get("origin"), headers.get("sec-fetch-site")
        if origin in self._origins:
            return False
        if site is not None:  # a browser says same-origin even if a proxy has changed the Host
            return site not in ("same-origin", "none")
        return origin is not None and origin.partition("://")[2] != headers.get("host")


class HostMiddleware:
    """Refuse requests to a name that is not one of *hosts*.

    A web page may reach a local address under a name of its own (DNS rebinding). Starlette's
    `TrustedHostMiddleware` would answer in plain text.
    """

    def __init__(self, app: ASGIApp, hosts: Iterable[str]) -> None:
        self._app = app
        self._hosts = frozenset(map(str.lower, hosts))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        host = _HOST.fullmatch(Headers(scope=scope).get("host", ""))
        if host is None or host["name"].lower() not in self._hosts:
            raise Problem(421, "this server answers to the name of the local machine only")
        await self._app(scope, receive, send)


class TokenBackend(AuthenticationBackend):
    """Authenticate by bearer token. Without *tokens*, every request is of *tenant*.

    An address that gives too many unknown tokens is refused until some time has passed, except for
    tokens that it was known by before: they may be those of others behind the same address.
    """

    def __init__(self, tokens: Tokens | None, tenant: str, failures: FailureLimiter) -> None:
        self._tokens = tokens
        self._tenant = tenant
        self._failures = failures

    async def authenticate(self, conn: HTTPConnection) -> tuple[AuthCredentials, Tenant]:
        if self._tokens is None:
            return AuthCredentials(), Tenant(self._tenant)
        scheme, _, token = conn.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise _unauthorised_problem(
                "give a token that this server knows: Authorization: Bearer TOKEN"
            )
        address = "" if conn.client is None else conn.client.host
        wait = self._failures.wait_of(address, token)
        if wait:
            raise Problem(
                429,
                "too many unknown tokens came from this address; Retry-After says when the "
                "next may come",
                headers={"Retry-After": str(math.ceil(wait))},
            )
        grant = self._tokens.grant_of(token.strip())
        if grant is None:
            self._failures.note_unknown(address)
            raise _unauthorised_problem(
                "give a token that this server knows: Authorization: Bearer TOKEN"
            )
        self._failures.note_known(address, token)
        if grant.has_expired():
            raise _unauthorised_problem("this token has expired")
        return AuthCredentials(sorted(grant.scopes)), Tenant(grant.tenant, grant)


def _unauthorised_problem(detail: str) -> Problem:
    return Problem(401, detail, headers={"WWW-Authenticate": 'Bearer realm="memalchemy"'})


class LimitsMiddleware:
    """Enforce the server's limits on a request: rate, number, body and time.

    The rate and the number of requests are counted for each tenant, so not for public operations.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        limits: Limits,
        max_body: int,
        timeout: float,
        rates: RateLimiter,
        in_flight: UnansweredRequests,
        work: WorkSlots,
    ) -> None:
        self._app = app
        self._limits = limits
        self._max_body = max_body
        self._timeout = timeout
        self._rates = rates
        self._in_flight = in_flight
        self._work = work

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        tenant, inflater = tenant_of(scope), _inflater_of(scope)
        if tenant is not None:
            self._check_rate(tenant)
            self._check_concurrent_requests(tenant)
            self._in_flight.requests[tenant] += 1
        counted = 0
        is_reading = is_waiting = has_begun = False
        turns: Turns | None = None

        async def wait_for_turn() -> None:
            """Take a place once the body is there: a slow client waits in none."""
            nonlocal turns, is_waiting
            if tenant is None or turns is not None:
                return
            is_waiting = True
            found = self._work.turns(scope["path"], counted)
            await found.take(tenant)
            turns, is_waiting = found, False

        def give_turn_back() -> None:
            nonlocal turns
            if tenant is not None and turns is not None:
                turns.give_back(tenant)
            turns = None

        async def limited_receive() -> Message:
            nonlocal counted, is_reading
            is_reading = True
            message = await receive()
            is_reading = False
            is_body = message["type"] == "http.request"
            is_last = is_body and not message.get("more_body", False)
            if inflater is not None and is_body:
                body, room = message.get("body", b""), self._max_body - counted
                message = {**message, "body": inflater.inflate(body, room, is_last=is_last)}
            size = len(message.get("body", b""))
            self._check_body(counted + size, size)
            self._in_flight.body_bytes += size
            counted += size
            if is_last and not has_begun:
                await wait_for_turn()
            return message

        async def limited_send(message: Message) -> None:
            nonlocal counted, has_begun
            if message["type"] == "http.response.start":
                size = int(Headers(raw=message["headers"]).get("content-length", "0"))
                self._check_answer(size)
                self._in_flight.body_bytes += size
                counted += size
                has_begun = True
                give_turn_back()  # a slow reader keeps no place
            await _send_in_pieces(send, message)

        try:
            length = Headers(scope=scope).get("content-length", "")
            if length.isdigit():
                self._check_body(int(length), int(length))
            async with asyncio.timeout(self._timeout) as deadline:
                if not _has_body(scope):
                    await wait_for_turn()
                await self._app(scope, limited_receive, limited_send)
        except TimeoutError:
            if not deadline.expired():
                raise
            raise self._timeout_problem(scope["method"], is_reading, is_waiting) from None
        finally:
            give_turn_back()
            self._in_flight.body_bytes -= counted
            if tenant is not None:
                self._in_flight.requests[tenant] -= 1

    def _check_rate(self, tenant: str) -> None:
        wait = self._rates.take(tenant)
        if wait:
            raise Problem(
                429,
                "too many requests; nothing was done. Retry-After says when the next may come",
                headers={"Retry-After": str(math.ceil(wait))},
            )

    def _check_concurrent_requests(self, tenant: str) -> None:
        running = self._in_flight.requests[tenant]
        if running >= self._limits.tenant_requests:
            raise Problem(
                429,
                f"this tenant has {running} requests that are not answered yet, which is all that "
                "it may have; nothing was done",
                headers={"Retry-After": str(RETRY_SECONDS)},
            )

    def _check_body(self, size: int, uncounted: int) -> None:
        if size > self._max_body:
            detail = f"the body is {size:,} bytes or more; the limit is {self._max_body:,}"
            raise too_large(detail, size, self._max_body)
        if self._in_flight.body_bytes + uncounted > self._limits.pending_bytes:
            raise unavailable(
                "the requests that are not answered yet have all the memory that there is for "
                "bodies; nothing was done",
                busy=True,
                headers={"Retry-After": str(RETRY_SECONDS)},
            )

    def _check_answer(self, size: int) -> None:
        # Answers to writes are small, and are always sent.
        if size > SMALL_ANSWER and self._in_flight.body_bytes + size > self._limits.pending_bytes:
            raise unavailable(
                "the answers that are not sent yet have all the memory that there is for them",
                busy=True,
                headers={"Retry-After": str(RETRY_SECONDS)},
            )

    def _timeout_problem(self, method: str, is_reading: bool, is_waiting: bool) -> Problem:
        seconds = f"{self._timeout:g} s"
        if is_waiting:
            return unavailable(
                f"it was not the turn of this request within {seconds}; nothing was done",
                busy=True,
                headers={"Retry-After": str(RETRY_SECONDS)},
            )
        if is_reading:
            return Problem(408, f"the body did not come within {seconds}; nothing was done")
        return unavailable(
            f"there was no answer within {seconds}; a write may or may not have happened",
            status=504,
            maybe_applied=method not in SAFE_METHODS,
            busy=True,
        )
