"""The database that `install` has named for this process."""

from __future__ import annotations

import os
from typing import Any

from memalchemy._environment import URL_VARIABLE
from memalchemy.errors import InvalidArgument
from memalchemy.integrations._base import AnyDatabase

installed: list[Any] = []
"""The installations that were not closed; the last one is in force."""


def database() -> AnyDatabase | None:
    """Return the database for an object that CrewAI makes anew of its settings.

    ``None`` stands for that of the environment.

    Raises:
        InvalidArgument: none is named; one in memory would lose what is written without a word.
    """
    if installed:
        found: AnyDatabase = installed[-1].db
        return found
    if os.environ.get(URL_VARIABLE):
        return None
    raise InvalidArgument(
        "settings of CrewAI name no database: call memalchemy.integrations.crewai.install(db) "
        f"first, or set {URL_VARIABLE}"
    )
