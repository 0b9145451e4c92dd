"""Programs that run where files cannot be written, by the rights of the files or by the mount."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PR_CAPBSET_DROP = 24
OVERRIDES = (1, 2)
"""CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH, by which root writes whatever the rights say."""


def can_mount() -> bool:
    """Return whether this process may mount a directory read-only, in a namespace of its own."""
    if shutil.which("unshare") is None:
        return False
    tried = subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False)
    return tried.returncode == 0


@contextmanager
def write_protected(directory: Path) -> Iterator[None]:
    """Take the rights to write *directory* and the files in it from everybody."""
    places = [directory, *directory.iterdir()]
    modes = [place.stat().st_mode for place in places]
    for place in reversed(places):
        place.chmod(0o555 if place.is_dir() else 0o444)
    try:
        yield
    finally:
        for place, mode in zip(places, modes, strict=True):
            if place.exists():
                place.chmod(mode)


def run_without_overrides(*command: str) -> subprocess.CompletedProcess[str]:
    """Run a program that the rights of files bind, also where the tests run as root."""
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=_drop_overrides if os.geteuid() == 0 else None,
    )


def run_on_read_only_mount(directory: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a program for which *directory* is mounted read-only; for others it stays as it is."""
    place = shlex.quote(str(directory))
    script = f'mount --bind {place} {place} && mount -o remount,bind,ro {place} && exec "$@"'
    return subprocess.run(
        ["unshare", "--mount", "sh", "-c", script, "sh", *command],
        capture_output=True,
        text=True,
        check=False,
    )


def python(code: str, *arguments: str) -> list[str]:
    """Return the command that runs *code*."""
    return [sys.executable, "-c", code, *arguments]


def _drop_overrides() -> None:
    libc = ctypes.CDLL(None)
    for capability in OVERRIDES:
        if libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0):
            os._exit(99)
