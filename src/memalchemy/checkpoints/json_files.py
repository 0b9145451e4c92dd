"""Checkpoints and entries as a directory of readable JSON files: names, and writing them whole.

Knows what a record is, and nothing of where it came from.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from memalchemy.errors import Conflict
from memalchemy.keys import encode_namespace

_PLAIN = re.compile(r"[a-z0-9][a-z0-9_-]*(\.[a-z0-9_-]+)*")
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")
_DEVICES = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?")
_LONGEST = 100


def file_name(text: str) -> str:
    """A file's name for an id: no two ids have one that any file system takes for the same.

    An id that is plain is its own name. Any other is what is readable of it, ``~`` and its SHA-256:
    upper case too, which some file systems do not tell from lower.
    """
    if len(text) <= _LONGEST and _PLAIN.fullmatch(text) and not _DEVICES.fullmatch(text):
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{_UNFIT.sub('-', text)[:40].strip('-').lower()}~{digest}"


def path_of(record: Mapping[str, Any]) -> Path:
    """Where a record goes: ``THREAD/CHECKPOINT.json``, in a namespace ``THREAD/@NAMESPACE/…``.

    An entry's file is named ``@`` and its position.
    """
    path = Path(file_name(record["thread_id"]))
    if record["namespace"]:
        path /= "@" + file_name(encode_namespace(record["namespace"]))
    name = record.get("checkpoint_id")
    spelt = f"@{record['position']:012}" if name is None else file_name(name)
    return path / f"{spelt}.json"


class Directory:
    """A directory that appears when all is in it."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._part = self._path.with_name(f".{self._path.name}.{os.getpid()}.part")

    def begin(self) -> None:
        """Make the place that is written to.

        Raises:
            Conflict: the directory is there, and not empty.
        """
        if self._path.exists() and (not self._path.is_dir() or any(self._path.iterdir())):
            raise Conflict(f"{self._path} is there and is not an empty directory; name a new one")
        self._part.mkdir(parents=True)

    def write(self, record: Mapping[str, Any]) -> None:
        """Write one checkpoint or entry."""
        file = self._part / path_of(record)
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("xb") as out:
            out.write(readable(record))

    def finish(self) -> None:
        """Let it appear under its name."""
        if self._path.exists():
            self._path.rmdir()
        self._part.rename(self._path)

    def abandon(self) -> None:
        """Leave nothing behind."""
        shutil.rmtree(self._part, ignore_errors=True)


def readable(record: Mapping[str, Any]) -> bytes:
    """A record as indented JSON."""

    def text(ascii: bool) -> str:
        return json.dumps(record, indent=2, ensure_ascii=ascii, default=_default) + "\n"

    try:
        return text(False).encode()
    except UnicodeEncodeError:  # a lone surrogate in an id
        return text(True).encode()


def _default(value: Any) -> Any:
    if isinstance(value, datetime):
        return value.isoformat()
    raise TypeError(type(value).__name__)
