"""Packages of third parties, as an installation leaves them: a module and its entry point."""

from __future__ import annotations

from pathlib import Path


def install_package(
    place: Path, package: str, group: str, name: str, code: str, attribute: str
) -> None:
    """Put a package of one module into *place*, which stands on `sys.path` then.

    The module is called *package* and ``_module``. Its *attribute* is the entry point *name*.
    """
    about = place / f"{package}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{group}]\n{name} = {package}_module:{attribute}\n")
    (place / f"{package}_module.py").write_text(code)
