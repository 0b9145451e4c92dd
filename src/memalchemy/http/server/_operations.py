"""Operations of the server. `Operations.add` declares one as a decorator of its function.

Its route, the checks of its requests and its part of the OpenAPI document are made from that.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails
from starlette.requests import Request
from starlette.responses import Response

from memalchemy._bounds import Oversized
from memalchemy.errors import InvalidArgument, TooLarge
from memalchemy.http import wire
from memalchemy.http._gzip import GZIP, compress
from memalchemy.http._offload import offload
from memalchemy.http.server._compression import SMALLEST, accepts_gzip
from memalchemy.http.server._conditions import Conditions
from memalchemy.http.server._context import Answer, RequestContext, ServerContext
from memalchemy.http.server._idempotency import answer_once, check_key, fingerprint
from memalchemy.http.server._limits import Limits, has_more_values
from memalchemy.http.server._middleware import check_access, check_namespace, tenant_of
from memalchemy.http.server._problems import Problem, too_large
from memalchemy.http.server._schemas import ListNamespacesQuery, NamingNamespaces
from memalchemy.http.server._tokens import Scope as Access
from memalchemy.keys import parse_namespace

Endpoint = Callable[..., Awaitable[Any]]
"""``async def name(context, [path parameters], [query], [body], [conditions])``.

It returns a tree of JSON, or an `Answer`.
"""


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of the server.

    The name of the endpoint is its operation id, the docstring its summary. ``other_statuses`` are
    successes that are not ``status``, with the same schema. ``problems`` are the
    error statuses that only some operations have. A ``public`` operation needs no token: it shows
    nothing of any tenant. A ``conditional`` one takes If-Match and If-None-Match, a ``keyed`` one
    an Idempotency-Key: it passes ``context.connection`` on. A token needs each scope of ``access``.
    ``any_token`` is for one that every token is good for, whatever its scopes.
    """

    method: str
    path: str
    endpoint: Endpoint
    tag: str
    answer: type[BaseModel]
    query: type[BaseModel] | None
    body: type[BaseModel] | None
    status: int
    other_statuses: tuple[int, ...]
    problems: tuple[int, ...]
    public: bool
    access: tuple[Access, ...]
    conditional: bool
    keyed: bool
    any_token: bool

    @property
    def name(self) -> str:
        return self.endpoint.__name__

    @property
    def summary(self) -> str:
        return " ".join(inspect.cleandoc(self.endpoint.__doc__ or "").split())

    async def respond(self, request: Request) -> Response:
        """Check *request*, call the endpoint, and encode what it returns."""
        server: ServerContext = request.app.state.server
        is_guarded = not (self.public or self.any_token)
        if is_guarded:
            for access in self.access:
                check_access(request.scope, access)
        arguments = _path_arguments(request)
        parameters = _query_parameters(request)
        if self.query is not None:
            arguments["query"] = _validate(self.query, parameters, server.limits)
        elif parameters:
            raise InvalidArgument("this operation takes no parameters")
        names_in_body = self.body is not None and issubclass(self.body, NamingNamespaces)
        if is_guarded and not (names_in_body and "namespace" not in arguments):
            check_namespace(request.scope, _namespace_of(arguments))
        if self.body is not None:
            body = arguments["body"] = await _parse_body(self.body, request, server.limits)
            for namespace in body.namespaces() if isinstance(body, NamingNamespaces) else ():
                check_namespace(request.scope, namespace)
        if self.conditional:
            arguments["conditions"] = Conditions.of(request.headers)
        context = server.of_tenant(tenant_of(request.scope))
        answer = await self._answer(request, context, arguments)
        headers = {"Cache-Control": "no-store", **answer.headers}
        status = answer.status or self.status
        if answer.tree is None:
            return Response(status_code=status, headers=headers)
        tree = answer.tree
        document = await offload(tree, lambda: _encode(tree, server.limits.answer_bytes))
        if len(document) >= SMALLEST:
            headers["Vary"] = "Accept-Encoding"
            if accepts_gzip(request.headers.get("accept-encoding", "")):
                document = await compress(document)
                headers["Content-Encoding"] = GZIP
        return Response(document, status, headers=headers, media_type=wire.JSON)

    async def _answer(
        self, request: Request, context: RequestContext, arguments: dict[str, Any]
    ) -> Answer:
        async def call(context: RequestContext) -> Answer:
            found = await self.endpoint(context, **arguments)
            return found if isinstance(found, Answer) else Answer(found)

        key = request.headers.get("idempotency-key")
        if key is None or self.access == ("read",):
            return await call(context)
        if not self.keyed:
            raise InvalidArgument("this operation takes no Idempotency-Key; nothing was done")
        parts = (
            request.method,
            request.scope["path"],
            request.scope["query_string"].decode("latin-1"),
        )
        conditions = [request.headers.get(name, "") for name in ("if-match", "if-none-match")]
        texts = [part.encode("utf-8", "surrogateescape") for part in (*parts, *conditions)]
        body = await request.body()
        return await answer_once(context, check_key(key), fingerprint(*texts, body), call)


class Operations(list[Operation]):
    """The operations of one part of the server, in the order of their declaration.

    Their paths are below the version of the API, those of public operations are not: whoever asks
    for the health of a server does not know its version.
    """

    def __init__(self, tag: str) -> None:
        super().__init__()
        self._tag = tag

    def add(
        self,
        method: str,
        path: str,
        *,
        answer: type[BaseModel],
        query: type[BaseModel] | None = None,
        body: type[BaseModel] | None = None,
        status: int = 200,
        other_statuses: tuple[int, ...] = (),
        problems: tuple[int, ...] = (),
        public: bool = False,
        access: Access | tuple[Access, ...] | None = None,
        conditional: bool = False,
        keyed: bool = False,
        any_token: bool = False,
    ) -> Callable[[Endpoint], Endpoint]:
        """Declare the decorated function as the endpoint of an operation.

        If *access* is not given, a ``GET`` reads and other methods write.
        """
        given: Access | tuple[Access, ...] = access or ("read" if method == "GET" else "write")
        right = given if isinstance(given, tuple) else (given,)

        whole_path = path if public else wire.VERSION_PATH + path

        def register(endpoint: Endpoint) -> Endpoint:
            self.append(
                Operation(
                    method,
                    whole_path,
                    endpoint,
                    self._tag,
                    answer,
                    query,
                    body,
                    status,
                    other_statuses,
                    problems,
                    public,
                    right,
                    conditional,
                    keyed,
                    any_token,
                )
            )
            return endpoint

        return register


def _namespace_of(arguments: dict[str, Any]) -> tuple[str, ...] | None:
    """Return the namespace that a request is about, ``None`` if it is about more than one."""
    query = arguments.get("query")
    if isinstance(query, ListNamespacesQuery):
        return None if query.prefix is None else parse_namespace(query.prefix)
    found: tuple[str, ...] | None = arguments.get("namespace")
    return found


def _path_arguments(request: Request) -> dict[str, Any]:
    arguments = dict(request.path_params)
    if "namespace" in arguments:
        arguments["namespace"] = parse_namespace(arguments["namespace"])
    if "position" in arguments:
        if not re.fullmatch("[0-9]{1,18}", arguments["position"]):
            raise InvalidArgument("a position is a whole number")
        arguments["position"] = int(arguments["position"])
    return arguments


def _query_parameters(request: Request) -> dict[str, str]:
    # Starlette's query_params replaces what is not UTF-8, such as the lone surrogates of an id.
    text = request.scope["query_string"].decode("latin-1")
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="surrogatepass", max_num_fields=50)
    except ValueError:
        detail = "the query is percent-encoded UTF-8, and has 50 parameters at most"
        raise Problem(400, detail) from None
    parameters = dict(pairs)
    if len(parameters) < len(pairs):
        raise InvalidArgument("a parameter is given twice")
    return parameters


async def _parse_body(schema: type[BaseModel], request: Request, limits: Limits) -> BaseModel:
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != wire.JSON:
        raise Problem(415, "send the body as JSON with Content-Type: application/json")
    document = await request.body()

    def parse() -> BaseModel:
        if has_more_values(document, limits.values):
            detail = f"the body holds more than {limits.values:,} JSON values, this server's limit"
            raise too_large(detail, limits.values + 1, limits.values)
        try:
            tree = wire.loads(document)
        except Oversized as error:
            raise too_large(f"the body {error}", error.size, error.limit) from None
        except ValueError as error:
            # Only memalchemy's own words: those of the parser quote the document.
            detail = str(error) if type(error) is ValueError else "it cannot be parsed"
            raise Problem(400, f"the body is not JSON: {detail}") from None
        return _validate(schema, tree, limits)

    return await offload(document, parse)


def _validate(schema: type[BaseModel], tree: Any, limits: Limits) -> BaseModel:
    try:
        return schema.model_validate(tree, context=limits)
    except ValidationError as error:
        # The place and the reason, without the value: it is the caller's and may be private.
        found = error.errors(include_url=False, include_input=False, include_context=False)[:5]
        raise InvalidArgument("; ".join(map(_described, found))) from None


def _described(error: ErrorDetails) -> str:
    place = "/" + "/".join(map(str, error["loc"]))
    # pydantic's own message of this type names the class of the schema.
    reason = "is not an object" if error["type"] == "model_type" else error["msg"]
    return f"{place}: {reason.removeprefix('Value error, ')}"


def _encode(tree: dict[str, Any], limit: int) -> bytes:
    """Return the JSON document of an answer. A list is encoded item by item, to stop in time."""
    members, size = [], 0
    for name, value in tree.items():
        pieces = []
        for item in value if isinstance(value, list) else [value]:
            pieces.append(wire.dumps(item))
            size += len(pieces[-1]) + 1
            _check_size(size, limit)
        joined = b",".join(pieces)
        members.append(
            b'"%s":%s' % (name.encode(), b"[%s]" % joined if isinstance(value, list) else joined)
        )
    return b"{%s}" % b",".join(members)


def _check_size(size: int, limit: int) -> None:
    if size > limit:
        advice = "; ask for fewer results at once (limit)"
        raise TooLarge("the answer", size, limit, "bytes or more", advice)
