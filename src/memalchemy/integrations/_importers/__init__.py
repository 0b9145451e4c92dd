"""Readers of the frameworks' own storage, for `memalchemy import`.

Each module has the functions that `memalchemy.importers.sources` describes. What a reader yields is
stored where the framework's adapter stores it.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any


def load_reader(name: str, adapter: str | None) -> Any:
    """Return the module of a reader, which needs the framework of *adapter*.

    Raises:
        DriverMissing: the framework is not installed; the error names the extra that installs it.
    """
    if adapter is not None:
        import_module(f"memalchemy.integrations.{adapter}")
    return import_module(f"{__name__}.{name}")
