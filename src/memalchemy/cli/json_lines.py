"""Files of JSON lines, which the import commands read and the export commands write."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO

from memalchemy._files import is_stream, open_to_replace
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
    count = 0
    with nullcontext(sys.stdout.buffer) if output is None else open_output(output) as file:
        async for record in records:
            file.write(_encode_line(record))
            count += 1
        file.flush()
    return count


@contextmanager
def open_output(path: Path) -> Iterator[BinaryIO]:
    """Open a file that replaces *path* when it is complete; a FIFO or a device as it is.

    Raises:
        UsageError: no file can be made there.
        OSError: a FIFO or a device cannot be written.
    """
    with ExitStack() as stack:
        try:
            with ctrl_c.ctrl_c_raises():  # a FIFO waits for its reader
                file = stack.enter_context(open_to_replace(path))
        except OSError as error:
            if is_stream(path):
                raise
            raise UsageError(f"cannot write to {path}: {error.strerror}") from error
        yield file


def is_stdout(path: Path | None) -> bool:
    """Return True of ``None``, and of names of stdout such as ``/dev/stdout``."""
    try:
        return path is None or os.path.samestat(path.stat(), os.fstat(sys.stdout.fileno()))
    except OSError:  # also where a test has replaced stdout
        return False


def _encode_line(record: Mapping[str, Any]) -> bytes:
    import orjson

    try:
        return orjson.dumps(record, option=orjson.OPT_APPEND_NEWLINE)
    except TypeError:  # an id with a lone surrogate: JSON can escape it, UTF-8 cannot encode it
        return json.dumps(record, default=lambda value: value.isoformat()).encode() + b"\n"
