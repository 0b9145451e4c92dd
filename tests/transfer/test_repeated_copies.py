"""A copy can be repeated after whatever happens in the source, and the target is as the source."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from contents import everything
from hypothesis import given, settings
from hypothesis import strategies as st

from drawn_examples import examples
from lifetimes import end_lifetimes
from memalchemy import Checkpointer, Conflict, Database, Store, ThreadLog
from memalchemy.maintenance import sign as signing
from memalchemy.rotation import rotate_keys
from memalchemy.signing import generate_key, sign
from memalchemy.transfer import copy

NAMES = ("a", "b")
EVENTS = (
    *("put", "put with an end", "delete", "expire", "replace", "save", "append"),
    *("delete thread", "fork", "prune", "new key", "sign", "copy"),
)


class Life:
    """A source and a target, their keys, and the events that happen in the source."""

    def __init__(self, directory: Path) -> None:
        self.urls = [f"sqlite:///{directory}/{name}.db" for name in ("source", "target")]
        self.keys: list[str] = []
        self.signing_keys: list[str] = []
        self.number = 0

    def open(self) -> list[Database]:
        more: dict[str, Any] = {}
        if self.keys:
            more["keys"] = list(self.keys)
        if self.signing_keys:
            more["signing_keys"] = list(self.signing_keys)
        return [Database(url, **more) for url in self.urls]

    async def happen(self, event: str, name: str) -> None:
        self.number += 1
        if event == "new key":
            self.keys.insert(0, generate_key())
        if event == "sign" and not self.signing_keys:
            self.signing_keys.append(generate_key())
        source, target = self.open()
        async with source, target:
            await self._happen(event, name, source, target)

    async def _happen(self, event: str, name: str, source: Database, target: Database) -> None:
        store, checkpointer = Store(source), Checkpointer(source)
        value = {"n": self.number, "text": f"word {self.number}"}
        if event in ("put", "put with an end"):
            await store.put(("n",), name, value, ttl=3600 if "end" in event else None)
        elif event == "delete":
            await store.delete(("n",), name)
        elif event == "expire":
            for db in (source, target):  # time passes for both
                await end_lifetimes(db)
        elif event == "replace":
            await checkpointer.save(value, name, "same")
        elif event == "save":
            await checkpointer.save(value, name)
        elif event == "append":
            await ThreadLog(source).append(name, [value])
        elif event == "delete thread":
            await checkpointer.delete(name)
        elif event == "fork" and await checkpointer.exists(name):
            await checkpointer.fork(name)
        elif event == "prune":
            await checkpointer.prune(keep_last=1)
        elif event == "new key":
            await rotate_keys(source, drop_words=True)
        elif event == "sign":
            await sign(source)
        elif event == "copy":
            await copy(source, target)
            await self.check(source, target)

    async def check(self, source: Database, target: Database) -> None:
        """What the source has is on the target, row by row; what it has no longer may be there."""
        ours, theirs = await everything(source), await everything(target)
        local = ("/~keys/", "/~signing/", "/~anchors/", "/~removals/")
        for table, rows in ours.items():
            there = [row | {"expires_at": None} for row in theirs[table]]
            for row in rows:
                if row.get("namespace") not in local:
                    assert row | {"expires_at": None} in there, table


@settings(max_examples=examples(25), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(EVENTS), st.sampled_from(NAMES)), max_size=16))
async def test_a_copy_succeeds_after_any_events_of_the_source(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[str, str]]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signing, "NOTICED_AFTER", 0)
        life = Life(tmp_path_factory.mktemp("copies"))
        for event, name in [*events, ("copy", "a"), *events, ("copy", "a")]:
            await life.happen(event, name)


@pytest.mark.parametrize("event", EVENTS)
@pytest.mark.parametrize("then", [None, "put", "replace", "append"])
async def test_a_copy_succeeds_after_each_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, event: str, then: str | None
) -> None:
    monkeypatch.setattr(signing, "NOTICED_AFTER", 0)
    life = Life(tmp_path)
    for first in ("put with an end", "put with an end", "replace", "append", "copy"):
        await life.happen(first, "a")
    for later in (event, *((then,) if then else ()), "copy", "copy"):
        await life.happen(later, "a")


@pytest.mark.parametrize("theirs", ["put", "replace", "append"])
async def test_a_write_on_the_target_is_still_refused(tmp_path: Path, theirs: str) -> None:
    life = Life(tmp_path)
    for first in ("put", "replace", "append", "copy"):
        await life.happen(first, "a")
    source, target = life.open()
    async with source, target:
        await life._happen(theirs, "a", target, source)
        before = await everything(target)

        with pytest.raises(Conflict, match="the target holds something else under 1 of"):
            await copy(source, target)

        assert await everything(target) == before
