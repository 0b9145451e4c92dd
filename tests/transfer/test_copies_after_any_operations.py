"""Whatever the public API does to the source between two copies, the target is as the source.

The operations are drawn at random, on both sides where they leave a copy a copy: words that are
rebuilt, rows that are encrypted anew. Also the source may be restored from an older backup.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from contents import everything
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from drawn_examples import examples
from lifetimes import MOMENT
from memalchemy import Checkpointer, Conflict, Database, Store, ThreadLog
from memalchemy.contracts import Retention
from memalchemy.errors import NotFound, ThreadDeleted
from memalchemy.maintenance import sign as signing
from memalchemy.rotation import rotate_keys
from memalchemy.signing import generate_key, sign
from memalchemy.transfer import CopyReport, copy
from memalchemy.verify import verify
from memalchemy.words import rebuild_words

LOCAL = ("/~keys/", "/~signing/", "/~anchors/", "/~removals/")
NOISE = "some words that stay from step to step, so that a step is a difference " * 4

names = st.sampled_from(["a", "a", "a", "b"])
pick = st.integers(0, 20)
OPERATIONS: tuple[str, ...] = (
    *("save", "save", "save", "branch", "replace", "save wordless", "save with retention"),
    *("save expired", "delete checkpoint", "delete checkpoints", "prune", "prune every", "vacuum"),
    *("put writes", "put writes of none", "overwrite writes", "rewrite", "set metadata"),
    *("append", "append", "append keyed", "edit", "pop", "remove", "replace suffix", "clear"),
    *("delete thread", "delete log", "forget", "forget other", "fork", "fork entries"),
    *(
        "put",
        "put wordless",
        "put embedded",
        "delete item",
        "reembed",
        "rebuild words",
        "rebuild words there",
    ),
    *("new key", "new key there", "sign", "sign anew", "back up", "restore"),
    *("copy", "copy", "copy", "copy and compare all"),
)
steps = st.tuples(st.sampled_from(OPERATIONS), names, pick)


def embed(texts: list[str]) -> list[list[float]]:
    return [[len(text), text.count("e") + 1.0, 1.0] for text in texts]


@dataclass
class World:
    """A source, a target, the keys of both, and a backup of the source."""

    directory: Path
    number: int = 0
    keys: list[str] = field(default_factory=list)
    signing_keys: list[str] = field(default_factory=list)
    has_backup: bool = False
    reports: list[CopyReport] = field(default_factory=list)

    def file(self, name: str) -> Path:
        return self.directory / f"{name}.db"

    def open(self, name: str) -> Database:
        more: dict[str, Any] = {}
        if self.keys:
            more |= {"keys": list(self.keys), "readable": ("text", "fields", "vectors")}
        if self.signing_keys:
            more["signing_keys"] = list(self.signing_keys)
        return Database(f"sqlite:///{self.file(name)}", **more)

    @asynccontextmanager
    async def both(self) -> AsyncIterator[tuple[Database, Database]]:
        async with self.open("source") as source, self.open("target") as target:
            yield source, target

    async def happen(self, operation: str, name: str, number: int) -> None:
        self.number += 1
        method: Callable[[str, int], Any] = getattr(self, "do_" + operation.replace(" ", "_"))
        try:
            await method(name, number)
        except (Conflict, NotFound, ThreadDeleted):  # which has changed nothing
            if operation.startswith("copy"):
                raise

    # --- Checkpoints -------------------------------------------------------------------------

    def state(self) -> dict[str, Any]:
        return {"noise": NOISE, "messages": [f"word{n}" for n in range(self.number)]}

    async def save(self, name: str, checkpoint_id: str | None = None, **how: Any) -> None:
        more = {key: how.pop(key) for key in ("parent_id",) if key in how}
        async with self.open("source") as db:
            saver = Checkpointer(db, **how)
            await saver.save(self.state(), name, checkpoint_id, {"n": self.number}, **more)

    async def do_save(self, name: str, _: int) -> None:
        await self.save(name)

    async def do_branch(self, name: str, number: int) -> None:
        await self.save(name, parent_id=await self.checkpoint(name, number))

    async def do_replace(self, name: str, number: int) -> None:
        await self.save(name, await self.checkpoint(name, number))

    async def do_save_wordless(self, name: str, _: int) -> None:
        await self.save(name, index_text=False)

    async def do_save_with_retention(self, name: str, number: int) -> None:
        await self.save(name, retention=Retention(keep_last=1 + number % 3))

    async def do_save_expired(self, name: str, _: int) -> None:
        await self.save(name, ttl=MOMENT)

    async def checkpoint(self, name: str, number: int) -> str | None:
        async with self.open("source") as db:
            found = await Checkpointer(db).list_checkpoints(name, 100)
        return found[number % len(found)] if found else None

    async def checkpointer(self, job: Callable[[Checkpointer], Any]) -> None:
        async with self.open("source") as db:
            await job(Checkpointer(db))

    async def do_delete_checkpoint(self, name: str, number: int) -> None:
        one = await self.checkpoint(name, number)
        if one is not None:
            await self.checkpointer(lambda c: c.delete(name, one))

    async def do_delete_checkpoints(self, name: str, number: int) -> None:
        some = [await self.checkpoint(name, number + more) for more in (0, 1)]
        await self.checkpointer(lambda c: c.delete_checkpoints(name, {*some} - {None}))

    async def do_prune(self, name: str, number: int) -> None:
        await self.checkpointer(lambda c: c.prune(keep_last=1 + number % 4))

    async def do_prune_every(self, name: str, number: int) -> None:
        await self.checkpointer(lambda c: c.prune(name, keep_last=1, keep_every=2 + number % 2))

    async def do_vacuum(self, name: str, _: int) -> None:
        await self.checkpointer(lambda c: c.vacuum(1))

    async def put_writes(self, name: str, checkpoint_id: str | None, **how: Any) -> None:
        task, writes = f"task{self.number % 3}", [("channel", self.number)]
        if checkpoint_id is not None:
            await self.checkpointer(
                lambda c: c.put_writes(writes, name, checkpoint_id, task, **how)
            )

    async def do_put_writes(self, name: str, number: int) -> None:
        await self.put_writes(name, await self.checkpoint(name, number))

    async def do_put_writes_of_none(self, name: str, _: int) -> None:
        await self.put_writes(name, f"later-{self.number}")

    async def do_overwrite_writes(self, name: str, _: int) -> None:
        await self.put_writes(name, await self.checkpoint(name, 0), overwrite=True)

    async def do_rewrite(self, name: str, _: int) -> None:
        await self.checkpointer(lambda c: c.rewrite(name))

    async def do_set_metadata(self, name: str, number: int) -> None:
        await self.checkpointer(lambda c: c.set_thread_metadata(name, {"title": number}))

    async def do_delete_thread(self, name: str, _: int) -> None:
        await self.checkpointer(lambda c: c.delete(name))

    async def do_forget(self, name: str, _: int) -> None:
        await self.checkpointer(lambda c: c.forget(thread_id=name))

    async def do_forget_other(self, name: str, _: int) -> None:
        await self.checkpointer(lambda c: c.forget(thread_id="b" if name == "a" else "a"))

    async def do_fork(self, name: str, number: int) -> None:
        one = await self.checkpoint(name, number)
        if one is not None:
            await self.checkpointer(lambda c: c.fork(name, one))

    # --- Entries -----------------------------------------------------------------------------

    async def entries(self, job: Callable[[ThreadLog, list[int]], Any], name: str) -> None:
        async with self.open("source") as db:
            log = ThreadLog(db)
            positions = [entry.position async for entry in log.iter_entries(name)]
            await job(log, positions)

    async def do_append(self, name: str, number: int) -> None:
        await self.entries(
            lambda log, _: log.append(name, [f"entry {n}" for n in range(1 + number % 3)]), name
        )

    async def do_append_keyed(self, name: str, number: int) -> None:
        keys = [f"key{number % 4}", f"key{self.number}"]
        await self.entries(lambda log, _: log.append(name, ["one", "two"], keys=keys), name)

    async def do_edit(self, name: str, number: int) -> None:
        async def edit(log: ThreadLog, there: list[int]) -> None:
            if there:
                await log.edit(name, there[number % len(there)], f"edited {self.number}")

        await self.entries(edit, name)

    async def do_pop(self, name: str, _: int) -> None:
        await self.entries(lambda log, _: log.pop(name), name)

    async def do_remove(self, name: str, number: int) -> None:
        await self.entries(
            lambda log, there: log.remove(name, there[number % 3 : number % 3 + 2]), name
        )

    async def do_replace_suffix(self, name: str, number: int) -> None:
        async def replace(log: ThreadLog, there: list[int]) -> None:
            if there:
                await log.replace_suffix(name, there[number % len(there)], ["instead"])

        await self.entries(replace, name)

    async def do_clear(self, name: str, _: int) -> None:
        await self.entries(lambda log, _: log.clear(name), name)

    async def do_delete_log(self, name: str, _: int) -> None:
        await self.entries(lambda log, _: log.delete(name), name)

    async def do_fork_entries(self, name: str, _: int) -> None:
        await self.entries(lambda log, there: log.fork(name) if there else log.count(name), name)

    # --- Items -------------------------------------------------------------------------------

    async def store(self, job: Callable[[Store], Any], *, embeds: bool = False) -> None:
        async with self.open("source") as db:
            more: dict[str, Any] = {"embedder": embed, "model": "m"} if embeds else {}
            await job(Store(db, **more))

    async def do_put(self, name: str, number: int) -> None:
        ttl = 3600 if number % 2 else None
        await self.store(lambda s: s.put(("n",), name, {"text": f"item {number}"}, ttl=ttl))

    async def do_put_wordless(self, name: str, number: int) -> None:
        async with self.open("source") as db:
            await Store(db, index_text=False).put(("w",), name, {"text": f"item {number}"})

    async def do_put_embedded(self, name: str, number: int) -> None:
        await self.store(lambda s: s.put(("n",), name, {"text": f"item {number}"}), embeds=True)

    async def do_delete_item(self, name: str, _: int) -> None:
        await self.store(lambda s: s.delete(("n",), name))

    async def do_reembed(self, name: str, _: int) -> None:
        await self.store(lambda s: s.reembed(("n",)), embeds=True)

    # --- Maintenance, on either side ---------------------------------------------------------

    async def do_rebuild_words(self, name: str, _: int, side: str = "source") -> None:
        async with self.open(side) as db:
            await rebuild_words(db, all_namespaces=True)

    async def do_rebuild_words_there(self, name: str, number: int) -> None:
        await self.do_rebuild_words(name, number, "target")

    async def do_new_key(self, name: str, _: int, side: str = "source") -> None:
        self.keys.insert(0, generate_key())
        async with self.open(side) as db:
            await rotate_keys(db)

    async def do_new_key_there(self, name: str, number: int) -> None:
        # The head of a signed log is signed anew with it: that is a write of the target's own.
        if self.keys and not self.signing_keys:
            await self.do_new_key(name, number, "target")

    async def do_sign(self, name: str, _: int) -> None:
        if not self.signing_keys:
            self.signing_keys.append(generate_key())
        async with self.open("source") as db:
            await sign(db)

    async def do_sign_anew(self, name: str, number: int) -> None:
        if self.signing_keys:
            self.signing_keys.insert(0, generate_key())
            await self.do_sign(name, number)

    async def do_back_up(self, name: str, _: int) -> None:
        self.file("backup").unlink(missing_ok=True)
        async with self.open("source") as db:
            await db.backup(self.file("backup"))
        self.has_backup = True

    async def do_restore(self, name: str, _: int) -> None:
        if self.has_backup and not self.signing_keys and not self.keys:
            for old in self.directory.glob("source.db*"):
                old.unlink()
            shutil.copy(self.file("backup"), self.file("source"))

    # --- Copies ------------------------------------------------------------------------------

    async def do_copy(self, name: str, _: int, *, recheck: bool = False) -> None:
        async with self.both() as (source, target):
            before = await everything(source)
            self.reports.append(await copy(source, target, recheck=recheck))
            assert await everything(source) == before
            await self.check(before, await everything(target))
            # What the source has no more stays there, unencrypted if it was so when it was copied.
            there = {(row["namespace"], row["thread_id"]) for row in before["threads"]}
            there |= {(row["namespace"], row["key"]) for row in before["store_items"]}
            assert [
                one
                for one in (await verify(target)).findings
                if one.severity == "error"
                and (one.code != "plaintext" or (one.namespace, one.thread_id or one.key) in there)
            ] == []

    async def do_copy_and_compare_all(self, name: str, number: int) -> None:
        await self.do_copy(name, number, recheck=True)

    async def check(self, ours: dict[str, Any], theirs: dict[str, Any]) -> None:
        """Each log of the source is on the target, row by row and no row more; and each item."""
        logs = {row["log_id"] for row in ours["threads"]}
        for table in ("threads", "checkpoints", "deltas"):
            assert [row for row in theirs[table] if row["log_id"] in logs] == ours[table], table
        for table in ("store_items", "embeddings"):
            there = [row | {"expires_at": None} for row in theirs[table]]
            for row in ours[table]:
                if row["namespace"] not in LOCAL:
                    assert row | {"expires_at": None} in there, table


async def run(directory: Path, events: list[tuple[str, str, int]]) -> World:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(signing, "NOTICED_AFTER", 0)
        world = World(directory)
        for event in (*events, ("copy", "a", 0), ("copy and compare all", "a", 0)):
            await world.happen(*event)
    return world


BEFORE = [(name, "a", n) for n, name in enumerate(("save", "append", "put embedded") * 3)]
BEFORE += [("save wordless", "a", 0), ("put wordless", "a", 0)]


@settings(max_examples=examples(30), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(events=st.lists(steps, max_size=18))
@example(events=[])
async def test_the_target_is_as_the_source_after_any_operations(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[str, str, int]]
) -> None:
    copied = [*BEFORE, ("copy", "a", 0)]
    await run(tmp_path_factory.mktemp("copies"), [*copied, *events])


@pytest.mark.parametrize("then", ["save", "append", "nothing"])
@pytest.mark.parametrize("operation", sorted(set(OPERATIONS)))
@pytest.mark.parametrize("first", ["plain", "encrypted", "signed"])
async def test_the_target_is_as_the_source_after_each_operation(
    tmp_path: Path, operation: str, then: str, first: str
) -> None:
    begins = {"plain": [], "encrypted": [("new key", "a", 0)], "signed": [("sign", "a", 0)]}[first]
    later = [(then, "a", 0)] if then != "nothing" else []
    await run(
        tmp_path,
        [*BEFORE, *begins, ("back up", "a", 0), ("copy", "a", 0), (operation, "a", 5), *later],
    )


SEQUENCES = {
    "restored entries": ("back up", *("append",) * 2, "copy", "restore", *("append",) * 3),
    "restored states": ("back up", *("save",) * 2, "copy", "restore", *("save",) * 3),
    "restored to what the target has": ("back up", "append", "save", "copy", "restore"),
    "writes of deleted checkpoints": ("put writes", "save", "copy", "delete checkpoints", "save"),
    "writes of a deleted checkpoint": (
        "put writes",
        "append",
        "copy",
        "delete checkpoint",
        "append",
    ),
    "replaced and then pruned": ("replace", "copy", "replace", "save with retention", "save"),
    "replaced twice": ("copy", "replace", "copy", "replace", "replace", "save"),
    "deleted and begun anew": ("copy", "delete thread", "save", "save", "append"),
    "forgotten and begun anew": ("copy", "forget", *("save", "append") * 4),
    "encrypted half way": ("save", "copy", "new key", "save", "copy", "new key there", "save"),
}


@pytest.mark.parametrize("name", sorted(SEQUENCES))
@pytest.mark.parametrize("number", [0, 3])
async def test_the_target_is_as_the_source_after_some_operations(
    tmp_path: Path, name: str, number: int
) -> None:
    await run(tmp_path, [*BEFORE, *((operation, "a", number) for operation in SEQUENCES[name])])
