"""What a test sees of the statements that are sent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from memalchemy.events import StatementEvent, subscribe_statements


@contextmanager
def verbs() -> Iterator[list[str]]:
    """A list that has the verb of each statement that is sent in the block."""
    told: list[str] = []

    def tell(event: StatementEvent) -> None:
        if event.statement is not None:
            told.append(event.sql.split()[0])

    unsubscribe = subscribe_statements(tell)
    try:
        yield told
    finally:
        unsubscribe()
