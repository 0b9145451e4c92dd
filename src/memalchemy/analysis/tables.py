"""The tables of `memalchemy.analysis`: their columns, with types and meanings."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from memalchemy.errors import InvalidArgument

Kind = Literal["text", "json", "integer", "number", "boolean", "time"]
"""Types of columns; ``json`` is a text that is JSON."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its name, its type, and its meaning for people."""

    name: str
    kind: Kind
    meaning: str


@dataclass(frozen=True, slots=True)
class AnalysisTable:
    """A table: its name, its columns, and what one row is."""

    name: str
    row: str
    columns: tuple[Column, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns, in their order."""
        return tuple(column.name for column in self.columns)


_LOG = (
    Column("tenant", "text", "the tenant"),
    Column("thread", "text", "the thread's id"),
    Column("namespace", "text", "the namespace: `planner/eu`, `/`"),
    Column("framework", "text", "its framework; NULL of your own"),
)
_STEP = (
    *_LOG,
    Column("step", "text", "the checkpoint's id, or an entry's position"),
)
_PLACE = (
    *_STEP,
    Column("position", "integer", "the message's place in the state, or the entry's in its log"),
)
_WHO = (
    Column("agent", "text", "`agent` of the metadata, or the assistant's name"),
    Column("user_id", "text", "`user_id` of the metadata"),
)
_TIME = Column("time", "time", "when it happened, in UTC")
_ITEM = (
    Column("tenant", "text", "the tenant"),
    Column("namespace", "text", "the namespace: `users/ada`, `/`"),
    Column("key", "text", "the item's key"),
)

THREADS: Final = AnalysisTable(
    "threads",
    "a thread in one namespace",
    (
        *_LOG,
        Column("checkpoints", "integer", "number of its checkpoints"),
        Column("entries", "integer", "number of its entries"),
        Column("stored_bytes", "integer", "what it takes in the database"),
        Column("created_at", "time", "when it was first written here"),
        Column("updated_at", "time", "when it was last written here"),
        Column(
            "forked_from", "text", "the thread that it is a copy of; what was copied counts in both"
        ),
        Column("metadata", "json", "its own metadata"),
        Column("agent", "text", "`agent` of that metadata"),
        Column("user_id", "text", "`user_id` of that metadata"),
    ),
)
STEPS: Final = AnalysisTable(
    "steps",
    "a checkpoint, or an entry of a log",
    (
        *_STEP,
        Column("kind", "text", "`checkpoint` or `entry`"),
        Column("position", "integer", "its position in the log"),
        Column("parent", "text", "the checkpoint that it continues"),
        Column("metadata", "json", "the checkpoint's metadata"),
        Column("bytes", "integer", "the size of the whole state"),
        *_WHO,
        _TIME,
        Column("stored_at", "time", "when it was written here"),
    ),
)
MESSAGES: Final = AnalysisTable(
    "messages",
    "a message, once however many states of its log hold it",
    (
        *_PLACE,
        Column("role", "text", "`user`, `assistant`, `tool`, `system` or another"),
        Column("name", "text", "the speaker's name, or the tool's"),
        Column("text", "text", "its words, or those of a tool's results"),
        Column("thought", "text", "the model's thought"),
        *_WHO,
        _TIME,
    ),
)
TOOL_CALLS: Final = AnalysisTable(
    "tool_calls",
    "a call of a tool, with its result",
    (
        *_PLACE,
        Column("call_id", "text", "the call's id"),
        Column("name", "text", "the tool"),
        Column("arguments", "json", "its arguments"),
        Column("result", "text", "the result; NULL while there is none"),
        Column("error", "boolean", "whether the result is an error"),
        Column("duration_ms", "number", "from the call's step to the result's, where they differ"),
        *_WHO,
        _TIME,
    ),
)
USAGE: Final = AnalysisTable(
    "usage",
    "what an answer of a model took",
    (
        *_STEP,
        Column("position", "integer", "the message's place; NULL if the metadata states it"),
        Column("model", "text", "the model"),
        Column("input_tokens", "integer", "tokens of the prompt, those of a cache included"),
        Column("output_tokens", "integer", "tokens of the answer"),
        Column("cached_tokens", "integer", "tokens from a cache"),
        Column("cost_usd", "number", "the cost in US dollars"),
        Column("latency_ms", "number", "milliseconds until the answer's end"),
        *_WHO,
        _TIME,
    ),
)
ITEMS: Final = AnalysisTable(
    "items",
    "an item of a store",
    (
        *_ITEM,
        Column("framework", "text", "its framework; NULL of your own"),
        Column("value", "json", "its value"),
        Column("metadata", "json", "its metadata"),
        Column("version", "integer", "how often it was written"),
        Column("created_at", "time", "when it was first written here"),
        Column("updated_at", "time", "when it was last written here"),
        Column("expires_at", "time", "when it ends"),
    ),
)
MEMORIES: Final = AnalysisTable(
    "memories",
    "a fact about a user, an episode, or a long-term memory",
    (
        *_ITEM,
        Column("kind", "text", "`fact`, `episode` or `memory`"),
        Column("user_id", "text", "the user whom a fact is about"),
        Column("text", "text", "the fact, the episode's task, or the memory"),
        Column("result", "text", "the episode's result"),
        Column("confidence", "number", "the fact's confidence when last seen"),
        Column("created_at", "time", "when it was first written here"),
        Column("updated_at", "time", "when it was last written here"),
    ),
)

TABLES: Final = {
    one.name: one for one in (THREADS, STEPS, MESSAGES, TOOL_CALLS, USAGE, ITEMS, MEMORIES)
}
"""The tables by name."""

OF_LOGS: Final = ("threads", "steps", "messages", "tool_calls", "usage")
"""Tables of what threads hold."""

OF_STORES: Final = ("items", "memories")
"""Tables of what stores hold."""


def table_of(name: str) -> AnalysisTable:
    """Return a table by its name.

    Raises:
        InvalidArgument: there is none.
    """
    if name not in TABLES:
        raise InvalidArgument(f"there is no table {name!r}; the tables are {', '.join(TABLES)}")
    return TABLES[name]


_INDIRECT = re.compile(r"\bquery(_table)?\b", re.IGNORECASE)
"""Functions whose argument is the name of a table, or SQL, as a text."""


def tables_named_in(sql: str) -> list[str] | None:
    """Return the tables that a query may read; ``None`` for all, where it need not name them."""
    if _INDIRECT.search(sql):
        return None
    return [name for name in TABLES if re.search(rf"\b{name}\b", sql, re.IGNORECASE)]
