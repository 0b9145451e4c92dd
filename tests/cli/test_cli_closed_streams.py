"""Commands whose stdout, stdin or stderr the caller has closed."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from commandline import environment

from waiting import A_WHILE


def run(filled: str, *arguments: str, redirect: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a shell that closes one of its streams."""
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirect}', "sh", sys.executable, "-m", "memalchemy", *arguments],
        capture_output=True,
        text=True,
        env=environment(MEMALCHEMY_URL=filled, PYTHONUNBUFFERED=""),
        timeout=2 * A_WHILE,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        ("threads",),
        ("threads", "--json"),
        ("threads", "--nl"),
        ("export", "--all"),
        ("export", "--all", "-o", "/dev/stdout"),
        ("threads", "--csv"),
        ("--help",),
        ("--version",),
        ("threads", "--help"),
    ],
    ids="-".join,
)
@pytest.mark.parametrize("redirect", [">&-", "1</dev/null"], ids=["closed", "not-writable"])
def test_a_stdout_that_cannot_be_written_is_one_line(
    arguments: tuple[str, ...], redirect: str, filled: str
) -> None:
    ended = run(filled, *arguments, redirect=redirect)

    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) <= 2  # `threads` has a note of how many there are
    line = ended.stderr.splitlines()[-1]
    if {"--json", "--nl"} & {*arguments}:
        assert json.loads(line)["error"]["code"] == "MA-OUTPUT"
    else:
        assert line.startswith("error [MA-OUTPUT]: cannot write the output: ")


def test_no_error_is_printed_on_stdout_when_stderr_is_closed(filled: str) -> None:
    ended = run(filled, "show", "nobody", redirect="2>&-")

    assert (ended.returncode, ended.stdout) == (1, "")


def test_a_closed_stdin_confirms_nothing(filled: str) -> None:
    ended = run(filled, "forget", "--thread", "retail-1", redirect="<&-")

    assert ended.returncode == 4
    assert "MA-NOT-CONFIRMED" in ended.stderr
