"""What agents used, and what is known of a person."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memalchemy import Checkpointer, Database, MemoryFact, Store, ThreadLog, UserMemoryStore
from memalchemy.errors import MemalchemyError
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


async def test_nobody_is_known_by_no_name(db: Database) -> None:
    for name in ("", "x" * 5_000):
        with pytest.raises((MemalchemyError, ValueError)):
            await Inspector(db).person(name)
    assert (await Inspector(db).person("nobody"))["threads"] == []
