"""Deprecated names: they work for one more minor release, and warn. docs/stability.md promises it.

A function or a method that goes is marked by ``@deprecated("Use X.")``, and a name of a package
that was renamed is an entry of ``renamed`` in `lazy_exports`. Type checkers know the decorator.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import deprecated as deprecated
else:
    from functools import wraps

    def deprecated(message):
        """Let a function or a method warn with *message* when it is called."""

        def mark(function):
            @wraps(function)
            def call(*args, **kw):
                warn_of_deprecated(f"{function.__qualname__} is deprecated. {message}")
                return function(*args, **kw)

            call.__deprecated__ = message
            # It warns when it is called, not when it is awaited in a loop's thread; Python 3.11
            # cannot say of such a function that what it returns is to be awaited.
            if inspect.iscoroutinefunction(function) and sys.version_info >= (3, 12):
                inspect.markcoroutinefunction(call)
            return call

        return mark


def warn_of_deprecated(message: str) -> None:
    """Warn whoever called memalchemy, however deep in it the call is."""
    frame, level = inspect.currentframe(), 1
    while frame and frame.f_back and _is_ours(frame.f_globals.get("__name__", "")):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, DeprecationWarning, stacklevel=level)


def _is_ours(module: str) -> bool:
    return module.partition(".")[0] == "memalchemy"
