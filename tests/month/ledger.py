"""The model: what must be stored under each id, and what may be.

An id (a conversation, an item, a document) has a page: a file with a line for every step of a write
or a deletion. The step is noted before it is taken and again when it was acknowledged, so what a
killed process was not told of is known to be uncertain. Whoever writes to an id holds the lock of
its page, which the kernel releases when the process dies: there is one writer at a time, but any
number in turn, in all processes.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, unquote


class Where(NamedTuple):
    """An id of a kind of thing in a tenant. It begins with the name of the person it is about."""

    tenant: str
    kind: str
    id_: str

    @property
    def person(self) -> str:
        return self.id_.partition("-")[0]


class Moments(NamedTuple):
    """The times between which a backup was taken."""

    begin: int
    end: int


def now() -> int:
    """Nanoseconds on a clock that all processes of the machine share, and that never jumps."""
    return time.clock_gettime_ns(time.CLOCK_BOOTTIME)


@dataclass
class Write:
    """A text that was written, when, and what its writer knows of it."""

    text: str
    began: int
    acknowledged: int | None = None
    refused: bool = False
    """The writer was told that it did not happen."""


@dataclass
class Page:
    """What happened to an id, oldest first."""

    where: Where
    writes: list[Write] = field(default_factory=list)
    deletion_began: int | None = None
    deleted: int | None = None

    @property
    def is_open(self) -> bool:
        return self.deletion_began is None

    def as_of(self, backup: Moments) -> Page:
        """Return what a backup has that was taken between two moments.

        What was acknowledged before it began is in it, and nothing that began after its end.
        """
        page = Page(self.where)
        for write in self.writes:
            if write.began < backup.end:
                known = write.acknowledged is not None and write.acknowledged < backup.begin
                told = write.acknowledged if known else None
                page.writes.append(Write(write.text, write.began, told, write.refused))
        if self.deletion_began is not None and self.deletion_began < backup.end:
            page.deletion_began = self.deletion_began
            if self.deleted is not None and self.deleted < backup.begin:
                page.deleted = self.deleted
        return page

    def complaint(self, found: list[str], *, appends: bool) -> str | None:
        """Say what is wrong with the texts that were *found* under the id."""
        if self.deleted is not None:
            return f"deleted, and there are {_brief(found)}" if found else None
        if not self.is_open and not found:
            return None
        known = [write.text for write in self.writes if write.acknowledged is not None]
        open_ = {w.text for w in self.writes if w.acknowledged is None and not w.refused}
        if appends:
            certain = [text for text in found if text not in open_]
            if certain != known or len(set(found)) != len(found):
                return f"should have {_brief(known)}, maybe {_brief(open_)}; has {_brief(found)}"
            return None
        last = self._last_acknowledged()
        later = {write.text for write in self.writes[last:] if write.text in open_}
        allowed = [known[-1:], *([text] for text in later)]
        if found not in allowed:
            return f"should have one of {[_brief(one) for one in allowed]}; has {_brief(found)}"
        return None

    def _last_acknowledged(self) -> int:
        told = [at for at, write in enumerate(self.writes) if write.acknowledged is not None]
        return told[-1] if told else 0


class Entry:
    """A page whose lock is held: notes the steps of its owner."""

    def __init__(self, page: Page, file: int) -> None:
        self.page = page
        self._file = file

    def note(self, **step: Any) -> None:
        # One write to the kernel: it is there whatever becomes of the process.
        line = json.dumps({"at": now(), **step})
        os.write(self._file, f"{line}\n".encode())
        _replay(self.page, json.loads(line))


class Ledger:
    """The pages of a month, in a directory that all processes share."""

    def __init__(self, directory: Path) -> None:
        self._pages = directory / "pages"
        self._erased = directory / "erased"
        self._pages.mkdir(parents=True, exist_ok=True)
        self._erased.mkdir(exist_ok=True)

    def wheres(self, tenant: str, kind: str | None = None) -> list[Where]:
        """Return all ids of a tenant, of one kind or of all, in the order of their names."""
        found = []
        for place in sorted((self._pages / tenant).glob(_name(kind) if kind else "*")):
            names = sorted(file.name for file in place.iterdir())
            found += [Where(tenant, unquote(place.name), unquote(name)) for name in names]
        return found

    def read(self, where: Where) -> Page:
        """Return a page as it is now; its owner may be writing."""
        page = Page(where)
        for line in self._path(where).read_text().splitlines():
            _replay(page, json.loads(line))
        return page

    @contextmanager
    def held(self, where: Where, *, wait: bool = False) -> Iterator[Entry | None]:
        """Hold the lock of a page, which is new if need be; give ``None`` if another holds it."""
        path = self._path(where)
        path.parent.mkdir(parents=True, exist_ok=True)
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o666)
        try:
            yield Entry(self.read(where), file) if _lock(file, wait) else None
        finally:
            os.close(file)

    def begin_erasure(self, person: str) -> None:
        """From here on nobody begins anything new about a person."""
        (self._erased / person).touch()

    def is_erased(self, person: str) -> bool:
        return (self._erased / person).exists()

    def erased(self) -> list[str]:
        return sorted(path.name for path in self._erased.iterdir())

    def summary(self) -> dict[str, int]:
        """Count what was written."""
        tenants = sorted(place.name for place in self._pages.iterdir())
        pages = [self.read(where) for tenant in tenants for where in self.wheres(tenant)]
        writes = [write for page in pages for write in page.writes]
        told = [write for write in writes if write.acknowledged is not None]
        refused = [write for write in writes if write.refused]
        return {
            "ids": len(pages),
            "acknowledged writes": len(told),
            "refused": len(refused),
            "uncertain": len(writes) - len(told) - len(refused),
            "deleted ids": sum(page.deleted is not None for page in pages),
        }

    def roll_back(self, tenants: list[str], to: Moments) -> None:
        """Note that a backup was put in the place of the database. Nobody is at work."""
        for tenant in tenants:
            for where in self.wheres(tenant):
                with self.held(where, wait=True) as entry:
                    assert entry is not None
                    entry.note(step="restored", begin=to.begin, end=to.end)

    def _path(self, where: Where) -> Path:
        return self._pages / where.tenant / _name(where.kind) / _name(where.id_)


def _replay(page: Page, step: dict[str, Any]) -> None:
    what, at = step["step"], step["at"]
    if what == "write":
        page.writes.append(Write(step["text"], at))
    elif what == "written":
        page.writes[-1].acknowledged = at
    elif what == "refused":
        page.writes[-1].refused = True
    elif what == "delete":
        page.deletion_began = at
    elif what == "deleted":
        page.deleted = at
    else:
        older = page.as_of(Moments(step["begin"], step["end"]))
        page.writes, page.deletion_began = older.writes, older.deletion_began
        page.deleted = older.deleted


def _lock(file: int, wait: bool) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except BlockingIOError:
        return False
    return True


def _name(text: str) -> str:
    return quote(text, safe="")


def _brief(texts: Any) -> list[str]:
    """The first word of each text, which is its own."""
    return [text.split(" ", 1)[0] for text in texts]
