"""The ASGI application: from a request to an endpoint and back. Any ASGI server runs it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError

from memalchemy.checkpoints import Checkpointer
from memalchemy.database import Database
from memalchemy.errors import DriverMissing, TooLarge
from memalchemy.http import openapi, wire
from memalchemy.http.apart import apart
from memalchemy.http.calls import Call, Route
from memalchemy.http.guard import ASGI, Guard, Receive, Scope, Send
from memalchemy.http.limits import Limits, has_more_values
from memalchemy.http.problems import Problem
from memalchemy.http.readiness import Readiness
from memalchemy.http.routes import ROUTES
from memalchemy.http.tokens import Rates, Tokens
from memalchemy.store import Store

try:
    from starlette.convertors import Convertor, register_url_convertor
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.routing import Route as StarletteRoute
    from starlette.routing import Router
except ImportError as error:
    raise DriverMissing("starlette", "server", what="package") from error

MAX_BODY = 32 * 1024 * 1024
TIMEOUT = 30.0


class _Segment(Convertor[str]):
    """A segment of a path, which may be empty: ids are any text. `Guard` left it encoded."""

    regex = "[^/]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return wire.segment(value)


register_url_convertor("memalchemy_id", _Segment())


def app(
    db: Database,
    *,
    tokens: Tokens | Mapping[str, str] | None = None,
    max_body: int = MAX_BODY,
    rate: float | None = None,
    burst: int | None = None,
    timeout: float = TIMEOUT,
    hosts: Iterable[str] | None = None,
    origins: Iterable[str] = (),
    limits: Limits | None = None,
) -> ASGI:
    """An ASGI application that offers *db* over HTTP, to be served by itself or mounted in another.

    It does not close *db*.

    Args:
        tokens: bearer token to tenant; all tenants share the engine of *db*. Without, everybody who
            reaches it is *db*'s own tenant.
        max_body: the most bytes that a request may bring; more is answered with 413.
        rate: requests a second that a tenant may make, *burst* at once (twice *rate* if not given);
            more is answered with 429. Without, as many as it wants.
        timeout: seconds that a request may take, from its first byte to the last of its answer.
        hosts: the names that it answers to (the header ``Host``); without, to any.
        origins: the origins (``https://app.example``) whose pages may make a browser write here;
            without, only pages of this server's own may.
        limits: what a request, a tenant and all requests together may take.
    """
    limits = limits or Limits()
    if max_body < 1:
        raise ValueError(f"max_body is at least 1, not {max_body!r}")
    if not timeout > 0:
        raise ValueError(f"timeout is seconds above zero, not {timeout!r}")
    if tokens is not None and not isinstance(tokens, Tokens):
        tokens = Tokens(tokens)
    features: dict[str, tuple[Database, Checkpointer, Store]] = {}
    public = wire.dumps(
        openapi.document(ROUTES, with_tokens=tokens is not None, results=limits.results)
    )

    def features_of(tenant: str) -> tuple[Database, Checkpointer, Store]:
        found = features.get(tenant)
        if found is None:
            theirs = db if tenant == db.tenant else db.for_tenant(tenant)
            found = features[tenant] = theirs, Checkpointer(theirs), Store(theirs)
        return found

    async def document(request: Request) -> Response:
        _check_method(request, ["GET"])
        request.scope["memalchemy.route"] = "/openapi.json"
        return Response(public, media_type=wire.JSON)

    readiness = Readiness(db.check)
    by_path: dict[str, dict[str, Route]] = {}
    for route in ROUTES:
        by_path.setdefault(route.path, {})[route.method] = route
    served = [StarletteRoute("/openapi.json", document)] + [
        StarletteRoute(
            path.replace("}", ":memalchemy_id}"),
            _dispatcher(methods, features_of, db.tenant, max_body, limits, readiness),
        )
        for path, methods in by_path.items()
    ]
    for one in served:
        one.methods = set()  # any: `_check_method` knows them all, and says so
    inner = Router(served, redirect_slashes=False, default=_nowhere)
    return Guard(
        inner,
        tokens=tokens,
        tenant=db.tenant,
        rates=Rates(rate, burst),
        max_body=max_body,
        timeout=timeout,
        hosts=hosts,
        origins=origins,
        limits=limits,
    )


async def _nowhere(scope: Scope, receive: Receive, send: Send) -> None:
    raise Problem(404, "there is no such endpoint; /openapi.json has them all")


def _check_method(request: Request, methods: Iterable[str]) -> None:
    allowed = {*methods, *(["HEAD"] if "GET" in methods else [])}
    if request.method not in allowed:
        raise Problem(
            405,
            "this endpoint does not take this method",
            headers={"Allow": ", ".join(sorted(allowed))},
        )


def _dispatcher(
    methods: dict[str, Route],
    features_of: Callable[[str], tuple[Database, Checkpointer, Store]],
    own: str,
    max_body: int,
    limits: Limits,
    readiness: Readiness,
) -> Callable[[Request], Awaitable[Response]]:
    async def answer(request: Request) -> Response:
        _check_method(request, methods)
        route = methods["GET" if request.method == "HEAD" else request.method]
        request.scope["memalchemy.route"] = route.path
        db, checkpointer, store = features_of(request.scope["memalchemy.tenant"] or own)
        call = Call(
            db=db,
            checkpointer=checkpointer,
            store=store,
            path=_path(request),
            query=_within(limits, _query(route, request)),
            body=None
            if route.body is None
            else _within(limits, await _body(route.body, request, limits)),
            max_body=max_body,
            readiness=readiness,
        )
        tree = await route.endpoint(call)
        content = await apart(tree, lambda: _dumps(tree, limits.answer_bytes))
        headers = {"Cache-Control": "no-store"}
        return Response(content, route.status, headers=headers, media_type=wire.JSON)

    return answer


def _path(request: Request) -> dict[str, str]:
    try:
        return {name: wire.text_of(value) for name, value in request.path_params.items()}
    except ValueError:
        raise Problem(400, "the path is not UTF-8, percent-encoded") from None


def _query(route: Route, request: Request) -> BaseModel | None:
    text = request.scope["query_string"].decode("latin-1")
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="surrogatepass", max_num_fields=50)
    except ValueError:
        raise Problem(400, "the query is not UTF-8, percent-encoded") from None
    if len(dict(pairs)) < len(pairs):
        raise _mistaken("a parameter is given twice")
    if route.query is None:
        if pairs:
            raise _mistaken("this operation takes no parameters")
        return None
    return _checked(route.query, dict(pairs))


def _within(limits: Limits, given: BaseModel | None) -> BaseModel | None:
    for name in ("limit", "offset", "among"):
        if (getattr(given, name, None) or 0) > limits.results:
            raise _mistaken(f"/{name}: is at most {limits.results:,} on this server")
    return given


def _dumps(tree: Any, limit: int) -> bytes:
    """A JSON document. A list in an answer is encoded piece by piece, so as to stop in time."""
    lists = [name for name, value in tree.items() if isinstance(value, list)]
    if len(tree) > 1 or not lists:
        document = wire.dumps(tree)
        _check_size(len(document), limit)
        return document
    pieces, size = [], 0
    for one in tree[lists[0]]:
        pieces.append(wire.dumps(one))
        size += len(pieces[-1]) + 1
        _check_size(size, limit)
    return b'{"%s":[%s]}' % (lists[0].encode(), b",".join(pieces))


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        raise Problem(
            422,
            f"the answer is {size:,} bytes or more, this server's are {limit:,} at most; ask for "
            "fewer at once (limit)",
            code=TooLarge.code,
            error="TooLarge",
            size=size,
            limit=limit,
        )


async def _body(shape: type[BaseModel], request: Request, limits: Limits) -> BaseModel:
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != wire.JSON or request.headers.get("content-encoding", "identity") != "identity":
        raise Problem(
            415, "send the body as JSON with Content-Type: application/json, not compressed"
        )
    document = await request.body()

    def read() -> BaseModel:
        if has_more_values(document, limits.values):
            raise Problem(
                413,
                f"the body holds more than {limits.values:,} JSON values, this server's limit",
                code=TooLarge.code,
                error="TooLarge",
                size=limits.values + 1,
                limit=limits.values,
            )
        try:
            tree = wire.loads(document)
        except ValueError as error:
            words = str(error) if type(error) is ValueError else "it cannot be read"
            raise Problem(400, f"the body is not JSON: {words}") from None
        return _checked(shape, tree)

    return await apart(document, read)


def _checked(shape: type[BaseModel], tree: Any) -> BaseModel:
    try:
        return shape.model_validate(tree)
    except ValidationError as error:
        # Where and why; not the value itself, which is the caller's and may be private.
        found = [
            ("/" + "/".join(map(str, one["loc"])), _why(one))
            for one in error.errors(include_url=False, include_input=False, include_context=False)
        ]
        words = "; ".join(f"{where}: {why}" for where, why in found[:5])
        raise _mistaken(words) from None


def _why(error: Any) -> str:
    # In pydantic's words it has the name of a class, which is nobody's business.
    return "is not an object" if error["type"] == "model_type" else str(error["msg"])


def _mistaken(words: str) -> Problem:
    return Problem(422, words, code=wire.ARGUMENT, error="ValueError")
