"""Questions that a database of any framework answers, for people who begin to ask.

The page docs/ask-your-data.md has them with their answers.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files

_QUESTION = re.compile(r"^-- ([^\n]+)\n(.+?);$", re.MULTILINE | re.DOTALL)


@cache
def read_questions() -> tuple[tuple[str, str], ...]:
    """Return pairs of a question and its SQL."""
    text = files(__package__).joinpath("questions.sql").read_text(encoding="utf-8")
    return tuple(_QUESTION.findall(text))
