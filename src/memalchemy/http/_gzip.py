"""Compression of documents that travel, by the server and by the client: gzip."""

from __future__ import annotations

import asyncio
import gzip

GZIP = "gzip"
"""The name of the encoding in headers."""

LARGE = 64 * 1024
"""Bytes of a document from which it is compressed in a thread."""

LEVEL = 4


async def gzip_document(document: bytes) -> bytes:
    """Return *document* as gzip, the same for the same document."""
    if len(document) < LARGE:
        return gzip.compress(document, LEVEL, mtime=0)
    return await asyncio.to_thread(gzip.compress, document, LEVEL, mtime=0)
