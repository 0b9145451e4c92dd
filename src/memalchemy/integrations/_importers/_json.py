"""JSON as drivers return it: parsed, or as text."""

from __future__ import annotations

import json
from typing import Any


def object_of(stored: Any) -> Any:
    """Return what a JSON column holds.

    Raises:
        ValueError: it is no JSON.
    """
    return json.loads(stored) if isinstance(stored, str | bytes) else stored
