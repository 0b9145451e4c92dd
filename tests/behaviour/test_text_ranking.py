"""Text search orders what it finds: what is about the words before what mentions them.

The measure is nDCG@10 against the ranking of the systems whose contract this is: TF-IDF cosine, as
their documentation has it. The texts are docstrings of Python's standard library. A query is the
first paragraph of a docstring, or the first four words of it; the text that answers it is the rest
of the same docstring (grade 3); the other methods of its class answer it a little (grade 1). So the
library's structure grades, and neither ranking has a say. The texts are those of this Python.
"""

from __future__ import annotations

import ast
import asyncio
import hashlib
import math
import random
import re
import sysconfig
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, select, update

import memalchemy
from garbage import no_collector
from golden.watch import Watch
from memalchemy import Checkpointer, Database, Store, ThreadLog, VectorStore
from memalchemy.codec.tokens import Term
from memalchemy.keys import log_key
from memalchemy.schema import CheckpointRow, ThreadRow
from memalchemy.search.ranking import bm25_weights
from memalchemy.search.text import CANDIDATES, OPENING
from memalchemy.transfer import copy

NS = ("texts",)
FACTS = ("facts", "ada")
ABOUT = "refund policy refund policy"
PAGE = "Welcome to the shop. " + "We sell lamps, chairs and tables to the whole world. " * 20
MENTION = f"{PAGE} Our refund policy is below. {PAGE}"


async def test_an_item_about_the_words_comes_before_one_that_mentions_them(store: Store) -> None:
    await store.put(NS, "about", {"text": ABOUT})
    await store.put(NS, "mention", {"text": MENTION})

    for query in ("refund", "refund policy", "policy of refund"):
        about, mention = await store.search(NS, query)
        assert (about.key, mention.key) == ("about", "mention")
        assert about.score is not None
        assert mention.score is not None
        assert 1 >= about.score > mention.score > 0
    hybrid = await store.search(NS, "refund", mode="hybrid", embedding=[1.0, 0.0])
    assert [hit.key for hit in hybrid] == ["about", "mention"]


async def test_checkpoints_entries_and_documents_are_ranked_alike(db: Database) -> None:
    checkpointer, log, vectors = Checkpointer(db), ThreadLog(db), VectorStore(db)
    for name, text in (("about", ABOUT), ("mention", MENTION)):
        await checkpointer.save({"text": text}, name)
        await log.append(f"log of {name}", text)
        await vectors.upsert(text, id=name)

    for query in ("refund", "refund policy"):
        steps = await checkpointer.search(query)
        assert [hit["thread_id"] for hit in steps] == ["about", "mention"]
        assert 1 >= steps[0]["score"] > steps[1]["score"] > 0
        entries = await log.search(query)
        assert [hit.thread_id for hit in entries] == ["log of about", "log of mention"]
        assert 1 >= entries[0].score > entries[1].score > 0
        documents = await vectors.search(query)
        assert [hit.id for hit in documents] == ["about", "mention"]
        assert documents[0].score > documents[1].score > 0


async def test_equal_texts_are_in_the_order_of_their_writes_the_newest_first(
    store: Store,
) -> None:
    for number in range(5):
        await store.put(NS, f"k{number}", "a needle")

    for _ in range(3):
        hits = await store.search(NS, "needle")
        assert [hit.key for hit in hits] == ["k4", "k3", "k2", "k1", "k0"]
        assert {hit.score for hit in hits} == {1.0}


async def test_other_namespaces_and_tenants_have_no_say(db: Database) -> None:
    store = Store(db)
    other = Store(db.for_tenant("crowd"))
    await store.put(NS, "short", "needle hook")
    await store.put(NS, "long", f"needle pin {PAGE}")
    before = [(hit.key, hit.score) for hit in await store.search(NS, "needle hook pin")]

    crowd = [(("elsewhere",), f"k{n}", "hook " * n) for n in range(1, 60)]
    await store.put_batch(crowd)
    await other.put_batch([(NS, key, value) for _, key, value in crowd])

    after = [(hit.key, hit.score) for hit in await store.search(NS, "needle hook pin")]
    assert after == before


async def test_a_filter_and_many_hits_elsewhere_do_not_change_a_ranking(db: Database) -> None:
    store = Store(db)
    other = Store(db.for_tenant("crowd"))
    texts = ["needle", "needle hook", "hook", "needle pin", "pin pin needle hook", "straw"]
    await store.put_batch([(NS, str(at), {"text": t, "no": at}) for at, t in enumerate(texts)])

    async def ranking() -> list[list[tuple[str, float | None]]]:
        found = [
            await store.search(NS, query, filter=wanted, prefix=prefix)
            for query in ("needle", "needle pin hook")
            for wanted in (None, {"no": {"$gte": 2}}, {"no": 4})
            for prefix in (False, True)
        ]
        return [[(hit.key, hit.score) for hit in hits] for hits in found]

    before = await ranking()
    assert [len(hits) for hits in before] == [4, 4, 2, 2, 1, 1, 5, 5, 3, 3, 1, 1]
    crowd = [(("elsewhere",), f"k{n}", {"text": "needle hook", "no": 4}) for n in range(300)]
    await store.put_batch(crowd)
    await other.put_batch([(NS, key, value) for _, key, value in crowd])

    assert await ranking() == before


@pytest.fixture
def few_candidates(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("memalchemy.search.text.CANDIDATES", 4)
    return 4


async def _save(db: Database, thread_id: str, number: int, namespace: Sequence[str] = ()) -> None:
    await Checkpointer(db, namespace=namespace).save(
        {f"said {number}": f"needle {number}"}, thread_id, metadata={"n": number}
    )


async def _steps(db: Database, query: str, limit: int) -> list[tuple[str, int]]:
    """The thread and the number of each step that is found."""
    found = await Checkpointer(db).search(query, limit)
    return [(hit["thread_id"], hit["metadata"]["n"]) for hit in found]


@pytest.mark.parametrize("query", ["needle", "needle straw"])
@pytest.mark.parametrize("below", [False, True])
async def test_rows_of_equal_weight_are_all_found_the_newest_first(
    db: Database, query: str, below: bool, few_candidates: int
) -> None:
    store, log = Store(db), ThreadLog(db)
    for number in range(few_candidates * 6):
        await _save(db, "t", number)
        await store.put(NS, f"k{number}", f"needle {number}")
        await log.append("log", f"needle {number}")
    numbers = list(reversed(range(few_candidates * 6)))

    steps = await Checkpointer(db).search(query, 99, below=below)
    items = await store.search(NS, query, 99, prefix=below)
    entries = await log.search(query, 99, thread_id=None if below else "log")

    assert [hit["metadata"]["n"] for hit in steps] == numbers
    assert [hit.key for hit in items] == [f"k{number}" for number in numbers]
    assert [hit.value for hit in entries] == [f"needle {number}" for number in numbers]


async def test_of_many_steps_with_a_word_the_newest_come_first(
    db: Database, few_candidates: int
) -> None:
    for number in range(40):
        await _save(db, f"t{number % 3}", number)
    newest = [(f"t{number % 3}", number) for number in reversed(range(40))]

    assert await _steps(db, "needle", few_candidates - 1) == newest[: few_candidates - 1]
    assert await _steps(db, "needle", 50) == newest
    assert await _steps(db, "needle 7", 1) == [("t1", 7)]


@pytest.mark.own_keys
@pytest.mark.asyncio_only("the statements do not depend on who asks")
async def test_sqlite_reads_only_the_last_of_many_steps_with_a_word(few_candidates: int) -> None:
    async with Database("sqlite://") as db:
        for number in range(20):
            await _save(db, "t", number)
        with Watch() as watch:
            await _steps(db, "needle", few_candidates)

    searches = [name for name in watch.seen if name.startswith("search.text.search_checkpoints{")]
    assert len(searches) == 1
    last_stored = db.dialect.text.finds_last_stored  # not with Oracle's habits
    assert f"'last_stored': {last_stored}" in searches[0]


async def test_steps_with_a_word_are_found_behind_many_that_are_not_wanted(
    db: Database, few_candidates: int
) -> None:
    wanted = [("t", number) for number in reversed(range(6))]
    for number in range(6):
        await _save(db, "t", number)
    for number in range(20):
        await _save(db, "t", number, ("elsewhere",))
        await _save(db.for_tenant("crowd"), "t", number)

    assert await _steps(db, "needle", 10) == wanted


async def test_newer_steps_are_found_first_though_older_ones_were_stored_later(
    db: Database, few_candidates: int
) -> None:
    elsewhere = [Database("sqlite://", tenant=db.tenant) for _ in range(2)]
    async with elsewhere[0] as old, elsewhere[1] as new:
        for number in range(20):
            await _save(old, "old", number)
        for number in range(6):
            await _save(new, "new", number)

        await copy(new, db)
        await copy(old, db)

        newest = [("new", number) for number in reversed(range(6))]
        newest += [("old", number) for number in reversed(range(20))]
        assert await _steps(db, "needle", few_candidates) == newest[:few_candidates]
        assert await _steps(db, "needle", 30) == newest


async def _spread(db: Database, threads: Sequence[str], gap: timedelta) -> None:
    """Let the steps of *threads* have been stored a *gap* apart, in the same order."""

    def spread(connection: Connection) -> None:
        keys = {log_key(db.tenant, thread_id, "/") for thread_id in threads}
        columns = (CheckpointRow.log_id, CheckpointRow.seq, CheckpointRow.meta)
        rows = connection.execute(select(*columns).where(CheckpointRow.log_id.in_(keys))).all()
        for row in sorted(rows, key=lambda row: int(row.meta["n"])):
            stored = START + gap * row.meta["n"]
            at = (CheckpointRow.log_id == row.log_id, CheckpointRow.seq == row.seq)
            connection.execute(update(CheckpointRow).where(*at).values(created_at=stored))
            active = {"updated_at": stored, "active_at": stored.replace(microsecond=0)}
            head = update(ThreadRow).where(ThreadRow.log_id == row.log_id)
            connection.execute(head.values(active))

    await db.run_sync(spread)


START = datetime(2026, 1, 1, tzinfo=UTC)
THREADS = ("a", "b", "c", "d")


@pytest.mark.unsigned_only("it changes rows by hand")
@pytest.mark.parametrize("gap", [timedelta(), timedelta(seconds=7), timedelta(hours=1)], ids=str)
@pytest.mark.parametrize("seed", range(4))
async def test_the_newest_steps_with_a_word_are_found_wherever_they_lie(
    db: Database, few_candidates: int, seed: int, gap: timedelta
) -> None:
    draw = random.Random(seed)
    share = draw.choice([0.1, 0.5, 0.9])
    turns = draw.choice([1, 5, 30])
    thread_id, wanted = THREADS[0], []
    for number in range(90):
        if number % turns == 0:
            thread_id = draw.choice(THREADS)
        # Words that are alike, and the word itself in other letters. It has no other forms.
        word = draw.choice(["needle7", "Needle7", "NEEDLE7"])
        if draw.random() > share:
            word = draw.choice(["needle7s", "nee dle7", "xneedle7"])
        elif thread_id != "d":
            wanted.append((thread_id, number))
        state = {f"said {number}": f"{word} {number}"}
        await Checkpointer(db).save(state, thread_id, metadata={"n": number})
    await _spread(db, THREADS, gap)
    await Checkpointer(db).delete("d")
    newest = wanted[::-1]
    if not gap:
        newest.sort(key=lambda found: (found[0], found[1]), reverse=True)

    for limit in (1, few_candidates, 3 * few_candidates, 99):
        assert await _steps(db, "needle7", limit) == newest[:limit]
        below = await Checkpointer(db).search("needle7", limit, below=True)
        assert [(hit["thread_id"], hit["metadata"]["n"]) for hit in below] == newest[:limit]


@pytest.mark.unsigned_only("it changes rows by hand")
@pytest.mark.parametrize("query", ["1e5abc", "abc", "İstanbul", "straße", "naïve", "дом", "東京"])
async def test_a_word_that_most_steps_hold_is_found_in_any_script(
    db: Database, few_candidates: int, query: str
) -> None:
    for number in range(60):
        said = f"{query} {number}" if number % 5 else f"no{query} {number}"
        await Checkpointer(db).save({f"n{number}": said}, "t", metadata={"n": number})
    await _spread(db, ("t",), timedelta(hours=1))

    found = await _steps(db, query, 8)
    assert found == await _steps(db, f"{query} {query}", 8)
    every = await _steps(db, f"{query} nothingelse", 99)
    assert found == every[:8]
    assert len(every) >= 48


async def test_hits_beyond_the_candidates_follow_with_lower_scores(db: Database) -> None:
    store, log = Store(db), ThreadLog(db)
    number = CANDIDATES + 150
    texts = [f"needle{' and straw' * (n % 7)}" for n in range(number)]
    await store.put_batch([(NS, f"k{n:04}", text) for n, text in enumerate(texts)])
    await log.append("t", texts)

    whole = await store.search(NS, "needle", limit=number + 1)
    scores = [hit.score or 0.0 for hit in whole]
    keys = [hit.key for hit in whole]
    assert len(set(keys)) == number
    assert scores == sorted(scores, reverse=True)
    assert scores[0] == 1.0
    assert scores[-1] > 0
    for limit, offset in ((10, 0), (10, CANDIDATES - 5), (40, number - 30)):
        page = await store.search(NS, "needle", limit=limit, offset=offset)
        assert [hit.key for hit in page] == keys[offset : offset + limit]
    some = await store.search(NS, "needle", limit=number, filter={"$metadata": {"no": 1}})
    assert some == []
    entries = await log.search("needle", number + 1)
    assert len({hit.position for hit in entries}) == number
    scores = [hit.score for hit in entries]
    assert scores == sorted(scores, reverse=True)


MENTIONS = (
    "a long note that mentions tea once among many other words of the day {}",
    "User mentioned tea on day {}",
    "Tea at noon, day {}",
    f"{{}} {PAGE} tea {PAGE}",
)


@pytest.mark.parametrize("mention", MENTIONS, ids=["note", "fact", "short", "page"])
async def test_an_old_exact_memory_comes_before_hundreds_of_newer_mentions(
    db: Database, mention: str
) -> None:
    number = 900
    store, facts = memalchemy.Store(db), memalchemy.UserMemoryStore(db)
    documents = memalchemy.VectorStore(db)
    await store.put(NS, "best", "tea tea tea")
    await store.put_batch([(NS, f"k{n:04}", mention.format(n)) for n in range(number)])
    best = await facts.add("ada", "likes tea")
    value = await store.get(FACTS, best.memory_id)
    await store.put_batch(
        [(FACTS, f"k{n:04}", value | {"content": mention.format(n)}) for n in range(number)]
    )
    await documents.upsert("tea tea tea", id="best")
    await store.put_batch([(("documents",), f"k{n:04}", mention.format(n)) for n in range(number)])

    for query in ("tea", "Tea!", "tea ceremony"):
        hits = await store.search(NS, query, 5)
        assert hits[0].key == "best"
        assert len(await store.search(NS, query, number + 99)) == number + 1
        assert [hit.id for hit in await documents.search(query, k=1)] == ["best"]
        assert await facts.search("ada", query, 1) == [best]


async def test_of_items_as_long_the_newest_come_first(store: Store) -> None:
    number = CANDIDATES + 200
    for first in range(0, number, 100):
        batch = range(first, first + 100)
        await store.put_batch([(NS, f"k{number - n:04}", f"tea {n % 10}") for n in batch])

    for query in ("tea", "tea ceremony"):
        hits = await store.search(NS, query, number)
        assert [hit.key for hit in hits] == [f"k{n:04}" for n in range(1, number + 1)]


async def test_a_word_deep_in_a_long_text_is_found_after_those_that_begin_with_it(
    store: Store,
) -> None:
    deep = "straw " * (OPENING // 5) + "needle"
    await store.put_batch([(NS, "near", f"needle {deep}"), (NS, "deep", deep)])

    near, far = await store.search(NS, "needle")
    assert (near.key, far.key) == ("near", "deep")
    assert (near.score or 0) > (far.score or 0) > 0


async def test_words_of_any_script_count(store: Store) -> None:
    pairs = {"Straße": "strasse", "東京": "東京", "Ꮳꮃꭹ": "ᏣᎳᎩ", "Ünïcode": "unicode"}
    for at, (word, query) in enumerate(pairs.items()):
        place = ("scripts", str(at))
        await store.put(place, "often", f"{word} {word} {word}")
        await store.put(place, "once", f"{word} {PAGE}")

        hits = await store.search(place, query)
        assert [hit.key for hit in hits] == ["often", "once"], query


def test_a_weight_counts_whole_words_beginnings_and_repetitions() -> None:
    def order(term: Term, *texts: str) -> list[int]:
        weights = bm25_weights([term], texts)
        return sorted(range(len(texts)), key=lambda at: -weights[at])

    assert order(Term("cat"), "cats and dogs", "Cat and dogs", "cat CAT dogs") == [2, 1, 0]
    assert order(Term("cat", prefix=True), "a dog", "cats Cat x", "x y cat") == [1, 2, 0]
    assert all(weight > 0 for weight in bm25_weights([Term("no")], ["", "x", "y z"]))
    equal = bm25_weights([Term("x"), Term("y")], ["x y", "x y"])
    assert equal[0] == equal[1]


WORDS = st.sampled_from(["a", "A", "aa", "ab", "b", "é", "strasse", "東", "京", "ꮳ", "Ꮳ"])


@given(
    st.lists(st.builds(Term, WORDS, st.booleans()), min_size=1, max_size=4),
    st.lists(st.none() | st.lists(WORDS, max_size=12).map(" ".join), min_size=1, max_size=8),
)
def test_weights_are_those_of_the_formula(given_terms: list[Term], texts: list[str | None]) -> None:
    def lowered(word: str) -> str:
        return word.lower() if word.isascii() else word

    def holds(term: Term, word: str) -> bool:
        return word.startswith(term.text) if term.prefix else word == term.text

    terms = [term._replace(text=lowered(term.text)) for term in given_terms]
    split = [[lowered(word) for word in (text or "").split(" ")] for text in texts]
    counts = [[sum(holds(term, word) for word in words) for term in terms] for words in split]
    average = sum(map(len, split)) / len(split)
    rarity = []
    for term in range(len(terms)):
        holders = sum(1 for of in counts if of[term])
        rarity.append(0.25 + math.log(1 + (len(texts) - holders + 0.5) / (holders + 0.5)))
    expected = []
    for words, of in zip(split, counts, strict=True):
        damping = 2.0 * (len(words) / average) ** 0.75
        weight = sum(idf * n / (n + damping) for idf, n in zip(rarity, of, strict=True))
        expected.append(weight or min(rarity) / (1 + damping) / 2)

    assert bm25_weights(terms, texts) == pytest.approx(expected)


class Text(NamedTuple):
    """A docstring: what it is of, its first paragraph and the rest."""

    place: tuple[str, ...]
    title: str
    body: str


MODULES = """
argparse asyncio.base_events asyncio.events asyncio.streams asyncio.tasks calendar collections
configparser contextlib copy csv datetime decimal difflib email.message fractions ftplib functools
gzip html.parser http.client imaplib inspect ipaddress json json.decoder json.encoder logging
logging.handlers mailbox mimetypes multiprocessing.pool optparse os pathlib pdb pickle pickletools
platform poplib random sched shutil smtplib socket socketserver ssl statistics string subprocess
tarfile tempfile textwrap threading trace traceback turtle unittest.case unittest.mock urllib.parse
urllib.request uuid weakref webbrowser xml.dom.minidom zipfile
"""


def docstrings() -> list[Text]:
    """Of functions, methods and classes, those with more than one paragraph."""
    library = Path(sysconfig.get_paths()["stdlib"])
    found: list[Text] = []

    def walk(node: Any, place: tuple[str, ...]) -> None:
        for child in getattr(node, "body", ()):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                path = (*place, child.name)
                title, _, body = (ast.get_docstring(child) or "").partition("\n\n")
                if len(title.split()) > 2 and len(body.split()) > 8:
                    found.append(Text(path, " ".join(title.split()), body))
                if isinstance(child, ast.ClassDef):
                    walk(child, path)

    # Up to CPython 3.11.7 a finalizer that is run while a tree is made, and lets another thread
    # make one, ends both: https://github.com/python/cpython/issues/106905
    with no_collector():
        for module in MODULES.split():
            path = library / module.replace(".", "/")
            for file in (path.with_suffix(".py"), path / "__init__.py"):
                if file.exists():
                    walk(ast.parse(file.read_text(encoding="utf-8")), (module,))
    return found


def grade(asked: Text, text: Text) -> int:
    if asked.place == text.place:
        return 3
    of_one_class = asked.place[:2] == text.place[:2] and len(asked.place) + len(text.place) > 4
    return 1 if of_one_class else 0


def ndcg(grades: Sequence[int], of_all: Sequence[int], depth: int = 10) -> float:
    def gain(ordered: Sequence[int]) -> float:
        return sum((2**g - 1) / math.log2(at + 2) for at, g in enumerate(ordered[:depth]))

    return gain(grades) / gain(sorted(of_all, reverse=True))


def tf_idf(texts: Sequence[Text]) -> Callable[[str], list[int]]:
    """The best ten by the cosine of TF-IDF: words in lower case, counts over length, and
    ``log(1 + N) - log(1 + df)``, normalised to length 1. As lauren-ai's vector store ranks.
    """

    def vector(text: str) -> dict[str, float]:
        counts = Counter(re.findall("[a-z0-9]+", text.lower()))
        total = counts.total()
        rare = {word: math.log(1 + len(texts)) - math.log(1 + known[word]) for word in counts}
        weights = {word: count / total * rare[word] for word, count in counts.items()}
        length = math.sqrt(sum(weight**2 for weight in weights.values())) or 1.0
        return {word: weight / length for word, weight in weights.items()}

    known: Counter[str] = Counter()
    for text in texts:
        known.update(set(re.findall("[a-z0-9]+", text.body.lower())))
    vectors = [vector(text.body) for text in texts]

    def best(query: str) -> list[int]:
        asked = vector(query)
        scores = [sum(w * one.get(word, 0.0) for word, w in asked.items()) for one in vectors]
        return sorted(range(len(texts)), key=lambda at: -scores[at])[:10]

    return best


class Exam(NamedTuple):
    """Texts, queries each with the place of its answer, and the mean nDCG@10 of TF-IDF."""

    texts: list[Text]
    queries: list[tuple[str, Text]]
    theirs: float

    def mark(self, ranked: Sequence[Sequence[int]]) -> float:
        return _mean(self.texts, self.queries, ranked)


def _mean(
    texts: Sequence[Text], queries: Sequence[tuple[str, Text]], ranked: Sequence[Sequence[int]]
) -> float:
    total = 0.0
    for (_, asked), order in zip(queries, ranked, strict=True):
        total += ndcg([grade(asked, texts[at]) for at in order], [grade(asked, t) for t in texts])
    return total / len(queries)


def sample(texts: Sequence[Text], number: int) -> list[Text]:
    """Return some of the texts, the same ones of every Python that has them."""

    def order(text: Text) -> bytes:
        return hashlib.blake2b(repr(text.place).encode()).digest()

    return sorted(texts, key=order)[:number]


def exam_of(texts: list[Text], asked: Sequence[Text]) -> Exam:
    queries = [(one.title, one) for one in asked]
    queries += [(" ".join(one.title.split()[:4]), one) for one in asked]
    best = tf_idf(texts)
    return Exam(texts, queries, _mean(texts, queries, [best(query) for query, _ in queries]))


@pytest.fixture(scope="module")
def exam() -> Exam:
    """An exam by a few texts, which every database takes."""
    texts = docstrings()
    return exam_of(texts, sample(texts, 40))


@pytest.mark.own_keys
@pytest.mark.asyncio_only("the ranking does not depend on who asks")
async def test_titles_find_their_texts_about_as_well_as_by_tf_idf() -> None:
    """Texts with all words of a query stand first, however long: that costs a little here, where
    no query names its text by all its words, and serves whoever looks for a text that he knows.
    """
    texts = docstrings()
    assert len(texts) > 500
    whole = exam_of(texts, sample(texts, len(texts) // 2))
    async with Database("sqlite://") as db:
        store = Store(db)
        await store.put_batch([(NS, str(at), text.body) for at, text in enumerate(texts)])

        hits = [await store.search(NS, query) for query, _ in whole.queries]

    assert whole.mark([[int(hit.key) for hit in of] for of in hits]) > 0.97 * whole.theirs


@pytest.mark.own_keys
@pytest.mark.asyncio_only("the ranking does not depend on who asks")
async def test_prompts_find_the_text_of_which_they_hold_two_words_better_than_by_tf_idf() -> None:
    texts = docstrings()
    draw = random.Random(38)
    everywhere = [word for text in texts for word in text.body.split()]
    best, asked = tf_idf(texts), list[tuple[str, int]]()
    for at in draw.sample(range(len(texts)), 150):
        words = draw.sample(sorted({*texts[at].body.split()}), 2) + draw.choices(everywhere, k=8)
        asked.append((" ".join(draw.sample(words, len(words))), at))
    async with Database("sqlite://") as db:
        store = Store(db)
        await store.put_batch([(NS, str(at), text.body) for at, text in enumerate(texts)])

        ours = [[int(hit.key) for hit in await store.search(NS, query)] for query, _ in asked]

    def mean_reciprocal_rank(ranked: Sequence[Sequence[int]]) -> float:
        places = zip(ranked, asked, strict=True)
        return sum(1 / (1 + list(of).index(at)) for of, (_, at) in places if at in of) / len(asked)

    theirs = mean_reciprocal_rank([best(query)[:10] for query, _ in asked])
    assert mean_reciprocal_rank(ours) > theirs


@pytest.fixture
def analyse(request: pytest.FixtureRequest, database: str, shared_url: str) -> Callable[[], None]:
    """Let PostgreSQL count what its tables hold, as it does by itself within a minute: until then
    it takes them for empty, and a search takes ten times as long.
    """
    if database not in ("postgresql", "psycopg"):
        return lambda: None
    server = request.getfixturevalue("postgres")
    return lambda: server.execute("ANALYZE", shared_url.split("?")[0].rsplit("/", 1)[1])


async def test_items_are_ranked_on_every_database_as_well_as_by_tf_idf(
    store: Store, exam: Exam, analyse: Callable[[], None]
) -> None:
    await store.put_batch([(NS, str(at), text.body) for at, text in enumerate(exam.texts)])
    analyse()

    hits = [await store.search(NS, query) for query, _ in exam.queries]

    assert exam.mark([[int(hit.key) for hit in of] for of in hits]) >= exam.theirs


async def test_entries_are_ranked_on_every_database_as_well_as_by_tf_idf(
    db: Database, exam: Exam, analyse: Callable[[], None]
) -> None:
    log = ThreadLog(db)
    await log.append("t", [text.body for text in exam.texts])
    analyse()
    (first,) = await log.range("t", limit=1)

    hits = [await log.search(query) for query, _ in exam.queries]

    ranked = [[hit.position - first.position for hit in of] for of in hits]
    assert exam.mark(ranked) >= exam.theirs


async def test_steps_are_ranked_on_every_database_as_well_as_by_tf_idf(
    db: Database, exam: Exam, analyse: Callable[[], None]
) -> None:
    checkpointer = Checkpointer(db)
    for start in range(0, len(exam.texts), 100):
        some = list(enumerate(exam.texts))[start : start + 100]
        await asyncio.gather(*(checkpointer.save({"t": t.body}, str(at)) for at, t in some))
    analyse()

    hits = [await checkpointer.search(query) for query, _ in exam.queries]

    assert exam.mark([[int(hit["thread_id"]) for hit in of] for of in hits]) >= exam.theirs
