"""Checkpoints that rest on their parent: whatever removes checkpoints, it stays while they do."""

from __future__ import annotations

import random
from datetime import timedelta

import pytest

from memalchemy import Checkpointer, Conflict, Database, NotFound, Retention
from memalchemy.contracts import Progress
from memalchemy.log import bulk_delete
from memalchemy.verify import verify


async def save(checkpointer: Checkpointer, name: str, parent: str | None, *, rests: bool) -> None:
    await checkpointer.save(
        {"name": name},
        "t",
        name,
        lineage=parent,
        rests_on_parent=rests,
    )
    await checkpointer.put_writes([("channel", name)], "t", name, "task")


async def chained(checkpointer: Checkpointer, spelt: str) -> None:
    """A checkpoint for each letter, the child of the one before; a small one rests on it."""
    before = None
    for letter in spelt:
        await save(checkpointer, letter, before, rests=letter.islower())
        before = letter


async def names(checkpointer: Checkpointer) -> str:
    """The checkpoints that are there, oldest first, each with its writes."""
    found = [info.checkpoint_id async for info in checkpointer.history("t")][::-1]
    for name in found:
        assert [one.value for one in await checkpointer.get_writes("t", name)] == [name]
        assert await checkpointer.load("t", name) == {"name": name}
    return "".join(found)


@pytest.mark.parametrize(
    ("chain", "keep_last", "left"),
    [
        ("ABCDE", 1, "E"),
        ("AbcdE", 1, "E"),
        ("AbcDe", 1, "De"),
        ("Abcde", 1, "Abcde"),
        ("AbCdeF", 2, "CdeF"),
        ("AbCdEf", 3, "CdEf"),
    ],
)
async def test_pruning_leaves_what_the_kept_ones_rest_on(
    checkpointer: Checkpointer, chain: str, keep_last: int, left: str
) -> None:
    await chained(checkpointer, chain)

    would = await checkpointer.prune("t", keep_last=keep_last, dry_run=True)
    removed = await checkpointer.prune(keep_last=keep_last)

    assert await names(checkpointer) == left
    assert removed == would == len(chain) - len(left)
    assert (await verify(checkpointer.db, thread_id="t")).ok


async def test_retention_with_a_save_leaves_what_the_kept_ones_rest_on(db: Database) -> None:
    checkpointer = Checkpointer(db, retention=Retention(keep_last=2))
    await chained(checkpointer, "Abcde")
    assert await names(checkpointer) == "Abcde"

    await save(checkpointer, "F", "e", rests=False)
    assert await names(checkpointer) == "AbcdeF", "e is kept, and rests on the others"
    await save(checkpointer, "g", "F", rests=True)
    assert await names(checkpointer) == "Fg"


async def test_a_save_keeps_the_parent_that_it_rests_on_itself(db: Database) -> None:
    checkpointer = Checkpointer(db, retention=Retention(keep_last=1))
    await chained(checkpointer, "Ab")

    assert await names(checkpointer) == "Ab"


async def test_what_no_rule_of_age_or_number_keeps_is_kept_by_what_rests_on_it(
    checkpointer: Checkpointer,
) -> None:
    await chained(checkpointer, "Abcd")

    removed = await checkpointer.prune("t", keep_last=1, older_than=timedelta(microseconds=1))

    assert removed == 0
    assert await names(checkpointer) == "Abcd"


async def test_one_that_another_rests_on_is_not_deleted(checkpointer: Checkpointer) -> None:
    await chained(checkpointer, "AbcD")
    for name in "Ab":
        with pytest.raises(Conflict, match="rests on"):
            await checkpointer.delete("t", name)
    assert await checkpointer.delete_checkpoints("t", ["A", "b", "D"]) == 1
    assert await names(checkpointer) == "Abc"

    assert await checkpointer.delete("t", "c")
    assert await checkpointer.delete("t", "b")
    assert await checkpointer.delete("t", "A")
    assert await names(checkpointer) == ""


async def test_deleting_all_of_a_chain_deletes_it(checkpointer: Checkpointer) -> None:
    await chained(checkpointer, "Abc")

    assert await checkpointer.delete_checkpoints("t", ["A", "b", "c"]) == 3


async def test_a_branch_keeps_the_trunk_that_it_rests_on(checkpointer: Checkpointer) -> None:
    await chained(checkpointer, "AbcD")
    await save(checkpointer, "x", "b", rests=True)
    await save(checkpointer, "Y", "D", rests=False)

    await checkpointer.prune("t", keep_last=2)

    assert await names(checkpointer) == "AbxY"


async def test_a_parent_that_is_gone_is_not_rested_on(checkpointer: Checkpointer) -> None:
    await chained(checkpointer, "AB")
    await checkpointer.delete("t", "A")

    with pytest.raises(NotFound, match="rests on"):
        await save(checkpointer, "c", "A", rests=True)

    assert await names(checkpointer) == "B"


async def test_the_parent_has_to_be_named(checkpointer: Checkpointer) -> None:
    with pytest.raises(ValueError, match="parent_id= or lineage="):
        await checkpointer.save({}, "t", rests_on_parent=True)


@pytest.mark.parametrize("most", [2, 2_000])
async def test_a_circle_of_checkpoints_ends(
    checkpointer: Checkpointer, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    """A name that is used again may come to rest on what rests on it."""
    monkeypatch.setattr(bulk_delete, "MAX_ROWS", most)
    await chained(checkpointer, "Abc")
    await checkpointer.save({"name": "A"}, "t", "A", lineage="c", rests_on_parent=True)
    await save(checkpointer, "D", "A", rests=False)

    await checkpointer.prune("t", keep_last=1)

    assert await names(checkpointer) == "D"


@pytest.mark.parametrize("copied", ["copy", "fork"])
async def test_a_copy_rests_on_its_own(checkpointer: Checkpointer, copied: str) -> None:
    await chained(checkpointer, "Abc")
    if copied == "copy":
        await checkpointer.copy_thread("t", "u")
    else:
        await checkpointer.fork("t", "c", new_thread_id="u")
    await checkpointer.delete("t")

    assert await checkpointer.prune("u", keep_last=1) == 0
    with pytest.raises(Conflict):
        await checkpointer.delete("u", "A")


async def test_what_a_rewrite_leaves_rests_on_the_same(checkpointer: Checkpointer) -> None:
    await chained(checkpointer, "ABcd")
    await checkpointer.prune("t", keep_last=1)
    await checkpointer.rewrite("t")

    assert await checkpointer.prune("t", keep_last=1) == 0
    assert await names(checkpointer) == "Bcd"


async def test_a_host_that_rolls_back_leaves_nothing_resting(checkpointer: Checkpointer) -> None:
    await chained(checkpointer, "AB")

    async def fail() -> None:
        async with checkpointer.db.transaction() as tx:
            rests = {"parent_id": "A", "rests_on_parent": True}
            await checkpointer.save({}, "t", "c", connection=tx, **rests)
            assert await checkpointer.prune("t", keep_last=1, connection=tx) == 1
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()

    assert await checkpointer.delete("t", "A")


async def test_a_prune_in_small_lots_leaves_each_whole(
    checkpointer: Checkpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever it is interrupted, nothing lacks what it rests on."""
    await chained(checkpointer, "AbcdefghI")
    monkeypatch.setattr(bulk_delete, "MAX_ROWS", 3)

    class Stop(Exception):
        pass

    def stop(progress: Progress) -> None:
        if progress.removed:
            raise Stop

    with pytest.raises(Stop):
        await checkpointer.prune(keep_last=1, progress=stop)
    assert 1 < len(await names(checkpointer)) < 9
    assert (await verify(checkpointer.db, thread_id="t")).ok

    await checkpointer.prune(keep_last=1)
    assert await names(checkpointer) == "I"


async def test_one_that_was_saved_again_stays_while_an_older_one_rests_on_it(
    checkpointer: Checkpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    await chained(checkpointer, "AbCDE")
    await save(checkpointer, "A", None, rests=False)
    await save(checkpointer, "F", "E", rests=False)
    monkeypatch.setattr(bulk_delete, "MAX_ROWS", 2)

    assert await checkpointer.prune("t", keep_last=1, keep_every=2) == 2

    assert await checkpointer.list_checkpoints("t") == ["F", "A", "D", "b"]


@pytest.mark.parametrize("most", [3, 2_000])
@pytest.mark.parametrize("seed", range(6))
async def test_any_thread_is_pruned_as_the_model_says(
    checkpointer: Checkpointer, monkeypatch: pytest.MonkeyPatch, seed: int, most: int
) -> None:
    monkeypatch.setattr(bulk_delete, "MAX_ROWS", most)
    drawn = random.Random(seed)
    rests: dict[str, str | None] = {}
    for name in "abcdefghijklmnopqrstuvwx":
        parent = drawn.choice([None, *list(rests)[-4:]]) if rests else None
        on = parent if parent is not None and drawn.random() < 0.6 else None
        await save(checkpointer, name, parent, rests=on is not None)
        rests[name] = on
        if drawn.random() < 0.2:
            keep = drawn.randint(1, 4)
            stay = set(list(rests)[-keep:])
            while more := {on for one in stay if (on := rests[one])} - stay:
                stay |= more
            assert await checkpointer.prune("t", keep_last=keep) == len(rests) - len(stay)
            rests = {name: on for name, on in rests.items() if name in stay}
            assert await names(checkpointer) == "".join(rests)

    assert (await verify(checkpointer.db, thread_id="t")).ok
