"""Results and errors of the functions that an application gives: extractors, resolvers, models."""

from __future__ import annotations

import inspect
import logging
import traceback
from collections.abc import Awaitable
from typing import Any


async def awaited(result: Awaitable[Any] | Any) -> Any:
    """Return the result of a function, plain or a coroutine."""
    return await result if inspect.isawaitable(result) else result


def log_failure(log: logging.Logger, what: str, error: BaseException) -> None:
    """Log an error by its class and place; its text may quote what a user said."""
    frames = traceback.extract_tb(error.__traceback__)[-3:]
    place = " < ".join(f"{frame.filename}:{frame.lineno}" for frame in reversed(frames))
    log.warning("%s: %s at %s", what, type(error).__name__, place or "an unknown place")
