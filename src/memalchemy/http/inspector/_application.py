"""The ASGI application of the inspector alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from memalchemy.database import Database
from memalchemy.errors import DriverMissing

try:
    import starlette  # noqa: F401 - the modules below need it
except ImportError as error:
    raise DriverMissing("starlette", "server", what="package") from error

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.authentication import AuthenticationMiddleware

from memalchemy.http.inspector._routes import SecurityHeadersMiddleware, inspector_routes
from memalchemy.http.server._limits import (
    FailureLimiter,
    Limits,
    RateLimiter,
    UnansweredRequests,
    WorkSlots,
)
from memalchemy.http.server._middleware import (
    AccessLogMiddleware,
    ErrorMiddleware,
    HostMiddleware,
    LimitsMiddleware,
    TokenBackend,
)
from memalchemy.http.server._problems import routing_problem
from memalchemy.http.server._tokens import Tokens

MAX_BODY = 1024
"""Bytes of a request's body: none of these requests has one."""
TIMEOUT = 30.0


def inspector_app(
    db: Database,
    *,
    tokens: Mapping[str, str],
    hosts: Iterable[str] | None = None,
    all_tenants: bool = False,
) -> Starlette:
    """Return an application that shows the inspector at ``/``. It does not close *db*.

    Args:
        tokens: bearer token to tenant.
        hosts: the names that the application answers to (the header ``Host``); without it, to any.
        all_tenants: show every tenant, not that of the token alone.
    """
    backend = TokenBackend(Tokens(tokens), db.tenant, FailureLimiter(Limits().unknown_tokens))
    shell = [] if hosts is None else [Middleware(HostMiddleware, hosts=hosts)]
    for_tenants = [
        *shell,
        Middleware(AuthenticationMiddleware, backend=backend),
        Middleware(
            LimitsMiddleware,
            limits=Limits(),
            max_body=MAX_BODY,
            timeout=TIMEOUT,
            rates=RateLimiter(None),
            in_flight=UnansweredRequests(),
            work=WorkSlots(Limits()),
        ),
    ]
    application = Starlette(
        routes=inspector_routes(
            db, prefix="", shell=shell, for_tenants=for_tenants, all_tenants=all_tenants
        ),
        middleware=[
            Middleware(SecurityHeadersMiddleware),
            Middleware(AccessLogMiddleware),
            Middleware(ErrorMiddleware),
        ],
        exception_handlers={HTTPException: routing_problem},
    )
    application.router.redirect_slashes = False
    return application
