"""Pipelines migrate first, and pods of the release before live on: real code, real processes.

A *release* is a directory with a package in it: this checkout's, one that was stored when its
revision was the newest (``tests/stored/RELEASE/code.zip``), or the next one, which is this
checkout's with a revision more.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from typing import Any

import pytest
from programs import CHECKOUT
from releases import NEXT, THIS, memalchemy, next_release, upgraded
from rolling_member import state_of

from memalchemy import Checkpointer, Database, SchemaTooNew, migrate
from memalchemy._version import __version__
from memalchemy.migrate.chain import release_number

MEMBER = Path(__file__).with_name("rolling_member.py")
STORED = CHECKOUT / "tests" / "stored"
ENOUGH = 15
"""Saves of one pod before the next thing happens."""


class Pod:
    """A running `rolling_member`; ``saved`` is all that was acknowledged to it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.saved: list[dict[str, str]] = []
        self._process = process
        self._told: Queue[dict[str, Any] | None] = Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        self.opened = self._next()

    def saves_on(self) -> None:
        """Return when it has saved enough from now on."""
        while self._told.qsize():
            self._next()
        for _ in range(ENOUGH):
            self._next()

    def ends(self) -> None:
        """Let it finish what it is doing; that must go well too."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        while (told := self._told.get(timeout=60)) is not None:
            self.saved.append(told)
        assert self._process.wait(60) == 0

    def stop(self) -> None:
        self._process.kill()
        self._reader.join()

    def _next(self) -> dict[str, Any]:
        told = self._told.get(timeout=60)
        assert told is not None, "the pod ended by itself; its traceback is on stderr"
        if "saved" in told:
            self.saved.append(told)
        return told

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._told.put(json.loads(line))
        self._told.put(None)


@contextmanager
def pod(release: Path, url: str, name: str) -> Iterator[Pod]:
    with subprocess.Popen(
        [sys.executable, str(MEMBER), url, name],
        env=os.environ | {"PYTHONPATH": str(release), "OPENBLAS_NUM_THREADS": "1"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        running = Pod(process)
        try:
            assert Path(running.opened["open"]).is_relative_to(release)
            yield running
        finally:
            running.stop()


async def roll(url: str, old: Path, new: Path) -> None:
    """Upgrade under a pod of the *old* release, then let pods of both save side by side."""
    upgraded(old, url)
    with pod(old, url, "old") as before:
        before.saves_on()
        assert upgraded(new, url)
        before.saves_on()
        with pod(new, url, "new") as after, pod(old, url, "restarted") as restarted:
            after.saves_on()
            restarted.saves_on()
            before.saves_on()
            for each in (after, restarted, before):
                each.ends()
    assert after.opened["head"] != before.opened["head"]
    saved = before.saved + after.saved + restarted.saved
    assert len(saved) > 5 * ENOUGH
    async with Database(url, migrate="check") as db:
        keep = Checkpointer(db)
        for told in saved:
            assert await keep.load(told["thread"], told["saved"]) == state_of(told["saved"])
        for thread in {told["thread"] for told in saved}:
            names = [told["saved"] for told in saved if told["thread"] == thread]
            kept = [info.checkpoint_id async for info in keep.history(thread)]
            assert sorted(kept) == sorted(names)


async def test_pods_live_on_through_the_upgrade_of_the_next_release(
    fresh_url: str, tmp_path: Path
) -> None:
    later = next_release(tmp_path / "next", version="98.0.0", oldest_release=__version__)
    await roll(fresh_url, THIS, later)


def releases_still_running() -> dict[str, Path]:
    """By revision, the releases stored before the newest one that it says it works with."""
    oldest = release_number(migrate.scripts().get_revision(migrate.head()).module.oldest_release)
    found = {}
    for path in sorted(STORED.glob("*/code.zip")):
        version = path.parent.name
        revision = json.loads(path.with_name("contents.json").read_text())["revision"]
        if revision != migrate.head() and release_number(version) >= oldest:
            found[revision] = path
    return found


# No test, rather than one that is skipped, for the first revision, and for one that breaks with all
# before it.
if releases_still_running():

    @pytest.mark.parametrize("revision", list(releases_still_running()))
    async def test_pods_of_an_earlier_release_live_on_through_the_upgrade_of_this_one(
        fresh_url: str, tmp_path: Path, revision: str
    ) -> None:
        with zipfile.ZipFile(releases_still_running()[revision]) as archive:
            archive.extractall(tmp_path / "earlier")
        await roll(fresh_url, tmp_path / "earlier", THIS)


@pytest.mark.parametrize("how", ["check", "auto"])
async def test_this_release_opens_what_a_later_one_upgraded_and_declared_compatible(
    fresh_url: str, tmp_path: Path, how: Any
) -> None:
    later = next_release(tmp_path / "next", version="98.0.0", oldest_release=__version__)
    upgraded(later, fresh_url)
    async with Database(fresh_url, migrate=how) as db:
        assert await db.current() == NEXT
        await Checkpointer(db).save({"step": 1}, "thread")
        assert await Checkpointer(db).load("thread") == {"step": 1}
        assert await db.migrate() == []
    assert memalchemy(THIS, "--db", fresh_url, "check").returncode == 0


@pytest.mark.parametrize("how", ["check", "auto"])
async def test_this_release_refuses_what_a_later_one_made_its_own(
    fresh_url: str, tmp_path: Path, how: Any
) -> None:
    later = next_release(tmp_path / "next", version="98.0.0", oldest_release="98.0.0")
    upgraded(later, fresh_url)
    with pytest.raises(SchemaTooNew) as refused:
        async with Database(fresh_url, migrate=how):
            pass
    for fact in (NEXT, "98.0.0", __version__):
        assert fact in str(refused.value)
    told = memalchemy(THIS, "--db", fresh_url, "check")
    assert (told.returncode, told.stdout) == (1, "")
    assert told.stderr == f"error [MA-SCHEMA-TOO-NEW]: {refused.value}\n"
