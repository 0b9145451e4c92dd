"""Any sequence of operations by two stores that cache for themselves, against a dict."""

from __future__ import annotations

import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from plain_filter import matches
from store_helpers import Regret, found_by, keys_of

from drawn_examples import examples
from memalchemy import Conflict, Database, Store

"""How many times the usual number of sequences to try."""

ALL = 1000
NAMESPACES = [(), ("a",), ("a", "b"), ("a", ""), ("ab",), ("a/b",), ("~a", "\x00")]
KEYS = ["k", "K", "", "k ", "\x00", "ключ"]
QUERY = [1.0, 0.0]

Place = tuple[tuple[str, ...], str]

who = st.integers(0, 1)
spaces = st.sampled_from(NAMESPACES)
places = st.tuples(spaces, st.sampled_from(KEYS))
values = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.sampled_from(["text", "\ud800", 1.0, 2**70, (1, {2}), b"\x00"]),
    st.dictionaries(st.sampled_from(["n", "tag"]), st.sampled_from([1, "1", True, None, [1]])),
)
metadata = st.one_of(
    st.none(),
    st.dictionaries(st.sampled_from(["n", "kind"]), st.sampled_from([1, 1.5, "1", True, None])),
)
vectors = st.sampled_from([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0], [-1.0, 0.5]])
filters = st.one_of(
    st.builds(
        lambda name, condition: {name: condition},
        st.sampled_from(["n", "kind", "tag"]),
        st.sampled_from([1, "1", True, None, 1.5, {"$gte": 1}, {"$ne": 1}]),
    ),
    st.builds(lambda there: {"n": {"$exists": there}}, st.booleans()),
    st.just({"$metadata": {"kind": 1}}),
)
version = st.one_of(st.none(), st.integers(1, 3))
steps = st.one_of(
    *3 * [st.tuples(st.just("put"), who, places, values, metadata)],
    *2 * [st.tuples(st.just("embed"), who, places, values, vectors)],
    *2 * [st.tuples(st.just("swap"), who, places, values, version)],
    *2 * [st.tuples(st.just("delete"), who, places)],
    st.tuples(st.just("take"), who, places, st.integers(1, 3)),
    st.tuples(st.just("batch"), who, st.lists(st.tuples(places, values, metadata), max_size=5)),
    st.tuples(st.just("regret"), who, st.lists(st.tuples(places, values), max_size=3), places),
    st.tuples(st.just("clear"), who, spaces, st.booleans()),
    st.tuples(st.just("list"), who, spaces, st.booleans(), filters),
    st.tuples(st.just("near"), who, spaces, st.booleans()),
)
sequences = st.sampled_from([4, 20, 40]).flatmap(
    lambda size: st.lists(steps, min_size=size // 2, max_size=size)
)


@dataclass
class Kept:
    """An item as the model knows it; ``word`` is in no other write's text."""

    value: Any
    metadata: dict[str, Any]
    word: str
    version: int = 1
    written: int = 0
    vector: list[float] | None = None


@dataclass
class Model:
    """What there is, and when each was written; all that a sequence does lies below its top."""

    top: str
    items: dict[Place, Kept] = field(default_factory=dict)
    writes: int = 0

    def put(self, place: Place, value: Any, meta: Any, vector: list[float] | None = None) -> int:
        kept = self.made(value, meta)
        kept.vector = vector
        if place in self.items:
            kept.version = self.items[place].version + 1
        self.items[place] = kept
        return kept.version

    def made(self, value: Any, meta: Any) -> Kept:
        self.writes += 1
        word = f"w{self.top}x{self.writes}"
        return Kept(value, {**(meta or {}), "word": word}, word, written=self.writes)

    def next_word(self) -> str:
        """The word of the write that comes next."""
        return f"w{self.top}x{self.writes + 1}"

    def within(self, space: tuple[str, ...], below: bool) -> Iterator[tuple[Place, Kept]]:
        """What lies in a namespace, or in it and below."""
        for place, kept in self.items.items():
            if place[0] == space or (below and place[0][: len(space)] == space):
                yield place, kept


class Run:
    """One sequence: the stores, the model, and what is expected of each."""

    def __init__(self, stores: list[Store], databases: list[Database]) -> None:
        self.model = Model(uuid.uuid4().hex[:10])
        self.stores, self.databases = stores, databases

    def real(self, space: tuple[str, ...]) -> tuple[str, ...]:
        return (self.model.top, *space)

    def at(self, place: Place) -> tuple[tuple[str, ...], str]:
        return self.real(place[0]), place[1]

    async def step(self, operation: str, who: int, *arguments: Any) -> None:
        await getattr(self, f"do_{operation}")(who, *arguments)

    async def do_put(self, who: int, place: Place, value: Any, meta: Any) -> None:
        given = {**(meta or {}), "word": self.model.next_word()}
        made = await self.stores[who].put(*self.at(place), value, given)
        assert made == self.model.put(place, value, meta)
        await self.check_item(1 - who, place)

    async def do_embed(self, who: int, place: Place, value: Any, vector: list[float]) -> None:
        given = {"word": self.model.next_word()}
        made = await self.stores[who].put_with_embedding(*self.at(place), value, vector, given)
        assert made == self.model.put(place, value, None, vector)
        await self.check_item(1 - who, place)

    async def do_swap(self, who: int, place: Place, value: Any, expected: int | None) -> None:
        there = self.model.items.get(place)
        putting = self.stores[who].put(
            *self.at(place), value, {"word": self.model.next_word()}, expected_version=expected
        )
        if expected == (None if there is None else there.version):
            assert await putting == self.model.put(place, value, None)
        else:
            with pytest.raises(Conflict) as caught:
                await putting
            self.check_conflict(caught.value, there)
        await self.check_item(1 - who, place)

    async def do_delete(self, who: int, place: Place) -> None:
        was_there = self.model.items.pop(place, None) is not None
        assert await self.stores[who].delete(*self.at(place)) is was_there
        await self.check_item(1 - who, place)

    async def do_take(self, who: int, place: Place, expected: int) -> None:
        there = self.model.items.get(place)
        deleting = self.stores[who].delete(*self.at(place), expected_version=expected)
        if there is not None and there.version == expected:
            assert await deleting is True
            del self.model.items[place]
        else:
            with pytest.raises(Conflict) as caught:
                await deleting
            self.check_conflict(caught.value, there)
        await self.check_item(1 - who, place)

    def check_conflict(self, error: Conflict, there: Kept | None) -> None:
        if there is None:
            assert error.current is None
        else:
            current: Any = error.current
            assert repr(current.value) == repr(there.value)
            assert (current.metadata, current.version) == (there.metadata, there.version)

    async def do_batch(self, who: int, items: list[tuple[Place, Any, Any]]) -> None:
        last = {place: (value, meta) for place, value, meta in items}
        given = []
        expected = {}
        for place, (value, meta) in last.items():
            kept = {**(meta or {}), "word": self.model.next_word()}
            given.append((*self.at(place), value, kept))
            expected[place] = self.model.put(place, value, meta)
        versions = await self.stores[who].put_batch(given)
        assert versions == list(expected.values())
        # They are of one moment, in no order among themselves.
        for place in last:
            self.model.items[place].written = self.model.writes
            await self.check_item(1 - who, place)

    async def do_regret(self, who: int, puts: list[tuple[Place, Any]], gone: Place) -> None:
        store = self.stores[who]
        with pytest.raises(Regret):  # noqa: PT012 - the block is what raises
            async with self.databases[who].transaction() as tx:
                for place, value in puts:
                    await store.put(*self.at(place), value, embedding=QUERY, connection=tx)
                    assert await store.exists(*self.at(place), connection=tx)
                await store.delete(*self.at(gone), connection=tx)
                near = await store.search_by_embedding(
                    self.real(()), QUERY, ALL, prefix=True, connection=tx
                )
                assert {self.at(place) for place, _ in puts if place != gone} <= {
                    (result.item.namespace, result.item.key) for result in near
                }
                raise Regret
        for place in [gone, *(place for place, _ in puts)]:
            await self.check_item(who, place)
        await self.do_near(who, (), True)

    async def do_clear(self, who: int, space: tuple[str, ...], below: bool) -> None:
        gone = [place for place, _ in self.model.within(space, below)]
        cleared = await self.stores[who].clear_namespace(self.real(space), prefix=below)
        assert cleared == len(gone)
        for place in gone:
            del self.model.items[place]
        await self.do_near(1 - who, (), True)

    async def do_list(
        self, who: int, space: tuple[str, ...], below: bool, wanted: dict[str, Any]
    ) -> None:
        store, real = self.stores[who], self.real(space)
        there = list(self.model.within(space, below))
        listed = await store.list_items(real, prefix=below, limit=ALL)
        assert sorted((i.namespace, i.key) for i in listed) == sorted(self.at(p) for p, _ in there)
        written = [self.model.items[item.namespace[1:], item.key].written for item in listed]
        assert written == sorted(written, reverse=True)
        assert await store.count(real, prefix=below) == len(there)
        if not below:
            assert sorted(await store.list_keys(real, ALL)) == sorted(key for (_, key), _ in there)

        matching = [
            self.at(place) for place, kept in there if matches(wanted, kept.value, kept.metadata)
        ]
        kept = await store.list_items(real, prefix=below, filter=wanted, limit=ALL)
        assert sorted((i.namespace, i.key) for i in kept) == sorted(matching)
        hits = await store.search(real, prefix=below, filter=wanted, limit=ALL)
        assert sorted((hit.namespace, hit.key) for hit in hits) == sorted(matching)

    async def do_near(self, who: int, space: tuple[str, ...], below: bool) -> None:
        results = await self.stores[who].search_by_embedding(
            self.real(space), QUERY, ALL, prefix=below
        )
        there = {
            self.at(place): kept.vector
            for place, kept in self.model.within(space, below)
            if kept.vector is not None
        }
        found = [(result.item.namespace, result.item.key) for result in results]
        assert sorted(found) == sorted(there)
        assert len(found_by(results)) == len(set(found))
        cosines = [cosine(there[place]) for place in found]
        assert cosines == sorted(cosines, reverse=True)

    async def check_item(self, who: int, place: Place) -> None:
        kept = self.model.items.get(place)
        item = await self.stores[who].get_item(*self.at(place))
        assert (item is None) is (kept is None)
        if item is not None and kept is not None:
            assert repr(item.value) == repr(kept.value)
            assert (item.metadata, item.version) == (kept.metadata, kept.version)
            assert (item.namespace, item.key) == self.at(place)

    async def check_everything(self) -> None:
        spaces = {self.real(place[0]) for place in self.model.items}
        places = [(space, key) for space in NAMESPACES for key in KEYS]
        for who, store in enumerate(self.stores):
            found = await store.get_batch([self.at(place) for place in places])
            assert found.keys() == {self.at(place) for place in self.model.items}
            for place, kept in self.model.items.items():
                assert repr(found[self.at(place)]) == repr(kept.value)
            assert sorted(await store.list_namespaces(self.real(()), ALL)) == sorted(spaces)
            await self.do_near(who, (), True)
        for place, kept in self.model.items.items():
            hits = await self.stores[0].search(self.real(()), kept.word, prefix=True)
            assert [(hit.namespace, hit.key) for hit in hits] == [self.at(place)]
            assert keys_of(await self.stores[1].search(self.at(place)[0], kept.word)) == [place[1]]
            read = await self.stores[1].get_embedding(*self.at(place))
            assert read == kept.vector


def cosine(vector: list[float]) -> float:
    """Of a vector and the query, rounded: equal ones come in any order."""
    return float(round(vector[0] / (vector[0] ** 2 + vector[1] ** 2) ** 0.5, 6))


@pytest.fixture
async def databases(db: Database, shared_url: str) -> AsyncIterator[list[Database]]:
    """Two on the same rows, neither of which knows what the other does."""
    async with AsyncExitStack() as opened:
        other = db
        if shared_url != "sqlite://":
            other = await opened.enter_async_context(Database(shared_url, tenant=db.tenant))
        yield [db, other]


@settings(
    max_examples=examples(12),
    deadline=None,
    suppress_health_check=[
        HealthCheck.function_scoped_fixture,  # every sequence has a namespace of its own
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.large_base_example,
    ],
)
@given(sequence=sequences)
@example(  # 1 has cached a vector that 0 then changes, drops and brings back
    sequence=[
        ("embed", 0, (("a",), "k"), 1, [1.0, 0.0]),
        ("near", 1, ("a",), False),
        ("embed", 0, (("a",), "k"), 2, [0.0, 1.0]),
        ("near", 1, ("a",), False),
        ("put", 0, (("a",), "k"), 3, None),
        ("near", 1, (), True),
        ("delete", 0, (("a",), "k")),
        ("embed", 0, (("a",), "k"), 4, [1.0, 1.0]),
        ("near", 1, ("a",), False),
    ]
)
@example(  # what was undone had the number of the next write
    sequence=[
        ("embed", 0, (("a",), "k"), 1, [1.0, 0.0]),
        ("regret", 0, [((("a",), "K"), 1), ((("a",), "k"), 2)], (("a",), "")),
        ("embed", 1, (("a",), "k"), 2, [0.0, 1.0]),
        ("near", 0, ("a",), False),
        ("clear", 1, (), True),
        ("near", 0, ("a",), False),
    ]
)
async def test_any_sequence_of_operations_does_what_the_model_does(
    databases: list[Database], sequence: list[tuple[Any, ...]]
) -> None:
    run = Run([Store(database) for database in databases], databases)
    for step in sequence:
        await run.step(*step)
    await run.check_everything()
