"""Directories for frameworks that write to one which an environment variable names."""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile


def directory(variable: str, prefix: str) -> str:
    """Return a new directory, which is removed when this process ends; or that of a test's parent.

    A process that a test starts, and kills, uses the one that *variable* names already.
    """
    given = os.environ.get(variable, "")
    if given.startswith(os.path.join(tempfile.gettempdir(), prefix)):
        return given
    made = tempfile.mkdtemp(prefix=prefix)
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return made
