"""The OpenAPI 3.1 document of a route table."""

from __future__ import annotations

import re
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import models_json_schema

from memalchemy._version import __version__
from memalchemy.http import shapes, wire
from memalchemy.http.calls import Route
from memalchemy.http.guard import OPEN

_REF = "#/components/schemas/{model}"

_ALWAYS = (422, 503, 504)
_OF_A_TENANT = (401, 429)
_WITH_A_BODY = (400, 408, 413, 415)
_WRITING = (403, 415)

_ABOUT = (
    "Everything an agent remembers, over HTTP. Values that JSON lacks travel as objects with one "
    'key: {"~b": base64}, {"~dt": ISO 8601}, {"~t": tuple}, {"~s": set}, {"~f": frozenset}, '
    '{"~d": date}, {"~u": UUID}, {"~c": Decimal}, {"~i": hex of a large int}, {"~n": NaN or inf}, '
    '{"~x": base64 of a text that is not UTF-8}; an object that has a key which begins with ~ is '
    '{"~o": [[key, value], …]}. Ids in paths are percent-encoded, slashes too.'
)


def document(
    routes: Iterable[Route], *, with_tokens: bool, results: int = shapes.MOST
) -> dict[str, Any]:
    """The document.

    *with_tokens* says that a tenant's operations take a bearer token; *results* is the largest
    limit that the server takes.
    """
    routes = list(routes)
    models: dict[type[BaseModel], None] = {shapes.ProblemDocument: None}
    for route in routes:
        models |= {model: None for model in (route.body, route.answer) if model is not None}
    modes: Any = [(model, "validation") for model in models]
    _, schemas = models_json_schema(modes, ref_template=_REF)
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route, with_tokens)
    components: dict[str, Any] = {"schemas": schemas["$defs"]}
    if with_tokens:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    _lower_limits([paths, components], results)
    return {
        "openapi": "3.1.0",
        "info": {"title": "memalchemy", "version": __version__, "description": _ABOUT},
        "paths": paths,
        "components": components,
    }


def _lower_limits(tree: Any, results: int) -> None:
    for value in tree.values() if isinstance(tree, dict) else tree:
        if isinstance(value, dict) and value.get("maximum") == shapes.MOST:
            value["maximum"] = results
        if isinstance(value, dict | list):
            _lower_limits(value, results)


def _operation(route: Route, with_tokens: bool) -> dict[str, Any]:
    is_open = route.path in OPEN
    statuses = {*_ALWAYS, *route.errors}
    if not is_open:
        statuses |= {*_OF_A_TENANT}
    if route.body is not None:
        statuses |= {*_WITH_A_BODY}
    if route.method != "GET":
        statuses |= {*_WRITING}
    if is_open and with_tokens is False:
        statuses -= {401}
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "tags": [route.tag],
        "responses": {
            str(route.status): {
                "description": HTTPStatus(route.status).phrase,
                "content": {wire.JSON: {"schema": _ref(route.answer)}},
            }
        }
        | {str(status): _problem(status) for status in sorted(statuses)},
    }
    if with_tokens and not is_open:
        operation["security"] = [{"token": []}]
    parameters = [_path_parameter(name) for name in re.findall(r"{(\w+)}", route.path)]
    if route.query is not None:
        parameters += _query_parameters(route.query)
    if parameters:
        operation["parameters"] = parameters
    if route.body is not None:
        content = {wire.JSON: {"schema": _ref(route.body)}}
        operation["requestBody"] = {"required": True, "content": content}
    return operation


def _problem(status: int) -> dict[str, Any]:
    found: dict[str, Any] = {
        "description": HTTPStatus(status).phrase,
        "content": {wire.PROBLEM: {"schema": _ref(shapes.ProblemDocument)}},
    }
    if status in (429, 503):
        seconds = {"schema": {"type": "integer"}, "description": "Seconds."}
        found["headers"] = {"Retry-After": seconds}
    return found


def _ref(model: type[BaseModel]) -> dict[str, str]:
    return {"$ref": _REF.format(model=model.__name__)}


def _path_parameter(name: str) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "string", "minLength": 1, "maxLength": 255}
    if name == "namespace":
        schema = shapes.NAMESPACE
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _query_parameters(model: type[BaseModel]) -> list[dict[str, Any]]:
    whole = model.model_json_schema()
    found = []
    for name, schema in whole["properties"].items():
        # In a URL there is no null: what may be None is left out instead.
        kinds = [kind for kind in schema.pop("anyOf", []) if kind.get("type") != "null"]
        about = {"description": schema.pop("description")} if "description" in schema else {}
        schema = {**schema, **(kinds[0] if kinds else {})}
        schema.pop("title", None)
        if schema.get("default", "") is None:
            del schema["default"]
        required = name in whole.get("required", [])
        found.append({"name": name, "in": "query", "required": required, "schema": schema, **about})
    return found
