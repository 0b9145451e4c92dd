"""RowSums of rows: messages, calls of tools and usage by who, what and when."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from memalchemy.errors import InvalidArgument

Row = Mapping[str, Any]

_KEYS: dict[str, Callable[[Row], Any]] = {
    "day": lambda row: row["time"].date().isoformat(),
    "tool": lambda row: row["name"],
    "user": lambda row: row["user_id"],
}
_WHERE = ("thread", "namespace", "framework", "agent", "user", "day")

DIMENSIONS: Final[dict[str, tuple[str, ...]]] = {
    "messages": (*_WHERE, "role"),
    "tool_calls": (*_WHERE, "tool"),
    "usage": (*_WHERE, "model"),
}
"""By table, what its rows can be summed up by."""
_COLUMNS = {"user_id": "user"}
"""Columns of the tables that a dimension has another name for."""


@dataclass(frozen=True, slots=True)
class _Measure:
    """A column of a sum: what a row adds, and whether the mean is wanted in place of the sum."""

    of: Callable[[Row], Any]
    is_mean: bool = False


_MEASURES: dict[str, dict[str, _Measure]] = {
    "messages": {"messages": _Measure(lambda row: 1)},
    "tool_calls": {
        "calls": _Measure(lambda row: 1),
        "errors": _Measure(lambda row: int(row["error"] is True)),
        "unanswered": _Measure(lambda row: int(row["result"] is None)),
        "mean_ms": _Measure(lambda row: row["duration_ms"], is_mean=True),
    },
    "usage": {
        "answers": _Measure(lambda row: 1),
        "input_tokens": _Measure(lambda row: row["input_tokens"]),
        "output_tokens": _Measure(lambda row: row["output_tokens"]),
        "cached_tokens": _Measure(lambda row: row["cached_tokens"]),
        "cost_usd": _Measure(lambda row: row["cost_usd"]),
        "mean_ms": _Measure(lambda row: row["latency_ms"], is_mean=True),
    },
}


class RowSums:
    """Sums of the rows of a table, by some dimensions. What no row states is ``None``.

    Raises:
        InvalidArgument: the table cannot be summed up by one of them.
    """

    def __init__(self, table: str, by: Sequence[str]) -> None:
        dimensions = [_COLUMNS.get(name, name) for name in by]
        for name in dimensions:
            if name not in DIMENSIONS[table]:
                known = ", ".join(DIMENSIONS[table])
                said = f"rows of {table} are not summed up by {name!r}, but by {known}"
                raise InvalidArgument(said)
        self._by = list(dict.fromkeys(dimensions))
        self._measures = _MEASURES[table]
        self._sums: dict[tuple[Any, ...], list[list[Any]]] = {}

    def add(self, rows: Sequence[Row]) -> None:
        """Add rows."""
        for row in rows:
            key = tuple(_KEYS[name](row) if name in _KEYS else row[name] for name in self._by)
            sums = self._sums.setdefault(key, [[None, 0] for _ in self._measures])
            for total, measure in zip(sums, self._measures.values(), strict=True):
                if (value := measure.of(row)) is not None:
                    total[0] = value if total[0] is None else total[0] + value
                    total[1] += 1

    def rows(self) -> list[dict[str, Any]]:
        """Return the sums: in the order of days, or else the most frequent first."""
        made = [
            dict(zip(self._by, key, strict=True))
            | {
                name: total / number if measure.is_mean and number else total
                for (name, measure), (total, number) in zip(
                    self._measures.items(), sums, strict=True
                )
            }
            for key, sums in self._sums.items()
        ]
        first = next(iter(self._measures))
        names = ["day"] * ("day" in self._by)

        def order(row: dict[str, Any]) -> Any:
            key = [str(row[name]) for name in self._by]
            return [row[name] for name in names], -row[first], key

        return sorted(made, key=order)
