"""The database that `install` has named for this process."""

from __future__ import annotations

import os
from typing import Any

from memalchemy.errors import InvalidArgument
from memalchemy.integrations._base import DATABASE_VARIABLE, AnyDatabase

installed: list[Any] = []
"""The installations that were not closed; the last one is in force."""


def database() -> AnyDatabase:
    """Return the database for an object that CrewAI makes anew of its settings.

    Raises:
        InvalidArgument: none is named; one in memory would lose what is written without a word.
    """
    if installed:
        found: AnyDatabase = installed[-1].db
        return found
    if url := os.environ.get(DATABASE_VARIABLE):
        return url
    raise InvalidArgument(
        "settings of CrewAI name no database: call memalchemy.integrations.crewai.install(db) "
        f"first, or set {DATABASE_VARIABLE}"
    )
