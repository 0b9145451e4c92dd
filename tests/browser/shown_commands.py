"""What a command that a page shows does: run as bash would, many in one process."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

from typer.testing import CliRunner

from memalchemy.cli.app import app


def words_of_bash(line: str) -> list[str]:
    """Return the words of a command as bash reads it."""
    print_words = ["bash", "-c", f"printf '%s\\0' {line}"]
    printed = subprocess.run(print_words, capture_output=True, check=True).stdout
    return printed.decode().split("\0")[:-1]


def failures(commands: Iterable[list[str]]) -> list[str]:
    """Run commands of memalchemy; return what each says of a failure, ``""`` of none.

    They run in the main thread of another process, which some need: here Playwright's loop does.
    """
    with ProcessPoolExecutor(1, get_context("spawn")) as process:
        return list(process.map(_failure, commands))


def _failure(words: list[str]) -> str:
    done = CliRunner().invoke(app, words[1:], catch_exceptions=False)
    return done.stderr if done.exit_code or "rror" in done.stderr else ""
