"""Values of which a part is another, is gone, or is there twice: for readers of stored forms."""

from __future__ import annotations

import copy
import random
from collections.abc import Iterator
from typing import Any

ODD: list[Any] = [
    *(None, True, 5, -1, 2**63 - 1, 1.5, "", "words", "\x00", "\ud800", b"\xff", "[", '{"a": 1}'),
    *([], [None], [[]], [5, "words"], {}, {"role": 5}, {"content": [{}]}, {"type": []}, {"a": {}}),
]


def altered(value: Any, rng: random.Random) -> Any:
    """Return a copy of *value* of which a part is another, is gone, or is there twice."""
    whole = [copy.deepcopy(value)]
    places = list(_places(whole))
    container, at = rng.choice(places[1:] or places)  # not the whole, if it has parts
    how = rng.choice(("replace", "replace", "remove", "double"))
    if how == "replace" or container is whole:
        container[at] = copy.deepcopy(rng.choice(ODD))
    elif how == "remove":
        del container[at]
    elif isinstance(container, list):
        container.insert(at, copy.deepcopy(container[at]))
    else:
        container[at] = [container[at], container[at]]
    return whole[0]


def _places(container: Any) -> Iterator[tuple[Any, Any]]:
    members = container.items() if isinstance(container, dict) else enumerate(container)
    for at, member in list(members):
        yield container, at
        if isinstance(member, dict | list):
            yield from _places(member)
