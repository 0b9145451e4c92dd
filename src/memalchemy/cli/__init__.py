"""The command line. It calls the public API and prints; the library's logic is not here.

This file imports nothing that takes time: from its first line on, Ctrl-C has an answer.
"""

from __future__ import annotations

import signal
import sys


def main() -> None:
    """The entry point of the ``memalchemy`` command."""
    try:
        from memalchemy.cli.app import app

        for stream in (sys.stdout, sys.stderr):
            reconfigure = getattr(stream, "reconfigure", None)
            if reconfigure is not None:
                reconfigure(errors="backslashreplace")
        app(prog_name="memalchemy")
    except KeyboardInterrupt:  # while the commands were imported; later `exits` answers
        sys.stderr.write("interrupted\n")
        sys.exit(130)
    finally:
        # While Python tears itself down a second Ctrl-C would be a traceback; so it just ends it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
