"""The inspector's routes: what they read, page by page, and whom they let in."""

from __future__ import annotations

import asyncio
import json
import random
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest
from inspector_requests import TOKEN, asking

import memalchemy.sync
from clocks import Clock
from golden.watch import Watch
from memalchemy import (
    Checkpointer,
    Conversation,
    Database,
    Episode,
    EpisodeStore,
    LLMMemoryManager,
    MemoryFact,
    Store,
    ThreadLog,
    UserMemoryStore,
)
from memalchemy.codec import encryption
from memalchemy.errors import InvalidArgument
from memalchemy.http import app
from memalchemy.http.inspector._application import inspector_app
from memalchemy.http.inspector._routes import ENDPOINTS, HEADERS
from memalchemy.inspection import Inspector
from memalchemy.memory import Memory, MemoryType
from waiting import A_WHILE, until

HOSTILE = [
    "<script>alert(1)</script>",
    "\x1b[31mred\x1b[0m",
    "\u202eright to left",
    "a\x00b",
    "lone \ud800 surrogate",
    "'; DROP TABLE threads; --",
    "%_\\",
]


@pytest.fixture
async def ask(db: Database) -> AsyncIterator[Any]:
    async with asking(inspector_app(db, tokens={TOKEN: db.tenant})) as function:
        yield function


async def fill(db: Database) -> None:
    """Write something of every kind."""
    checkpointer = Checkpointer(db)
    messages: list[Any] = []
    for step in range(5):
        messages.append({"role": "user", "content": f"message {step} about a café"})
        await checkpointer.save({"messages": messages, "step": step}, "thread", f"s{step}")
    await checkpointer.save(
        {"messages": messages[:3], "blob": b"\x00\x01"}, "thread", "branch", parent_id="s2"
    )
    await checkpointer.put_writes(
        [("answer", 42), ("__interrupt__", [{"value": "sure?", "id": "i1"}])],
        "thread",
        "branch",
        "task-1",
    )
    entries = [{"role": "user", "content": f"entry {at} in a café"} for at in range(5)]
    await ThreadLog(db).append("thread", entries)
    store = Store(db)
    await store.put(("users", "ada"), "drink", {"text": "café au lait"}, ttl=3600)
    await store.put(("users", "bob"), "drink", {"text": "tea"})
    await store.put_with_embedding(("vectors", "here"), "a", {"text": "a"}, [1.0, 0.0])
    await store.put_with_embedding(("vectors", "here"), "b", {"text": "b"}, [0.9, 0.1])
    await UserMemoryStore(db).add(MemoryFact("m1", "ada", "drinks coffee", confidence=0.5))
    await UserMemoryStore(db).add(MemoryFact("m2", "bob", "drinks tea"))
    await EpisodeStore(db).write(Episode(id_="e1", task="brew", result="done"))
    await LLMMemoryManager(db).save([Memory(MemoryType.USER, "role", "is a barista")])
    await Conversation(db, "talk").add("Hello", "Good day")


REQUESTS: dict[str, dict[str, Any]] = {
    "overview": {},
    "space": {},
    "changes": {},
    "threads": {"q": "thr"},
    "thread": {"thread": "thread"},
    "transcript": {"thread": "thread"},
    "text": {"thread": "thread", "index": 1},
    "timeline": {"thread": "thread"},
    "entries": {"thread": "thread", "ns": "log"},
    "entry": {"thread": "thread", "ns": "log", "position": 2},
    "state": {"thread": "thread"},
    "diff": {"thread": "thread", "a": "s1", "b": "s4"},
    "writes": {"thread": "thread", "at": "branch"},
    "namespaces": {},
    "items": {},
    "item": {"ns": ["users", "ada"], "key": "drink"},
    "neighbours": {"ns": ["vectors", "here"], "key": "a"},
    "memories": {"kind": "facts"},
    "search": {"q": "cafe"},
    "origins": {"thread": "thread"},
    "use": {},
    "person": {"name": "ada"},
    "scope": {"ns": "users"},
    "tables": {},
    "sql": {"q": "select role, text from messages"},
}
if find_spec("duckdb") is None:  # the extra "analysis" has it
    REQUESTS["sql"]["status"] = 501


def test_every_route_is_asked_below() -> None:
    assert REQUESTS.keys() == ENDPOINTS.keys()


async def test_every_route_answers_and_sends_no_statement_but_select(
    db: Database, ask: Any
) -> None:
    await fill(db)
    sent: list[str] = []
    with Watch() as watch:
        look = watch._look

        def noting(database: str, driver: str, sql: str, statement: Any, *, moved: bool) -> None:
            sent.append(sql)
            look(database, driver, sql, statement, moved=moved)

        watch._look = noting  # type: ignore[method-assign]
        for name, parameters in REQUESTS.items():
            await ask(name, **parameters)
        await ask("items", q="tea")
        await ask("items", below=0, ns=["users", "ada"])
        await ask("threads", framework="log")
        await ask("threads", framework="/", q="t")
        await ask("threads", about="caf", metadata='{"user_id": "ada"}', since="2020-01-01")
        await ask("threads", sort="stored", descending=0, waiting=1, until="2099-01-01T00:00Z")
        await ask("transcript", thread="thread", find="café", limit=2)
        await ask("transcript", thread="thread", ns="log", around=3, find="café", limit=2)
        await ask("transcript", thread="thread", ns="log", after=3, whole=1)
        await ask("scope", agent="planner")
        await ask("scope", metadata='{"user_id": "ada"}')
        for kind in ("facts", "episodes", "conversations", "long-term"):
            await ask("memories", kind=kind)
    assert not watch.complaints, watch.complaints
    assert len(sent) > 30
    for sql in sent:
        first = sql.split(None, 1)[0].upper()
        assert first in ("SELECT", "WITH", "PRAGMA", "SHOW"), sql
        if first == "WITH":
            assert not {"INSERT", "UPDATE", "DELETE"} & {*sql.upper().split()}, sql


async def test_overview(db: Database, ask: Any) -> None:
    await fill(db)
    found = await ask("overview")
    assert found["tenant"] == db.tenant
    assert found["encrypted"] is db.keyring.encrypts
    assert (found["checkpoints"], found["estimated"]) == (6, False)
    frameworks = {one["name"]: one for one in found["frameworks"]}
    assert frameworks[""]["threads"] == 1
    assert frameworks["log"]["threads"] == frameworks["conversation"]["threads"] == 1
    assert found["threads"] == 2  # one of them is in two namespaces


async def test_threads_page_by_page_newest_first(db: Database, ask: Any) -> None:
    for at in range(12):
        await ThreadLog(db).append(f"Customer-{at:02d}", [at])
    for at in range(3):
        await Checkpointer(db).save({"at": at}, f"other-{at}")

    async def pages(**parameters: Any) -> list[str]:
        found: list[str] = []
        cursor: dict[str, Any] = {}
        while True:
            page = await ask("threads", limit=5, **parameters, **cursor)
            assert len(page["threads"]) <= 5
            found += [row["thread_id"] for row in page["threads"]]
            if page["next"] is None:
                return found
            cursor = {"cursor": page["next"]}

    customers = [f"Customer-{at:02d}" for at in reversed(range(12))]
    others = ["other-2", "other-1", "other-0"]
    assert await pages() == others + customers
    assert await pages(q="customer") == customers
    assert await pages(q="-1") == ["other-1", "Customer-11", "Customer-10"]
    assert await pages(framework="log") == customers
    assert await pages(framework="/") == others
    assert await pages(framework="log", q="OTHER") == []
    assert await pages(q="%") == []


async def test_many_matches_are_found_from_the_newest_on(
    db: Database, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memalchemy.inspection.threads.MATCHES", 3)
    for at in range(8):
        await ThreadLog(db).append(f"many-{at}", [at])
    await ThreadLog(db).append("else", [1])
    first = await ask("threads", q="many", limit=5)
    assert [row["thread_id"] for row in first["threads"]] == [
        f"many-{at}" for at in range(7, 2, -1)
    ]
    rest = await ask("threads", q="many", limit=5, cursor=first["next"])
    assert [row["thread_id"] for row in rest["threads"]] == ["many-2", "many-1", "many-0"]
    assert rest["next"] is None


async def test_ids_that_are_too_many_are_looked_through_page_by_page(
    db: Database, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memalchemy.inspection.threads.SCANNED", 4)
    monkeypatch.setattr("memalchemy.inspection.threads.MATCHES", 3)
    for at in range(9):
        await ThreadLog(db).append(f"a-{at}", [at])
    for name in ("b-7", "7-c", "7-d", "x\ud800-7", "\U0010ffff-7"):
        await ThreadLog(db).append(name, [1])
        await Checkpointer(db).save({}, name)

    async def pages(**parameters: Any) -> list[str]:
        found: list[str] = []
        cursor: dict[str, Any] = {}
        while True:
            page = await ask("threads", limit=2, **parameters, **cursor)
            found += [row["thread_id"] for row in page["threads"]]
            if page["next"] is None:
                return found
            assert page["order"] == "id"
            cursor = {"cursor": page["next"]}

    log = {"framework": "log"}
    first, second, *others = await pages(q="7", **log)
    assert (first, second) == ("7-d", "7-c")  # those that begin with it come first
    assert sorted(others) == ["a-7", "b-7", "x\ud800-7", "\U0010ffff-7"]
    assert await pages(q="nothing", **log) == []
    assert await pages(q="A-8", **log) == ["a-8"]
    assert await pages(q="b-7") == ["b-7", "b-7"]
    for cursor in ("WzEsMl0", "WyJhIiwyXQ"):
        await ask("threads", q="7", cursor=cursor, status=422)


async def test_a_thread(db: Database, ask: Any) -> None:
    await fill(db)
    await Checkpointer(db).set_thread_metadata("thread", {"title": "Coffee"})
    found = await ask("thread", thread="thread")
    assert (found["checkpoints"], found["entries"], found["kind"]) == (6, 0, "steps")
    assert found["newest_id"] == "branch"
    assert found["metadata"] == {"title": "Coffee"}
    assert found["siblings"] == [{"namespace": ["log"]}]
    log = await ask("thread", thread="thread", ns="log")
    assert (log["checkpoints"], log["entries"], log["kind"]) == (0, 5, "entries")


async def test_a_transcript_of_a_state_is_paged_from_its_end(db: Database, ask: Any) -> None:
    await fill(db)
    found = await ask("transcript", thread="thread", at="s4", limit=2)
    assert (found["source"], found["at"], found["total"], found["first"]) == ("state", "s4", 5, 3)
    assert [one["index"] for one in found["messages"]] == [3, 4]
    assert found["messages"][1]["text"] == "message 4 about a café"
    earlier = await ask("transcript", thread="thread", at="s4", limit=3, before=found["previous"])
    assert [one["index"] for one in earlier["messages"]] == [0, 1, 2]
    assert earlier["previous"] is None
    assert [child["key"] for child in found["rest"]["children"]] == ["step"]


async def test_a_transcript_of_a_log_is_paged_by_position(db: Database, ask: Any) -> None:
    await fill(db)
    found = await ask("transcript", thread="thread", ns="log", limit=2)
    assert (found["source"], found["total"]) == ("log", 5)
    assert [one["text"] for one in found["messages"]] == [
        "entry 3 in a café",
        "entry 4 in a café",
    ]
    earlier = await ask("transcript", thread="thread", ns="log", limit=9, before=found["previous"])
    assert len(earlier["messages"]) == 3
    assert earlier["previous"] is None


async def test_a_long_text_is_cut_and_given_whole_on_request(db: Database, ask: Any) -> None:
    long = "word " * 2_000_000
    await Checkpointer(db, index_text=False).save(
        {"messages": [{"role": "user", "content": long}]}, "t", "c"
    )
    await ThreadLog(db, index_text=False).append("t", [{"role": "user", "content": long}])
    for parameters in ({}, {"ns": "log"}):
        found = await ask("transcript", thread="t", **parameters)
        (message,) = found["messages"]
        assert message["truncated"]
        assert len(message["text"]) == 20_000
        whole = await ask("text", thread="t", index=message["index"], **parameters)
        assert whole["text"] == long
    node = (await ask("state", thread="t", path="/messages/0/content"))["node"]
    assert (node["length"], len(node["text"]), node["cut"]) == (len(long), 20_000, True)
    end = await ask("state", thread="t", path="/messages/0/content", offset=len(long) - 5)
    assert (end["node"]["text"], end["node"]["cut"]) == ("word ", False)


async def test_the_timeline_has_a_lane_for_each_branch(db: Database, ask: Any) -> None:
    await fill(db)
    whole = await ask("timeline", thread="thread")
    lanes = {step["checkpoint_id"]: step["lane"] for step in whole["steps"]}
    assert lanes == {"branch": 0, "s2": 0, "s1": 0, "s0": 0, "s4": 1, "s3": 1}
    assert whole["lanes"] == 2
    (newest, *older) = whole["steps"]
    assert newest["newest"]
    assert (newest["writes"], newest["interrupt"]) == (2, True)
    assert not any(step["newest"] or step["interrupt"] for step in older)
    paged: list[Any] = []
    cursor: dict[str, Any] = {}
    while True:
        page = await ask("timeline", thread="thread", limit=2, **cursor)
        paged += page["steps"]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert [(one["checkpoint_id"], one["lane"]) for one in paged] == [
        (one["checkpoint_id"], one["lane"]) for one in whole["steps"]
    ]


async def test_a_branch_is_what_is_off_the_newest_line_or_where_a_line_forks(
    db: Database, ask: Any
) -> None:
    checkpointer = Checkpointer(db)
    follows = {"a": None, "b": "a", "x": "b", "c": "b", "y": "x", "d": "c", "z": "x", "e": "d"}
    for step, parent in follows.items():
        await checkpointer.save({"step": step}, "t", step, parent_id=parent)
    whole = (await ask("timeline", thread="t"))["steps"]
    branches = {step["checkpoint_id"] for step in whole if step["is_branch"]}
    # The newest line is e d c b a. It forks at b, and the branch itself forks at x.
    assert branches == {"b", "x", "y", "z"}
    paged, cursor = [], {}
    while True:
        page = await ask("timeline", thread="t", limit=1, **cursor)
        paged += page["steps"]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert {step["checkpoint_id"] for step in paged if step["is_branch"]} == branches


async def test_a_line_without_forks_has_no_branch(db: Database, ask: Any) -> None:
    for step in range(5):
        await Checkpointer(db).save({"step": step}, "t")
    found = await ask("timeline", thread="t")
    assert [step["is_branch"] for step in found["steps"]] == [False] * 5


async def test_a_gap_that_pruning_left_is_no_branch(db: Database, ask: Any) -> None:
    checkpointer = Checkpointer(db)
    for step in range(6):
        await checkpointer.save({"step": step}, "t", f"s{step}")
    await checkpointer.prune("t", keep_every=2)
    found = await ask("timeline", thread="t")
    assert [step["checkpoint_id"] for step in found["steps"]] == ["s5", "s3", "s1"]
    assert [step["lane"] for step in found["steps"]] == [0, 0, 0]
    assert not any(step["is_branch"] for step in found["steps"])


async def test_entries(db: Database, ask: Any) -> None:
    await fill(db)
    found = await ask("entries", thread="thread", ns="log", limit=2)
    assert [one["position"] for one in found["entries"]] == [4, 5]
    earlier = await ask("entries", thread="thread", ns="log", before=found["previous"])
    assert [one["position"] for one in earlier["entries"]] == [1, 2, 3]
    assert earlier["previous"] is None
    node = (await ask("entry", thread="thread", ns="log", position=2, path="/content"))["node"]
    assert node["text"] == "entry 1 in a café"


async def test_states_and_their_differences(db: Database, ask: Any) -> None:
    await fill(db)
    found = await ask("state", thread="thread")
    assert found["at"] == "branch"
    children = {child["key"]: child["node"] for child in found["node"]["children"]}
    assert children["messages"]["length"] == 3
    assert (children["blob"]["type"], children["blob"]["text"]) == ("bytes", "0001")
    difference = await ask("diff", thread="thread", a="s3", b="branch")
    assert {(one["op"], one["path"]) for one in difference["changes"]} == {
        ("removed", "/messages/3"),
        ("removed", "/step"),
        ("added", "/blob"),
    }
    assert (difference["total"], difference["truncated"]) == (3, False)


async def test_a_wide_value_comes_in_pages(db: Database, ask: Any) -> None:
    await Checkpointer(db).save({"numbers": list(range(250)), "deep": [[[[[1]]]]]}, "t")
    seen: list[int] = []
    while True:
        node = (await ask("state", thread="t", path="/numbers", offset=len(seen)))["node"]
        seen += [child["node"]["value"] for child in node["children"]]
        if not node["more"]:
            break
        assert len(node["children"]) == 100
    assert seen == list(range(250))
    deep = (await ask("state", thread="t"))["node"]["children"][1]["node"]
    while deep["children"]:
        (child,) = deep["children"]
        deep = child["node"]
    assert (deep["type"], deep["more"]) == ("list", True)


def test_an_inspector_of_a_database_without_await_says_what_it_takes() -> None:
    with pytest.raises(TypeError, match=r"without await it is memalchemy\.sync\.Inspector"):
        Inspector(memalchemy.sync.Database("sqlite://"))  # type: ignore[arg-type]


async def test_langgraphs_bookkeeping_is_no_difference_unless_it_is_asked_for(
    db: Database, ask: Any
) -> None:
    checkpointer = Checkpointer(db, namespace=("langgraph",))
    for n in (1, 2):
        state = {"~checkpoint": n, "branch:to:buy": None if n == 1 else "x", "n": n}
        await checkpointer.save(state, "t", f"c{n}")
    got = await ask("diff", thread="t", ns="langgraph", a="c1", b="c2")
    raw = await ask("diff", thread="t", ns="langgraph", a="c1", b="c2", raw="1")

    assert [one["path"] for one in got["changes"]] == ["/n"]
    assert (got["total"], got["hidden"], raw["total"], raw["hidden"]) == (1, 2, 3, 0)


async def test_many_differences_are_counted_and_cut(db: Database, ask: Any) -> None:
    await Checkpointer(db).save({"n": list(range(1500))}, "t", "a")
    await Checkpointer(db).save({"n": list(range(1, 1501))}, "t", "b")
    found = await ask("diff", thread="t", a="a", b="b")
    assert (found["total"], len(found["changes"]), found["truncated"]) == (1500, 500, True)


async def test_writes_and_interrupts(db: Database, ask: Any) -> None:
    await fill(db)
    found = await ask("writes", thread="thread", at="branch")
    assert [(one["task_id"], one["channel"]) for one in found["writes"]] == [
        ("task-1", "answer"),
        ("task-1", "__interrupt__"),
    ]
    (interrupt,) = found["interrupts"]
    assert (interrupt["id"], interrupt["value"]["text"]) == ("i1", "sure?")
    assert (await ask("writes", thread="thread", at="s1"))["writes"] == []


async def test_namespaces_and_items(db: Database, ask: Any) -> None:
    store = Store(db)
    for at in range(7):
        await store.put(("users", f"u{at}", "notes"), "k", at)
    await store.put((), "root", 1)
    top = await ask("namespaces")
    assert top["namespaces"] == [{"namespace": ["users"], "items": 7, "more": False}]
    seen: list[str] = []
    cursor: dict[str, Any] = {}
    while True:
        page = await ask("namespaces", ns="users", limit=3, **cursor)
        seen += [one["namespace"][-1] for one in page["namespaces"]]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert seen == [f"u{at}" for at in range(7)]
    here = await ask("items", below=0)
    assert [item["key"] for item in here["items"]] == ["root"]


@pytest.mark.parametrize("few", [100, 1])
async def test_items_page_by_page(
    db: Database, ask: Any, monkeypatch: pytest.MonkeyPatch, few: int
) -> None:
    monkeypatch.setattr("memalchemy.inspection.store.SORTED", few)
    store = Store(db)
    for at in (3, 1, 2, 5, 4):
        await store.put(("n", str(at % 2)), f"k{at}", {"text": f"value {at}"})
    expected = ["k4", "k5", "k2", "k1", "k3"] if few > 5 else ["k2", "k4", "k1", "k3", "k5"]
    seen: list[str] = []
    cursor: dict[str, Any] = {}
    while True:
        page = await ask("items", ns="n", limit=2, **cursor)
        seen += [item["key"] for item in page["items"]]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert page["order"] == ("newest" if few > 5 else "key")
    assert seen == expected


async def test_an_item_with_its_vectors_and_neighbours(db: Database, ask: Any) -> None:
    await fill(db)
    found = await ask("item", ns=["users", "ada"], key="drink")
    assert (found["version"], found["vectors"], found["kind"]) == (1, 0, "item")
    assert found["expires_at"] > datetime.now(UTC).isoformat()
    assert found["value"]["children"][0]["node"]["text"] == "café au lait"
    assert found["bytes"] > 0
    vector = await ask("item", ns=["vectors", "here"], key="a")
    assert vector["vectors"] == 1
    assert vector["models"][0]["dimensions"] == 2
    near = await ask("neighbours", ns=["vectors", "here"], key="a")
    assert [one["key"] for one in near["neighbours"]] == ["b"]
    fact = await ask("item", ns=["facts", "ada"], key="m1")
    assert fact["kind"] == "fact"


async def test_looking_at_an_item_does_not_prolong_its_life(
    db: Database, ask: Any, clock: Clock
) -> None:
    await Store(db, ttl=3600).put(("n",), "k", 1)
    before = await ask("item", ns="n", key="k")
    clock.go_on(timedelta(minutes=1))
    assert (await ask("item", ns="n", key="k"))["expires_at"] == before["expires_at"]


async def test_large_values_are_not_read_for_a_list(db: Database, ask: Any) -> None:
    value = random.Random(1).randbytes(100_000)
    await Store(db, index_text=False).put(("n",), "large", value)
    (item,) = (await ask("items", ns="n"))["items"]
    assert item["bytes"] > 64 * 1024
    assert item["preview"] is None


async def test_memories_are_shown_as_what_they_are(db: Database, ask: Any) -> None:
    await fill(db)
    facts = (await ask("memories", kind="facts"))["memories"]
    assert {(fact["user"], fact["text"]) for fact in facts} == {
        ("ada", "drinks coffee"),
        ("bob", "drinks tea"),
    }
    (ada,) = (await ask("memories", kind="facts", user="ada"))["memories"]
    assert 0.4 < ada["confidence"] <= 0.5
    (episode,) = (await ask("memories", kind="episodes"))["memories"]
    assert (episode["task"], episode["result"]) == ("brew", "done")
    (memory,) = (await ask("memories", kind="long-term"))["memories"]
    assert (memory["type"], memory["text"]) == ("user", "is a barista")
    (talk,) = (await ask("memories", kind="conversations"))["memories"]
    assert (talk["thread_id"], talk["messages"]) == ("talk", 2)
    await ask("memories", kind="dreams", status=422)


async def test_memories_page_by_page(db: Database, ask: Any) -> None:
    for user in ("ada", "bob"):
        for at in range(3):
            await UserMemoryStore(db).add(MemoryFact(f"m{at}", user, f"fact {at}"))
    seen = []
    cursor: dict[str, Any] = {}
    while True:
        page = await ask("memories", kind="facts", limit=2, **cursor)
        seen += [(one["user"], one["key"]) for one in page["memories"]]
        if page["next"] is None:
            break
        cursor = {"cursor": page["next"]}
    assert seen == [(user, f"m{at}") for user in ("ada", "bob") for at in range(3)]


async def test_one_search_finds_steps_entries_and_items(db: Database, ask: Any) -> None:
    await fill(db)
    hits = (await ask("search", q="CAFÉ"))["hits"]
    assert {hit["kind"] for hit in hits} == {"step", "entry", "item"}
    scores = [hit["score"] for hit in hits]
    assert scores == sorted(scores, reverse=True)
    for hit in hits:
        marked = [piece["text"].casefold() for piece in hit["snippet"] if piece["hit"]]
        assert marked, hit
        assert {*marked} <= {"café", "cafe"}
    entry = next(hit for hit in hits if hit["kind"] == "entry")
    assert (entry["thread_id"], entry["namespace"]) == ("thread", ["log"])
    assert (await ask("search", q="!?"))["hits"] == []
    assert len((await ask("search", q="café", match="all"))["hits"]) == len(hits)
    assert (await ask("search", q="café zeppelin", match="all"))["hits"] == []
    assert (await ask("items", q="café zeppelin", match="all"))["items"] == []
    for name in ("search", "items"):
        problem = await ask(name, q="café", match="some", status=422)
        assert problem["detail"] == "match is any or all, not 'some'"
    inspector = Inspector(db)
    only = (await inspector.search("café", kinds=["entry"], thread_id="thread"))["hits"]
    assert {hit["kind"] for hit in only} == {"entry"}
    assert (await inspector.search("café", kinds=["item"], thread_id="thread"))["hits"] == []
    with pytest.raises(InvalidArgument, match="not 'thread'"):
        await inspector.search("café", kinds=["thread"])


async def test_changes_are_those_since_the_token(db: Database, ask: Any) -> None:
    await Checkpointer(db).save({"a": 1}, "old")
    first = await ask("changes")
    assert first["changed"] == []
    second = await ask("changes", since=first["token"])
    assert second["changed"] == []
    await Checkpointer(db).save({"a": 2}, "old")
    await ThreadLog(db).append("new", [1])
    third = await ask("changes", since=second["token"])
    assert {one["thread_id"] for one in third["changed"]} == {"old", "new"}
    fourth = await ask("changes", since=third["token"])
    assert fourth["changed"] == []
    await Checkpointer(db).put_writes([("c", 1)], "old", "x", "task")
    fifth = await ask("changes", since=fourth["token"])
    assert [one["thread_id"] for one in fifth["changed"]] == ["old"]
    await Checkpointer(db).delete("new")
    sixth = await ask("changes", since=fifth["token"])
    assert [one["thread_id"] for one in sixth["changed"]] == ["new"]


async def test_changes_of_items_are_those_of_a_namespace(db: Database, ask: Any) -> None:
    store = Store(db)
    await store.put(("users", "ada"), "old", {"text": "a"})
    users: dict[str, Any] = {"items": 1, "ns": "users"}
    first = await ask("changes", **users)
    assert (first["items"], first["count"]) == ([], 1)
    await store.put(("users", "ada"), "new", {"text": "b"})
    await store.put(("users", "ada"), "old", {"text": "c"})
    await store.put(("else",), "where", {"text": "d"})
    second = await ask("changes", since=first["token"], **users)
    assert {(*one["namespace"], one["key"]) for one in second["items"]} == {
        ("users", "ada", "new"),
        ("users", "ada", "old"),
    }
    third = await ask("changes", since=second["token"], **users)
    assert (third["items"], third["count"]) == ([], 2)
    await store.delete(("users", "ada"), "new")
    fourth = await ask("changes", since=third["token"], **users)
    assert (fourth["items"], fourth["count"]) == ([], 1)
    above = await ask("changes", since=fourth["token"], below=0, **users)
    assert (above["items"], above["count"]) == ([], 0)
    await store.put(("users", "ada"), "new", {"text": "e"})
    ada = {"items": 1, "ns": ["users", "ada"], "below": 0}
    fifth = await ask("changes", since=above["token"], **ada)
    assert "new" in {one["key"] for one in fifth["items"]}
    assert "items" not in await ask("changes", since=fifth["token"])


async def test_items_of_a_large_tree_are_not_named(
    db: Database, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memalchemy.inspection.changed_since.SORTED", 3)
    first = await ask("changes", items=1)
    for at in range(4):
        await Store(db).put(("many",), f"k{at}", at)
    found = await ask("changes", since=first["token"], items=1)
    assert (found["items"], found["count"]) == ([], 3)
    alone = await ask("changes", since=first["token"], items=1, ns="many", below=0)
    assert len(alone["items"]) == 4


async def test_internal_items_are_left_out_unless_asked_for(db: Database, ask: Any) -> None:
    await EpisodeStore(db).write(Episode(id_="e1", task="brew", result="done"))
    fact_owners = ("lauren-ai", "fact owners")
    await Store(db).put(fact_owners, "m1", ["ada"])
    shown = (await ask("items"))["items"]
    assert [(one["namespace"], one["key"]) for one in shown] == [(["episodes"], "e1")]
    (top, *others) = (await ask("namespaces"))["namespaces"]
    assert (top["namespace"], top["items"]) == (["episodes"], 1)
    assert all(one["items"] == 0 for one in others)
    assert (await ask("namespaces", ns="episodes"))["namespaces"] == []
    assert (await ask("overview"))["items"] == 1
    assert (await ask("items", q="m1", ns=list(fact_owners)))["items"]

    everything = (await ask("items", internal=1))["items"]
    assert len(everything) == 3
    (child,) = (await ask("namespaces", ns="episodes", internal=1))["namespaces"]
    assert (child["namespace"], child["items"]) == (["episodes", "by time"], 1)
    (key,) = (await ask("items", ns=["episodes", "by time"]))["items"]
    assert key["key"].endswith("e1")


async def test_space(db: Database, ask: Any) -> None:
    await fill(db)
    found = await ask("space")
    assert not found["measuring"]
    assert found["largest"][0]["thread_id"] == "thread"
    assert {"snapshot", "entry"} <= {kind["name"] for kind in found["kinds"]}
    assert found["stored_bytes"] == sum(one["stored_bytes"] for one in found["frameworks"])
    assert all(one["stored_bytes"] for one in found["frameworks"])
    assert all(one["stored_bytes"] for one in found["largest"])


async def test_a_large_database_is_projected_and_measured_in_the_background(
    db: Database, ask: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for at in range(40):
        await Checkpointer(db).save({"text": f"state {at}"}, f"t{at}")
    monkeypatch.setattr("memalchemy.inspection.storage.EXACT", 10)
    monkeypatch.setattr("memalchemy.inspection.storage.SAMPLE", 20)
    overview = await ask("overview")
    assert overview["estimated"]
    assert overview["threads"] == 40
    assert 0 <= overview["checkpoints"] <= 90
    first = await ask("space")
    assert first["measuring"]
    assert first["largest"] == []

    async def measured() -> bool:
        return not (await ask("space"))["measuring"]

    await until(measured)
    assert len((await ask("space"))["largest"]) == 20


# --- Hostile values and errors -------------------------------------------------------------------


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
async def test_hostile_texts_come_through_as_they_are(db: Database, ask: Any, text: str) -> None:
    state = {"messages": [{"role": "user", "content": text, "name": text}], text: text}
    await Checkpointer(db).save(state, text, metadata=None)
    await ThreadLog(db).append(text, [{"role": "user", "content": text}, text])
    place = () if "\ud800" in text else (text,)
    await Store(db).put(place, text, {"text": text})
    found = await ask("threads", q=text)
    assert {row["thread_id"] for row in found["threads"]} == {text}
    (message,) = (await ask("transcript", thread=text))["messages"]
    assert (message["text"], message["name"]) == (text, text)
    entries = (await ask("transcript", thread=text, ns="log"))["messages"]
    assert entries[0]["text"] == text
    assert entries[1]["value"]["text"] == text
    item = await ask("item", ns=place, key=text)
    assert item["value"]["children"][0]["node"]["text"] == text
    await ask("timeline", thread=text)
    await ask("items")
    await ask("search", q=text)
    path = "/" + text.replace("~", "~0").replace("/", "~1")
    assert (await ask("state", thread=text, path=path))["node"]["text"] == text


async def test_numbers_that_javascript_rounds_are_texts(db: Database, ask: Any) -> None:
    values = [2**53 - 1, 2**53, -(2**70), 1.5, float("nan"), float("inf"), True, None]
    await Checkpointer(db).save({"values": values}, "t")
    node = (await ask("state", thread="t", path="/values"))["node"]
    assert [child["node"]["value"] for child in node["children"]] == [
        2**53 - 1,
        str(2**53),
        str(-(2**70)),
        1.5,
        "nan",
        "inf",
        True,
        None,
    ]


async def test_a_tree_is_bounded_whatever_the_value(db: Database, ask: Any) -> None:
    wide = {f"k{a}": {f"k{b}": ["x" * 3000] * 20 for b in range(100)} for a in range(20)}
    await Checkpointer(db, index_text=False).save(wide, "t")
    found = await ask("state", thread="t")
    assert len(json.dumps(found)) < 2_000_000


async def test_what_is_not_there_is_a_404(db: Database, ask: Any) -> None:
    await fill(db)
    for path, parameters in (
        ("thread", {"thread": "none"}),
        ("thread", {"thread": "thread", "ns": "elsewhere"}),
        ("transcript", {"thread": "none"}),
        ("transcript", {"thread": "thread", "at": "none"}),
        ("timeline", {"thread": "none"}),
        ("entries", {"thread": "none"}),
        ("entry", {"thread": "thread", "ns": "log", "position": 99}),
        ("text", {"thread": "thread", "index": 99}),
        ("state", {"thread": "none"}),
        ("state", {"thread": "thread", "path": "/none"}),
        ("state", {"thread": "thread", "path": "/messages/99"}),
        ("diff", {"thread": "thread", "a": "s1", "b": "none"}),
        ("writes", {"thread": "thread", "at": "none"}),
        ("item", {"ns": "users", "key": "none"}),
        ("neighbours", {"ns": "users", "key": "none"}),
        ("nothing", {}),
    ):
        problem = await ask(path, status=404, **parameters)
        assert problem["status"] == 404
        assert problem["detail"]


async def test_malformed_requests_are_refused(db: Database, ask: Any) -> None:
    for path, parameters in (
        ("thread", {}),
        ("threads", {"cursor": "nonsense"}),
        ("threads", {"cursor": "WzFd"}),
        ("threads", {"limit": "many"}),
        ("threads", {"other": "1"}),
        ("threads", {"q": ["a", "b"]}),
        ("threads", {"q": "x" * 300}),
        ("threads", {"metadata": "user_id=ada"}),
        ("threads", {"metadata": '{"a": 1}'}),
        ("threads", {"since": "yesterday"}),
        ("threads", {"sort": "colour"}),
        ("person", {"name": ""}),
        ("timeline", {"thread": "t", "cursor": "WzEsMl0"}),
        ("items", {"cursor": "WyJ4IiwxLDIsM10"}),
        ("state", {"thread": "t" * 300}),
        ("changes", {"since": "WzEsW11d"}),
    ):
        await ask(path, status=422, **parameters)


async def test_other_methods_are_refused(ask: Any) -> None:
    for method in ("POST", "PUT", "PATCH", "DELETE"):
        response = await ask.client.request(method, "/api/threads")
        assert response.status_code == 405


# --- Who is let in --------------------------------------------------------------------------------


async def test_each_read_needs_the_token_and_the_page_none(db: Database) -> None:
    async with asking(inspector_app(db, tokens={TOKEN: db.tenant}), token=None) as ask:
        for name, parameters in REQUESTS.items():
            problem = await ask(name, status=401, **parameters)
            assert problem["code"] == "HTTP-401"
        page = await ask.client.get("/")
        assert page.status_code == 200
        assert page.headers["content-type"].startswith("text/html")
        assert (await ask.client.get("/index.html")).content == page.content
        again = await ask.client.get("/", headers={"If-None-Match": page.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


async def test_only_the_files_of_the_page_are_served(db: Database) -> None:
    async with asking(inspector_app(db, tokens={TOKEN: db.tenant})) as ask:
        for path in (
            "/../_static.py",
            "/..%2f_static.py",
            "/%2e%2e/_routes.py",
            "/none.js",
            "/static",
        ):
            assert (await ask.client.get(path)).status_code == 404


async def test_every_answer_has_the_headers_that_keep_the_page_safe(db: Database) -> None:
    async with asking(inspector_app(db, tokens={TOKEN: db.tenant})) as ask:
        for path in ("/", "/none.js", "/api/threads", "/api/none", "/api/thread"):
            response = await ask.client.get(path)
            for name, value in HEADERS.items():
                assert response.headers[name] == value
            assert "unsafe" not in response.headers["content-security-policy"]


async def test_other_names_of_the_machine_are_refused(db: Database) -> None:
    application = inspector_app(db, tokens={TOKEN: db.tenant}, hosts=("localhost", "127.0.0.1"))
    async with asking(application) as ask:
        await ask("threads")
        for path in ("/", "/api/threads"):
            response = await ask.client.get(path, headers={"Host": "evil.example"})
            assert response.status_code == 421


async def test_a_server_shows_each_token_its_own_tenant(db: Database) -> None:
    other = db.for_tenant(f"{db.tenant}-2")
    await Checkpointer(db).save({"a": 1}, "mine")
    await Checkpointer(other).save({"a": 1}, "theirs")
    tokens = {TOKEN: db.tenant, TOKEN * 2: other.tenant}
    application = app(db, tokens=tokens, inspector=True)
    transport = httpx.ASGITransport(application)
    async with httpx.AsyncClient(transport=transport, base_url="http://any/inspector/") as client:
        assert (await client.get("api/threads")).status_code == 401
        assert (await client.get("")).status_code == 200
        for token, thread in ((TOKEN, "mine"), (TOKEN * 2, "theirs")):
            headers = {"Authorization": f"Bearer {token}"}
            found = (await client.get("api/threads", headers=headers)).json()
            assert [row["thread_id"] for row in found["threads"]] == [thread]
        moved = await client.get("http://any/inspector")
        assert moved.headers["location"] == "inspector/"
        assert "content-security-policy" in (await client.get("api/threads")).headers
        health = await client.get("http://any/health/live")
        assert "content-security-policy" not in health.headers


async def test_every_tenant_is_shown_to_a_token_that_may_see_all_of_them(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Other tests share the server, with hundreds of tenants.
    monkeypatch.setattr("memalchemy.http.inspector._routes.LISTED_TENANTS", 100_000)
    others = [db.for_tenant(f"{db.tenant}-{at}") for at in range(3)]
    for one in (db, *others):
        await Checkpointer(one).save({}, f"of {one.tenant}")
    async with asking(inspector_app(db, tokens={TOKEN: db.tenant}, all_tenants=True)) as ask:
        listed = await ask("tenants")
        assert {db.tenant, *(one.tenant for one in others)} <= set(listed["tenants"])
        for one in (db, *others):
            assert (await ask("overview", tenant=one.tenant))["tenant"] == one.tenant
            for name, parameters in REQUESTS.items():
                if name == "threads":
                    found = await ask(name, tenant=one.tenant)
                    assert [row["thread_id"] for row in found["threads"]] == [f"of {one.tenant}"]
                elif "thread" not in parameters and name not in ("item", "neighbours", "sql"):
                    await ask(name, tenant=one.tenant, **parameters)
        await ask("threads", tenant="", status=422)
        await ask("threads", tenant=[db.tenant, "b"], status=422)


async def test_many_tenants_are_listed_as_far_as_a_page_can_show_them(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memalchemy.http.inspector._routes.LISTED_TENANTS", 3)
    for at in range(6):
        await Store(db.for_tenant(f"{db.tenant}-{at}")).put((), "k", at)
    async with asking(inspector_app(db, tokens={TOKEN: db.tenant}, all_tenants=True)) as ask:
        with Watch() as watch:
            listed = await ask("tenants")
        assert (len(listed["tenants"]), listed["more"]) == (3, True)
        assert not watch.complaints


async def test_a_token_of_one_tenant_sees_no_other(db: Database) -> None:
    other = db.for_tenant(f"{db.tenant}-other")
    await Checkpointer(other).save({}, "theirs")
    application = app(db, tokens={TOKEN: db.tenant}, inspector=True)
    async with asking(application, prefix="/inspector") as ask:
        assert await ask("tenants") == {"tenants": [db.tenant], "more": False}
        for name, parameters in REQUESTS.items():
            await ask(name, **{**parameters, "tenant": other.tenant, "status": 403})
    async with asking(inspector_app(db, tokens={TOKEN: db.tenant})) as ask:
        assert await ask("tenants") == {"tenants": [db.tenant], "more": False}
        await ask("threads", tenant=other.tenant, status=403)


async def test_a_server_has_no_inspector_unless_it_is_asked_for(db: Database) -> None:
    transport = httpx.ASGITransport(app(db))
    async with httpx.AsyncClient(transport=transport, base_url="http://any") as client:
        assert (await client.get("/inspector/")).status_code == 404


@pytest.mark.own_keys
async def test_an_encrypted_database_shows_what_is_readable_and_says_what_is_not(
    shared_url: str, db: Database
) -> None:
    keys = [encryption.generate_key()]
    sealed = Database(shared_url, tenant=db.tenant, keys=keys)
    if shared_url == "sqlite://":
        pytest.skip("a database in memory has one Database only")
    async with sealed:
        await Checkpointer(sealed).save(
            {"messages": [{"role": "user", "content": "secret"}]}, "t", "c"
        )
        await Checkpointer(sealed).put_writes([("a", 1)], "t", "c", "task")
        await Store(sealed).put(("n",), "k", {"text": "secret"})
        async with asking(inspector_app(sealed, tokens={TOKEN: db.tenant})) as ask:
            assert (await ask("overview"))["encrypted"]
            assert (await ask("transcript", thread="t"))["messages"][0]["text"] == "secret"
            problem = await ask("search", q="secret", status=501)
            assert problem["code"] == "MA-CAPABILITY-MISSING"
    async with asking(inspector_app(db, tokens={TOKEN: db.tenant})) as ask:
        assert len((await ask("threads"))["threads"]) == 1
        assert (await ask("timeline", thread="t"))["steps"][0]["writes"] == 1
        assert (await ask("items"))["items"][0]["preview"] is None
        for path, parameters in (
            ("transcript", {"thread": "t"}),
            ("state", {"thread": "t"}),
            ("item", {"ns": "n", "key": "k"}),
        ):
            problem = await ask(path, status=422, **parameters)
            assert problem["code"] == "MA-KEY-MISSING"
            assert "MEMALCHEMY_KEYS" in problem["detail"]


async def test_the_command_serves_the_page_and_ends_at_a_signal(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"
    async with Database(url) as db:
        await Checkpointer(db).save({"a": 1}, "thread")
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "memalchemy", "inspect", url, "--no-browser", "--json"),
        stdout=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        document = await asyncio.wait_for(process.stdout.readuntil(b"}"), A_WHILE)
        address = json.loads(document)["url"]
        page, _, token = address.partition("#token=")
        async with httpx.AsyncClient(base_url=page) as client:
            assert (await client.get("")).headers["content-type"].startswith("text/html")
            assert (await client.get("api/threads")).status_code == 401
            headers = {"Authorization": f"Bearer {token}"}
            found = (await client.get("api/threads", headers=headers)).json()
            assert [row["thread_id"] for row in found["threads"]] == ["thread"]
            other = await client.get("api/threads", headers=headers | {"Host": "evil.example"})
            assert other.status_code == 421
    finally:
        process.terminate()
    assert await asyncio.wait_for(process.wait(), A_WHILE) == 0


@pytest.mark.parametrize(
    "value",
    [
        b"\xff",
        {1},
        Decimal("1.5"),
        UUID(int=1),
        float("nan"),
        10**5000,
        "\ud800",
        datetime(2026, 4, 1, tzinfo=UTC),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_whole_values_of_any_type_are_answered(db: Database, ask: Any, value: Any) -> None:
    call = {"id": "1", "name": "f", "arguments": {"a": value}}
    said = {"role": "assistant", "content": "", "tool_calls": [call]}
    await ThreadLog(db).append("thread", [{"kind": "event", "value": value}, said])

    found = await ask("transcript", thread="thread", ns="log", whole=1)

    shown = found["messages"][0]["value"]["value"]
    assert found["messages"][1]["calls"][0]["arguments"] == {"a": shown}
    assert isinstance(shown, (str, list))
