"""States that follow from their checkpoint's id, so that any process can check any of them."""

from __future__ import annotations

import hashlib
from functools import cache
from typing import Any

START_AGAIN = 90
"""After so many messages a worker's state is small again, which makes the next one a snapshot."""


def name_of(worker: str, number: int) -> str:
    return f"{worker}-{number}"


def state_of(name: str) -> dict[str, Any]:
    """The state that is saved under the id *name*: one message longer than the worker's last."""
    worker, number = name.rsplit("-", 1)
    length = int(number) % START_AGAIN
    return {
        "name": name,
        "messages": [_message(worker if i % 3 == 0 else "all", i) for i in range(length)],
        "last": length,
    }


@cache
def _message(who: str, number: int) -> dict[str, str]:
    # Digits of a hash do not compress, so a state that is rebuilt on a wrong base shows.
    content = hashlib.sha256(f"{who} {number}".encode()).hexdigest()
    return {"role": who, "content": f"{who}{number} {content}"}
