"""Which work is done in an event loop's own thread, where it would keep all others waiting."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest


def watch(
    monkeypatch: pytest.MonkeyPatch, owner: Any, *names: str, is_large: Callable[[Any], bool]
) -> list[tuple[str, bool]]:
    """Return a list that gets an entry for each call of these functions with a large argument: its
    name, and whether a loop was running in the thread that called it.
    """
    seen: list[tuple[str, bool]] = []

    def noting(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def noted(given: Any, *more: Any, **named: Any) -> Any:
            if is_large(given):
                seen.append((name, is_in_a_loop()))
            return function(given, *more, **named)

        return noted

    for name in names:
        monkeypatch.setattr(owner, name, noting(name, getattr(owner, name)))
    return seen


def is_in_a_loop() -> bool:
    """Whether this thread has a running event loop."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
