"""The command line: it parses options, calls the library and prints the result.

`app` lists the commands, ``commands/`` has each of them. This module imports nothing slow, so that
Ctrl-C is handled from the first moment.
"""

from __future__ import annotations

import sys

from memalchemy.cli import ctrl_c


def main() -> None:
    """Run the ``memalchemy`` command."""
    ctrl_c.install_handler()
    try:
        with ctrl_c.exit_on_interrupt():
            from memalchemy.cli.app import app

            for stream in (sys.stdout, sys.stderr):
                reconfigure = getattr(stream, "reconfigure", None)
                if reconfigure is not None:
                    reconfigure(errors="backslashreplace")
            app(prog_name="memalchemy")
    finally:
        ctrl_c.restore_default()
