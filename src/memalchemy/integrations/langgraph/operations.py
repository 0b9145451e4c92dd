"""LangGraph's operations, read: what a batch asks for, as this library's store has it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
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

from memalchemy.contracts import check_limit
from memalchemy.filters import Filter

Name = tuple[tuple[str, ...], str]
OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")


@dataclass(frozen=True, slots=True)
class Search:
    """A search that was checked."""

    place: tuple[str, ...]
    query: str | None
    """What to look for by meaning; ``None`` lists."""
    filter: dict[str, Any] | None
    limit: int
    offset: int
    refreshes: bool


@dataclass(slots=True)
class Asked:
    """What a batch asks for; numbers are places in it. Reads come before writes, as theirs do."""

    count: int = 0
    gets: dict[int, Name] = field(default_factory=dict)
    refreshing: set[Name] = field(default_factory=set)
    searches: dict[int, Search] = field(default_factory=dict)
    listings: dict[int, ListNamespacesOp] = field(default_factory=dict)
    puts: dict[Name, PutOp] = field(default_factory=dict)
    """The last of each item; without a value it is to be removed."""
    texts: dict[Name, list[tuple[str, str]]] = field(default_factory=dict)
    """What to embed of an item: paths, each with a text that is there."""

    def documents(self) -> list[str]:
        """The texts to embed, each once."""
        return list(dict.fromkeys(text for of in self.texts.values() for _, text in of))

    def queries(self) -> list[str]:
        """The queries to embed, each once."""
        return list(dict.fromkeys(s.query for s in self.searches.values() if s.query is not None))


def asked_by(ops: Iterable[Op], root: tuple[str, ...], index: IndexConfig | None) -> Asked:
    """Read a batch; *root* is where LangGraph's namespaces lie.

    Raises:
        InvalidNamespaceError, ValueError, TypeError: one of *ops* is none that can be done; so that
            nothing of the batch is.
    """
    asked = Asked()
    for at, op in enumerate(ops):
        asked.count += 1
        validate_op_namespace(op)
        if isinstance(op, GetOp):
            name = asked.gets[at] = ((*root, *op.namespace), op.key)
            if op.refresh_ttl:
                asked.refreshing.add(name)
        elif isinstance(op, SearchOp):
            asked.searches[at] = _search(op, root, embeds=index is not None)
        elif isinstance(op, ListNamespacesOp):
            check_limit(op.limit), check_limit(op.offset)
            asked.listings[at] = op
        elif isinstance(op, PutOp):
            asked.puts[(*root, *op.namespace), op.key] = _checked(op)
        else:
            raise ValueError(f"unknown operation {type(op).__name__}")
    if index is not None:
        for name, put in asked.puts.items():
            if put.value is not None and put.index is not False:
                asked.texts[name] = list(_texts(put.value, put.index, index))
    return asked


def _search(op: SearchOp, root: tuple[str, ...], *, embeds: bool) -> Search:
    wanted = to_filter(op.filter)
    Filter.parse(wanted)
    query = op.query if embeds and op.query else None
    limit, offset = check_limit(op.limit), check_limit(op.offset)
    return Search((*root, *op.namespace_prefix), query, wanted, limit, offset, op.refresh_ttl)


def _checked(op: PutOp) -> PutOp:
    if op.value is not None and not isinstance(op.value, Mapping):
        raise TypeError(f"a value is a mapping, not a {type(op.value).__name__}")
    if op.ttl is not None and not op.ttl > 0:
        raise ValueError(f"ttl is minutes, more than zero, or None for ever; not {op.ttl!r}")
    return op


def to_filter(given: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """A filter of theirs as `memalchemy.filters` reads it: of the value alone.

    Names are keys, whatever is in them; a mapping without operators means what is inside it.

    Raises:
        ValueError: an operator that is none of theirs.
    """
    if not given:
        return None
    fields: dict[str, Any] = {}
    _add_fields(fields, "", given)
    return {"$value": fields}


def _add_fields(fields: dict[str, Any], above: str, given: Mapping[str, Any]) -> None:
    for name, wanted in given.items():
        pointer = f"{above}/{str(name).replace('~', '~0').replace('/', '~1')}"
        if not isinstance(wanted, Mapping):
            fields[pointer] = {"$eq": wanted}
        elif any(str(key).startswith("$") for key in wanted):
            if unknown := [key for key in wanted if key not in OPERATORS]:
                raise ValueError(
                    f"unsupported operator {unknown[0]!r} under {name!r}; known are "
                    f"{', '.join(OPERATORS)}"
                )
            fields[pointer] = dict(wanted)
        elif wanted:
            _add_fields(fields, pointer, wanted)
        else:
            fields[pointer] = {"$eq": {}}


def _texts(
    value: Mapping[str, Any], paths: list[str] | None, index: IndexConfig
) -> Iterable[tuple[str, str]]:
    """What to embed of a value. A text of nothing has no direction, and is not embedded."""
    for path in fields_of(index) if paths is None else paths:
        tokens: Any = path if path == "$" else tokenize_path(path)
        for text in get_text_at_path(value, tokens):
            if text.strip():
                yield path, text


def fields_of(index: Mapping[str, Any]) -> list[str]:
    """The paths that a store embeds; of SQLite's stores the name is another."""
    given: Any = index.get("fields") or index.get("text_fields") or ["$"]
    return [given] if isinstance(given, str) else list(given)


def vectors_by_path(
    texts: Sequence[tuple[str, str]], vectors: Mapping[str, Any]
) -> dict[str, list[Any]] | None:
    """The vectors of an item as a `NewItem` brings them, or ``None`` if it has none."""
    found: dict[str, list[Any]] = {}
    for path, text in texts:
        if text in vectors:
            found.setdefault(path, []).append(vectors[text])
    return found or None


def literal_prefix(op: ListNamespacesOp) -> tuple[str, ...]:
    """The longest beginning that all namespaces have which it asks for."""
    heads = [()] + [_head(one.path) for one in op.match_conditions or () if one[0] == "prefix"]
    return max(heads, key=len)


def _head(path: tuple[str | Literal["*"], ...]) -> tuple[str, ...]:
    path = tuple(path)
    return path[: path.index("*")] if "*" in path else path


def matches(namespace: tuple[str, ...], conditions: Iterable[MatchCondition] | None) -> bool:
    """Whether all of *conditions* are true of a namespace; ``*`` is one label, whatever it is."""
    return all(_matches(namespace, one) for one in conditions or ())


def _matches(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    kind, path = condition
    if kind not in ("prefix", "suffix"):
        raise ValueError(f"a match is of a prefix or a suffix, not {kind!r}")
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if kind == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for label, wanted in zip(part, path, strict=True))
