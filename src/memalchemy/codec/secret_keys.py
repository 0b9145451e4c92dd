"""Keys as users give them: 32 random bytes as URL-safe base64, for encryption or for signatures."""

from __future__ import annotations

import base64
import binascii
import os

_ADVICE = "a key is what `memalchemy generate-key` prints: 32 bytes as URL-safe base64"


def generate_key() -> str:
    """Generate a key from the operating system's random numbers."""
    return base64.urlsafe_b64encode(os.urandom(32)).decode("ascii")


def read_secret(given: object) -> bytes:
    """Return the 32 bytes of a key as `generate_key` returns it.

    Raises:
        ValueError: it is not a key. No key is shown.
    """
    # Neither the error nor its cause may quote what was given.
    if isinstance(given, str):
        given = given.encode("utf-8", "surrogatepass")
    if not isinstance(given, bytes):
        raise ValueError(f"a key is text or bytes, not {type(given).__name__}; {_ADVICE}")
    try:
        # A key that was read from a file ends with a line break.
        secret = base64.b64decode(given.strip(), altchars=b"-_", validate=True)
    except (binascii.Error, ValueError):
        secret = b""
    if len(secret) != 32:
        raise ValueError(f"this is not a key: it has {len(given.strip())} bytes; {_ADVICE}")
    return secret
