"""Routes of the inspector, which only read, and the headers that keep its page safe."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import parse_qsl

from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from memalchemy._bounds import parse_plain_json
from memalchemy._cache import BoundedCache
from memalchemy.database import Database
from memalchemy.errors import (
    CapabilityMissing,
    Corrupt,
    InvalidArgument,
    KeyMissing,
    MemalchemyError,
    NotEncrypted,
)
from memalchemy.http import wire
from memalchemy.http._offload import offload
from memalchemy.http.inspector._sql import answer, describe_tables
from memalchemy.http.inspector._static import StaticFiles
from memalchemy.http.server._middleware import check_access, check_namespace_of_token, tenant_of
from memalchemy.http.server._problems import Problem
from memalchemy.http.server._resource import Resource
from memalchemy.inspection import Inspector
from memalchemy.keys import check_tenant
from memalchemy.maintenance.stored_tenants import list_tenants

TENANTS = 32
"""Tenants of which an `Inspector` is kept."""
LISTED_TENANTS = 500
"""Tenants that are named to whoever may see all of them."""
CACHE_BYTES = 16 * 1024 * 1024
"""Bytes of states that the inspector of one tenant keeps."""
MAX_LIMIT = 500
MAX_FIELDS = 300
"""Parameters of a request, at most. Each part of a namespace is one."""

HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
}

Call = Callable[..., Awaitable[dict[str, Any]]]


class SecurityHeadersMiddleware:
    """Add the headers of the inspector's page to every answer below *prefix*, errors included."""

    def __init__(self, app: ASGIApp, prefix: str = "") -> None:
        self._app = app
        self._prefix = prefix
        self._headers = [(name.lower().encode(), value.encode()) for name, value in HEADERS.items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        is_below = scope["type"] == "http" and scope["path"].startswith(self._prefix)

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *self._headers]}
            await send(message)

        await self._app(scope, receive, send_with_headers if is_below else send)


@dataclass(frozen=True)
class _Endpoint:
    """A route that answers with one method of `Inspector`.

    ``parameters`` maps the names in a query to the method's arguments and what parses them.
    """

    call: Callable[[Inspector], Call]
    parameters: Mapping[str, tuple[str, Callable[[str], Any]]]
    required: frozenset[str] = frozenset()
    namespace: bool = False


def _parse_text(value: str) -> str:
    return value


def _parse_limit(value: str) -> int:
    return min(max(_parse_whole_number(value), 1), MAX_LIMIT)


def _parse_whole_number(value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) <= 18):
        raise InvalidArgument("a number is written in digits")
    return int(value)


def _parse_flag(value: str) -> bool:
    return value not in ("", "0", "false")


def _parse_time(value: str) -> datetime:
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise InvalidArgument("a time is written in ISO 8601") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _parse_pairs(value: str) -> dict[str, str]:
    """Return the pairs of a JSON object of texts."""
    try:
        found = parse_plain_json(value)
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(one, str) for one in found.values()):
        raise InvalidArgument("metadata is a JSON object of texts")
    return found


def _parse_tenant(value: str) -> str:
    try:
        return check_tenant(value)
    except ValueError as error:
        raise InvalidArgument(str(error)) from error


def _parameters(**parsers: Callable[[str], Any]) -> dict[str, tuple[str, Callable[[str], Any]]]:
    renamed = {"thread": "thread_id", "q": "query"}
    return {name: (renamed.get(name, name), parse) for name, parse in parsers.items()}


def _endpoint_of_thread(name: str, /, *required: str, **parsers: Callable[[str], Any]) -> _Endpoint:
    parameters = _parameters(thread=_parse_text, **parsers)
    needed = frozenset({"thread", *required})
    return _Endpoint(lambda one: getattr(one, name), parameters, needed, namespace=True)


def _endpoint_of_store(name: str, /, *required: str, **parsers: Callable[[str], Any]) -> _Endpoint:
    needed = frozenset(required)
    return _Endpoint(lambda one: getattr(one, name), _parameters(**parsers), needed, namespace=True)


def _endpoint_of_database(
    name: str, /, *required: str, **parsers: Callable[[str], Any]
) -> _Endpoint:
    needed = frozenset(required)
    return _Endpoint(lambda one: getattr(one, name), _parameters(**parsers), needed)


ENDPOINTS: dict[str, _Endpoint] = {
    "overview": _endpoint_of_database("overview"),
    "space": _endpoint_of_database("space"),
    "changes": _endpoint_of_store(
        "changes", since=_parse_text, items=_parse_flag, below=_parse_flag
    ),
    "threads": _endpoint_of_database(
        "threads",
        q=_parse_text,
        framework=_parse_text,
        about=_parse_text,
        metadata=_parse_pairs,
        since=_parse_time,
        until=_parse_time,
        waiting=_parse_flag,
        sort=_parse_text,
        descending=_parse_flag,
        cursor=_parse_text,
        limit=_parse_limit,
    ),
    "thread": _endpoint_of_thread("thread"),
    "transcript": _endpoint_of_thread(
        "transcript",
        at=_parse_text,
        before=_parse_whole_number,
        after=_parse_whole_number,
        around=_parse_whole_number,
        find=_parse_text,
        limit=_parse_limit,
        whole=_parse_flag,
    ),
    "origins": _endpoint_of_thread("origins", at=_parse_text),
    "use": _endpoint_of_database("use", framework=_parse_text, cursor=_parse_text),
    "person": _endpoint_of_database("person", "name", name=_parse_text),
    "scope": _endpoint_of_store("scope", agent=_parse_text, metadata=_parse_pairs),
    "text": _endpoint_of_thread("text", "index", index=_parse_whole_number, at=_parse_text),
    "timeline": _endpoint_of_thread("timeline", cursor=_parse_text, limit=_parse_limit),
    "entries": _endpoint_of_thread("entries", before=_parse_whole_number, limit=_parse_limit),
    "entry": _endpoint_of_thread(
        "entry",
        "position",
        position=_parse_whole_number,
        path=_parse_text,
        offset=_parse_whole_number,
    ),
    "state": _endpoint_of_thread(
        "state", at=_parse_text, path=_parse_text, offset=_parse_whole_number
    ),
    "diff": _endpoint_of_thread("diff", "a", "b", a=_parse_text, b=_parse_text, raw=_parse_flag),
    "writes": _endpoint_of_thread("writes", at=_parse_text),
    "namespaces": _endpoint_of_store(
        "namespaces", internal=_parse_flag, cursor=_parse_text, limit=_parse_limit
    ),
    "items": _endpoint_of_store(
        "items",
        q=_parse_text,
        match=_parse_text,
        below=_parse_flag,
        internal=_parse_flag,
        cursor=_parse_text,
        limit=_parse_limit,
    ),
    "item": _endpoint_of_store(
        "item", "key", key=_parse_text, path=_parse_text, offset=_parse_whole_number
    ),
    "neighbours": _endpoint_of_store("neighbours", "key", key=_parse_text, limit=_parse_limit),
    "memories": _endpoint_of_database(
        "memories",
        "kind",
        kind=_parse_text,
        user=_parse_text,
        cursor=_parse_text,
        limit=_parse_limit,
    ),
    "search": _endpoint_of_database(
        "search", "q", q=_parse_text, match=_parse_text, limit=_parse_limit
    ),
    "tables": _Endpoint(lambda one: partial(describe_tables, one.db), {}),
    "sql": _Endpoint(
        lambda one: partial(answer, one.db),
        _parameters(q=_parse_text, since=_parse_time),
        frozenset({"q"}),
    ),
}
"""The routes below ``api/``, by their names."""


def inspector_routes(
    db: Database,
    *,
    prefix: str,
    shell: Sequence[Middleware],
    for_tenants: Sequence[Middleware],
    all_tenants: bool = False,
) -> list[Route]:
    """Return the routes of the inspector below *prefix*.

    Args:
        shell: the middleware in front of the page's files, which show nothing of any tenant.
        for_tenants: the middleware in front of what is read from the database.
        all_tenants: show whoever has a token every tenant of *db*, not the token's alone.
    """
    inspectors: BoundedCache[str, Inspector] = BoundedCache(TENANTS)

    def inspector_of(scope: Scope, asked: str | None) -> Inspector:
        own = tenant_of(scope) or db.tenant
        name = asked or own
        if name != own and not all_tenants:
            raise Problem(403, f"this token is for tenant {own!r} alone")
        of_tenant = db if name == db.tenant else db.for_tenant(name)
        return inspectors.get_or_put(name, lambda: Inspector(of_tenant, cache_bytes=CACHE_BYTES))

    async def tenants_of_token(own: str) -> dict[str, Any]:
        """Return the tenants that a token may see; ``more`` if there are others."""
        found = [own]
        if all_tenants:
            with suppress(CapabilityMissing):  # row-level security shows the role one tenant
                await db.check_sees_all_tenants("a list")
                found = sorted({own, *await list_tenants(db, most=LISTED_TENANTS + 1)})
        return {"tenants": found[:LISTED_TENANTS], "more": len(found) > LISTED_TENANTS}

    def api(name: str, endpoint: _Endpoint) -> Route:
        async def respond(request: Request) -> Response:
            check_access(request.scope, "read")
            check_namespace_of_token(request.scope, None)
            arguments = _parse_arguments(endpoint, request)
            inspector = inspector_of(request.scope, arguments.pop("tenant", None))
            tree = await _call_inspector(endpoint.call(inspector), arguments)
            document = await offload(tree, lambda: wire.dumps(tree))
            return Response(document, headers={"Cache-Control": "no-store"}, media_type=wire.JSON)

        path = f"{prefix}/api/{name}"
        resource = Resource(path, {"GET": respond})
        return Route(path, resource, methods=["GET"], middleware=for_tenants)

    async def unknown(request: Request) -> Response:
        raise Problem(404, "the inspector has no such endpoint")

    async def redirect(request: Request) -> Response:
        return RedirectResponse(f"{prefix.rpartition('/')[2]}/", 308)

    files = Resource(f"{prefix}/", {"GET": StaticFiles()})
    nothing = Resource(f"{prefix}/api/", {"GET": unknown})
    tenants = _Endpoint(lambda one: partial(tenants_of_token, one.db.tenant), {})
    routes = [api(name, one) for name, one in (ENDPOINTS | {"tenants": tenants}).items()]
    routes += [
        Route(f"{prefix}/api/{{name:path}}", nothing, methods=["GET"], middleware=for_tenants),
        Route(f"{prefix}/{{file:path}}", files, methods=["GET"], middleware=shell),
    ]
    if prefix:
        resource = Resource(prefix, {"GET": redirect})
        routes.append(Route(prefix, resource, methods=["GET"], middleware=shell))
    return routes


async def _call_inspector(call: Call, arguments: dict[str, Any]) -> dict[str, Any]:
    """Call a method of the inspector; if data cannot be read, answer with the reason."""
    try:
        return await call(**arguments)
    except (KeyMissing, NotEncrypted) as error:
        raise _to_problem(422, error) from error
    except Corrupt as error:
        raise _to_problem(500, error) from error


def _to_problem(status: int, error: MemalchemyError) -> Problem:
    return Problem(status, str(error), code=error.code, error=type(error).__name__)


def _parse_arguments(endpoint: _Endpoint, request: Request) -> dict[str, Any]:
    # Starlette's query_params replaces what is not UTF-8, such as the lone surrogates of an id.
    text = request.scope["query_string"].decode("latin-1")
    try:
        pairs = parse_qsl(
            text, keep_blank_values=True, errors="surrogatepass", max_num_fields=MAX_FIELDS
        )
    except ValueError:
        raise Problem(400, "the query is percent-encoded UTF-8") from None
    parameters = {"tenant": ("tenant", _parse_tenant), **endpoint.parameters}
    arguments: dict[str, Any] = {}
    namespace: list[str] = []
    given: set[str] = set()
    for name, value in pairs:
        if name == "ns" and endpoint.namespace:
            namespace.append(value)
            continue
        if name not in parameters or name in given:
            raise InvalidArgument(f"the parameter {name!r} is unknown here, or is given twice")
        given.add(name)
        argument, parse = parameters[name]
        arguments[argument] = parse(value)
    if missing := endpoint.required - given:
        raise InvalidArgument(f"the parameter {min(missing)!r} is missing")
    if endpoint.namespace:
        arguments["namespace"] = tuple(namespace)
    return arguments
