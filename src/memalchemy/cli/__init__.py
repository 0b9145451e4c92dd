"""The command line. It calls the public API and prints; the library's logic is not here.

This file imports nothing that takes time: from its first line on, Ctrl-C has an answer.
"""

from __future__ import annotations

import sys

from memalchemy.cli import ctrl_c


def main() -> None:
    """The entry point of the ``memalchemy`` command."""
    ctrl_c.take_over()
    try:
        with ctrl_c.answered():
            from memalchemy.cli.app import app

            for stream in (sys.stdout, sys.stderr):
                reconfigure = getattr(stream, "reconfigure", None)
                if reconfigure is not None:
                    reconfigure(errors="backslashreplace")
            app(prog_name="memalchemy")
    finally:
        ctrl_c.leave()
