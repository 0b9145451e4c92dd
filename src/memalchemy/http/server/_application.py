"""`app`: the ASGI application, put together from operations and middleware."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from memalchemy.database import Database
from memalchemy.errors import DriverMissing
from memalchemy.http import wire

try:
    import starlette  # noqa: F401 - the modules below need it
except ImportError as error:
    raise DriverMissing("starlette", "server", what="package") from error

from starlette.applications import Starlette
from starlette.convertors import Convertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from memalchemy.http.inspector._routes import SecurityHeadersMiddleware, inspector_routes
from memalchemy.http.operations import OPERATIONS
from memalchemy.http.server import _checkpoints, _health, _logs, _openapi, _store
from memalchemy.http.server._context import ServerContext
from memalchemy.http.server._limits import (
    FailureLimiter,
    Limits,
    RateLimiter,
    UnansweredRequests,
    WorkSlots,
)
from memalchemy.http.server._middleware import (
    AccessLogMiddleware,
    EncodedPathMiddleware,
    ErrorMiddleware,
    HostMiddleware,
    LimitsMiddleware,
    OriginMiddleware,
    RequestIdMiddleware,
    TokenBackend,
)
from memalchemy.http.server._problems import Problem, routing_problem
from memalchemy.http.server._resource import Handler, Resource
from memalchemy.http.server._tokens import Grant, Tokens

MAX_BODY = 32 * 1024 * 1024
TIMEOUT = 30.0
INSPECTOR = "/inspector"
OPENAPI = wire.VERSION_PATH + "/openapi.json"

_OF_ALL = _checkpoints.endpoints | _logs.endpoints | _store.endpoints | _health.endpoints
ENDPOINTS = [_OF_ALL[operation] for operation in OPERATIONS]


def app(
    db: Database,
    *,
    tokens: Tokens | Mapping[str, str | Grant] | None = None,
    max_body: int = MAX_BODY,
    rate: float | None = None,
    burst: int | None = None,
    timeout: float = TIMEOUT,
    hosts: Iterable[str] | None = None,
    origins: Iterable[str] = (),
    limits: Limits | None = None,
    inspector: bool = False,
    requires_conditions: bool = False,
) -> Starlette:
    """Return an ASGI application that offers *db* over HTTP, by itself or mounted in another.

    It does not close *db*.

    Args:
        tokens: bearer token to tenant, or to a `Grant`; all tenants share the engine of *db*.
            Without it, everybody who reaches the application is *db*'s own tenant.
        max_body: the largest body of a request, in bytes. A larger one is answered with 413.
        rate: requests a second of one tenant, *burst* at once (twice *rate* if not given). More are
            answered with 429. Without it, any number.
        timeout: seconds that a request may take, from its headers to the last byte of its answer.
        hosts: the names that the application answers to (the header ``Host``); without it, to any.
        origins: the origins (``https://app.example``) whose pages may read and write from a browser
            (CORS); without it, only pages of this server's own origin may.
        limits: what one request, one tenant and all requests together may take.
        inspector: show the inspector at ``/inspector/``, a page that reads all that a tenant has.
        requires_conditions: answer with 428 to a ``PUT`` or ``DELETE`` of an item, and a ``PUT`` of
            a checkpoint, that says nothing of what it replaces.
    """
    limits, origins = limits or Limits(), frozenset(origins)
    if "*" in origins:
        raise ValueError("origins are named one by one: * would let in the pages of anybody")
    if max_body < 1:
        raise ValueError(f"max_body is at least 1, not {max_body!r}")
    if not timeout > 0:
        raise ValueError(f"timeout is seconds above zero, not {timeout!r}")
    if tokens is not None and not isinstance(tokens, Tokens):
        tokens = Tokens(tokens)
    for_all = [
        Middleware(
            LimitsMiddleware,
            limits=limits,
            max_body=max_body,
            timeout=timeout,
            rates=RateLimiter(rate, burst),
            in_flight=UnansweredRequests(),
            work=WorkSlots(limits),
        )
    ]
    backend = TokenBackend(tokens, db.tenant, FailureLimiter(limits.unknown_tokens))
    of_host = [] if hosts is None else [Middleware(HostMiddleware, hosts=hosts)]
    for_tenants = [
        Middleware(OriginMiddleware, origins=origins),
        *of_host,
        Middleware(AuthenticationMiddleware, backend=backend),
        *for_all,
    ]
    document = wire.dumps(
        _openapi.document(ENDPOINTS, with_tokens=tokens is not None, results=limits.results)
    )

    async def openapi(request: Request) -> Response:
        return Response(document, media_type=wire.JSON)

    routes = []
    for path in dict.fromkeys(operation.path for operation in OPERATIONS):
        endpoints = [one for one in ENDPOINTS if one.operation.path == path]
        handlers = {one.operation.method: one.respond for one in endpoints}
        is_public = all(one.operation.public for one in endpoints)
        routes.append(_route(path, handlers, for_all if is_public else for_tenants))
    if inspector:
        routes += inspector_routes(db, prefix=INSPECTOR, shell=of_host, for_tenants=for_tenants)
    application = Starlette(
        routes=[*routes, _route(OPENAPI, {"GET": openapi}, [])],
        middleware=[
            *([Middleware(SecurityHeadersMiddleware, prefix=INSPECTOR)] if inspector else []),
            Middleware(RequestIdMiddleware),
            *_cors_middleware(origins),
            Middleware(EncodedPathMiddleware),
            Middleware(AccessLogMiddleware),
            Middleware(ErrorMiddleware),
        ],
        exception_handlers={HTTPException: routing_problem},
    )
    application.router.redirect_slashes = False
    application.state.server = ServerContext(
        db,
        limits=limits,
        max_body=max_body,
        calls=[operation.name for operation in OPERATIONS],
        requires_conditions=requires_conditions,
    )
    return application


def _cors_middleware(origins: Collection[str]) -> list[Middleware]:
    """Return the middleware that answers browsers about pages of other origins."""
    if not origins:
        return []
    return [
        Middleware(
            CORSMiddleware,
            allow_origins=list(origins),
            allow_methods=["GET", "POST", "PUT", "DELETE"],
            allow_headers=[
                "Authorization",
                "Content-Type",
                "Content-Encoding",
                "Idempotency-Key",
                "If-Match",
                "If-None-Match",
                "X-Request-Id",
            ],
            expose_headers=["ETag", "Retry-After", "X-Request-Id"],
        )
    ]


def _route(path: str, handlers: Mapping[str, Handler], middleware: Sequence[Middleware]) -> Route:
    # One route for all methods of a path: its 405 lists them all.
    return Route(
        path.replace("}", ":memalchemy_id}"),
        Resource(path, handlers),
        methods=list(handlers),
        middleware=middleware,
    )


class IdConvertor(Convertor[str]):
    """A percent-encoded id in a path. It may be empty: ids are any text."""

    regex = "[^/]*"

    def convert(self, value: str) -> str:
        try:
            return wire.unquote_id(value)
        except ValueError:
            raise Problem(400, "the path is not UTF-8, percent-encoded") from None

    def to_string(self, value: str) -> str:
        return wire.quote_id(value)


register_url_convertor("memalchemy_id", IdConvertor())
