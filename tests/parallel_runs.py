"""Several processes that share one run of the suite: `pytest -n 2`.

A test that is marked ``alone`` measures time, or fills the machine with processes of its own: it
begins when the tests that run have ended, and none begins before it has. The processes know of each
other by two files that they lock; one that dies lets go of them. A run in one process locks none.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from golden.watch import EVER_SEEN

_SEEN = "statements seen"


class Neighbours:
    """Of a worker of pytest-xdist: who may run now."""

    def __init__(self, config: pytest.Config, place: Path) -> None:
        self._config = config
        # Who waits for its turn holds the door: otherwise others would pass by it for ever.
        self._door, self._room = (
            os.open(place / name, os.O_RDWR | os.O_CREAT) for name in ("door", "room")
        )

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        alone = item.get_closest_marker("alone") is not None
        with _held(self._door, fcntl.LOCK_EX):
            fcntl.flock(self._room, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        try:
            return (yield)
        finally:
            # By name: a process that a test has forked has the file open, too.
            fcntl.flock(self._room, fcntl.LOCK_UN)

    @pytest.hookimpl
    def pytest_sessionfinish(self) -> None:
        self._config.workeroutput[_SEEN] = sorted(EVER_SEEN)  # type: ignore[attr-defined]


class Listener:
    """Of the process that reports: what its workers have seen."""

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        # One that was killed has no output.
        EVER_SEEN.update(getattr(node, "workeroutput", {}).get(_SEEN, ()))


def meet(config: pytest.Config) -> None:
    """Let this process know its neighbours, if it has any."""
    if hasattr(config, "workerinput"):
        # The directory of the run, in which each worker has its own.
        config.pluginmanager.register(Neighbours(config, Path(config.option.basetemp).parent))
    else:
        config.pluginmanager.register(Listener())


@contextmanager
def _held(file: int, how: int) -> Iterator[None]:
    fcntl.flock(file, how)
    try:
        yield
    finally:
        fcntl.flock(file, fcntl.LOCK_UN)
