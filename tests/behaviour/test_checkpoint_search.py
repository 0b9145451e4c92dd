"""Full text over what an agent said and did."""

from __future__ import annotations

from typing import Any

import pytest
from search_queries import BLANK, IN_ANY_SPELLING, LIKE_OPERATORS, WITHOUT_WORDS
from store_helpers import any_text

from drawn_examples import examples_of
from memalchemy import Checkpointer, Database, Retention, ThreadLog


async def converse(checkpointer: Checkpointer, *contents: str, thread: str = "thread") -> list[str]:
    """Save a conversation step by step; the ids of its checkpoints."""
    messages: list[dict[str, Any]] = []
    ids = []
    for content in contents:
        messages.append({"role": "user", "content": content})
        ids.append(await checkpointer.save({"messages": messages}, thread))
    return ids


async def found(checkpointer: Checkpointer, query: str, limit: int = 10) -> list[str]:
    return [hit["checkpoint_id"] for hit in await checkpointer.search(query, limit)]


async def test_a_word_finds_the_step_that_added_it_and_no_other(checkpointer: Checkpointer) -> None:
    one, two, three = await converse(checkpointer, "a flight to Lisbon", "a hotel", "and a taxi")

    assert await found(checkpointer, "lisbon") == [one]
    assert await found(checkpointer, "hotel") == [two]
    assert await found(checkpointer, "taxi") == [three]
    assert await found(checkpointer, "zeppelin") == []


async def test_more_words_and_rarer_words_rank_higher(checkpointer: Checkpointer) -> None:
    await converse(checkpointer, *[f"common talk number {n}" for n in range(20)])
    (rare,) = await converse(checkpointer, "a zeppelin", thread="other")
    (both,) = await converse(checkpointer, "common zeppelin", thread="third")

    hits = await checkpointer.search("common zeppelin", limit=5)
    assert [hit["checkpoint_id"] for hit in hits[:2]] == [both, rare]
    assert hits[0]["score"] == 1.0
    assert 1 > hits[1]["score"] > hits[2]["score"] > 0


async def test_a_hit_shows_the_words_around_it(checkpointer: Checkpointer) -> None:
    words = " ".join(f"word{n}" for n in range(200))
    await converse(checkpointer, f"{words} needle {words}")

    (hit,) = await checkpointer.search("needle")
    assert "needle" in hit["snippet"]
    assert hit["snippet"].startswith("…")
    assert len(hit["snippet"]) < 300


@pytest.mark.parametrize(("text", "query"), IN_ANY_SPELLING)
async def test_words_are_found_in_any_script_case_and_accent(
    checkpointer: Checkpointer, text: str, query: str
) -> None:
    (made,) = await converse(checkpointer, text)

    assert await found(checkpointer, query) == [made]


async def test_neighbouring_characters_of_han_stand_before_single_ones(
    checkpointer: Checkpointer,
) -> None:
    await converse(checkpointer, "北海道と東方の京")

    (apart,), (together,) = [await checkpointer.search(query) for query in ("東京", "北海道")]
    assert apart["score"] <= 0.45 < together["score"]


@pytest.mark.parametrize("query", [*BLANK, *WITHOUT_WORDS])
async def test_a_query_without_words_finds_nothing(checkpointer: Checkpointer, query: str) -> None:
    await converse(checkpointer, "anything at all")

    assert await checkpointer.search(query) == []


@pytest.mark.parametrize("query", LIKE_OPERATORS)
async def test_nothing_in_a_query_is_an_operator(checkpointer: Checkpointer, query: str) -> None:
    (made,) = await converse(checkpointer, "the hotel by the river")

    assert await found(checkpointer, query) == [made]


async def test_no_query_raises(checkpointer: Checkpointer) -> None:
    (made,) = await converse(checkpointer, "needle in a haystack")

    for query in examples_of(any_text, 100):
        assert set(await found(checkpointer, query)) <= {made}
        assert await found(checkpointer, query + " needle") == [made]


async def test_limits(checkpointer: Checkpointer) -> None:
    await converse(checkpointer, *[f"needle {n}" for n in range(15)])

    assert len(await checkpointer.search("needle")) == 10
    assert len(await checkpointer.search("needle", 3)) == 3
    assert await checkpointer.search("needle", 0) == []


async def test_of_a_hundred_hits_each_comes_with_its_checkpoint_or_entry(
    db: Database, checkpointer: Checkpointer
) -> None:
    """Of so many candidates the best are chosen first and read afterwards."""
    log = ThreadLog(db)
    ids = await converse(checkpointer, *[f"zebra number {n}" for n in range(60)])
    ids += await converse(checkpointer, *[f"zebra number {n}" for n in range(60, 100)], thread="b")
    await log.append("c", [f"a zebra of {n}" for n in range(100)])

    for limit in (7, 100):
        hits = await checkpointer.search("zebra", limit)
        assert len(hits) == limit
        assert all(hit["checkpoint_id"] in ids for hit in hits)
        assert all("zebra" in hit["snippet"] for hit in hits)
        entries = await log.search("zebra", limit=limit)
        assert len({entry.value for entry in entries}) == limit


async def test_equal_hits_come_newest_first(checkpointer: Checkpointer) -> None:
    ids = await converse(checkpointer, "needle", "needle", "needle")

    assert await found(checkpointer, "needle") == ids[::-1]


async def test_what_was_deleted_or_replaced_is_not_found(checkpointer: Checkpointer) -> None:
    one, two, three = await converse(checkpointer, "first needle", "second needle", "third needle")
    await checkpointer.delete("thread", one)
    await checkpointer.save({"messages": []}, "thread", two)

    assert await found(checkpointer, "needle") == [three]
    await checkpointer.delete("thread")
    assert await found(checkpointer, "needle") == []


async def test_pruned_checkpoints_are_not_found(db: Database) -> None:
    checkpointer = Checkpointer(db, retention=Retention(keep_last=2))
    ids = await converse(checkpointer, "needle 1", "needle 2", "needle 3", "needle 4")

    assert await found(checkpointer, "needle") == ids[:1:-1]


async def test_without_a_text_index_nothing_is_found_and_nothing_is_kept(db: Database) -> None:
    await converse(Checkpointer(db, index_text=False), "needle")

    assert await found(Checkpointer(db), "needle") == []


async def test_text_is_found_wherever_in_the_state_it_was_added(checkpointer: Checkpointer) -> None:
    state: dict[str, Any] = {"plan": {"steps": ["alpha"]}, "log": ["beta"], "title": "gamma"}
    await checkpointer.save(state, "thread", "1")
    state["plan"]["steps"].append({"tool": "delta", "arguments": {"city": "epsilon"}})
    await checkpointer.save(state, "thread", "2")
    state["log"].insert(0, "zeta")
    await checkpointer.save(state, "thread", "3")
    state["title"] = "gamma and eta"
    await checkpointer.save(state, "thread", "4")
    state["extra"] = ("theta", {"iota"})
    await checkpointer.save(state, "thread", "5")
    state["plan"]["steps"][0] = "kappa"
    await checkpointer.save(state, "thread", "6")

    expected = {
        "alpha": "1",
        "beta": "1",
        "gamma": "1",
        "delta": "2",
        "epsilon": "2",
        "zeta": "3",
        "eta": "4",
        "theta": "5",
        "iota": "5",
        "kappa": "6",
    }
    for word, checkpoint_id in expected.items():
        assert checkpoint_id in await found(checkpointer, word), word
    for word in ("alpha", "delta", "epsilon", "theta"):
        assert len(await found(checkpointer, word)) == 1, word


async def test_tool_calls_are_found_by_what_is_in_their_json(checkpointer: Checkpointer) -> None:
    arguments = '{"code": "first line\\nsecond line", "order": 4711, "tags": ["blue"]}'
    call = {"function": {"name": "run_code", "arguments": arguments}}
    made = await checkpointer.save({"messages": [{"tool_calls": [call]}]}, "thread")

    for word in ("run", "second", "4711", "blue"):
        assert await found(checkpointer, word) == [made]
    assert await found(checkpointer, "nsecond") == []


async def test_a_very_long_text_is_found_by_its_beginning(checkpointer: Checkpointer) -> None:
    long = "needle " + "filler " * 300_000 + "x" * 1_000_000
    made = await checkpointer.save({"text": long}, "thread")

    assert await found(checkpointer, "needle") == [made]
    assert (await checkpointer.load("thread"))["text"] == long


async def test_a_conversation_of_many_steps_finds_each_where_it_was_said(
    checkpointer: Checkpointer,
) -> None:
    ids = await converse(checkpointer, *[f"unique{n}x said here" for n in range(120)])

    for n in (0, 1, 63, 64, 65, 119):
        assert await found(checkpointer, f"unique{n}x") == [ids[n]]


async def test_what_a_superseded_checkpoint_added_is_found_at_the_next_one(
    checkpointer: Checkpointer,
) -> None:
    said: list[str] = []
    for n, word in enumerate(("apple", "banana", "cherry", "damson")):
        said.append(word)
        await checkpointer.save({"messages": said}, "thread", f"c{n}")
    assert await checkpointer.delete("thread", "c1", superseded=True) is True
    assert await checkpointer.delete("thread", "c0", superseded=True) is True
    assert await checkpointer.delete("thread", "c0", superseded=True) is False

    for word in ("apple", "banana", "cherry"):
        assert [hit["checkpoint_id"] for hit in await checkpointer.search(word)] == ["c2"]
    assert [hit["checkpoint_id"] for hit in await checkpointer.search("damson")] == ["c3"]


async def test_the_words_of_a_deleted_checkpoint_go_with_it(checkpointer: Checkpointer) -> None:
    await checkpointer.save({"messages": ["apple"]}, "thread", "c0")
    await checkpointer.save({"messages": ["apple", "banana"]}, "thread", "c1")
    await checkpointer.delete("thread", "c0")
    assert await checkpointer.search("apple") == []

    await checkpointer.save({"messages": ["apple", "banana", "cherry"]}, "thread", "c2")
    await checkpointer.delete("thread", "c2", superseded=True)  # there is no next one
    assert await checkpointer.search("cherry") == []


async def test_of_more_words_than_fit_the_newest_stay(checkpointer: Checkpointer) -> None:
    first = "apple " + " ".join(f"word{n}" for n in range(15_000))
    await checkpointer.save({"messages": [first]}, "thread", "c0")
    second = " ".join(f"thing{n}" for n in range(8_000)) + " cherry"
    await checkpointer.save({"messages": [first, second]}, "thread", "c1")
    await checkpointer.delete("thread", "c0", superseded=True)

    assert await checkpointer.search("apple") == []
    for word in ("word14999", "thing0", "cherry"):
        assert [hit["checkpoint_id"] for hit in await checkpointer.search(word)] == ["c1"]


async def test_the_words_of_some_keys_alone_are_found(db: Database) -> None:
    checkpointer = Checkpointer(db, index_text=("messages", "notes"))
    await checkpointer.save({"messages": ["apple"], "settings": ["banana"]}, "t", "c0")
    state = {"messages": ["apple", "cherry"], "settings": ["damson"], "notes": "elder"}
    await checkpointer.save(state, "t", "c1")

    found = {
        word: [hit["checkpoint_id"] for hit in await checkpointer.search(word)]
        for word in ("apple", "banana", "cherry", "damson", "elder")
    }
    assert found == {
        "apple": ["c0"], "banana": [], "cherry": ["c1"], "damson": [], "elder": ["c1"]
    }  # fmt: skip
    for wrong in ("messages", 7):
        with pytest.raises(TypeError, match="list of keys"):
            Checkpointer(db, index_text=wrong)  # type: ignore[arg-type]
