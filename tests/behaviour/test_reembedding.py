"""Items get the vectors of a model that they lack: the same that a put with its embedder gives."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from sqlalchemy import select
from store_helpers import WIDTH, AsyncEmbedder, Embedder, keys_of, vector_of

from memalchemy import Database, Episode, EpisodeStore, NewItem, Store, VectorStore
from memalchemy.codec.secret_keys import generate_key
from memalchemy.contracts import Progress, ReembedReport
from memalchemy.errors import EmbedderFailed, ReadOnly, StoreCapabilityError
from memalchemy.events import Event, subscribe
from memalchemy.schema import EmbeddingRow
from memalchemy.verify import verify

NS = ("docs",)
WORDS = ["apple", "pear", "plum", "hammer", "saw", "斑馬", "Straße", "naïve", "boat"]
INDEXES: list[Any] = [None, True, ["title"], ["title", "/deep/parts"], ["absent"], False]

Vectors = dict[tuple[str, str, str, str, int], list[float]]
"""Vectors by namespace, key, field, model and part."""


class OtherEmbedder(Embedder):
    """An embedder whose vectors are of another size."""

    def __call__(self, texts: list[str]) -> Any:
        return [[*vector, 0.5] for vector in super().__call__(texts)]


async def vectors_in(db: Database) -> Vectors:
    """Return all vectors of a tenant."""
    columns = (EmbeddingRow.namespace, EmbeddingRow.key, EmbeddingRow.field, EmbeddingRow.model)
    query = select(*columns, EmbeddingRow.part, EmbeddingRow.vector).where(
        EmbeddingRow.tenant == db.tenant
    )
    async with db.transaction() as tx:
        rows = (await tx.execute(query)).all()
    return {(*row[:5],): [float(number) for number in row[5]] for row in rows}


def drawn_items(seed: int) -> list[NewItem]:
    """Items of every kind: with text, without, in fields and parts."""
    draw = Random(seed)

    def text() -> str:
        return " ".join(draw.choices(WORDS, k=draw.randint(0, 4)))

    items = []
    for n in range(draw.randint(1, 30)):
        value = draw.choice([
            text(),
            {"title": text(), "body": text()},
            {"title": text(), "deep": {"parts": [text(), text(), text()]}},
            {"title": None, "n": n},
            n,
            None,
        ])  # fmt: skip
        index = draw.choice(INDEXES)
        items.append(NewItem((*NS, str(n % 3)), f"k{n}", value, {"m": text()}, index=index))
    return items


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("kind", [OtherEmbedder, AsyncEmbedder], ids=["other size", "same size"])
async def test_another_model_gets_what_a_put_with_it_gives(
    db: Database, kind: type[Embedder], seed: int
) -> None:
    items = drawn_items(seed)
    await Store(db, embedder=Embedder(), model="old").put_batch(items)
    old = await vectors_in(db)
    other = db.for_tenant(f"{db.tenant}-fresh")
    # What was embedded by no put is embedded as the store says: as a whole.
    had = {key[1] for key in old}
    again = [one if one.key in had else NewItem(*_named(one), index=True) for one in items]
    await Store(other, embedder=kind(), model="new").put_batch(again)
    store = Store(db, embedder=kind(), model="new")

    rehearsed = await store.reembed(NS, prefix=True, dry_run=True)
    assert await vectors_in(db) == old
    told: list[Progress] = []
    report = await store.reembed(NS, prefix=True, progress=told.append)

    new = {key: one for key, one in (await vectors_in(db)).items() if key[3] == "new"}
    assert new == await vectors_in(other)
    assert {key: one for key, one in (await vectors_in(db)).items() if key[3] == "old"} == old
    assert (report.embedded, report.vectors) == (len({key[:2] for key in new}), len(new))
    assert _counts(rehearsed) == _counts(report)
    assert report.embedded + report.textless == len(items)
    assert [one.done for one in told] == sorted(one.done for one in told)
    assert told[-1].done == told[-1].total == len(items)
    for one in items:
        item = await store.get_item(one.namespace, one.key)
        assert item is not None
        assert (item.version, item.value) == (1, one.value)
        assert item.updated_at == item.created_at
    assert (await store.reembed(NS, prefix=True)).embedded == 0


def _named(one: NewItem) -> tuple[Any, ...]:
    return one.namespace, one.key, one.value, one.metadata


def _counts(report: ReembedReport) -> tuple[int, ...]:
    return report.embedded, report.vectors, report.textless, report.left


@pytest.mark.parametrize("seed", range(6))
async def test_the_old_model_goes_where_the_new_one_has_come(db: Database, seed: int) -> None:
    await Store(db, embedder=Embedder(), model="old").put_batch(drawn_items(seed))
    old = await vectors_in(db)
    store = Store(db, embedder=OtherEmbedder(), model="new")

    if seed % 2:
        await store.reembed(NS, prefix=True)
    report = await store.reembed(NS, prefix=True, replace_model="old")

    assert {key[3] for key in await vectors_in(db)} <= {"new"}
    assert {key[:3] for key in await vectors_in(db)} >= {key[:3] for key in old}
    assert report.removed == len(old)
    again = await store.reembed(NS, prefix=True, replace_model="old")
    assert (again.embedded, again.removed) == (0, 0)


@pytest.mark.parametrize("seed", range(6))
async def test_a_model_of_another_size_under_the_same_name_replaces_what_it_made(
    db: Database, seed: int
) -> None:
    items = drawn_items(seed)
    await Store(db, embedder=Embedder()).put_batch(items)
    old = await vectors_in(db)

    report = await Store(db, embedder=OtherEmbedder()).reembed(NS, prefix=True)

    new = await vectors_in(db)
    assert {len(vector) for vector in new.values()} <= {WIDTH + 1}
    assert new.keys() >= old.keys()
    assert report.removed == len(old)


async def test_items_that_have_vectors_are_embedded_again_if_that_is_wanted(db: Database) -> None:
    await Store(db, embedder=Embedder(), index=["title"]).put_batch(
        [(NS, f"k{n}", {"title": f"word{n}", "body": "other"}) for n in range(25)]
    )
    await Store(db).put(NS, "bare", {"title": "bare"})

    def turned(texts: list[str]) -> Any:
        return [vector_of(text)[::-1] for text in texts]

    store = Store(db, embedder=turned)
    assert (await store.reembed(NS, only_embedded=True)).embedded == 0
    report = await store.reembed(NS, again=True, only_embedded=True, batch_size=10)
    assert (report.embedded, report.removed) == (25, 25)
    for n in (0, 24):
        read = await store.get_embedding(NS, f"k{n}", field="title")
        assert read == pytest.approx(vector_of(f"word{n}")[::-1], rel=1e-6)
    assert await store.get_embedding(NS, "bare") is None


async def test_fields_can_be_named_for_all_items(db: Database) -> None:
    store = Store(db, embedder=Embedder())
    await store.put(NS, "whole", {"text": "apple", "body": "x"})
    await Store(db).put(NS, "bare", {"text": ["pear", "plum"]})
    await store.put(NS, "other", {"body": "saw"})

    report = await store.reembed(NS, index=["text"], again=True)

    found = await vectors_in(db)
    assert {key[1:3] + key[4:] for key in found} == {
        ("whole", "text", 0),
        ("bare", "text", 0),
        ("bare", "text", 1),
        ("other", "", 0),  # which has no such field
    }
    assert (report.embedded, report.vectors, report.removed, report.textless) == (2, 3, 1, 0)


async def test_vectors_that_no_text_can_give_again_stay(db: Database) -> None:
    store = Store(db, embedder=Embedder())
    await store.put(NS, "k", {"title": "apple"}, embedding={"title": [1.0], "image": [2.0, 1.0]})

    report = await store.reembed(NS, again=True, replace_model="other")

    found = await vectors_in(db)
    assert {key[2]: len(one) for key, one in found.items()} == {"title": WIDTH, "image": 2}
    assert report.embedded == 1


async def test_only_the_items_of_the_namespace_are_embedded(db: Database) -> None:
    other = db.for_tenant(f"{db.tenant}-other")
    for one in (db, other):
        for path in ((), NS, (*NS, "below"), ("docsx",), ("other",)):
            await Store(one).put(path, "k", "apple")
    await Store(db).put(NS, "ended", "apple", ttl=1e-6)
    store = Store(db, embedder=Embedder())

    await store.reembed(NS)
    assert {key[0] for key in await vectors_in(db)} == {NS}
    await store.reembed(NS, prefix=True)
    assert {key[0] for key in await vectors_in(db)} == {NS, (*NS, "below")}
    await store.reembed((), prefix=True)
    assert len(await vectors_in(db)) == 5
    assert await vectors_in(other) == {}


@pytest.mark.parametrize("again", [False, True], ids=["lacking", "again"])
@pytest.mark.parametrize("batch_size", [1, 7, 100])
async def test_a_run_that_was_ended_goes_on(db: Database, again: bool, batch_size: int) -> None:
    made = Store(db, embedder=Embedder()) if again else Store(db)
    items = [(NS, f"k{n:03}", {"t": f"word{n}"}) for n in range(40)]
    await made.put_batch(items)
    for calls in range(1, 40 // batch_size + 2):
        embedder = EndedEmbedder(calls)
        model = "default" if again else f"m{calls}"
        store = Store(db, embedder=embedder, model=model)
        try:
            await store.reembed(NS, again=again, batch_size=batch_size)
        except asyncio.CancelledError:
            first = len(embedder.embedded)
            await store.reembed(NS, again=again, batch_size=batch_size)
            assert 0 < first < len(embedder.embedded)
        assert sorted(embedder.embedded) == sorted(f"word{n}" for n in range(40)), "each once"
        found = {key: one for key, one in (await vectors_in(db)).items() if key[3] == model}
        assert {one[-1] for one in found.values()} == {float(calls)}
        assert len(found) == 40


class EndedEmbedder:
    """An embedder that ends the run after some calls, once; its vectors are like no other's."""

    def __init__(self, calls: int) -> None:
        self.left: float = calls
        self.mark = float(calls)
        self.embedded: list[str] = []

    async def __call__(self, texts: list[str]) -> Any:
        if not texts[0].startswith("The quick"):
            if not self.left:
                self.left = math.inf
                raise asyncio.CancelledError  # which nothing catches, as if the process was killed
            self.left -= 1
            self.embedded += texts
        return [[*vector_of(text), self.mark] for text in texts]


async def test_a_run_with_another_embedder_does_not_go_on_where_one_was_ended(
    db: Database,
) -> None:
    await Store(db, embedder=Embedder()).put_batch([(NS, f"k{n}", f"word{n}") for n in range(9)])
    calls = 0

    def ended(texts: list[str]) -> Any:
        nonlocal calls
        calls += 1
        if calls > 3:
            raise asyncio.CancelledError
        return [vector_of(text)[::-1] for text in texts]

    with pytest.raises(asyncio.CancelledError):
        await Store(db, embedder=ended).reembed(NS, again=True, batch_size=2)
    other = Store(db, embedder=lambda texts: [[*vector_of(one)[1:], 9.0] for one in texts])
    report = await other.reembed(NS, again=True, batch_size=2)

    assert report.embedded == 9
    assert {one[-1] for one in (await vectors_in(db)).values()} == {9.0}


async def test_what_lost_its_vectors_since_is_embedded_by_a_run_that_goes_on(db: Database) -> None:
    await Store(db, embedder=Embedder()).put_batch(
        [((*NS, path), f"k{n}", f"word{n}") for path in ("a", "b") for n in range(9)]
    )
    first = EndedEmbedder(5)
    store = Store(db, embedder=first)
    with pytest.raises(asyncio.CancelledError):
        await store.reembed(NS, prefix=True, again=True, batch_size=2)
    assert (await Store(db, embedder=OtherEmbedder()).reembed((*NS, "a"))).embedded == 0
    assert (await Store(db, embedder=lambda texts: [[1.0]] * len(texts)).reembed((*NS, "a"))
            ).embedded == 9  # fmt: skip

    report = await store.reembed(NS, prefix=True, again=True, batch_size=2)

    assert report.embedded == 9 + 8
    found = (await vectors_in(db)).values()
    assert {(len(one), one[-1]) for one in found} == {(WIDTH + 1, first.mark)}


# --- Beside writers -------------------------------------------------------------------------------


async def put(store: Store, key: str) -> None:
    await store.put(NS, key, {"t": f"changed {key}"})


async def put_with_a_vector(store: Store, key: str) -> None:
    await store.put(NS, key, {"t": f"changed {key}"}, embedding=[1.0, 2.0])


async def put_anew(store: Store, key: str) -> None:
    await store.delete(NS, key)
    await store.put(NS, key, {"t": f"anew {key}"})


async def delete(store: Store, key: str) -> None:
    await store.delete(NS, key)


async def give_a_vector(store: Store, key: str) -> None:
    await store.put_embedding(NS, key, [3.0, 4.0])


WRITES: list[Callable[[Store, str], Any]] = [
    put,
    put_with_a_vector,
    put_anew,
    delete,
    give_a_vector,
]


@pytest.mark.parametrize("write", WRITES, ids=lambda write: write.__name__)
@pytest.mark.parametrize("at", [0, 5])
async def test_what_others_change_meanwhile_is_not_written_over(
    db: Database, write: Callable[[Store, str], Any], at: int
) -> None:
    plain = Store(db)
    await plain.put_batch([(NS, f"k{n}", {"t": f"word{n}"}) for n in range(6)])
    calls: list[list[str]] = []

    async def embedder(texts: list[str]) -> Any:
        calls.append(texts)
        if len(calls) == 2:  # after the one for the size
            await write(plain, f"k{at}")
        return [vector_of(text) for text in texts]

    report = await Store(db, embedder=embedder).reembed(NS)

    found = {key[1]: vector for key, vector in (await vectors_in(db)).items()}
    items = {key: await plain.get(NS, key) for key in found}
    for key, vector in found.items():
        if write is give_a_vector and key == f"k{at}":
            assert vector == pytest.approx(vector_of(f"word{at}")) or vector == [3.0, 4.0]
        else:
            assert vector == pytest.approx(vector_of(items[key]["t"])), key
    assert len(found) == (5 if write is delete else 6)
    assert (report.left, report.embedded) == (0, len(found))


async def test_an_item_that_others_change_again_and_again_is_left_and_named(db: Database) -> None:
    plain = Store(db)
    await plain.put_batch([(NS, f"k{n}", f"word{n}") for n in range(3)])

    async def embedder(texts: list[str]) -> Any:
        await plain.put(NS, "k1", f"word{len(texts)}")
        return [vector_of(text) for text in texts]

    report = await Store(db, embedder=embedder).reembed(NS)

    assert (report.embedded, report.left, report.damaged) == (2, 1, 0)
    assert "'k1'" in report.left_out[0]
    assert {key[1] for key in await vectors_in(db)} == {"k0", "k2"}


async def test_several_runs_at_once_do_the_same(db: Database) -> None:
    await Store(db).put_batch([(NS, f"k{n}", {"t": f"word{n}"}) for n in range(40)])

    reports = await asyncio.gather(
        *(Store(db, embedder=AsyncEmbedder()).reembed(NS, batch_size=size) for size in (3, 4, 5))
    )

    assert [one.left for one in reports] == [0, 0, 0]
    assert sum(one.embedded for one in reports) == 40
    found = await vectors_in(db)
    assert {key[1]: one for key, one in found.items()} == {
        f"k{n}": pytest.approx(vector_of(f"word{n}")) for n in range(40)
    }


# --- Embedders that fail --------------------------------------------------------------------------

BAD: dict[str, Callable[[], Any]] = {
    "zero": lambda: [0.0] * WIDTH,
    "not finite": lambda: [float("nan")] * WIDTH,
    "another size": lambda: [1.0] * (WIDTH - 1),
    "a text": lambda: "vector",
    "none": lambda: None,
}


@pytest.mark.parametrize("bad", [*BAD, "raises"])
async def test_an_item_that_the_embedder_refuses_is_left_and_named(db: Database, bad: str) -> None:
    await Store(db).put_batch([(NS, f"k{n}", f"word{n}") for n in range(9)])

    def embedder(texts: list[str]) -> Any:
        if bad == "raises" and "word4" in texts:
            raise RuntimeError("too long")
        return [BAD[bad]() if text == "word4" else vector_of(text) for text in texts]

    store = Store(db, embedder=embedder)
    for _ in range(2):
        report = await store.reembed(NS, batch_size=5)
        assert (report.left, report.damaged) == (1, 0)
        assert "'k4' in docs" in report.left_out[0]
    assert len(await vectors_in(db)) == 8


@pytest.mark.parametrize("works", [0, 1, 3], ids=lambda n: f"works {n} times")
async def test_an_embedder_that_does_not_work_ends_the_run_and_what_was_embedded_stays(
    db: Database, works: int
) -> None:
    await Store(db).put_batch([(NS, f"k{n}", f"word{n}") for n in range(30)])
    calls = 0

    def embedder(texts: list[str]) -> Any:
        nonlocal calls
        calls += 1
        if calls > works:
            raise OSError("no route to the model")
        return [vector_of(text) for text in texts]

    with pytest.raises(EmbedderFailed, match="OSError: no route to the model") as failed:
        await Store(db, embedder=embedder).reembed(NS, batch_size=10)

    assert isinstance(failed.value.__cause__, OSError)
    assert len(await vectors_in(db)) == 10 * max(works - 1, 0)
    assert calls <= works + 4, "it is not asked for each item"
    report = await Store(db, embedder=Embedder()).reembed(NS)
    assert report.embedded == 30 - 10 * max(works - 1, 0)


@pytest.mark.parametrize(
    ("given", "error", "what"),
    [
        ({"index": "text"}, TypeError, "list of fields"),
        ({"index": False}, ValueError, "index"),
        ({"index": []}, ValueError, "index"),
        ({"index": ["x" * 129]}, ValueError, "128"),
        ({"replace_model": "default"}, ValueError, "again=True"),
        ({"replace_model": 5}, TypeError, "field"),
        ({"batch_size": 0}, ValueError, "batch_size"),
        ({"batch_size": "5"}, TypeError, "batch_size"),
        ({"prefix": 1}, TypeError, "prefix"),
        ({"again": "yes"}, TypeError, "again"),
        ({"dry_run": None}, TypeError, "dry_run"),
    ],
    ids=str,
)
async def test_arguments_that_make_no_sense_are_refused(
    db: Database, given: dict[str, Any], error: type[Exception], what: str
) -> None:
    await Store(db).put(NS, "k", "apple")
    embedder = Embedder()

    with pytest.raises(error, match=what):
        await Store(db, embedder=embedder).reembed(NS, **given)

    assert embedder.calls == []
    assert await vectors_in(db) == {}


async def test_a_store_without_an_embedder_embeds_nothing(db: Database) -> None:
    with pytest.raises(StoreCapabilityError, match="reembed"):
        await Store(db).reembed(NS)


# --- Keys -----------------------------------------------------------------------------------------


@pytest.mark.own_keys
@pytest.mark.own_signing_keys
@pytest.mark.usefixtures("lasting")
@pytest.mark.parametrize("encrypted", [False, True], ids=["readable", "encrypted"])
@pytest.mark.parametrize("signed", [False, True], ids=["unsigned", "signed"])
async def test_with_keys_what_is_written_is_verified(
    database_url: str, encrypted: bool, signed: bool
) -> None:
    keys: dict[str, Any] = {}
    if encrypted:
        keys = {"keys": [generate_key()], "readable": ("vectors",)}
    if signed:
        keys["signing_keys"] = [generate_key()]
    async with Database(database_url, migrate="upgrade", **keys) as db:
        await Store(db, embedder=Embedder(), model="old").put_batch(drawn_items(9))
        for again in (False, True):
            store = Store(db, embedder=OtherEmbedder(), model="new")
            report = await store.reembed((), prefix=True, replace_model="old", again=again)
            assert report.embedded > 5
            assert report.left == 0
            assert (await verify(db)).findings == ()
        assert {key[3] for key in await vectors_in(db)} == {"new"}
    if encrypted:
        hidden = {**keys, "readable": ()}
        async with Database(database_url, **hidden) as db:
            with pytest.raises(StoreCapabilityError, match="vectors"):
                await Store(db, embedder=Embedder(), index=False).reembed(())


@pytest.mark.usefixtures("lasting")
async def test_a_read_only_database_is_rehearsed_only(database_url: str) -> None:
    async with Database(database_url, migrate="upgrade") as db:
        await Store(db).put(NS, "k", "apple")
    async with Database(database_url, read_only=True) as db:
        store = Store(db, embedder=Embedder())
        assert (await store.reembed(NS, dry_run=True)).embedded == 1
        with pytest.raises(ReadOnly):
            await store.reembed(NS)


# --- Classes that keep items, and searches --------------------------------------------------------


async def test_documents_and_episodes_are_found_by_meaning_afterwards(db: Database) -> None:
    plain = VectorStore(db)
    await plain.upsert("apple pear", id="fruit")
    await plain.upsert(
        "a picture of a hammer", id="tool", content_type="image/png", raw_content=b"x"
    )
    await EpisodeStore(db).write(Episode(task="the boat has a leak", result="mended"))
    embedder = Embedder()

    report = await Store(db, embedder=embedder).reembed((), prefix=True)

    assert report.embedded == 3
    episodes = EpisodeStore(db, embedder=embedder)
    (episode,) = await episodes.recall("leak", mode="vector")
    assert episode.result == "mended"
    by_meaning = VectorStore(db, embedder=embedder)
    assert (await by_meaning.search("hammer", alpha=1.0, k=1))[0].id == "tool"
    assert (await by_meaning.search("pear", alpha=1.0, k=1))[0].id == "fruit"


async def test_a_search_by_meaning_says_how_many_items_it_passes_over(db: Database) -> None:
    store = Store(db, embedder=Embedder())
    await store.put_batch([(NS, f"k{n}", f"word{n}") for n in range(5)])
    await store.put((*NS, "below"), "other", "word1", index=False)
    events: list[Event] = []
    unsubscribe = subscribe(events.append)

    async def passed_over(**more: Any) -> int | None:
        hits = await store.search(NS, "word1", **({"mode": "vector", "explain": True} | more))
        found = [plan for plan in hits.plans if plan.strategy == "passed over"]
        told = events[-1].details.get("passed_over")
        assert [told] == [plan.details["items"] for plan in found] or (not found and not told)
        assert all("reembed" in plan.reason for plan in found)
        return found[0].details["items"] if found else None

    try:
        assert await passed_over() is None
        await store.put(NS, "bare", "word1", index=False)
        await store.put(NS, "small", "word1", embedding=[1.0])
        await store.put(NS, "ended", "word1", index=False, ttl=1e-6)
        assert await passed_over() == 2
        assert await passed_over(mode="hybrid") == 2
        assert await passed_over(prefix=True) == 3
        assert await passed_over(model="other", mode="vector") == 7
        assert await passed_over(mode="text") is None
        hits = await store.search(NS, "word1", mode="vector")
        assert hits.plans == ()
        assert keys_of(hits)[0] == "k1"
        await store.reembed(NS)
        assert await passed_over() is None
    finally:
        unsubscribe()


async def test_an_item_that_is_given_no_vectors_of_a_model_has_none_of_it(store: Store) -> None:
    await store.put(NS, "a", "tea", embedding=[1.0, 0.0])
    await store.put_embedding(NS, "a", [0.0, 1.0], model="other")

    assert await store.put_embedding(NS, "a", {})
    assert not await store.put_embedding(NS, "missing", {})

    assert await store.search_by_embedding(NS, [1.0, 0.0]) == []
    (hit,) = await store.search_by_embedding(NS, [0.0, 1.0], model="other")
    assert hit.item.key == "a"
    assert (await verify(store.db)).ok
