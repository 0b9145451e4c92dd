"""A hit shows the text that was found as it was written, with its punctuation."""

from __future__ import annotations

import json
import random
import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy import Table, select, update

import memalchemy
from memalchemy import Checkpointer, Database, ThreadLog
from memalchemy.codec.encryption import generate_key
from memalchemy.errors import Corrupt, KeyMissing
from memalchemy.events import subscribe_statements
from memalchemy.inspection import Inspector
from memalchemy.schema import DeltaRow

DELTAS: Any = DeltaRow.__table__

Shown = Callable[[Database, str], Awaitable[list[str]]]

SENTENCES = (
    "Where is my parcel?  It was sent on Monday -- wasn't it?!",
    "Ein Café in Zürich, bitte: 2 × Espresso (ohne Zucker).",
    "Straße, naïve façade; coöperate… 'quoted' \"twice\"",
    "東京の天気は、晴れです。明日は？",
    "用户喜欢绿茶和咖啡，不喜欢糖。",
    "데이터베이스를 만들다! 서울에서 만나요.",
    "ภาษาไทยง่าย ๆ ครับ (จริง ๆ)",
    "हिन्दी भाषा — सरल है।",
    "Привет, мир! Ёлка стоит в углу.",
    "كيف حالك؟ أنا بخير، شكراً.",
    "def main() -> None:\n    print('hello, world')  # a comment",
    "see https://example.com/a_b?c=d&e=f#g or mail ada@example.com",
    "well done 👍🏽!",
    "a\tb\nc — d",
)
WORDS = ("parcel", "Zürich", "naïve", "天気", "绿茶", "서울", "ภาษาไทย", "भाषा", "Ёлка", "شكراً")


async def _of_steps(db: Database, query: str) -> list[str]:
    return [hit["snippet"] for hit in await memalchemy.Checkpointer(db).search(query, 100)]


async def _of_steps_with_states(db: Database, query: str) -> list[str]:
    hits = await memalchemy.Checkpointer(db).search(query, 100, data=True)
    assert all("data" in hit for hit in hits)
    return [hit["snippet"] for hit in hits]


async def _of_steps_on_a_page(db: Database, query: str) -> list[str]:
    page = await Inspector(db).search(query, limit=100, kinds=["step"])
    return ["".join(piece["text"] for piece in hit["snippet"]) for hit in page["hits"]]


async def _of_entries(db: Database, query: str) -> list[str]:
    return [hit.snippet for hit in await memalchemy.ThreadLog(db).search(query, 100)]


OF_STEPS = [_of_steps, _of_steps_with_states, _of_steps_on_a_page]
steps = pytest.mark.parametrize("shown", OF_STEPS)


def query_of(sentence: str) -> str:
    """The longest word of a sentence."""
    return max(sentence.replace("、", " ").replace("，", " ").split(), key=len)


@steps
async def test_a_step_shows_what_it_added_as_it_was_written(db: Database, shown: Shown) -> None:
    checkpointer, messages = memalchemy.Checkpointer(db), []
    for sentence in SENTENCES:
        messages.append({"role": "user", "content": sentence})
        await checkpointer.save({"messages": messages, "n": len(messages)}, "thread")

    for sentence in SENTENCES:
        assert sentence in await shown(db, query_of(sentence))


async def test_an_entry_shows_itself_as_it_was_written(db: Database) -> None:
    log = memalchemy.ThreadLog(db)
    for sentence in SENTENCES:
        await log.append(
            "thread", {"role": "user", "content": [{"type": "text", "text": sentence}]}
        )

    for sentence in SENTENCES:
        assert sentence in await _of_entries(db, query_of(sentence))


@steps
async def test_what_the_step_added_is_shown_and_not_what_said_the_same_before(
    db: Database, shown: Shown
) -> None:
    checkpointer, state = memalchemy.Checkpointer(db), {"messages": [], "last": "A parcel?"}
    await checkpointer.save(state, "thread")
    for n in range(12):
        state["messages"] = [*state["messages"], f"No. {n}: the parcel, again!"]
        await checkpointer.save(state, "thread")

    expected = {f"No. {n}: the parcel, again!" for n in range(12)}
    assert set(await shown(db, "again")) == expected
    assert set(await shown(db, "parcel")) == expected | {"A parcel?"}


@steps
async def test_in_any_state_the_snippet_is_a_part_of_one_text(db: Database, shown: Shown) -> None:
    dice = random.Random(12)
    checkpointer = memalchemy.Checkpointer(db)
    written: list[str] = []

    def text() -> str:
        words = dice.choices(("one", "two", "three", *WORDS), k=dice.randint(1, 60))
        written.append(
            "".join(word + dice.choice((" ", ", ", "! ", "\n", " -- ", ": ")) for word in words)
        )
        return written[-1]

    for thread in range(6):
        state: dict[str, Any] = {"messages": [], "plan": {"steps": []}}
        for _ in range(dice.randint(1, 8)):
            place = dice.randrange(4)
            if place == 0:
                state["messages"].append({"role": "user", "content": text()})
            elif place == 1:
                state["plan"]["steps"].insert(0, {"tool": json.dumps({"result": text()})})
            elif place == 2:
                state["title"] = text()
            else:
                state["messages"] = [text(), *state["messages"][1:]]
            await checkpointer.save(state, f"thread {thread}")

    found = 0
    for query in (*WORDS, "one two", "three Zürich 天気"):
        for snippet in await shown(db, query):
            found += 1
            part = snippet.removeprefix("…").removesuffix("…")
            assert part
            assert any(part in one for one in written), snippet
            assert len(snippet) <= 210
    assert found > 50


@pytest.mark.parametrize("place", [0, 1_000, 5_000, 30_000, 50_000])
@pytest.mark.parametrize("filling", ["zwei Wörter, ", "東京の天気は晴れです。", "two words, "])
@pytest.mark.parametrize("shown", [_of_steps, _of_entries])
async def test_a_word_anywhere_in_a_long_text_is_shown(
    db: Database, shown: Shown, filling: str, place: int
) -> None:
    before = (filling * (place // len(filling) + 1))[:place]
    text = f"{before} (a needle!) {filling * 2000}"
    await memalchemy.Checkpointer(db).save({"messages": ["short", text]}, "thread")
    await memalchemy.ThreadLog(db).append("thread", text)

    (snippet,) = await shown(db, "needle")
    assert "(a needle!)" in snippet
    assert len(snippet) < 250


# --- States that cannot be read, and what it costs ------------------------------------------------


async def _damage(db: Database, thread_id: str) -> None:
    """Change the states of a thread behind the library's back."""

    def work(connection: Any) -> None:
        threads: Table = memalchemy.schema.ThreadRow.__table__
        log = select(threads.c.log_id).where(
            threads.c.tenant == db.tenant, threads.c.thread_id == thread_id
        )
        changed = connection.execute(
            update(DELTAS).where(DELTAS.c.log_id.in_(log)).values(payload=b"damaged")
        )
        assert changed.rowcount

    await db.run_sync(work)


@pytest.mark.parametrize("shown", [_of_steps, _of_steps_on_a_page])
async def test_a_state_that_cannot_be_read_leaves_the_words(
    db: Database, shown: Shown, reopen: Callable[[], Database]
) -> None:
    checkpointer = memalchemy.Checkpointer(db)
    for thread in ("whole", "damaged", "other"):
        await checkpointer.save({"text": f"The parcel -- {thread}!"}, thread)
    await _damage(db, "damaged")

    with pytest.raises(Corrupt):
        await memalchemy.Checkpointer(reopen()).load("damaged")
    found = set(await shown(db, "parcel"))
    assert found >= {"The parcel -- whole!", "The parcel -- other!"}
    assert any("parcel" in one and "damaged" in one and "--" not in one for one in found)


@pytest.mark.own_keys
async def test_without_the_key_of_a_state_its_words_are_shown(shared_url: str) -> None:
    key, tenant = generate_key(), uuid.uuid4().hex
    async with Database(shared_url, tenant=tenant, keys=[key], readable=("text",)) as db:
        await Checkpointer(db).save({"text": "The parcel -- sealed!"}, "thread")
        assert await _of_steps(db, "parcel") == ["The parcel -- sealed!"]
    other = Database(shared_url, tenant=tenant, keys=[generate_key()], readable=("text",))
    async with other as db:
        with pytest.raises(KeyMissing):
            await Checkpointer(db).load("thread")
        (snippet,) = await _of_steps(db, "parcel")
        assert "parcel sealed" in snippet


@pytest.mark.own_signing_keys
async def test_of_a_signed_database_too(shared_url: str) -> None:
    tenant = uuid.uuid4().hex
    async with Database(shared_url, tenant=tenant, signing_keys=[generate_key()]) as db:
        await Checkpointer(db).save({"text": "The parcel -- signed!"}, "thread")
        await ThreadLog(db).append("thread", "The parcel -- signed!")

        for shown in (*OF_STEPS, _of_entries):
            assert await shown(db, "parcel") == ["The parcel -- signed!"]


async def test_only_the_states_of_hits_that_are_returned_are_read(db: Database) -> None:
    checkpointer = memalchemy.Checkpointer(db)
    for n in range(60):
        await checkpointer.save({"text": f"parcel no. {n}"}, f"thread {n}")
    await checkpointer.search("parcel", 1)

    async def statements(limit: int) -> int:
        sent: list[Any] = []
        end = subscribe_statements(sent.append)
        try:
            assert len(await checkpointer.search("parcel", limit)) == limit
        finally:
            end()
        return len(sent)

    one, ten = await statements(1), await statements(10)
    assert ten - one <= 9 * 2


async def test_many_large_states_are_not_all_read(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memalchemy.checkpoints.found_texts.MOST_READ", 3_500)
    checkpointer = memalchemy.Checkpointer(db)
    for n in range(6):
        await checkpointer.save({"text": f"The parcel -- {n}!", "bytes": bytes(1_000)}, f"t{n}")

    found = await _of_steps(db, "parcel")
    assert len(found) == 6
    assert ["--" in one for one in found] == [True] * 3 + [False] * 3
    assert all("parcel" in one for one in found)
