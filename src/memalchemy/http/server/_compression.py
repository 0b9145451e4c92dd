"""Compressed bodies of requests, and the answers that may be compressed."""

from __future__ import annotations

import re
import zlib

from memalchemy.http.server._problems import Problem

SMALLEST = 1024
"""Bytes of an answer from which it is compressed."""

_REFUSED = re.compile(r"q=0(\.0*)?")


class Inflater:
    """Decompresses the body of a request piece by piece, and never to more than is allowed."""

    def __init__(self) -> None:
        self._gzip = zlib.decompressobj(wbits=31)

    def inflate(self, piece: bytes, limit: int, *, is_last: bool) -> bytes:
        """Return *piece* decompressed: at most one byte more than *limit*.

        Raises:
            Problem: the body is not gzip, or it ends too early or too late (400).
        """
        try:
            found = self._gzip.decompress(piece, limit + 1)
        except zlib.error:
            raise Problem(400, "the body is not gzip, as Content-Encoding says") from None
        is_within = len(found) <= limit
        if self._gzip.unused_data or (is_last and is_within and not self._gzip.eof):
            raise Problem(400, "the body is not one whole stream of gzip")
        return found


def accepts_gzip(header: str) -> bool:
    """Return whether an Accept-Encoding takes gzip."""
    for part in header.lower().split(","):
        name, *parameters = (text.strip() for text in part.split(";"))
        if name in ("gzip", "*"):
            return not any(_REFUSED.fullmatch(one) for one in parameters)
    return False
