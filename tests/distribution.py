"""Check the wheel and the sdist of two builds: `python tests/distribution.py DIST AGAIN --tag TAG`.

Both builds must be the same bytes, hold every file of the repository that belongs to them and no
other, and nothing that looks like a secret; and be the release of the tag, if one is given.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What only the repository needs.
NOT_IN_SDIST = (".ci/", ".github/")
SECRETS = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY"
    rb"|\bAKIA[0-9A-Z]{16}\b"  # Amazon
    rb"|\bAIza[\w-]{35}"  # Google
    rb"|\bgh[pousr]_[A-Za-z0-9]{36}|\bgithub_pat_\w{22,}|\bglpat-[\w-]{20}"
    rb"|\bpypi-AgEI[\w-]{20,}|\bnpm_[A-Za-z0-9]{36}|\bhf_[A-Za-z0-9]{30,}"
    rb"|\bxox[abprs]-[\w-]{10,}"  # Slack
    rb"|\bsk-(?:ant-|proj-)?[A-Za-z0-9_-]{20,}"  # providers of models
    rb"|\beyJ[\w-]{10,}\.eyJ[\w-]{10,}\."  # a JSON web token
    rb"|://[^\s/:@'\"{}$<>]+:(?!(?:secret|password|throwaway1?)@)[^\s/:@'\"{}$<>]{6,}@"
)
"""Keys of services, and passwords in URLs but for those that examples have."""
IN_WHEEL = {"src/memalchemy/": "memalchemy/", "migrations/": "memalchemy/migrations/"}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("dist", type=Path)
    parser.add_argument("again", type=Path)
    parser.add_argument("--tag")
    given = parser.parse_args()
    faults = [*_differences(given.dist, given.again), *_contents(given.dist)]
    faults += [fault for name, data in _files(given.dist) for fault in secrets_in(name, data)]
    if given.tag is not None:
        faults += _not_ready(given.dist, given.tag)
    for fault in faults:
        print(fault, file=sys.stderr)
    return 1 if faults else 0


def _differences(dist: Path, again: Path) -> list[str]:
    built = {path.name: path.read_bytes() for path in dist.iterdir()}
    rebuilt = {path.name: path.read_bytes() for path in again.iterdir()}
    return [
        f"{name}: a second build differs"
        for name in sorted(built.keys() | rebuilt.keys())
        if built.get(name) != rebuilt.get(name)
    ]


def _contents(dist: Path) -> list[str]:
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.split("\n")
    files = {name for name in tracked if name}
    wheel = {
        name
        for name in zipfile.ZipFile(_only(dist, "*.whl")).namelist()
        if ".dist-info/" not in name
    }
    with tarfile.open(_only(dist, "*.tar.gz")) as archive:
        named = (name.partition("/")[2] for name in archive.getnames())
        sdist = {name for name in named if name != "PKG-INFO"}
    in_wheel = {
        place + name.removeprefix(folder)
        for name in files
        for folder, place in IN_WHEEL.items()
        if name.startswith(folder)
    }
    in_sdist = {name for name in files if not name.startswith(NOT_IN_SDIST)}
    return [*_compared("wheel", in_wheel, wheel), *_compared("sdist", in_sdist, sdist)]


def _files(dist: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the name and the bytes of each file in the wheel and in the sdist."""
    with zipfile.ZipFile(_only(dist, "*.whl")) as wheel:
        for name in wheel.namelist():
            yield f"wheel/{name}", wheel.read(name)
    with tarfile.open(_only(dist, "*.tar.gz")) as sdist:
        for member in sdist:
            if (file := sdist.extractfile(member)) is not None:
                yield f"sdist/{member.name}", file.read()


def secrets_in(name: str, data: bytes) -> list[str]:
    """Return a sentence, without the secret, for each that a file may have."""
    lines = (len(data[: found.end()].splitlines()) for found in SECRETS.finditer(data))
    return [f"{name} has what looks like a secret in line {line}" for line in lines]


def _compared(which: str, wanted: set[str], found: set[str]) -> list[str]:
    return [
        *(f"the {which} lacks {name}" for name in sorted(wanted - found)),
        *(f"the {which} has {name}, which is not tracked" for name in sorted(found - wanted)),
    ]


def _not_ready(dist: Path, tag: str) -> list[str]:
    """Return what keeps this from being the release of a tag: CONTRIBUTING.md has the steps."""
    version = _only(dist, "*.whl").name.split("-")[1]
    if tag != f"v{version}":
        return [f"the tag {tag} is not that of version {version}, which would be v{version}"]
    faults = []
    names, kept = ROOT / "tests" / "public_api.txt", ROOT / "tests" / f"public_api-{version}.txt"
    if not kept.is_file() or kept.read_text() != names.read_text():
        faults.append(f"{kept.name} is not {names.name}: python -m tests.stored.make --write api")
    if left := [path.name for path in (ROOT / "changes").glob("*.md")]:
        faults.append(f"changes/ has {len(left)} changes that CHANGELOG.md has not: {left[0]}")
    if f"\n## {version} (" not in (ROOT / "CHANGELOG.md").read_text():
        faults.append(f"CHANGELOG.md has no entry of {version}")
    return faults


def _only(dist: Path, pattern: str) -> Path:
    (path,) = dist.glob(pattern)
    return path


if __name__ == "__main__":
    sys.exit(main())
