"""File systems of a few megabytes that can grow. Mounting one takes root, so tests may be skipped.

``sudo nox -s long`` or a container with CAP_SYS_ADMIN runs them.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest


@dataclass
class Disk:
    """A mounted tmpfs."""

    path: Path
    megabytes: int

    def grow(self, megabytes: int) -> None:
        self.megabytes += megabytes
        _mount("-o", f"remount,size={self.megabytes}m", str(self.path))

    def fill(self) -> None:
        """Take what is left, to the last page; `clear` gives it back."""
        ballast = (self.path / "ballast").open("ab", buffering=0)
        with ballast, contextlib.suppress(OSError):  # ENOSPC is what it is for
            while True:
                ballast.write(b"x" * 4096)

    def clear(self) -> None:
        (self.path / "ballast").unlink()


@contextlib.contextmanager
def small_disk(megabytes: int) -> Iterator[Disk]:
    """A disk of its own, that any user may enter; skips the test where nothing can be mounted."""
    if sys.platform != "linux" or os.geteuid() != 0:
        pytest.skip("a full disk is a small tmpfs, and mounting one takes root on Linux")
    place = Path(tempfile.mkdtemp(prefix="ma-disk-"))
    refused = _mount("-t", "tmpfs", "-o", f"size={megabytes}m,mode=777", "tmpfs", str(place))
    if refused:
        place.rmdir()
        pytest.skip(f"a full disk is a small tmpfs, and this container may not mount: {refused}")
    try:
        yield Disk(place, megabytes)
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)
        place.rmdir()


def _mount(*arguments: str) -> str:
    """Why it was refused; empty if it was not."""
    done = subprocess.run(["mount", *arguments], capture_output=True, text=True)
    return done.stderr.strip() if done.returncode else ""
