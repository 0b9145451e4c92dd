"""Endpoints: the functions of the server that carry out operations.

`Endpoint.respond` checks a request by the declaration of its operation, and encodes the answer.
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
from memalchemy.http._gzip import GZIP, gzip_document
from memalchemy.http._offload import offload
from memalchemy.http.operations import Operation
from memalchemy.http.server import _schemas as schemas
from memalchemy.http.server._compression import SMALLEST, accepts_gzip
from memalchemy.http.server._conditions import Conditions
from memalchemy.http.server._context import OperationResult, RequestContext, ServerContext
from memalchemy.http.server._idempotency import answer_once, check_key, fingerprint
from memalchemy.http.server._limits import Limits, has_more_values
from memalchemy.http.server._middleware import check_access, check_namespace_of_token, tenant_of
from memalchemy.http.server._problems import Problem, too_large
from memalchemy.http.server._schemas import ListNamespacesQuery, NamingNamespaces
from memalchemy.keys import parse_namespace

Function = Callable[..., Awaitable[Any]]
"""``async def name(context, [path parameters], [query], [body], [conditions])``.

It returns a tree of JSON, or an `OperationResult`.
"""


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The function of an operation, and the schemas that the operation names.

    The docstring of the function is the summary of the operation.
    """

    operation: Operation
    function: Function
    answer: type[BaseModel]
    query: type[BaseModel] | None
    body: type[BaseModel] | None

    @property
    def summary(self) -> str:
        return " ".join(inspect.cleandoc(self.function.__doc__ or "").split())

    async def respond(self, request: Request) -> Response:
        """Check *request*, call the endpoint, and encode what it returns."""
        server: ServerContext = request.app.state.server
        operation = self.operation
        is_guarded = not (operation.public or operation.any_token)
        if is_guarded:
            for access in operation.access:
                check_access(request.scope, access)
        arguments = _path_arguments(request)
        parameters = _query_parameters(request)
        if self.query is not None:
            arguments["query"] = _validate(self.query, parameters, server.limits)
        elif parameters:
            raise InvalidArgument("this operation takes no parameters")
        names_in_body = self.body is not None and issubclass(self.body, NamingNamespaces)
        if is_guarded and not (names_in_body and "namespace" not in arguments):
            check_namespace_of_token(request.scope, _namespace_of(arguments))
        if self.body is not None:
            body = arguments["body"] = await _parse_body(self.body, request, server.limits)
            for namespace in body.namespaces() if isinstance(body, NamingNamespaces) else ():
                check_namespace_of_token(request.scope, namespace)
        if operation.conditional:
            arguments["conditions"] = Conditions.of(request.headers)
        context = server.of_tenant(tenant_of(request.scope))
        answer = await self._answer_request(request, context, arguments)
        headers = {"Cache-Control": "no-store", **answer.headers}
        status = answer.status or operation.status
        if answer.tree is None:
            return Response(status_code=status, headers=headers)
        tree = answer.tree
        document = await offload(tree, lambda: _encode(tree, server.limits.answer_bytes))
        if len(document) >= SMALLEST:
            headers["Vary"] = "Accept-Encoding"
            if accepts_gzip(request.headers.get("accept-encoding", "")):
                document = await gzip_document(document)
                headers["Content-Encoding"] = GZIP
        return Response(document, status, headers=headers, media_type=wire.JSON)

    async def _answer_request(
        self, request: Request, context: RequestContext, arguments: dict[str, Any]
    ) -> OperationResult:
        async def call(context: RequestContext) -> OperationResult:
            found = await self.function(context, **arguments)
            return found if isinstance(found, OperationResult) else OperationResult(found)

        key = request.headers.get("idempotency-key")
        if key is None or not self.operation.writes:
            return await call(context)
        if not self.operation.keyed:
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


class Endpoints(dict[Operation, Endpoint]):
    """The endpoints of one part of the server."""

    def add(self, operation: Operation) -> Callable[[Function], Function]:
        """Make the decorated function that of *operation*.

        The function of a *keyed* operation passes ``context.connection`` on to what it calls.
        """

        def register(function: Function) -> Function:
            self[operation] = Endpoint(
                operation,
                function,
                getattr(schemas, operation.answer),
                None if operation.query is None else getattr(schemas, operation.query),
                None if operation.body is None else getattr(schemas, operation.body),
            )
            return function

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
        raise InvalidArgument("; ".join(map(_describe_error, found))) from None


def _describe_error(error: ErrorDetails) -> str:
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
