"""Reads the transcripts that Claude Code and the Claude Agent SDK keep as files of JSON lines."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from claude_agent_sdk import SessionKey

from memalchemy.database import Database
from memalchemy.errors import Conflict, DatabaseUnreachable, NotFound
from memalchemy.importers.log_times import LogTimes
from memalchemy.importers.stored_time import to_utc
from memalchemy.importers.target import BATCH, Record, Whole
from memalchemy.importers.unreadable import Unusable, read_or_leave
from memalchemy.integrations._importers._json import object_in
from memalchemy.integrations.claude_agent_sdk import MemalchemySessionStore

_SUFFIX = ".jsonl"
_METADATA = "agent_metadata"
"""Type of the line in which a store has what lies beside a subagent's transcript as a file."""


async def count(place: str, *, schema: str | None = None) -> int:
    """Count the transcripts: those of sessions, and of their subagents."""
    return len(await asyncio.to_thread(_find_files, place))


async def read(place: str, *, schema: str | None = None) -> AsyncIterator[Record]:
    """Yield the transcripts of a directory of projects, of one project, or of one session's file.

    The session that was written last comes last, as in a store that wrote them itself. The last
    line of a file is left if it is not whole: a session may be writing it.
    """
    for file in await asyncio.to_thread(_find_files, place):
        yield await asyncio.to_thread(_read_record, file)


@dataclass(frozen=True, slots=True)
class _File:
    """File of a transcript, with the parts of its key."""

    path: Path
    project_key: str
    session_id: str
    subpath: str | None = None

    def key(self, prefix: str) -> SessionKey:
        """Return the key of the transcript, as the SDK derives it from a path."""
        key = SessionKey(project_key=self.project_key, session_id=prefix + self.session_id)
        if self.subpath is not None:
            key["subpath"] = self.subpath
        return key


@dataclass(slots=True)
class _Transcript:
    """Lines of a transcript, without the metadata of its agent, which is rewritten at times."""

    lines: list[dict[str, Any]] = field(default_factory=list)
    metadata: dict[str, Any] | None = None
    numbers: list[int] = field(default_factory=list)
    """The number of each line in the file."""
    left_out: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, entries: Sequence[Any]) -> _Transcript:
        """Split the entries of a store; the last metadata counts."""
        found = cls()
        for entry in entries:
            if entry.get("type") == _METADATA:
                found.metadata = dict(entry)
            else:
                found.lines.append(dict(entry))
        return found

    def value(self) -> dict[str, Any]:
        """Return the transcript as a value that can be compared."""
        return {"lines": self.lines, "metadata": self.metadata}


def _find_files(place: str) -> list[_File]:
    """Return the files of transcripts: subagents' after their sessions', and the latest last.

    Raises:
        NotFound: there are none.
        DatabaseUnreachable: *place* does not exist, or cannot be read.
    """
    path = Path(os.path.abspath(place))  # its name may be the key of a project
    try:
        if path.is_file() and path.suffix == _SUFFIX:
            sessions = [path]
        elif path.is_dir():
            below = [one for one in path.iterdir() if one.is_dir()]
            sessions = _sessions_in(path) or [file for one in below for file in _sessions_in(one)]
        elif path.exists():
            sessions = []
        else:
            raise DatabaseUnreachable(f"there is no {place}")
        sessions.sort(key=lambda file: (file.stat().st_mtime_ns, file))
        found = [one for file in sessions for one in _files_of(file)]
    except OSError as error:
        raise DatabaseUnreachable(f"{place} cannot be read: {error.strerror}") from error
    if not found:
        raise NotFound(f"there are no transcripts of Claude Code's in {place}")
    return found


def _sessions_in(project: Path) -> list[Path]:
    return [file for file in project.glob(f"*{_SUFFIX}") if file.is_file()]


def _files_of(session: Path) -> Iterator[_File]:
    project_key, session_id = session.parent.name, session.stem
    yield _File(session, project_key, session_id)
    directory = session.with_suffix("")
    for path in sorted((directory / "subagents").rglob(f"*{_SUFFIX}")):
        if path.is_file():
            subpath = path.relative_to(directory).with_suffix("").as_posix()
            yield _File(path, project_key, session_id, subpath)


def _read_record(file: _File) -> Record:
    try:
        return _to_record(file, _read_transcript(file))
    except OSError as error:
        raise DatabaseUnreachable(f"{file.path} cannot be read: {error.strerror}") from error


def _to_record(file: _File, transcript: _Transcript) -> Whole:
    lines, value = transcript.lines, transcript.value()

    async def load(db: Database, prefix: str) -> dict[str, Any] | None:
        entries = await MemalchemySessionStore(db).load(file.key(prefix))
        is_empty = not lines and transcript.metadata is None  # what is stored of it is nothing
        if not entries and not is_empty:
            return None
        return _Transcript.of(entries or ()).value()

    async def save(db: Database, prefix: str, found: dict[str, Any] | None) -> None:
        """Append the lines that are not there; what is no beginning of the file is replaced."""
        if found is None and not lines and transcript.metadata is None:
            return
        store, key = MemalchemySessionStore(db), file.key(prefix)
        stored = found
        if found is not None and not extends(found):
            await store.delete(key)
            stored = None
        if await load(db, prefix) != stored:
            raise Conflict("the transcript was changed meanwhile")
        stored_lines, stored_metadata = (
            (0, None) if stored is None else (len(stored["lines"]), stored["metadata"])
        )
        new = list(lines[stored_lines:])
        if transcript.metadata is not None and stored_metadata != value["metadata"]:
            new.append(transcript.metadata)
        for start in range(0, len(new), BATCH):
            await store.append(key, new[start : start + BATCH])  # type: ignore[arg-type]

    def logs(db: Database, prefix: str) -> list[LogTimes]:
        key = file.key(prefix)
        log = MemalchemySessionStore(db).transcript(key)
        return LogTimes.of(log.namespace, key["session_id"], map(_time_of, lines))

    def covers(found: dict[str, Any]) -> bool:
        has_metadata = value["metadata"] is None or found["metadata"] is not None
        return len(found["lines"]) > len(lines) and begins(found, lines) and has_metadata

    def extends(found: dict[str, Any]) -> bool:
        return begins(value, found["lines"])

    def begins(with_more: dict[str, Any], less: list[dict[str, Any]]) -> bool:
        return bool(with_more["lines"][: len(less)] == less)

    def with_lines(kept: Sequence[int]) -> Whole:
        numbers = [transcript.numbers[at] for at in kept]
        part = _Transcript([lines[at] for at in kept], transcript.metadata, numbers)
        return _to_record(file, part)

    of_agent = "" if file.subpath is None else f", {file.subpath}"
    return Whole(
        "log",
        f"session {file.session_id}{of_agent}",
        value,
        load,
        save,
        logs=logs,
        covers=covers,
        extends=extends,
        missing=lambda found: len(lines) - len(found["lines"] if found else ()),
        left_out=transcript.left_out,
        parts=[f"line {number}" for number in transcript.numbers],
        with_parts=with_lines,
    )


def _read_transcript(file: _File) -> _Transcript:
    """Return the lines of a file; of two with the same ``uuid`` the first, as a store does."""
    found = _Transcript()
    seen: set[str] = set()
    stored = file.path.read_bytes().split(b"\n")
    last = len(stored) - 1
    for number, text in enumerate(stored):
        if not text.strip():
            continue
        # The last one may be in the making.
        left_out = found.left_out if number < last else []
        line = read_or_leave(lambda text=text: _parse_line(text), f"line {number + 1}", left_out)  # type: ignore[misc]
        if line is None:
            continue
        uuid = line.get("uuid")
        if isinstance(uuid, str):
            if uuid in seen:
                continue
            seen.add(uuid)
        found.lines.append(line)
        found.numbers.append(number + 1)
    if file.subpath is not None:
        metadata = _metadata_beside(file.path, found.left_out)
        found.metadata = None if metadata is None else metadata | {"type": _METADATA}
    return found


def _time_of(line: dict[str, Any]) -> datetime | None:
    with suppress(Unusable):
        return to_utc(line.get("timestamp"))
    return None


def _parse_line(text: bytes) -> dict[str, Any]:
    line = object_in(text)
    if not isinstance(line.get("type"), str):
        raise Unusable("has no type that is a text")
    return line


def _metadata_beside(path: Path, left_out: list[str]) -> dict[str, Any] | None:
    try:
        stored = path.with_suffix(".meta.json").read_bytes()
    except FileNotFoundError:
        return None
    return read_or_leave(lambda: object_in(stored), "metadata", left_out)
