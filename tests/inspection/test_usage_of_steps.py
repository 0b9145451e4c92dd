"""Usage that messages and the metadata of steps state: the inspector's sums are the analysis's."""

from __future__ import annotations

import random
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memalchemy import Checkpointer, Database, ThreadLog
from memalchemy.analysis import Analysis
from memalchemy.inspection import Inspector
from memalchemy.usage import USAGE_KEYS, Usage, usages_of_step

START = datetime(2026, 4, 1, 10, tzinfo=UTC)
SUMS = ("input_tokens", "output_tokens", "cost_usd")
SOURCES = {
    "messages": ("message",),
    "metadata": ("metadata",),
    "tokens in messages, cost in metadata": ("split",),
    "both": ("both",),
    "neither": ("nothing",),
    "mixed": ("message", "metadata", "split", "both", "nothing"),
}
SHAPES = [(source, models) for source in SOURCES for models in (("m",), ("m", "n"), (None, "m"))]


async def save_thread(
    db: Database, chance: random.Random, name: str, source: str, models: tuple[Any, ...]
) -> None:
    """Save a thread of steps on different days; each adds one or two answers."""
    messages: list[dict[str, Any]] = []
    for at in range(chance.randrange(1, 6)):
        happened = START + timedelta(days=at)
        kind, metadata = chance.choice(SOURCES[source]), dict[str, Any]()
        if kind in ("metadata", "both"):
            metadata = {"input_tokens": chance.randrange(1, 99), "cost_usd": at / 4}
        if kind == "split":
            metadata = {"cost_usd": at / 8}
        if metadata and chance.random() < 0.5:
            metadata["model"] = chance.choice(models)
        for number in range(chance.randrange(1, 3)):
            said = {"role": "assistant", "content": f"{at} {number}"}
            said["timestamp"] = happened.isoformat()
            if kind in ("message", "both", "split"):
                tokens = {"prompt_tokens": chance.randrange(1, 99), "completion_tokens": at}
                said |= {"model": chance.choice(models), "usage": tokens}  # type: ignore[dict-item]
            if kind in ("message", "both"):
                said["metadata"] = {"cost_usd": chance.randrange(9) / 4}  # type: ignore[assignment]
            messages += [{"role": "user", "content": f"question {at} {number}"}, said]
        await Checkpointer(db).save(
            {"messages": messages}, name, metadata=metadata, occurred_at=happened
        )


def sums(rows: Iterable[Any], *keys: str) -> dict[tuple[Any, ...], dict[str, Any]]:
    """Return the sums of rows by the values of *keys*; rows without numbers are left out."""
    found: dict[tuple[Any, ...], Usage] = {}
    for row in rows:
        usage = Usage(**{name: row.get(name) for name in SUMS})
        if any(usage.as_metadata().values()):
            place = tuple(row[key] for key in keys)
            found[place] = found.get(place, Usage()) + usage
    return {
        place: {name: getattr(usage, name) or 0 for name in SUMS} for place, usage in found.items()
    }


async def usage_rows(db: Database) -> list[dict[str, Any]]:
    batches = [batch async for batch in Analysis(db).rows("usage")]
    return [row | {"day": row["time"].date().isoformat()} for rows in batches for row in rows]


@pytest.mark.parametrize("seed", range(3))
async def test_the_inspector_sums_up_what_the_analysis_does(db: Database, seed: int) -> None:
    chance = random.Random(seed)
    for source, models in SHAPES:
        await save_thread(db, chance, f"{source} {models}", source, models)
    inspector = Inspector(db)

    expected = await usage_rows(db)
    listed = (await inspector.threads(sort="cost", limit=100))["threads"]
    used = await inspector.use()
    steps: list[dict[str, Any]] = []
    for row in listed:
        timeline = await inspector.timeline(row["thread_id"])
        steps += [one["digest"] | {"step": one["checkpoint_id"]} for one in timeline["steps"]]

    assert sums(expected, "thread")
    assert sums(listed, "thread_id") == sums(expected, "thread")
    assert sums(used["models"], "day", "model") == sums(expected, "day", "model")
    assert sums(steps, "step") == sums(expected, "step")
    assert (used["partial"], any(row["partial"] for row in listed)) == (0, False)


async def test_metadata_of_steps_counts_beside_the_usage_of_entries(db: Database) -> None:
    log = ThreadLog(db, namespace=("both",))
    said = {"role": "assistant", "content": "a", "model": "m", "usage": {"prompt_tokens": 7}}
    await log.append("t", [said])
    states = Checkpointer(db, namespace=("both",))
    await states.save({"number": 1}, "t", metadata={"cost_usd": 0.5})

    (row,) = (await Inspector(db).threads())["threads"]

    assert (row["input_tokens"], row["cost_usd"]) == (7, 0.5)
    assert sums([row], "thread_id") == sums(await usage_rows(db), "thread")


@pytest.mark.parametrize("steps", [2, 4, 5, 6])
async def test_sums_over_the_newest_steps_alone_say_so(
    db: Database, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    monkeypatch.setattr("memalchemy.inspection.thread_summaries.SOME_STEPS", 3)
    monkeypatch.setattr("memalchemy.inspection.thread_summaries.STEPS", 5)
    for at in range(steps):
        said = {"messages": [{"role": "assistant", "content": "x"}] * (at + 1)}
        await Checkpointer(db).save(said, "t", metadata={"cost_usd": 0.5})

    inspector = Inspector(db)
    (row,) = (await inspector.threads())["threads"]

    assert (row["cost_usd"], row["partial"]) == (min(steps, 5) / 2, steps > 5)
    assert (await inspector.use())["partial"] == (steps > 5)


@pytest.mark.parametrize("limit", ["STEP_BYTES", "PAGE_BYTES"])
async def test_without_the_states_of_steps_no_number_counts_twice(
    db: Database, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    messages = []
    for at in range(3):
        usage = {"prompt_tokens": 10}
        messages.append({"role": "assistant", "content": f"{at}", "model": "m", "usage": usage})
        metadata = {"input_tokens": 7, "cost_usd": 0.5}
        await Checkpointer(db).save({"messages": messages}, "t", metadata=metadata)
    size = (await Inspector(db).timeline("t"))["steps"][0]["raw_bytes"]
    monkeypatch.setattr(f"memalchemy.inspection.thread_summaries.{limit}", size)

    (row,) = (await Inspector(db).threads())["threads"]

    assert (row["input_tokens"], row["cost_usd"], row["partial"]) == (27, 1.5, True)


def test_metadata_takes_precedence_and_messages_state_the_rest() -> None:
    stated = [(1, Usage("m", 10, 2, latency_ms=5.0)), (2, Usage("m", 20, 3))]

    assert usages_of_step({}, 0, stated) == stated
    assert usages_of_step({"model": "n"}, 0, stated) == stated
    merged = usages_of_step({"input_tokens": 7, "cost_usd": 0.5, "agent": "a"}, 0, stated)
    assert merged == [(0, Usage("m", 7, 5, None, 0.5, 5.0))]
    whole = Usage("n", 1, 2, 3, 4.0, 5.0)
    assert set(whole.as_metadata()) == set(USAGE_KEYS)
    assert usages_of_step(whole.as_metadata(), 0, stated) == [(0, whole)]
