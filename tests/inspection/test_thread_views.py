"""One thread in the inspector: its branches, what it waits for, and where a search's hit is."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from memalchemy import Checkpointer, Database, ThreadLog
from memalchemy.inspection import Inspector

START = datetime(2026, 5, 1, tzinfo=UTC)
Tree = dict[str, tuple[str | None, list[dict[str, Any]]]]


def said(text: str, role: str = "user", **more: Any) -> dict[str, Any]:
    return {"role": role, "content": text, **more}


async def save_tree(db: Database, seed: int, steps: int) -> Tree:
    """Save a random tree of steps; return their parents and messages by their ids."""
    chance = random.Random(seed)
    checkpointer, made = Checkpointer(db), Tree()
    for at in range(steps):
        parent = chance.choice([*made][-4:]) if made else None
        messages = list(made[parent][1]) if parent else []
        for number in range(chance.randrange(3)):
            messages.append(said(chance.choice(["ok", "again", f"only {at}/{number}"])))
        if messages and chance.random() < 0.2:
            messages = messages[1:]  # a window of the newest
        state, moment = {"messages": messages, "step": at}, START + timedelta(minutes=at)
        await checkpointer.save(state, "t", f"s{at}", parent_id=parent, occurred_at=moment)
        made[f"s{at}"] = parent, messages
    return made


def line_of(made: Tree, step: str | None) -> list[str]:
    line = []
    while step is not None:
        line.append(step)
        step = made[step][0]
    return line


@pytest.mark.parametrize("seed", range(6))
async def test_a_thread_names_the_ends_of_its_other_branches(db: Database, seed: int) -> None:
    made = await save_tree(db, seed, 20)
    newest, parents = list(made)[-1], {parent for parent, _ in made.values()}
    ends = {step for step in made if step not in parents and step != newest}
    shared = set(line_of(made, newest))

    about = await Inspector(db).thread("t")

    assert {one["checkpoint_id"] for one in about["branches"]} == ends
    for one in about["branches"]:
        line = line_of(made, one["checkpoint_id"])
        assert one["steps"] == len([step for step in line if step not in shared])
        assert one["forks_at"] == next((step for step in line if step in shared), None)
        assert one["messages"] == len(made[one["checkpoint_id"]][1])


async def test_many_branches_are_counted_and_some_are_named(db: Database) -> None:
    checkpointer = Checkpointer(db)
    root = await checkpointer.save({"messages": []}, "t")
    for at in range(20):
        await checkpointer.save({"messages": [said(str(at))]}, "t", parent_id=root)

    about = await Inspector(db).thread("t")

    assert (len(about["branches"]), about["more_branches"]) == (12, 7)


@pytest.mark.parametrize("seed", range(6))
async def test_each_message_is_traced_to_the_step_with_which_it_came(
    db: Database, seed: int
) -> None:
    made = await save_tree(db, seed, 16)
    inspector = Inspector(db)
    for step, (_, messages) in made.items():
        line = line_of(made, step)
        found = (await inspector.origins("t", at=step))["messages"]

        assert len(found) == len(messages)
        for message, origin in zip(messages, found, strict=True):
            assert origin["checkpoint_id"] in line
            # No step before it on the line says more of the same than the step itself.
            assert message in made[origin["checkpoint_id"]][1]
            if messages.count(message) == 1:
                first = [one for one in line if message in made[one][1]]
                gaps = [one for one in line if one not in first]
                since = line[: line.index(gaps[0])] if gaps else line
                assert origin["checkpoint_id"] == (since[-1] if gaps else first[-1])


async def test_the_timeline_says_what_each_step_did(db: Database) -> None:
    checkpointer = Checkpointer(db)
    call = {"id": "c", "function": {"name": "lookup", "arguments": "{}"}, "type": "function"}
    usage = {"prompt_tokens": 12, "completion_tokens": 3}
    result = {"role": "tool", "tool_call_id": "c", "name": "lookup", "status": "error"}
    steps: list[tuple[str, dict[str, Any]]] = [
        ("ask", said("Where is it?")),
        ("model", said("", "assistant", tool_calls=[call], model="m", usage=usage)),
        ("tools", result | {"content": "timeout"}),
        ("model", said("I do not know.", "assistant")),
    ]
    for at, (node, _) in enumerate(steps):
        messages = [message for _, message in steps[: at + 1]]
        metadata = {"node": node} | ({"cost_usd": 0.25} if at == 3 else {})
        await checkpointer.save({"messages": messages}, "t", metadata=metadata)

    timeline = await Inspector(db).timeline("t")
    last, tools, model, ask = [step["digest"] for step in timeline["steps"]]

    assert [one["node"] for one in (ask, model, tools, last)] == [node for node, _ in steps]
    assert [one["messages"] for one in (ask, model, tools, last)] == [1, 2, 3, 4]
    assert {one["added"] for one in (ask, model, tools, last)} == {1}
    assert (ask["role"], ask["text"]) == ("user", "Where is it?")
    assert (model["tools"], model["input_tokens"], model["model"]) == (["lookup"], 12, "m")
    assert (tools["errors"], tools["text"]) == (1, "timeout")
    assert (last["text"], last["cost_usd"]) == ("I do not know.", 0.25)


async def test_steps_whose_states_are_too_large_for_a_list_have_no_digest(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memalchemy.inspection.step_digests.BYTES", 3_000)
    for at in range(6):
        await Checkpointer(db).save({"messages": [said("x" * 1_000)], "at": at}, "t")

    timeline = await Inspector(db).timeline("t")

    known = [step["digest"] is not None for step in timeline["steps"]]
    assert known == [True, True, False, False, False, False]


async def test_what_a_thread_waits_for_is_said_with_the_thread(db: Database) -> None:
    checkpointer = Checkpointer(db)
    id_ = await checkpointer.save({"messages": [said("Refund!")]}, "t")
    value = {"action": {"question": "Refund 129.90 EUR?", "choices": ["yes", "no"]}}
    await checkpointer.put_writes([("__interrupt__", [{"value": value}])], "t", id_, "task")

    (waiting,) = (await Inspector(db).thread("t"))["interrupts"]

    assert waiting["text"] == "Refund 129.90 EUR?"
    assert waiting["value"]["children"][0]["key"] == "action"


# --- Search hits --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
async def test_a_hit_of_a_step_opens_at_the_last_message_with_the_most_of_its_words(
    db: Database, seed: int
) -> None:
    chance = random.Random(seed)
    words = ["alpha", "beta", "gamma", "Café", "delta"]
    texts = [" ".join(chance.choices(words, k=chance.randrange(4))) for _ in range(300)]
    await Checkpointer(db).save({"messages": [said(text) for text in texts]}, "t")
    for query in ("alpha", "gamma cafe", "beta delta alpha"):
        folded = [{word.casefold().replace("é", "e") for word in text.split()} for text in texts]
        counts = [len(words & {*query.split()}) for words in folded]
        best = [at for at, count in enumerate(counts) if count == max(counts)]

        page = await Inspector(db).transcript("t", find=query, limit=20)

        assert page["found"] == best[-200:]
        shown = [one["index"] for one in page["messages"]]
        assert best[-1] in shown
        assert shown == list(range(shown[0], shown[0] + 20))
        assert {word.casefold() for word in page["words"]} <= {*query.split(), "café"}


async def test_words_that_no_message_holds_are_said_to_be_elsewhere(db: Database) -> None:
    await Checkpointer(db).save({"messages": [said("Hello")], "plan": "a grinder"}, "t")

    page = await Inspector(db).transcript("t", find="grinder")

    assert (page["found"], page["words"]) == ([], [])
    assert [one["text"] for one in page["messages"]] == ["Hello"]


@pytest.mark.parametrize("kind", ["state", "log"])
@pytest.mark.parametrize("around", [0, 1, 17, 64, 99])
async def test_a_transcript_is_read_on_in_both_directions_from_anywhere(
    db: Database, kind: str, around: int
) -> None:
    messages = [said(f"message {at}") for at in range(100)]
    namespace: tuple[str, ...] = ()
    if kind == "state":
        await Checkpointer(db).save({"messages": messages}, "t")
    else:
        namespace = ("log",)
        log = ThreadLog(db, namespace=namespace)
        await log.append("t", messages)
        await log.remove("t", [at for at in range(30, 60)])
    inspector = Inspector(db)
    whole = (await inspector.transcript("t", namespace, limit=500))["messages"]
    place = next(one["index"] for one in whole if one["index"] >= around)

    page = await inspector.transcript("t", namespace, around=place, limit=11)
    found = page["messages"]
    assert place in [one["index"] for one in found]
    assert len(found) <= 11
    before, later = page["previous"], page["later"]
    while before is not None:
        more = await inspector.transcript("t", namespace, before=before, limit=11)
        found, before = more["messages"] + found, more["previous"]
    while later is not None:
        more = await inspector.transcript("t", namespace, after=later, limit=11)
        found, later = found + more["messages"], more["later"]

    assert found == whole


async def test_a_search_leads_to_the_message_it_was_found_in(db: Database) -> None:
    checkpointer, inspector = Checkpointer(db), Inspector(db)
    messages = [said(f"filler {at}") for at in range(34)]
    messages += [said("a deadlock in the ledger"), said("thanks")]
    await checkpointer.save({"messages": messages[:34]}, "t", "s1")
    await checkpointer.save({"messages": messages}, "t", "s2")
    await ThreadLog(db).append("l", messages)
    for hit in (await inspector.search("deadlock"))["hits"]:
        page = await inspector.transcript(
            hit["thread_id"],
            hit["namespace"],
            at=hit["checkpoint_id"],
            around=hit["position"],
            find="deadlock",
        )
        (place,) = page["found"]
        (message,) = [one for one in page["messages"] if one["index"] == place]

        assert message["text"] == "a deadlock in the ledger"
        assert page["words"] == ["deadlock"]
