"""Install the wheel as strangers do, and run its demo: `python tests/installation.py DIST`.

Everything is installed from wheels alone, so that no compiler is needed; offline; into a directory
that cannot be written, used by a user who may write nothing but a directory of their own; by
`uvx` and by `pipx run`. And the licences of all that was installed are those of
docs/installation.md. Needs pip, uv and pipx.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
NOBODY = 65534
FRAMEWORKS = {
    path.stem.replace("_", "-")
    for path in (ROOT / "src" / "memalchemy" / "integrations").iterdir()
    if path.stem[0] != "_"
}
PERMISSIVE = ("MIT", "BSD", "Apache", "PSF", "Python Software Foundation", "ISC", "HPND", "0BSD")
WEAK_COPYLEFT = ("MPL", "Mozilla", "LGPL", "Lesser")
OTHERS = ("certifi", "orjson", "psycopg", "psycopg-binary")
"""Packages with another licence, which docs/installation.md names."""
METADATA = """
import importlib.metadata, json
print(json.dumps([
    [one.name, one.metadata.get("License-Expression") or one.metadata.get("License") or "",
     [c for c in one.metadata.get_all("Classifier", []) if c.startswith("License ::")]]
    for one in importlib.metadata.distributions()
]))
"""
BINARY = "--only-binary=:all:"
DEMO = ("demo", "--no-color")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dist", type=Path)
    (wheel,) = parser.parse_args().dist.resolve().glob("*.whl")
    with _directory() as place:
        python = _interpreter(place)
        wheels, environment = place / "wheels", place / "environment"
        _run("uv", "venv", "--quiet", "--python", python, environment)
        wanted = (BINARY, _with_extras(wheel))
        _run(*_pip(environment), "download", "--dest", wheels, *wanted, "pip")
        index = ("--no-index", "--find-links", wheels)
        _run(*_pip(environment), "install", *index, *wanted, offline=True)
        faults = _licences(environment)
        faults += _used_by_a_stranger(environment, place / "home")
        _run("uvx", "--quiet", "--python", python, *index, "--from", wheel, "memalchemy", *DEMO,
             offline=True, UV_CACHE_DIR=place / "uv")  # fmt: skip
        _run("pipx", "run", "--python", python, "--spec", wheel, "memalchemy", *DEMO,
             offline=True, PIPX_HOME=place / "pipx", PIP_NO_INDEX=1,
             PIP_FIND_LINKS=wheels)  # fmt: skip
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


@contextmanager
def _directory() -> Iterator[Path]:
    """A directory that everybody can enter."""
    place = Path(tempfile.mkdtemp(prefix="memalchemy-installed-"))
    try:
        place.chmod(0o755)
        yield place
    finally:
        for path in place.rglob("site-packages"):
            _let_write(path, True)
        shutil.rmtree(place)


def _interpreter(place: Path) -> str:
    """Return a Python that the stranger may run: that of this process may be root's own."""
    candidates = [getattr(sys, "_base_executable", sys.executable), "/usr/bin/python3"]
    # It starts another, too: what root may execute in a stranger's name is not what they may.
    program = (
        "import subprocess, sys; assert sys.version_info >= (3, 11);"
        "subprocess.run([sys.executable, '-c', ''], check=True)"
    )
    for python in candidates:
        command = [*_stranger(), python, "-I", "-c", program]
        if subprocess.run(command, cwd=place, capture_output=True).returncode == 0:
            return python
    sys.exit(f"another user can run none of {', '.join(candidates)}")


def _with_extras(wheel: Path) -> str:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = sorted(project["optional-dependencies"].keys() - FRAMEWORKS - {"all"})
    return f"{wheel}[{','.join(extras)}]"


def _pip(environment: Path) -> Sequence[str]:
    """The pip of this process, for an environment without one."""
    python = environment / "bin" / "python"
    return (sys.executable, "-m", "pip", "--quiet", "--python", str(python))


def _used_by_a_stranger(environment: Path, home: Path) -> list[str]:
    """Let somebody who owns nothing but *home* run the demo; nothing else may be written."""
    (packages,) = environment.rglob("site-packages")
    _let_write(packages, False)
    before = sorted(packages.rglob("*"))
    home.mkdir()
    if os.geteuid() == 0:
        os.chown(home, NOBODY, NOBODY)
    program = environment / "bin" / "memalchemy"
    database = home / "agent.db"
    for command in (
        (*DEMO, "--keep", "--db", database),
        ("verify", "--db", database),
        ("threads", "--db", database),
    ):
        _run(*_stranger(), program, *command, offline=True, cwd=home, HOME=home, TMPDIR=home)
    after = sorted(packages.rglob("*"))
    return [f"{path} was written where packages are" for path in {*after} - {*before}]


def _let_write(directory: Path, may: bool) -> None:
    for path in (directory, *directory.rglob("*")):
        if not path.is_symlink():
            mode = path.stat().st_mode
            path.chmod(mode | 0o200 if may else mode & ~0o222)


def _stranger() -> Sequence[str]:
    """What runs a command as another user; who is not root has read-only packages alone."""
    if os.geteuid() != 0:
        return ()
    return ("setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups")


def _offline() -> Sequence[str]:
    """What takes a command its network away, where the system lets us."""
    command = ("unshare", "--net") if os.geteuid() == 0 else ("unshare", "-r", "--net")
    try:
        allowed = subprocess.run([*command, "true"], capture_output=True).returncode == 0
    except FileNotFoundError:
        return ()
    return command if allowed else ()


def _run(
    *command: object, offline: bool = False, cwd: Path | None = None, **environment: object
) -> None:
    """Run a command, in an environment without any compiler; exit if it fails."""
    given = {**os.environ, "CC": "false", "CXX": "false"}
    given |= {name: str(value) for name, value in environment.items()}
    before: Sequence[str] = ()
    if offline:
        nowhere = "http://127.0.0.1:9"
        given |= {"HTTP_PROXY": nowhere, "HTTPS_PROXY": nowhere, "UV_OFFLINE": "1"}
        before = _offline()
    line = [*before, *map(str, command)]
    print("$", *line, flush=True)
    ran = subprocess.run(line, env=given, cwd=cwd, capture_output=True, text=True)
    if ran.returncode != 0:
        sys.exit(f"{ran.stdout}\n{ran.stderr}\nexit code {ran.returncode} of {' '.join(line)}")


def _licences(environment: Path) -> list[str]:
    """Return what has a licence that docs/installation.md does not name."""
    command = [environment / "bin" / "python", "-c", METADATA]
    told = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    others, faults = set(), []
    for name, licence, classifiers in json.loads(told):
        # Some state the whole text of their licence.
        said = " ".join([licence[:100], *classifiers])
        if any(one in said for one in WEAK_COPYLEFT) or not any(one in said for one in PERMISSIVE):
            others.add(name)
            if name not in OTHERS:
                faults.append(f"{name} has a licence that docs/installation.md has not: {said!r}")
    return faults + [f"{name} has no other licence any more" for name in {*OTHERS} - others]


if __name__ == "__main__":
    sys.exit(main())
