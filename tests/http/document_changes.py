"""What a later OpenAPI document lacks of an earlier one: operations, parameters and fields."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

METHODS = ("get", "put", "post", "delete")


def lacks(earlier: Any, later: Any) -> list[str]:
    """Return a sentence for each thing that a client of the earlier document would miss."""
    return list(_Documents(earlier, later).faults())


class _Documents:
    def __init__(self, earlier: Any, later: Any) -> None:
        self.earlier, self.later = earlier, later

    def faults(self) -> Iterator[str]:
        for path, item in self.earlier["paths"].items():
            for method in METHODS:
                if method not in item:
                    continue
                now = self.later["paths"].get(path, {}).get(method)
                name = f"{method.upper()} {path}"
                if now is None:
                    yield f"{name} is gone"
                else:
                    yield from (
                        f"{name}: {fault}" for fault in self._of_operation(item[method], now)
                    )

    def _of_operation(self, was: Any, now: Any) -> Iterator[str]:
        before = {(one["in"], one["name"]): one for one in was.get("parameters", ())}
        after = {(one["in"], one["name"]): one for one in now.get("parameters", ())}
        for place, one in before.items():
            if place not in after:
                yield f"the parameter {place[1]} is gone"
            else:
                yield from self._takes(one["schema"], after[place]["schema"], place[1], ())
        for place, one in after.items():
            if one.get("required") and not before.get(place, {}).get("required"):
                yield f"the parameter {place[1]} is required now"
        asked = _schema_of(was.get("requestBody"))
        if asked is not None:
            yield from self._takes(asked, _schema_of(now.get("requestBody")) or {}, "body", ())
        for status, response in was["responses"].items():
            if status not in now["responses"]:
                yield f"the answer {status} is gone"
            elif (given := _schema_of(response)) is not None:
                later = _schema_of(now["responses"][status]) or {}
                yield from self._gives(given, later, f"answer {status}", ())

    def _takes(self, was: Any, now: Any, place: str, above: tuple[Any, ...]) -> Iterator[str]:
        was, now = _resolved(self.earlier, was), _resolved(self.later, now)
        if any(one is was for one in above):
            return
        if less := _types(self.earlier, was) - _types(self.later, now):
            yield f"{place} no longer takes {', '.join(sorted(less))}"
        for name in {*now.get("required", ())} - {*was.get("required", ())}:
            yield f"{place}.{name} is required now"
        for name, one, other in _inside(was, now):
            if other is None:
                yield f"{place}{name} is gone"
            else:
                yield from self._takes(one, other, f"{place}{name}", (*above, was))

    def _gives(self, was: Any, now: Any, place: str, above: tuple[Any, ...]) -> Iterator[str]:
        was, now = _resolved(self.earlier, was), _resolved(self.later, now)
        if any(one is was for one in above):
            return
        if more := _types(self.later, now) - _types(self.earlier, was):
            yield f"{place} may now be {', '.join(sorted(more))}"
        for name in {*was.get("required", ())} - {*now.get("required", ())}:
            yield f"{place}.{name} may be missing"
        for name, one, other in _inside(was, now):
            if other is None:
                yield f"{place}{name} is gone"
            else:
                yield from self._gives(one, other, f"{place}{name}", (*above, was))


def _schema_of(described: Any) -> Any:
    """Return the schema of the JSON of a body or an answer, if it has some."""
    content = (described or {}).get("content", {})
    found = (one["schema"] for kind, one in content.items() if kind.endswith("json"))
    return next(found, None)


def _resolved(document: Any, schema: Any) -> Any:
    while "$ref" in schema:
        found = document
        for part in schema["$ref"].removeprefix("#/").split("/"):
            found = found[part]
        schema = found
    return schema


def _types(document: Any, schema: Any) -> set[str]:
    """Return the types of JSON that a value may be of; all of them, if nothing is said."""
    schema = _resolved(document, schema)
    found: set[str] = set()
    for one in schema.get("anyOf", ()):
        found |= _types(document, one)
    kind = schema.get("type", [])
    found |= {*([kind] if isinstance(kind, str) else kind)}
    if "number" in found:
        found.add("integer")
    return found or {"array", "boolean", "integer", "null", "number", "object", "string"}


def _inside(was: Any, now: Any) -> Iterator[tuple[str, Any, Any]]:
    """Yield what both schemas say of the fields and of the elements of a value."""
    for name, one in was.get("properties", {}).items():
        yield f".{name}", one, now.get("properties", {}).get(name)
    if "items" in was and "items" in now:
        yield "[]", was["items"], now["items"]
    branches = [
        [one for one in schema.get("anyOf", ()) if "$ref" in one or "properties" in one]
        for schema in (was, now)
    ]
    for at, (one, other) in enumerate(zip(*branches, strict=False)):
        yield f"({at})", one, other
