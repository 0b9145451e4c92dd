"""Files of JSON lines, which the import commands read and the export commands write."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

from memalchemy.cli import ctrl_c
from memalchemy.cli.usage_errors import UsageError


class LineReader:
    """The lines of a file, and the number of bytes read so far."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.bytes: int = 0

    def __iter__(self) -> Iterator[bytes]:
        while True:
            with ctrl_c.ctrl_c_raises():
                line = self._file.readline()
            if not line:
                return
            self.bytes += len(line)
            yield line


def open_input(file: str) -> AbstractContextManager[BinaryIO]:
    """Open *file* for reading; ``-`` is stdin."""
    if file == "-":
        return nullcontext(sys.stdin.buffer)
    try:
        return Path(file).open("rb")
    except OSError as error:
        raise UsageError(f"cannot read {file}: {error.strerror}") from error


def input_size(file: str) -> int | None:
    """Return the size of *file* in bytes; ``None`` for stdin and pipes."""
    path = Path(file)
    return path.stat().st_size if file != "-" and path.is_file() else None


async def write_json_lines(records: AsyncIterator[Mapping[str, Any]], output: Path | None) -> int:
    """Write *records* to stdout, or to *output*, which appears when it is complete.

    Returns:
        The number of records.
    """
    unfinished = output and output.with_name(f".{output.name}.{os.getpid()}.part")
    count = 0
    try:
        with _open_output(unfinished) as file:
            async for record in records:
                file.write(_encode_line(record))
                count += 1
            file.flush()
        if unfinished and output:
            unfinished.replace(output)
    finally:
        if unfinished:
            unfinished.unlink(missing_ok=True)
    return count


def _open_output(path: Path | None) -> AbstractContextManager[BinaryIO]:
    if path is None:
        return nullcontext(sys.stdout.buffer)
    try:
        return path.open("wb")
    except OSError as error:
        raise UsageError(f"cannot write to {path.parent}: {error.strerror}") from error


def _encode_line(record: Mapping[str, Any]) -> bytes:
    import orjson

    try:
        return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # an id with a lone surrogate: JSON can escape it, UTF-8 cannot encode it
        return json.dumps(record, default=lambda value: value.isoformat()).encode() + b"\n"
