"""Parsing of LangGraph's store operations, for `memalchemy.Store`. Nothing here does I/O."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from langgraph.store.base import (
    GetOp,
    IndexConfig,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    SearchOp,
    get_text_at_path,
    tokenize_path,
    validate_op_namespace,
)

from memalchemy._json_pointers import pointer
from memalchemy.contracts import check_limit
from memalchemy.filters import Filter, operators_without_sign
from memalchemy.integrations._filters import equals, is_none

Name = tuple[tuple[str, ...], str]
"""A whole namespace and a key."""
OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")


@dataclass(frozen=True, slots=True)
class Search:
    """A valid search, by the meaning of ``query``, or without a query a listing."""

    namespace: tuple[str, ...]
    query: str | None
    filter: dict[str, Any] | None
    limit: int
    offset: int
    refreshes: bool


@dataclass(slots=True)
class Batch:
    """The operations of a batch by kind, with their indexes in it.

    As in LangGraph, reads come before writes. ``puts`` holds the last put of each item; without a
    value it is a deletion. ``texts`` holds the texts to embed of an item, each with its path.
    """

    count: int = 0
    gets: dict[int, Name] = field(default_factory=dict)
    refreshing: set[Name] = field(default_factory=set)
    searches: dict[int, Search] = field(default_factory=dict)
    listings: dict[int, ListNamespacesOp] = field(default_factory=dict)
    puts: dict[Name, PutOp] = field(default_factory=dict)
    texts: dict[Name, list[tuple[str, str]]] = field(default_factory=dict)

    def documents(self) -> list[str]:
        """Return the distinct texts to embed."""
        return list(dict.fromkeys(text for of in self.texts.values() for _, text in of))

    def queries(self) -> list[str]:
        """Return the distinct queries to embed."""
        return list(dict.fromkeys(s.query for s in self.searches.values() if s.query is not None))


def parse(ops: Iterable[Op], root: tuple[str, ...], index: IndexConfig | None) -> Batch:
    """Parse the operations of a batch; *root* is put before LangGraph's namespaces.

    Raises:
        InvalidNamespaceError, ValueError, TypeError: an operation is invalid, so nothing is done.
    """
    batch = Batch()
    for at, op in enumerate(ops):
        batch.count += 1
        validate_op_namespace(op)
        if isinstance(op, GetOp):
            name = batch.gets[at] = ((*root, *op.namespace), op.key)
            if op.refresh_ttl:
                batch.refreshing.add(name)
        elif isinstance(op, SearchOp):
            batch.searches[at] = _to_search(op, root, embeds=index is not None)
        elif isinstance(op, ListNamespacesOp):
            check_limit(op.limit), check_limit(op.offset)
            batch.listings[at] = op
        elif isinstance(op, PutOp):
            batch.puts[(*root, *op.namespace), op.key] = _check_put(op)
        else:
            raise ValueError(f"unknown operation {type(op).__name__}")
    if index is not None:
        for name, put in batch.puts.items():
            if put.value is not None and put.index is not False:
                batch.texts[name] = list(_texts_to_embed(put.value, put.index, index))
    return batch


def _to_search(op: SearchOp, root: tuple[str, ...], *, embeds: bool) -> Search:
    wanted = native_filter(op.filter)
    Filter.parse(wanted)
    query = op.query if embeds and op.query else None
    limit, offset = check_limit(op.limit), check_limit(op.offset)
    return Search((*root, *op.namespace_prefix), query, wanted, limit, offset, op.refresh_ttl)


def _check_put(op: PutOp) -> PutOp:
    if op.value is not None and not isinstance(op.value, Mapping):
        raise TypeError(f"a value is a mapping, not a {type(op.value).__name__}")
    if op.ttl is not None and not op.ttl > 0:
        raise ValueError(f"ttl is minutes, more than zero, or None for ever; not {op.ttl!r}")
    return op if op.value is None else op._replace(value=_with_plain_text(op.value))


def _with_plain_text(value: Any) -> Any:
    """Return *value* with texts that are plain, as LangGraph's stores on a database return them.

    The text of a LangChain message is of a class of its own, below ``str``.
    """
    if isinstance(value, str):
        return str.__str__(value)
    if type(value) is dict:
        return {name: _with_plain_text(part) for name, part in value.items()}
    if type(value) is list:
        return [_with_plain_text(part) for part in value]
    return value


def native_filter(given: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Convert a filter of LangGraph's, which is on the value, for `memalchemy.filters`.

    Names are taken literally; a mapping without operators is a condition on what is inside it.

    Raises:
        ValueError: an operator that LangGraph does not have, or one without its ``$``.
    """
    if not given:
        return None
    return {"$value": {"$and": [*_conditions_of_mapping("", given)]}}


def _conditions_of_mapping(parent: str, given: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    for name, wanted in given.items():
        yield from _conditions_of_value(pointer(parent, str(name)), name, wanted)


def _conditions_of_value(field: str, name: Any, wanted: Any) -> Iterator[dict[str, Any]]:
    """Yield conditions that mean what LangGraph's store in memory means by *wanted*.

    What is missing is ``None`` to it, as for ``dict.get``.
    """
    if isinstance(wanted, Mapping) and any(str(key).startswith("$") for key in wanted):
        if unknown := [key for key in wanted if key not in OPERATORS]:
            raise ValueError(
                f"unsupported operator {unknown[0]!r} under {name!r}; known are "
                f"{', '.join(OPERATORS)}"
            )
        if "$eq" in wanted and wanted["$eq"] is None:
            yield is_none(field)
        if "$ne" in wanted and wanted["$ne"] is None:
            yield {"$not": is_none(field)}
        of_none = [one for one in ("$eq", "$ne") if one in wanted and wanted[one] is None]
        if others := {one: wanted[one] for one in wanted if one not in of_none}:
            yield {field: others}
    elif isinstance(wanted, Mapping):
        if bare := operators_without_sign(wanted, OPERATORS):
            raise ValueError(
                f"{bare[0]!r} under {name!r} is an operator without its $: write ${bare[0]}. A "
                "mapping to equal goes under $eq"
            )
        yield {field: {"$type": "object"}}
        yield from _conditions_of_mapping(field, wanted)
    elif isinstance(wanted, (list, tuple)) and any(
        isinstance(one, (Mapping, list, tuple)) for one in wanted
    ):
        yield {field: {"$type": "array"}}
        yield {pointer(field, len(wanted)): {"$exists": False}}
        yield {pointer(field, len(wanted) - 1): {"$exists": True}}
        for at, one in enumerate(wanted):
            yield from _conditions_of_value(pointer(field, at), name, one)
    else:
        yield equals(field, wanted)


def _texts_to_embed(
    value: Mapping[str, Any], paths: list[str] | None, index: IndexConfig
) -> Iterable[tuple[str, str]]:
    """Yield the texts to embed of a value; an empty text has no direction and is left out."""
    for path in _indexed_paths(index) if paths is None else paths:
        tokens: Any = path if path == "$" else tokenize_path(path)
        for text in get_text_at_path(value, tokens):
            if text.strip():
                yield path, text


def _indexed_paths(index: Mapping[str, Any]) -> list[str]:
    given: Any = index.get("fields") or index.get("text_fields") or ["$"]  # the latter in SQLite's
    return [given] if isinstance(given, str) else list(given)


def vectors_by_path(
    texts: Sequence[tuple[str, str]], vectors: Mapping[str, Any]
) -> dict[str, list[Any]] | None:
    """Return the vectors of an item as `NewItem` takes them, or ``None`` without any."""
    found: dict[str, list[Any]] = {}
    for path, text in texts:
        if text in vectors:
            found.setdefault(path, []).append(vectors[text])
    return found or None


def literal_prefix(op: ListNamespacesOp) -> tuple[str, ...]:
    """Return the longest prefix without wildcards that all requested namespaces have."""
    heads = [()] + [
        _literal_head(one.path) for one in op.match_conditions or () if one[0] == "prefix"
    ]
    return max(heads, key=len)


def _literal_head(path: tuple[str | Literal["*"], ...]) -> tuple[str, ...]:
    path = tuple(path)
    return path[: path.index("*")] if "*" in path else path


def matches_conditions(
    namespace: tuple[str, ...], conditions: Iterable[MatchCondition] | None
) -> bool:
    """Return ``True`` if a namespace meets all *conditions*; ``*`` matches any one label."""
    return all(_matches(namespace, one) for one in conditions or ())


def _matches(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    kind, path = condition
    if kind not in ("prefix", "suffix"):
        raise ValueError(f"a match is of a prefix or a suffix, not {kind!r}")
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if kind == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for label, wanted in zip(part, path, strict=True))
