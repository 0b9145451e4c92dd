"""The kinds of stored databases, and where those of a release are."""

from __future__ import annotations

import gzip
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from memalchemy.codec.encryption import READABLE
from memalchemy.migrate.chain import release_number
from stored.contents import FEATURES

STORED = Path(__file__).resolve().parent
KEY = "c3RvcmVkIGRhdGFiYXNlcyBvZiBtZW1hbGNoZW15IDE="
SIGNING_KEY = "c3RvcmVkIGRhdGFiYXNlcyBvZiBtZW1hbGNoZW15IDI="
"""Keys that protect nothing: they are here for everybody to read."""
WITHOUT_SEARCH = ("generated ids", "values", "key values", "outputs of tools")
"""The features that search for nothing."""


@dataclass(frozen=True)
class Kind:
    """A way to store: the options of `Database`, and what is written beside `fill`."""

    options: dict[str, Any] = field(default_factory=dict)
    features: tuple[str, ...] = tuple(FEATURES)
    databases: tuple[str, ...] = ("sqlite", "postgresql")
    walled: bool = False
    searches: bool = True


KINDS = {
    "plain": Kind(),
    "encrypted": Kind({"keys": [KEY], "readable": READABLE}),
    "sealed": Kind({"keys": [KEY]}, features=WITHOUT_SEARCH, searches=False),
    "signed": Kind({"signing_keys": [SIGNING_KEY]}),
    "walled": Kind(databases=("postgresql",), walled=True),
}


def directory_of(release: str) -> Path:
    """Return the directory of the stored databases of a release."""
    return STORED / release


def file_of(release: str, kind: str, database: str) -> Path:
    """Return where a stored database is, if the release has one of that kind."""
    ending = {"sqlite": "db.gz", "postgresql": "postgresql.sql.gz"}[database]
    return directory_of(release) / f"{kind}.{ending}"


def releases() -> list[str]:
    """Return the releases that have stored databases, oldest first."""
    found = (path.parent.name for path in STORED.glob("*/contents.json"))
    return sorted(found, key=release_number)


def zipped(path: Path, data: bytes) -> None:
    """Write *data* compressed: the same bytes give the same file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(data, 9, mtime=0))


def unzipped(path: Path) -> bytes:
    return gzip.decompress(path.read_bytes())
