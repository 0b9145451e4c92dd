"""Environment variables that name a database, for the command line, adapters and Alembic."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sqlalchemy import URL

URL_VARIABLE = "MEMALCHEMY_URL"
SCHEMA_VARIABLE = "MEMALCHEMY_SCHEMA"


def schema_of_environment(url: str | URL) -> str | None:
    """Return the schema that the environment names, for a database that has schemas.

    A SQLite file has none, and may be opened where the variable is set for a server.
    """
    from memalchemy.dialects import DIALECTS, parse_url

    schema = os.environ.get(SCHEMA_VARIABLE)
    if not schema or DIALECTS[parse_url(url).dialect].single_writer:
        return None
    return schema
