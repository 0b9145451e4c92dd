"""Where a command's keys come from: the environment or a file.

Never an argument: a command line is for every user of the machine to read.
"""

from __future__ import annotations

import os
from pathlib import Path

from memalchemy.cli.exits import UsageProblem

KEYS_VARIABLE = "MEMALCHEMY_KEYS"


def keys_of(file: str | None) -> list[str] | None:
    """The keys in *file*, one a line; without one those in `KEYS_VARIABLE`, between commas."""
    if file is not None:
        try:
            text = Path(file).read_text(encoding="utf-8")
        except OSError as error:
            raise UsageProblem(f"cannot read {file}: {error.strerror}") from error
        except UnicodeDecodeError:
            raise UsageProblem(f"{file} is not UTF-8") from None
        lines = (line.strip() for line in text.splitlines())
        found = [line for line in lines if line and not line.startswith("#")]
        if not found:
            raise UsageProblem(f"there is no key in {file}; it has one a line, the newest first")
        return found
    given = os.environ.get(KEYS_VARIABLE, "")
    return [key.strip() for key in given.split(",") if key.strip()] or None
