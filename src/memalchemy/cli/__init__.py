"""The command line: it parses options, calls the library and prints the result.

`app` lists the commands, ``commands/`` has each of them. This module imports nothing slow, so that
Ctrl-C is handled from the first moment.
"""

from __future__ import annotations

import os
import sys

from memalchemy.cli import ctrl_c


def main() -> None:
    """Run the ``memalchemy`` command."""
    ctrl_c.install_handler()
    try:
        with ctrl_c.exit_on_interrupt():
            _open_closed_streams()
            from memalchemy.cli.app import app
            from memalchemy.cli.command import report_unwritable_stdout

            for stream in (sys.stdout, sys.stderr):
                reconfigure = getattr(stream, "reconfigure", None)
                if reconfigure is not None:
                    reconfigure(errors="backslashreplace")
            with report_unwritable_stdout():
                app(prog_name="memalchemy")
    finally:
        ctrl_c.restore_default()


def _open_closed_streams() -> None:
    """Open streams that the caller has closed, as with ``>&-``, before a file gets their numbers.

    Stdin is empty then, writing to stdout fails, and what is written to stderr is lost.
    """
    for number, (name, mode) in enumerate({"stdin": "r", "stdout": "w", "stderr": "w"}.items()):
        if getattr(sys, name) is None:
            opened = os.open(os.devnull, os.O_WRONLY if name == "stderr" else os.O_RDONLY)
            if opened != number:
                os.dup2(opened, number)
                os.close(opened)
            stream = open(number, mode, encoding="utf-8", closefd=False)  # noqa: SIM115 - to the end
            setattr(sys, name, stream)
