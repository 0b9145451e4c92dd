"""One example for each row of docs/parity.md, which does what the row says.

An example is a coroutine function that takes ``db``, a fresh SQLite `Database`, or ``tmp_path``, or
both, and asserts. `section` binds it to rows: by the headings that stand above a row, and by the
row's first cell without its backticks.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

Example = Callable[..., Awaitable[None]]

EXAMPLES: dict[tuple[str, str], Example] = {}
"""By section and row."""


def section(heading: str) -> Callable[..., Callable[[Example], Example]]:
    """Bind examples to rows below *heading*, as ``locus/Store``."""

    def rows(*there: str) -> Callable[[Example], Example]:
        def register(example: Example) -> Example:
            for row in there:
                assert (heading, row) not in EXAMPLES, (heading, row)
                EXAMPLES[heading, row] = example
            return example

        return register

    return rows


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def answer(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


def call(*ids: str) -> dict[str, Any]:
    made = [{"id": id_, "name": "look", "arguments": {}} for id_ in ids]
    return {"role": "assistant", "content": None, "tool_calls": made}


def result(id_: str, text: str = "found") -> dict[str, Any]:
    return {"role": "tool", "content": text, "tool_call_id": id_}


async def embedder(texts: list[str]) -> list[list[float]]:
    """What has to do with drinks points one way, all else another."""
    drinks = ("tea", "coffee", "drink")
    return [[1.0, 0.1] if any(d in t for d in drinks) else [0.1, 1.0] for t in texts]
