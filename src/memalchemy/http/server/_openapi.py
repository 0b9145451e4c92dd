"""The OpenAPI 3.1 document of the operations."""

from __future__ import annotations

from collections.abc import Sequence
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from memalchemy._version import __version__
from memalchemy.http import wire
from memalchemy.http.operations import Operation
from memalchemy.http.server import _schemas as schemas
from memalchemy.http.server._endpoints import Endpoint
from memalchemy.http.server._limits import MAX_RESULTS
from memalchemy.keys import MAX_ID_CHARACTERS

_REF = "#/components/schemas/{model}"

_DESCRIPTION = (
    "Everything an agent remembers, over HTTP. Values that JSON lacks travel as objects with one "
    'key: {"~b": base64}, {"~dt": ISO 8601}, {"~t": tuple}, {"~s": set}, {"~f": frozenset}, '
    '{"~d": date}, {"~u": UUID}, {"~c": Decimal}, {"~i": hex of a large int}, {"~n": NaN or inf}, '
    '{"~h": [class of pathlib, text]}, {"~m": [type of numpy, little-endian bytes]}, '
    '{"~x": base64 of a text that is not UTF-8}; an object that has a key which begins with ~ is '
    '{"~o": [[key, value], …]}. Ids in paths are percent-encoded, slashes too.'
)


def document(endpoints: Sequence[Endpoint], *, with_tokens: bool, results: int) -> dict[str, Any]:
    """Return the document.

    Args:
        with_tokens: whether the operations of a tenant take a bearer token.
        results: the largest limit that the server accepts.
    """
    models: dict[type[BaseModel], None] = {schemas.ProblemDocument: None}
    paths: dict[str, Any] = {}
    for endpoint in endpoints:
        models |= dict.fromkeys(m for m in (endpoint.body, endpoint.answer) if m is not None)
        path = paths.setdefault(endpoint.operation.path, {})
        path[endpoint.operation.method.lower()] = _describe_operation(endpoint, with_tokens)
    modes: Any = [(model, "validation") for model in models]
    _, definitions = models_json_schema(modes, ref_template=_REF)
    components: dict[str, Any] = {"schemas": definitions["$defs"], "headers": _ANSWER_HEADERS}
    if with_tokens:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    _lower_maximum([paths, components], results)
    return {
        "openapi": "3.1.0",
        "info": {"title": "memalchemy", "version": __version__, "description": _DESCRIPTION},
        "paths": paths,
        "components": components,
    }


def _lower_maximum(tree: Any, results: int) -> None:
    for value in tree.values() if isinstance(tree, dict) else tree:
        if isinstance(value, dict) and value.get("maximum") == MAX_RESULTS:
            value["maximum"] = results
        if isinstance(value, dict | list):
            _lower_maximum(value, results)


def _describe_operation(endpoint: Endpoint, with_tokens: bool) -> dict[str, Any]:
    operation = endpoint.operation
    tagged = ("ETag",) if _may_be_unchanged(operation) else ()
    answer = {
        "description": HTTPStatus(operation.status).phrase,
        "headers": _header_refs("Content-Encoding", "Vary", *tagged),
        "content": {wire.JSON: {"schema": _reference_to_schema(endpoint.answer)}},
    }
    unchanged = {"description": "Not Modified", "headers": _header_refs("ETag")}
    statuses = sorted(_problem_statuses(operation, with_tokens))
    found: dict[str, Any] = {
        "operationId": operation.name,
        "summary": endpoint.summary,
        "tags": [operation.tag],
        "responses": {
            str(operation.status): answer,
            **({"304": unchanged} if _may_be_unchanged(operation) else {}),
            **{str(status): _describe_problem(status) for status in statuses},
        },
    }
    if with_tokens and not operation.public:
        found["security"] = [{"token": [] if operation.any_token else list(operation.access)}]
    parameters = [_path_parameter(name) for name in operation.parameters]
    parameters += [_describe_header(name) for name in _header_names(operation)]
    if endpoint.query is not None:
        parameters += _query_parameters(endpoint.query)
    if parameters:
        found["parameters"] = parameters
    if endpoint.body is not None:
        content = {wire.JSON: {"schema": _reference_to_schema(endpoint.body)}}
        found["requestBody"] = {"required": True, "description": _BODY, "content": content}
    return found


def _may_be_unchanged(operation: Operation) -> bool:
    return operation.conditional and operation.method == "GET"


def _problem_statuses(operation: Operation, with_tokens: bool) -> set[int]:
    # 400: no request may have a path or a query that is not percent-encoded UTF-8.
    statuses = {400, 422, 503, 504, *operation.problems}
    if not operation.public:
        statuses.add(429)
        if with_tokens:
            statuses |= {401, 403}
    if operation.method != "GET":
        statuses |= {403, 415}
    if operation.conditional and operation.method != "GET":
        statuses |= {412, 428}
    if operation.keyed:
        statuses.add(409)
    if operation.body is not None:
        statuses |= {408, 413, 415}
    return statuses


def _describe_problem(status: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "description": HTTPStatus(status).phrase,
        "content": {wire.PROBLEM_JSON: {"schema": _reference_to_schema(schemas.ProblemDocument)}},
    }
    names = ["Retry-After"] if status in (429, 503) else ["ETag"] if status == 412 else []
    found["headers"] = _header_refs(*names)
    return found


def _reference_to_schema(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _REF.format(model=model.__name__)}


def _path_parameter(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": MAX_ID_CHARACTERS}
    if name == "namespace":
        schema = schemas.NAMESPACE
    if name == "position":
        schema = {"type": "integer", "minimum": 0, "maximum": 10**18 - 1}
    return {"name": name, "in": "path", "required": True, "schema": schema}


_BODY = (
    "It may be compressed, as one stream of gzip, with Content-Encoding: gzip. The limits of the "
    "server are for what it expands to."
)

_ANSWER_HEADERS: dict[str, Any] = {
    "X-Request-Id": {
        "description": "The id of the request: that of its X-Request-Id, or a new one.",
        "required": True,
        "schema": {"type": "string", "pattern": "^[A-Za-z0-9._:/+=-]{1,128}$"},
    },
    "ETag": {
        "description": "The entity tag of what is there, for If-Match and If-None-Match.",
        "schema": {"type": "string", "pattern": '^"[!#-~]*"$'},
    },
    "Content-Encoding": {
        "description": "Of an answer of 1 KiB and more, if Accept-Encoding takes it.",
        "schema": {"type": "string", "enum": ["gzip"]},
    },
    "Vary": {
        "description": "Accept-Encoding, of an answer that may be compressed.",
        "schema": {"type": "string"},
    },
    "Retry-After": {"description": "Seconds.", "schema": {"type": "integer"}},
}
"""The headers of answers. They are references, so that each is described once."""


def _header_refs(*names: str) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in ("X-Request-Id", *names)}


_HEADERS = {
    "X-Request-Id": "The id of the request in the server's logs and in the answer, if it is up to "
    "128 letters, digits and ._:/+=-; another one is replaced.",
    "Accept-Encoding": "gzip lets the server compress the answer.",
    "If-Match": "Entity tags of what may be there, or *; otherwise 412.",
    "If-None-Match": "Entity tags of what a reader has (304), or * for what is new; otherwise 412.",
    "Idempotency-Key": "A name of this write. Repeated under it, the write is done once.",
}


def _header_names(operation: Operation) -> list[str]:
    names = ["X-Request-Id", "Accept-Encoding"]
    if operation.conditional:
        names += ["If-None-Match"] if operation.method == "GET" else ["If-Match", "If-None-Match"]
    return [*names, "Idempotency-Key"] if operation.keyed else names


_TAGS = r'^(\*|"[!#-~]*"(, ?"[!#-~]*")*)$'
_PATTERNS = {"Idempotency-Key": "^[!-~]{1,128}$", "If-Match": _TAGS, "If-None-Match": _TAGS}
"""The forms of headers. What does not have them is refused; other headers may have any."""


def _describe_header(name: str) -> dict[str, Any]:
    pattern = {"pattern": _PATTERNS[name]} if name in _PATTERNS else {}
    return {
        "name": name,
        "in": "header",
        "required": False,
        "description": _HEADERS[name],
        "schema": {"type": "string"} | pattern,
    }


def _query_parameters(model: type[BaseModel]) -> list[dict[str, Any]]:
    whole = model.model_json_schema()
    found = []
    for name, schema in whole["properties"].items():
        # A URL has no null: a parameter that may be None is left out instead.
        kinds = [kind for kind in schema.pop("anyOf", []) if kind.get("type") != "null"]
        about = {"description": schema.pop("description")} if "description" in schema else {}
        schema = {**schema, **(kinds[0] if kinds else {})}
        schema.pop("title", None)
        if schema.get("default", "") is None:
            del schema["default"]
        required = name in whole.get("required", [])
        found.append({"name": name, "in": "query", "required": required, "schema": schema, **about})
    return found
