"""Tokens, cost and latency of models' answers, as frameworks store them and as people note them.

A framework that knows what an answer took states it with the answer, each in its own form. Whoever
knows it otherwise writes it into the metadata of a checkpoint or an entry, under the keys of
`USAGE_KEYS`. Nothing here is computed from a price list: what nobody stated is ``None``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from decimal import Decimal
from typing import Any, Final, TypeVar

from memalchemy.messages import read

MOST_TOKENS = 2**53
"""A larger number is taken for no count."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Usage of one answer of a model, or the sum of several.

    Args:
        model: the model's name. A sum has one only if all its parts name the same.
        input_tokens: tokens of the prompt, with those that came out of a cache.
        output_tokens: tokens of the answer, with the model's thoughts.
        cached_tokens: the part of *input_tokens* that came out of a cache.
        cost_usd: the cost in US dollars.
        latency_ms: milliseconds from the request to the end of the answer.
    """

    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None
    latency_ms: float | None = None

    def __add__(self, other: Usage) -> Usage:
        """Return the sum; a number that only one of the two states is that one's."""
        if not isinstance(other, Usage):
            return NotImplemented
        if self == _NOTHING or other == _NOTHING:
            return other if self == _NOTHING else self
        numbers = {name: _add(getattr(self, name), getattr(other, name)) for name in _NUMBERS}
        return Usage(self.model if self.model == other.model else None, **numbers)

    def __radd__(self, other: int) -> Usage:
        """Return the usage itself: ``sum(usages)`` starts from 0."""
        return self if other == 0 else NotImplemented

    def as_metadata(self) -> dict[str, Any]:
        """Return what is known, under the keys of `USAGE_KEYS`."""
        return {name: value for name, value in asdict(self).items() if value is not None}


_NOTHING = Usage()

USAGE_KEYS: Final = tuple(field.name for field in fields(Usage))
"""Keys of metadata that state the usage of a checkpoint or an entry."""

DIMENSION_KEYS: Final = ("agent", "user_id")
"""Keys of metadata by which usage is summed up: the agent that worked, and for whom."""

_NUMBERS = USAGE_KEYS[1:]


def usage_of(message: Mapping[str, Any]) -> Usage | None:
    """Return what the answer in *message* took; ``None`` if the message states no number.

    *message* is a message of any framework, without the form in which the framework packs its
    objects, or the object itself. The first place that states tokens counts. A place that states
    nothing but zeros, as Pydantic AI's for a model that reports no usage, states nothing.
    """
    for place in _places_of(message):
        counts = _counts_of(place)
        if any(counts.values()):
            break
    else:
        place, counts = None, {}
    cost = _first_number(message, "cost_usd", "costUSD")
    latency = _first_number(message, *_LATENCY)
    for holder in _holders_of(message):
        cost = _first_number(holder, "cost_usd") if cost is None else cost
        latency = _first_number(holder, *_LATENCY) if latency is None else latency
        if latency is None:
            latency = _latency_of_metrics(read(holder, "metrics")) or None  # 0 is Strands' "to do"
    if place is not None:
        cost = _first_number(place, *_COST) if cost is None else cost
        latency = _first_number(place, *_LATENCY) if latency is None else latency
    if not counts and cost is None and latency is None:
        return None
    return Usage(model_of(message), **counts, cost_usd=cost, latency_ms=latency)


def model_of(message: Mapping[str, Any]) -> str | None:
    """Return the name of the model that wrote a message of any framework, if it is stated."""
    for holder in (message, *_holders_of(message)):
        for name in _MODEL:
            found = read(holder, name)
            if isinstance(found, str) and found:
                return found
    return None


def usage_of_metadata(metadata: Mapping[str, Any]) -> Usage | None:
    """Return the usage that the metadata of a checkpoint or an entry states under `USAGE_KEYS`.

    ``None`` if it states no number. Values of other types, which applications may keep under the
    same keys, count as not stated.
    """
    counts = {name: _count(read(metadata, name)) for name in _NUMBERS[:3]}
    cost, latency = (_first_number(metadata, name) for name in _NUMBERS[3:])
    if cost is None and latency is None and all(one is None for one in counts.values()):
        return None
    return Usage(_text(read(metadata, "model")), **counts, cost_usd=cost, latency_ms=latency)


Place = TypeVar("Place")


def usages_of_step(
    metadata: Mapping[str, Any], place: Place, stated: Sequence[tuple[Place, Usage]]
) -> list[tuple[Place, Usage]]:
    """Return the usages that count for a step, each with its place, such as its day.

    Without usage in its *metadata* they are those that its messages state. Metadata that states any
    number makes it one usage, at *place*: what the metadata states takes precedence, and the rest
    is the sum of what the messages state.

    Args:
        stated: the places and usages of the messages that the step added.
    """
    noted = usage_of_metadata(metadata)
    if noted is None:
        return list(stated)
    total = sum((usage for _, usage in stated), Usage())
    return [(place, replace(total, **noted.as_metadata()))]


def dimensions_of(metadata: Mapping[str, Any]) -> dict[str, str | None]:
    """Return the values of `DIMENSION_KEYS` in metadata as texts; ``None`` for other values."""
    return {name: _text(read(metadata, name)) for name in DIMENSION_KEYS}


def response_id(message: Mapping[str, Any]) -> str | None:
    """Return the id of the answer of which a message is one part among several.

    Claude's transcripts have a line for each block of an answer, and each states the usage of the
    whole answer, which counts once. ``None`` of all other messages.
    """
    found = read(_mapping(read(message, "message")), "id")
    return found if isinstance(found, str) and found else None


# --- Where and under which names the frameworks state it ----------------------------------------

_MODEL = ("model", "model_name", "model_version", "model_id")
_COST = ("cost_usd", "cost", "total_cost_usd", "total_cost")
_LATENCY = ("latency_ms", "latencyMs")

_INPUT = (
    "input_tokens",  # LangChain, OpenAI's Responses and Agents SDK, Anthropic, Pydantic AI
    "prompt_tokens",  # OpenAI's chats, Haystack, LlamaIndex
    "prompt_token_count",  # Gemini, ADK
    "promptTokenCount",
    "inputTokens",  # Bedrock, Strands
    "input_token_count",  # Agent Framework
    "request_tokens",  # Pydantic AI before 1.0
)
_OUTPUT = (
    "output_tokens",
    "completion_tokens",
    "candidates_token_count",
    "candidatesTokenCount",
    "outputTokens",
    "output_token_count",
    "response_tokens",
)
_CACHED = (
    "cached_tokens",
    "cache_read_tokens",  # Pydantic AI
    "cache_read_input_tokens",  # Anthropic
    "cacheReadInputTokens",
    "cached_content_token_count",
    "cachedContentTokenCount",
    "cache_read_input_token_count",
)
_DETAILS = ("input_token_details", "input_tokens_details", "prompt_tokens_details")
_CACHED_OF_DETAILS = ("cache_read", "cached_tokens")

_BESIDE_INPUT = ("tool_use_prompt_token_count", "toolUsePromptTokenCount")
_BESIDE_OUTPUT = ("thoughts_token_count", "thoughtsTokenCount")
"""Counts of Gemini, which its other counts do not include."""

_CACHE_APART = {
    "input_tokens": ("cache_read_input_tokens", "cache_creation_input_tokens"),  # Anthropic
    "inputTokens": ("cacheReadInputTokens", "cacheWriteInputTokens"),  # Bedrock
}
"""Counts of a cache that the count of the input may leave out."""


def _holders_of(message: Any) -> Iterator[Any]:
    """Yield the mappings in a message that say something about it."""
    for name in ("message", "response_metadata", "metadata", "meta", "_meta"):
        if (found := _mapping(read(message, name))) is not None:
            yield found


def _places_of(message: Any) -> Iterator[Any]:
    """Yield where a message may state tokens, the form of the framework before that of others."""
    yield from map(_mapping, (read(message, name) for name in _USAGE))
    for holder in _holders_of(message):
        yield from map(_mapping, (read(holder, name) for name in _USAGE))
    additional = _mapping(read(message, "additional_kwargs"))
    yield from (_mapping(read(additional, "usage")), additional)  # LlamaIndex
    for name in ("contents", "content"):  # Agent Framework
        content = read(message, name)
        for block in content if isinstance(content, (list, tuple)) else ():
            if read(block, "type") == "usage":
                yield _mapping(read(block, "usage_details"))
    yield _mapping(read(message, "metadata"))
    yield message


_USAGE = ("usage_metadata", "usageMetadata", "usage", "token_usage")


def _mapping(value: Any) -> Any:
    """Return a mapping, or an object with attributes; ``None`` of plain values and of methods."""
    if value is None or isinstance(value, (str, bytes, int, float, list, tuple)):
        return None
    return None if callable(value) else value


def _counts_of(place: Any) -> dict[str, int | None]:
    name, given = _first_count(place, _INPUT)
    _, written = _first_count(place, _OUTPUT)
    _, cached = _first_count(place, _CACHED)
    for details in (read(place, one) for one in _DETAILS):
        if isinstance(details, (list, tuple)) and details:  # a list of one, of old Agents SDKs
            details = details[0]
        if cached is None:
            _, cached = _first_count(_mapping(details), _CACHED_OF_DETAILS)
    apart = [_count(read(place, one)) or 0 for one in _CACHE_APART.get(name, ())]
    if given is not None and any(apart):
        total = _count(read(place, "total_tokens")) or _count(read(place, "totalTokens"))
        # OpenAI's models behind Strands and LiteLLM state a part, all others what comes on top.
        given += 0 if total == given + (written or 0) else sum(apart)
    beside = [_first_count(place, names)[1] for names in (_BESIDE_INPUT, _BESIDE_OUTPUT)]
    return {
        "input_tokens": _add(given, beside[0]),
        "output_tokens": _add(written, beside[1]),
        "cached_tokens": cached,
    }


def _first_count(place: Any, names: tuple[str, ...]) -> tuple[str, int | None]:
    for name in names:
        if (found := _count(read(place, name))) is not None:
            return name, found
    return "", None


def _latency_of_metrics(metrics: Any) -> float | None:
    """Return the latency of Bedrock's metrics, which LangChain stores as a list of one."""
    found = read(_mapping(metrics), "latencyMs")
    return _number(found[0] if isinstance(found, list) and found else found)


# --- Numbers ------------------------------------------------------------------------------------


def _add(one: Any, other: Any) -> Any:
    return one if other is None else other if one is None else one + other


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) and value else None


def _first_number(holder: Any, *names: str) -> float | None:
    found = (_number(read(holder, name)) for name in names)
    return next((one for one in found if one is not None), None)


def _count(value: Any) -> int | None:
    if isinstance(value, str) or _number(value) is None:
        return None
    return int(value) if value == int(value) and value <= MOST_TOKENS else None


def _number(value: Any) -> float | None:
    """Return a number that is not negative; ``None`` of anything else.

    A text counts if it is a number: Pydantic AI writes the decimal of a cost as one.
    """
    if isinstance(value, bool) or not isinstance(value, (int, float, Decimal, str)):
        return None
    try:
        found = float(value)
    except (ValueError, OverflowError):
        return None
    return found if math.isfinite(found) and found >= 0 else None
