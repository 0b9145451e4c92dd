"""What agents used, and what is known of a person."""

from __future__ import annotations

import json
import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memalchemy import Checkpointer, Database, MemoryFact, Store, ThreadLog, UserMemoryStore
from memalchemy.errors import InvalidArgument, MemalchemyError
from memalchemy.inspection import Inspector

START = datetime(2026, 4, 1, 10, tzinfo=UTC)


def call(name: str) -> dict[str, Any]:
    function = {"name": name, "arguments": "{}"}
    return {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "function": function}]}


@pytest.mark.parametrize("window", [3, 500])
async def test_use_sums_up_every_answer_and_call_once(
    db: Database, monkeypatch: pytest.MonkeyPatch, window: int
) -> None:
    monkeypatch.setattr("memalchemy.inspection.use.WINDOW", window)
    chance = random.Random(11)
    models: dict[tuple[str, str], list[float]] = {}
    tools: dict[tuple[str, str], list[int]] = {}
    checkpointer = Checkpointer(db)
    for at in range(14):
        happened = START + timedelta(days=at % 4)
        day, messages = happened.date().isoformat(), []
        for _ in range(chance.randrange(1, 4)):
            model, tool = chance.choice(["small", "large"]), chance.choice(["look", "book"])
            tokens, failed = chance.randrange(1, 500), chance.random() < 0.4
            usage = {"prompt_tokens": tokens, "completion_tokens": 2}
            cost = {"metadata": {"cost_usd": tokens / 1024}}
            messages.append(call(tool) | {"model": model, "usage": usage} | cost)
            result = {"role": "tool", "tool_call_id": "c", "content": "-", "name": tool}
            messages.append(result | ({"status": "error"} if failed else {}))
            sums = models.setdefault((day, model), [0, 0, 0.0])
            sums[:] = sums[0] + 1, sums[1] + tokens, sums[2] + tokens / 1024
            counts = tools.setdefault((day, tool), [0, 0])
            counts[:] = counts[0] + 1, counts[1] + failed
        await checkpointer.save({"messages": messages}, f"t{at}", occurred_at=happened)

    inspector, cursor = Inspector(db), None
    found_models: dict[tuple[str, str], list[float]] = {}
    found_tools: dict[tuple[str, str], list[int]] = {}
    looked = 0
    while True:
        page = await inspector.use(cursor=cursor)
        looked += page["looked"]
        for row in page["models"]:
            sums = found_models.setdefault((row["day"], row["model"]), [0, 0, 0.0])
            numbers = row["answers"], row["input_tokens"], row["cost_usd"]
            sums[:] = [before + more for before, more in zip(sums, numbers, strict=True)]
        for row in page["tools"]:
            counts = found_tools.setdefault((row["day"], row["tool"]), [0, 0])
            counts[:] = counts[0] + row["calls"], counts[1] + row["errors"]
        cursor = page["next"]
        if cursor is None:
            break

    assert (found_models, found_tools, looked) == (models, tools, 14)


async def test_an_answer_of_several_lines_counts_once(db: Database) -> None:
    usage = {"input_tokens": 100, "output_tokens": 10}
    message = {"id": "m1", "role": "assistant", "model": "m", "usage": usage}
    lines = [
        {"type": "assistant", "message": message | {"content": [{"type": "text", "text": text}]}}
        for text in ("One", "two")
    ]
    await ThreadLog(db).append("t", lines)

    (row,) = (await Inspector(db).use())["models"]

    assert (row["answers"], row["input_tokens"]) == (1, 100)


NAMES = ["ada", "u-17", "Ünal", "a/b", "<b>", "%", "'; --"]


@pytest.mark.parametrize("name", NAMES)
async def test_all_that_is_known_of_a_person_is_found_and_nothing_of_others(
    db: Database, name: str
) -> None:
    store, checkpointer = Store(db), Checkpointer(db)
    for who in (name, f"{name}x", "other"):
        await UserMemoryStore(db).add(MemoryFact(f"f-{who}", who, f"a fact about {who}"))
        await store.put(("users", who, "settings"), "theme", {"text": f"theme of {who}"})
        await store.put(("tickets",), f"ticket of {who}", {"user_id": who, "text": "broken"})
        tagged = {"user_id": who}
        await checkpointer.save({"messages": []}, f"tagged {who}", metadata=tagged)
        await ThreadLog(db, namespace=("chats", who)).append("chat", [{"text": who}])
    await checkpointer.save(
        {"messages": [{"role": "user", "content": f"{name} is kind"}]}, "gossip"
    )

    found = await Inspector(db).person(name)

    places = {tuple(one["namespace"]) for one in found["namespaces"]}
    assert places == {("facts", name), ("users", name, "settings")}
    assert [one["shown"][0]["kind"] for one in found["namespaces"]] == ["fact", "item"]
    assert [one["key"] for one in found["items"]] == [f"ticket of {name}"]
    threads = {(one["thread_id"], *one["namespace"]) for one in found["threads"]}
    assert threads == {(f"tagged {name}",), ("chat", "chats", name)}
    assert found["keys"] == ["user_id"]


@pytest.mark.parametrize("name", NAMES)
async def test_all_that_is_known_of_an_agent_is_found_and_nothing_of_others(
    db: Database, name: str
) -> None:
    store, checkpointer = Store(db), Checkpointer(db)
    for who in (name, f"{name}x", "other"):
        for key in ("agent", "agent_id"):
            await checkpointer.save({}, f"{key} {who}", metadata={key: who})
        said = [{"role": "assistant", "name": who, "content": "Hello"}]
        await checkpointer.save({"messages": said}, f"spoken by {who}")
        await checkpointer.save({}, f"for {who}", metadata={"user_id": who})
        await store.put(("notes",), f"note of {who}", {"agent": who})
        await store.put(("agents", who), "settings", {"text": who})

    found = await Inspector(db).scope(agent=name)

    assert [one["namespace"] for one in found["namespaces"]] == [["agents", name]]
    assert [one["key"] for one in found["items"]] == [f"note of {name}"]
    threads = {one["thread_id"] for one in found["threads"]}
    assert threads == {f"agent {name}", f"agent_id {name}", f"spoken by {name}"}
    assert found["keys"] == ["agent", "agent_id"]


@pytest.mark.parametrize("value", ["billing", 42, True, "Ünal", "'; --"])
async def test_all_that_has_a_pair_of_metadata_is_found(db: Database, value: Any) -> None:
    store, checkpointer = Store(db), Checkpointer(db)
    for topic in (value, "other", None):
        await checkpointer.save({}, f"of {topic}", metadata={"topic": topic})
        await store.put(("notes",), f"of {topic}", {"text": "note"}, {"topic": topic})
    text = json.dumps(value) if not isinstance(value, str) else value

    found = await Inspector(db).scope(metadata={"topic": text})

    assert [one["thread_id"] for one in found["threads"]] == [f"of {value}"]
    assert [one["key"] for one in found["items"]] == [f"of {value}"]
    assert (found["keys"], found["namespaces"]) == (["topic"], [])


@pytest.mark.parametrize("name", NAMES)
async def test_all_that_is_in_a_namespace_and_below_it_is_found(db: Database, name: str) -> None:
    for place in (("shop", name), ("shop", name, "eu"), ("shop", f"{name}x"), ("other", name)):
        await Store(db).put(place, "key", {"text": "an item"})
        await ThreadLog(db, namespace=place).append("thread", [{"text": "an entry"}])

    found = await Inspector(db).scope(("shop", name))

    places = [["shop", name], ["shop", name, "eu"]]
    assert [one["namespace"] for one in found["namespaces"]] == places
    assert sorted(one["namespace"] for one in found["threads"]) == places
    assert found["namespace"] == ["shop", name]


async def test_a_scope_is_one_thing(db: Database) -> None:
    inspector = Inspector(db)
    for asked in (
        {},
        {"agent": "a", "namespace": ("b",)},
        {"metadata": {"a": "1", "b": "2"}},
        {"agent": "a", "metadata": {"b": "1"}},
    ):
        with pytest.raises(InvalidArgument, match="one of them"):
            await inspector.scope(**asked)  # type: ignore[arg-type]
    assert (await inspector.scope(agent="nobody"))["threads"] == []


async def test_nobody_is_known_by_no_name(db: Database) -> None:
    for name in ("", "x" * 5_000):
        with pytest.raises((MemalchemyError, ValueError)):
            await Inspector(db).person(name)
    assert (await Inspector(db).person("nobody"))["threads"] == []
