"""Finding items by their words."""

from __future__ import annotations

from typing import Any

import pytest
from search_queries import BLANK, IN_ANY_SPELLING, LIKE_OPERATORS, WITHOUT_WORDS
from store_helpers import any_text, keys_of, texts

from drawn_examples import examples_of
from memalchemy import Database, Store
from memalchemy.codec.tokens import query_terms
from memalchemy.dialects import DIALECTS

NS = ("notes",)


async def fill(store: Store, *values: Any, namespace: tuple[str, ...] = NS) -> list[str]:
    """Put values under keys of their order; the keys."""
    keys = [f"k{n:03}" for n in range(len(values))]
    await store.put_batch([(namespace, k, v) for k, v in zip(keys, values, strict=True)])
    return keys


async def found(store: Store, query: str, **how: Any) -> list[str]:
    return keys_of(await store.search(NS, query, **how))


async def test_a_word_finds_the_items_that_hold_it(store: Store) -> None:
    one, two, three = await fill(
        store, "a flight to Lisbon", {"text": "a hotel"}, ["and", {"a": "taxi to the hotel"}]
    )

    assert await found(store, "lisbon") == [one]
    assert sorted(await found(store, "hotel")) == [two, three]
    assert await found(store, "taxi") == [three]
    assert await found(store, "zeppelin") == []


async def test_a_hit_is_the_item_with_a_score(store: Store) -> None:
    await store.put(NS, "k", {"text": "a zeppelin"}, {"m": 1})
    (hit,) = await store.search(NS, "zeppelin")
    item = await store.get_item(NS, "k")

    assert item is not None
    assert (hit.namespace, hit.key, hit.value, hit.metadata) == (NS, "k", item.value, {"m": 1})
    assert (hit.version, hit.created_at, hit.updated_at) == (1, item.created_at, item.updated_at)
    assert hit.score is not None
    assert 0 < hit.score <= 1


async def test_more_words_and_rarer_words_rank_higher(store: Store) -> None:
    await fill(store, *[f"common talk number {n}" for n in range(20)])
    await store.put(NS, "rare", "a zeppelin")
    await store.put(NS, "both", "common zeppelin")

    hits = await store.search(NS, "common zeppelin", limit=50)
    scores = [hit.score for hit in hits]
    assert keys_of(hits)[:2] == ["both", "rare"]
    assert len(hits) == 22
    assert all(score is not None and 0 < score <= 1 for score in scores)
    assert scores == sorted(scores, reverse=True)
    assert scores[0] > scores[1] > scores[2]


@pytest.mark.parametrize(("text", "query"), IN_ANY_SPELLING)
async def test_words_are_found_in_any_script_case_and_accent(
    store: Store, text: str, query: str
) -> None:
    await store.put_batch([(NS, "k", {"deep": [text]}), (NS, "other", "something else")])

    assert await found(store, query) == ["k"]


async def test_neighbouring_characters_of_han_stand_before_single_ones(store: Store) -> None:
    await fill(store, "北海道と東方の京", "東京", "西")

    assert await found(store, "東京") == ["k001", "k000"]
    assert await found(store, "北海道") == ["k000"]


async def test_texts_are_found_wherever_they_are_in_value_and_metadata(store: Store) -> None:
    value = {"a": ["alpha", {"b": ("beta", {"gamma"})}], "n": 7, "x": None, "y": b"bytes"}
    await store.put(NS, "k", value, {"tag": "delta", "deep": {"list": ["epsilon"]}})
    await store.put(NS, "other", "zeta", {"tag": "eta"})

    for word in ("alpha", "beta", "gamma", "delta", "epsilon"):
        assert await found(store, word) == ["k"], word
    assert await found(store, "eta") == ["other"]


async def test_values_without_text_are_stored_and_not_found(store: Store) -> None:
    for value in (None, True, 7, 1.5, b"needle", [], {}):
        await store.put(NS, "k", value)
        assert await found(store, "needle") == []
        assert await store.get(NS, "k") == value


async def test_an_item_is_found_by_what_it_says_now(store: Store) -> None:
    await store.put(NS, "k", "zeppelin", {"tag": "red"})
    await store.put(NS, "k", "kettle", {"tag": "blue"})

    assert await found(store, "zeppelin") == []
    assert await found(store, "red") == []
    assert await found(store, "kettle") == ["k"]
    assert await found(store, "blue") == ["k"]

    await store.put(NS, "k", 7)
    assert await found(store, "kettle") == []
    await store.put(NS, "k", "zeppelin")
    assert await found(store, "zeppelin") == ["k"]
    await store.delete(NS, "k")
    assert await found(store, "zeppelin") == []


async def test_a_search_is_of_its_namespace_or_of_all_below(store: Store) -> None:
    spaces = [(), ("a",), ("a", "b"), ("a", "b", "c"), ("ab",), ("a/b",)]
    await store.put_batch([(namespace, "k", "needle") for namespace in spaces])

    for top in [*spaces, ("nowhere",)]:
        here = await store.search(top, "needle")
        assert [hit.namespace for hit in here] == [top] * spaces.count(top)
        below = await store.search(top, "needle", prefix=True)
        under = [namespace for namespace in spaces if namespace[: len(top)] == top]
        assert sorted(hit.namespace for hit in below) == sorted(under)


async def test_how_common_a_word_elsewhere_is_does_not_hide_it_here(store: Store) -> None:
    await fill(store, *["needle"] * 300, namespace=("crowd",))
    await store.put(NS, "k", "needle")

    assert await found(store, "needle", limit=5) == ["k"]


async def test_limit_offset_and_threshold_cut_one_ranking(store: Store) -> None:
    words = ["needle", "pin", "hook", "nail"]
    await fill(store, *[" ".join(words[: 1 + n % 4]) for n in range(24)])

    query = "needle pin hook nail"
    whole = await store.search(NS, query, limit=100)
    keys = keys_of(whole)
    assert len(keys) == len(set(keys)) == 24
    assert keys_of(await store.search(NS, query)) == keys[:10]
    assert await found(store, query, limit=7) == keys[:7]
    assert await found(store, query, limit=0) == []
    assert await found(store, query, limit=7, offset=5) == keys[5:12]
    assert await found(store, query, limit=100, offset=20) == keys[20:]
    assert await found(store, query, offset=24) == []
    scores = sorted({hit.score for hit in whole if hit.score is not None})
    assert len(scores) == 4
    middle = (scores[1] + scores[2]) / 2
    above = [hit.key for hit in whole if hit.score is not None and hit.score > middle]
    assert len(above) == 12
    assert await found(store, query, limit=100, threshold=middle) == above
    assert await found(store, query, limit=5, offset=10, threshold=middle) == above[10:]
    assert await found(store, query, limit=100, threshold=0.0) == keys


async def test_a_search_for_more_than_a_page_gives_each_item_once(store: Store) -> None:
    keys = await fill(store, *["needle hook" if n % 3 == 0 else "needle" for n in range(700)])

    both = sorted((key for n, key in enumerate(keys) if n % 3 == 0))
    one = sorted((key for n, key in enumerate(keys) if n % 3))
    assert await found(store, "needle hook", limit=1000) == both + one
    assert await found(store, "needle hook", limit=100, offset=550) == (both + one)[550:650]


async def test_a_query_of_no_words_finds_nothing(store: Store) -> None:
    await store.put(NS, "k", "anything at all")

    for query in WITHOUT_WORDS:
        assert await store.search(NS, query) == [], query
    for query in BLANK:
        # Whether nothing was asked for or nothing can be found: it is no hit with a score.
        assert all(hit.score is None for hit in await store.search(NS, query))


async def test_nothing_in_a_query_is_an_operator(store: Store) -> None:
    await store.put_batch([(NS, "k", "the hotel by the river"), (NS, "other", "the sea")])

    for query in LIKE_OPERATORS:
        assert await found(store, query) == ["k"], query


async def test_what_looks_like_an_operator_or_a_pattern_matches_only_as_a_word(
    store: Store,
) -> None:
    await fill(store, "abc", "axc", "a_c", "a%c")

    assert await found(store, "abc") == ["k000"]
    assert "k001" not in await found(store, "a_c")
    assert "k001" not in await found(store, "a%c")
    assert await found(store, "ab") == []


async def test_no_query_raises(store: Store) -> None:
    await store.put_batch([(NS, "k", "needle in a haystack"), (("other",), "k", "needle")])

    for query in examples_of(any_text, 100):
        assert set(await found(store, query)) <= {"k"}
        assert await found(store, query + " needle") == ["k"]


async def test_no_text_that_is_stored_raises(store: Store) -> None:
    said = examples_of(any_text, 150)
    await fill(store, *[{"text": text + " needle"} for text in said])
    await store.put(NS, "single", said[-1] + " needle")

    assert len(await found(store, "needle", limit=1000)) == len(said) + 1


def test_thirty_thousand_queries_become_terms_that_hold_no_operators() -> None:
    # Once: installed packages are searched for dialects anew whenever these are listed.
    dialects = list(DIALECTS.values())
    for query in texts(30_000, 24, "'\"\\\\{}()*:&|!<>-%_;~^ \x00\ud800"):
        terms = query_terms(query)
        for term in terms:
            assert term.text
            assert not set(term.text) & set("'\"\\{}()*:&|!<>- \x00"), query
        for dialect in dialects:
            dialect.text.terms(terms)


async def test_a_very_long_query_is_answered(store: Store) -> None:
    await store.put(NS, "k", "needle")

    assert await found(store, "needle " + "word " * 20_000) == ["k"]
    assert await found(store, "needle " + "x" * 100_000) == ["k"]


async def test_a_store_may_keep_its_texts_out_of_the_index(db: Database) -> None:
    await Store(db, index_text=False).put(NS, "hidden", "needle", {"tag": "pin"})
    store = Store(db)
    await store.put(NS, "shown", "needle")

    assert await found(store, "needle") == ["shown"]
    assert await found(store, "pin") == []
    assert await store.get(NS, "hidden") == "needle"


async def test_many_namespaces_are_searched_in_their_order(store: Store) -> None:
    spaces = [("b",), ("a",), ("c",)]
    for namespace in spaces:
        await fill(store, *[f"needle {n}" for n in range(4)], namespace=namespace)

    items = await store.search_many(spaces, "needle", 3)
    assert [item.namespace for item in items] == [ns for ns in spaces for _ in range(3)]
    for namespace in spaces:
        own = [item.key for item in items if item.namespace == namespace]
        assert own == keys_of(await store.search(namespace, "needle", limit=3))
    listed = await store.search_many([("a",), ("nowhere",)])
    assert sorted(keys_of(listed)) == ["k000", "k001", "k002", "k003"]
    assert await store.search_many([], "needle") == []


async def test_a_search_says_how_it_was_done_if_it_is_asked(store: Store) -> None:
    await store.put(NS, "k", "needle")

    assert (await store.search(NS, "needle")).plans == ()
    hits = await store.search(NS, "needle", explain=True)
    assert keys_of(hits) == ["k"]
    assert hits.plans
    assert all(plan.strategy and plan.reason for plan in hits.plans)


async def test_an_unknown_mode_is_refused(store: Store) -> None:
    with pytest.raises((ValueError, TypeError)):
        await store.search(NS, "needle", mode="magic")  # type: ignore[arg-type]
