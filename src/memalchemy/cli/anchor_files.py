"""Files of anchors, as commands take them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from memalchemy.cli.usage_errors import UsageError
from memalchemy.errors import Corrupt

if TYPE_CHECKING:
    from memalchemy.anchors import Anchor


def read_anchor(file: Path, digest: str | None = None) -> Anchor:
    """Read an anchor from a file; with a *digest* it must have that.

    Raises:
        UsageError: the file cannot be read.
        Corrupt: it is no anchor, or has another digest.
    """
    from memalchemy.anchors import Anchor

    try:
        found = Anchor.read(file)
    except OSError as error:
        raise UsageError(f"the anchor {file} cannot be read: {error.strerror}") from error
    if digest is not None and found.digest != digest.strip().lower():
        raise Corrupt(f"the anchor {file} has the digest {found.digest}, and not the given one")
    return found
