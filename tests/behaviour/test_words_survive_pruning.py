"""A prune deletes checkpoints; words that the remaining states still hold are found there."""

from __future__ import annotations

import random
from contextlib import suppress
from datetime import timedelta

import pytest

from memalchemy import Checkpointer, Database, RetainedCheckpointer
from memalchemy.contracts import Retention
from memalchemy.log import bulk_delete


class _Stop(Exception):
    pass


async def found(checkpointer: Checkpointer, word: str) -> list[str]:
    return [hit["checkpoint_id"] for hit in await checkpointer.search(word)]


async def say(checkpointer: Checkpointer, *words: str, thread_id: str = "t") -> None:
    said: list[str] = []
    for n, word in enumerate(words):
        said.append(word)
        await checkpointer.save({"messages": said}, thread_id, f"c{n}")


async def test_words_of_pruned_checkpoints_are_found_at_the_next_that_stays(db: Database) -> None:
    checkpointer = Checkpointer(db)
    await say(checkpointer, "apple", "banana", "cherry", "damson", "elder")
    assert await checkpointer.prune("t", keep_last=2) == 3

    for word in ("apple", "banana", "cherry", "damson"):
        assert await found(checkpointer, word) == ["c3"]
    assert await found(checkpointer, "elder") == ["c4"]

    assert await checkpointer.prune("t", keep_last=1) == 1
    for word in ("apple", "damson", "elder"):
        assert await found(checkpointer, word) == ["c4"]


async def test_each_checkpoint_that_stays_has_the_words_since_the_one_before(db: Database) -> None:
    checkpointer = Checkpointer(db)
    await say(checkpointer, *(f"word{n}x" for n in range(9)))
    assert await checkpointer.prune("t", keep_every=3, keep_last=1) == 6

    kept = ("c2", "c5", "c8")
    for n in range(9):
        assert await found(checkpointer, f"word{n}x") == [kept[n // 3]]


async def test_words_that_no_remaining_state_holds_are_gone(db: Database) -> None:
    checkpointer = Checkpointer(db)
    await checkpointer.save({"messages": ["apple secret"], "plan": "banana"}, "t", "c0")
    await checkpointer.save({"messages": ["apple"], "plan": "cherry"}, "t", "c1")
    await checkpointer.save({"messages": ["apple", "damson"], "plan": "cherry"}, "t", "c2")
    await checkpointer.prune("t", keep_last=1)

    for word in ("apple", "cherry", "damson"):
        assert await found(checkpointer, word) == ["c2"]
    for word in ("secret", "banana"):
        assert await found(checkpointer, word) == []


async def test_purged_messages_are_not_found_by_their_words(db: Database) -> None:
    checkpointer = RetainedCheckpointer(db, timedelta(days=30))
    old = {"role": "user", "content": "apple", "metadata": {"occurred_at": "2020-01-01T00:00:00Z"}}
    new = {"role": "user", "content": "banana"}
    await Checkpointer(db).save({"messages": [old]}, "t", "c0")
    await Checkpointer(db).save({"messages": [old, new]}, "t", "c1")
    assert await checkpointer.purge_messages(timedelta(days=30), history=True) == 1

    assert await found(checkpointer, "apple") == []
    assert len(await found(checkpointer, "banana")) == 1


async def test_words_go_to_the_descendants_of_a_branch(db: Database) -> None:
    checkpointer = Checkpointer(db)
    await checkpointer.save({"messages": ["root"]}, "t", "root")
    await checkpointer.save({"messages": ["root", "left"]}, "t", "left", parent_id="root")
    await checkpointer.save({"messages": ["root", "right"]}, "t", "right", parent_id="root")
    state = {"messages": ["root", "left", "leaf"]}
    await checkpointer.save(state, "t", "leaf", parent_id="left")
    assert await checkpointer.prune("t", keep_last=2) == 2

    assert await found(checkpointer, "left") == ["leaf"]
    assert sorted(await found(checkpointer, "root")) == ["leaf", "right"]
    assert await found(checkpointer, "right") == ["right"]


async def test_words_that_the_newest_branch_has_dropped_are_found_in_the_others(
    db: Database,
) -> None:
    checkpointer = Checkpointer(db)
    await checkpointer.save({"messages": ["apple"]}, "t", "root")
    for branch, said in (("a", ["apple", "left"]), ("b", ["cherry"]), ("c", ["apple", "right"])):
        await checkpointer.save({"messages": said}, "t", branch, parent_id="root")
    await checkpointer.save({"messages": ["damson"]}, "t", "d", parent_id="b")
    assert await checkpointer.prune("t", keep_last=4) == 1

    assert sorted(await found(checkpointer, "apple")) == ["a", "c"]
    await checkpointer.delete("t", "c")
    assert await found(checkpointer, "apple") == ["a"]


@pytest.mark.parametrize("seed", range(12))
async def test_no_prune_of_any_tree_loses_words_of_a_state(db: Database, seed: int) -> None:
    draw = random.Random(seed)
    checkpointer = Checkpointer(db)
    states: dict[str, list[str]] = {}
    for n in range(30):
        there = [info.checkpoint_id async for info in checkpointer.history("t")]
        parent = draw.choice(there[:1] * 3 + there) if there else None
        said = [word for word in states.get(str(parent), ()) if draw.random() > 0.1]
        states[f"c{n}"] = [*said, f"word{n}x"]
        state = {"messages": states[f"c{n}"]}
        await checkpointer.save(state, "t", f"c{n}", parent_id=parent)
        if draw.random() < 0.15:
            await checkpointer.prune("t", keep_last=draw.randint(1, 5))

    kept = [info.checkpoint_id async for info in checkpointer.history("t")]
    for word in {word for one in kept for word in states[one]}:
        hits = await found(checkpointer, word)
        assert hits, word
        assert all(word in states[one] for one in hits)


async def test_many_threads_are_pruned_with_their_words(db: Database) -> None:
    checkpointer = Checkpointer(db)
    for n in range(7):
        await say(checkpointer, f"apple{n}x", f"banana{n}x", "cherry", thread_id=f"t{n}")
    assert await checkpointer.prune(keep_last=1) == 14

    for n in range(7):
        for word in ("apple", "banana"):
            hits = await checkpointer.search(f"{word}{n}x")
            assert [(hit["thread_id"], hit["checkpoint_id"]) for hit in hits] == [(f"t{n}", "c2")]


async def test_words_cross_the_windows_of_a_long_thread(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(bulk_delete, "MAX_ROWS", 10)
    checkpointer = Checkpointer(db)
    await say(checkpointer, *(f"word{n}x" for n in range(45)))
    assert await checkpointer.prune("t", keep_last=3) == 42

    for n in (0, 7, 21, 40, 42):
        assert await found(checkpointer, f"word{n}x") == ["c42"]
    assert await found(checkpointer, "word43x") == ["c43"]


async def test_of_more_words_than_fit_the_newest_stay(db: Database) -> None:
    checkpointer = Checkpointer(db)
    first = "apple " + " ".join(f"word{n}" for n in range(15_000))
    second = " ".join(f"thing{n}" for n in range(8_000)) + " cherry"
    await say(checkpointer, first, second, "elder")
    await checkpointer.prune("t", keep_last=1)

    assert await found(checkpointer, "apple") == []
    for word in ("word14999", "thing0", "cherry", "elder"):
        assert await found(checkpointer, word) == ["c2"]


async def test_keys_that_are_not_indexed_stay_so(db: Database) -> None:
    checkpointer = Checkpointer(db, index_text=("messages",))
    for n, word in enumerate(("apple", "banana")):
        state = {"messages": [word], "all": ["apple", "banana", "hidden"]}
        await checkpointer.save(state, "t", f"c{n}")
    await Checkpointer(db).prune("t", keep_last=1)

    assert await found(checkpointer, "apple") == ["c1"]  # it was indexed, and the state holds it
    assert await found(checkpointer, "hidden") == []


async def test_a_prune_that_was_rolled_back_leaves_the_words_where_they_were(db: Database) -> None:
    checkpointer = Checkpointer(db)
    await say(checkpointer, "apple", "banana")
    with suppress(_Stop):
        async with db.transaction() as tx:
            await checkpointer.prune("t", keep_last=1, connection=tx)
            raise _Stop

    assert await found(checkpointer, "apple") == ["c0"]
    assert await found(checkpointer, "banana") == ["c1"]


async def test_retention_that_is_applied_now_and_then_keeps_the_words(db: Database) -> None:
    checkpointer = Checkpointer(db, retention=Retention(keep_last=1, apply_every=8))
    said: list[str] = []
    for n in range(21):
        said.append(f"word{n}x")
        await checkpointer.save({"messages": said}, "t", f"c{n}")
        assert len(await checkpointer.list_checkpoints("t")) <= 8
        for at in {0, n // 2, n}:
            (hit,) = await checkpointer.search(f"word{at}x")
            assert hit["thread_id"] == "t"
    assert await checkpointer.load("t") == {"messages": said}


async def test_retention_is_applied_every_so_many_saves_or_refused(db: Database) -> None:
    for wrong in (0, -1, 1.5):
        with pytest.raises(ValueError, match="apply_every"):
            Retention(keep_last=1, apply_every=wrong)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="at least one"):
        Retention(apply_every=3)
