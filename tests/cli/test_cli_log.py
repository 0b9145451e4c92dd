"""The log commands."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from commandline import Call

from memalchemy import Checkpointer, Database, ThreadLog

TALK = [
    {"role": "user", "content": "Where is my gift card?"},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "name": "look_up"}]},
    {"role": "assistant", "content": "It was sent on Monday."},
]
FRAMEWORKS = [
    {"role": "user", "blocks": [{"block_type": "text", "text": "Said in a block."}]},
    {"role": "tool", "content": [{"tool_call_result": {"result": "Told by a tool."}}]},
]


@pytest.fixture
def talked(file_url: str) -> str:
    async def fill() -> None:
        async with Database(file_url) as db:
            await ThreadLog(db, namespace=("conversation",)).append("support-42", TALK)
            await ThreadLog(db, namespace=("events",)).append("support-42", {"opened": True})
            await ThreadLog(db, namespace=("events",)).append("job", [b"\x00", "done"])
            await ThreadLog(db, namespace=("frameworks",)).append("ada", FRAMEWORKS)
            await Checkpointer(db).save({"n": 1}, "state")

    asyncio.run(fill())
    return file_url


def test_log_ls_names_every_log_with_entries(call: Call, talked: str) -> None:
    answer = call("--db", talked, "log", "ls")
    listed = call("--db", talked, "--json", "log", "ls").json
    of_one = call("--db", talked, "--json", "log", "ls", "job").json

    assert answer.code == 0
    assert "support-42" in answer.out
    assert "conversation" in answer.out
    found = {(log["thread_id"], *log["namespace"], log["entries"]) for log in listed}
    assert found == {
        ("support-42", "conversation", 3),
        ("support-42", "events", 1),
        ("job", "events", 2),
        ("ada", "frameworks", 2),
    }
    assert [log["thread_id"] for log in of_one] == ["job"]


def test_show_of_a_log_prints_who_said_what(call: Call, talked: str) -> None:
    answer = call("--db", talked, "show", "support-42", "--namespace", "conversation")

    assert answer.code == 0
    assert "Where is my gift card?" in answer.out
    assert "look_up" in answer.out
    assert answer.out.index("gift card") < answer.out.index("Monday")


def test_show_of_a_log_reads_the_messages_inside_the_lines_of_a_transcript(
    call: Call, file_url: str
) -> None:
    lines = [
        {"type": "user", "message": {"role": "user", "content": "Mend the gate"}, "uuid": "u1"},
        {"type": "assistant", "message": {"role": "assistant", "content": [{"text": "Mended."}]}},
        {"type": "custom-title", "customTitle": "The gate"},
        {"type": "system", "content": "Compacted"},
    ]

    async def fill() -> None:
        async with Database(file_url) as db:
            await ThreadLog(db).append("session", lines)

    asyncio.run(fill())
    rows = call("--db", file_url, "show", "session", "--fmt", "simple").out.splitlines()

    shown = [" ".join(row.split()[3:]) for row in rows if row.split()[0] in {"1", "2", "3", "4"}]
    assert shown[:2] == ["user Mend the gate", "assistant Mended."]
    assert "The gate" in shown[2]
    assert shown[3] == "system Compacted"


def test_show_of_a_log_reads_the_events_of_adk(call: Call, file_url: str) -> None:
    of_run: dict[str, Any] = {"invocation_id": "e-1", "actions": {"state_delta": {}}}
    called = {"function_call": {"name": "weather", "args": {"city": "Oslo"}}}
    answered = {"function_response": {"name": "weather", "response": {"sky": "clear"}}}
    events = [
        of_run | {"author": "user", "content": {"role": "user", "parts": [{"text": "Oslo?"}]}},
        of_run | {"author": "guide", "content": {"role": "model", "parts": [called]}},
        of_run | {"author": "guide", "content": {"role": "user", "parts": [answered]}},
        of_run | {"author": "guide", "content": {"role": "model", "parts": [{"text": "Clear."}]}},
        of_run | {"author": "guide"},
    ]

    async def fill() -> None:
        async with Database(file_url) as db:
            await ThreadLog(db).append("session", events)

    asyncio.run(fill())
    rows = call("--db", file_url, "show", "session", "--fmt", "simple").out.splitlines()

    shown = [" ".join(row.split()[3:]) for row in rows if row.split()[0] in set("12345")]
    assert shown[0] == "user Oslo?"
    assert shown[1].startswith("assistant")
    assert "weather" in shown[1]
    assert shown[2].startswith("tool")
    assert 'result of weather: { "sky": "clear" }' in shown[2]
    assert shown[3] == "assistant Clear."
    assert shown[4].startswith("assistant")


def test_show_of_a_log_tells_roles_and_words_of_messages_that_consist_of_parts(
    call: Call, file_url: str
) -> None:
    asked = {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": "Where is it?"}]}
    told = {"kind": "response", "parts": [{"part_kind": "text", "content": "Under the bed."}]}

    async def fill() -> None:
        async with Database(file_url) as db:
            await ThreadLog(db, namespace=("pydantic_ai",)).append("talk", [asked, told])

    asyncio.run(fill())
    lines = call("--db", file_url, "show", "talk", "--fmt", "simple").out.splitlines()

    (first,) = [line for line in lines if "Where is it?" in line]
    (second,) = [line for line in lines if "Under the bed." in line]
    assert "user" in first
    assert "assistant" in second
    assert "part_kind" not in first + second


def test_show_of_a_log_prints_what_messages_of_frameworks_say(call: Call, talked: str) -> None:
    answer = call("--db", talked, "show", "ada", "--fmt", "simple")

    lines = [line.split(maxsplit=3)[3].split(maxsplit=1) for line in answer.out.splitlines()[2:4]]
    assert [[role, text.strip()] for role, text in lines] == [
        ["user", "Said in a block."],
        ["tool", "result of a tool: Told by a tool."],
    ]


def test_show_of_a_log_pages_backwards_and_finds_the_only_log(call: Call, talked: str) -> None:
    newest = call("--db", talked, "--json", "show", "job", "--raw", "--limit", "1").json
    before = str(newest[0]["position"])
    earlier = call("--db", talked, "--json", "show", "job", "--raw", "--before", before).json

    assert [entry["value"] for entry in newest] == ["done"]
    assert [entry["value"] for entry in earlier] == ["AA=="]


def test_show_of_a_log_lists_the_logs_of_an_ambiguous_thread(call: Call, talked: str) -> None:
    several = call("--db", talked, "show", "support-42")
    none = call("--db", talked, "show", "nobody")
    elsewhere = call("--db", talked, "show", "job", "--namespace", "conversation")

    assert several.code == 2
    assert "conversation, events" in several.err
    assert (none.code, elsewhere.code) == (1, 1)


def test_a_thread_with_entries_only_is_not_reported_missing(call: Call, talked: str) -> None:
    for command in ("history", "stats"):
        answer = call("--db", talked, command, "job")

        assert answer.code == 1
        assert "error [MA-NOT-FOUND]: thread 'job' has entries" in answer.err
        assert "memalchemy show" in answer.err
        assert "there is no thread" in call("--db", talked, command, "nobody").err
