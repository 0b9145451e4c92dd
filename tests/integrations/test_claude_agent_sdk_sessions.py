"""`MemalchemySessionStore`: the SDK's contracts, and what ours adds, on every database."""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import claude_agent_sdk as sdk
import pytest
import scripted_claude
from claude_agent_sdk import ClaudeAgentOptions, ResultMessage, SessionStore
from claude_agent_sdk.testing import run_session_store_conformance
from hypothesis import given
from hypothesis import strategies as st

from lifetimes import MOMENT
from memalchemy import Checkpointer, Database, NotSerialisable, Store, TooLarge
from memalchemy.integrations.claude_agent_sdk import MemalchemySessionStore

PROJECT, SESSION = "-home-ada-gate", "550e8400-e29b-41d4-a716-446655440000"
KEY: Any = {"project_key": PROJECT, "session_id": SESSION}
SUB: Any = {**KEY, "subpath": "subagents/workflows/run-1/agent-a"}


@pytest.fixture
def store(db: Database) -> MemalchemySessionStore:
    return MemalchemySessionStore(db)


def said(text: str, uuid: str | None = None, **more: Any) -> Any:
    line = {"type": "user", "message": {"role": "user", "content": text}, **more}
    return line if uuid is None else {**line, "uuid": uuid}


def optional_methods() -> list[str]:
    return ["list_sessions", "list_session_summaries", "delete", "list_subkeys"]


async def test_it_keeps_all_fourteen_contracts_of_the_sdk(db: Database) -> None:
    numbers = itertools.count()

    def fresh() -> SessionStore:
        return MemalchemySessionStore(db.for_tenant(f"contract-{next(numbers)}"))

    await run_session_store_conformance(fresh)

    for name in optional_methods():  # of a method that is missing, the contracts are skipped
        assert getattr(MemalchemySessionStore, name) is not getattr(SessionStore, name)


def test_the_sdk_knows_no_optional_method_that_is_not_here() -> None:
    theirs = {name for name in vars(SessionStore) if not name.startswith("_")}
    assert theirs == {"append", "load", *optional_methods()}


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(lines=st.lists(st.dictionaries(st.text(), JSON, max_size=4), min_size=1, max_size=4))
def test_any_json_comes_back_as_it_was(lines: list[Any]) -> None:
    lines = [{**line, "type": "x", "uuid": None} for line in lines]
    key: Any = {"project_key": "p", "session_id": "s"}

    async def there_and_back() -> Any:
        async with MemalchemySessionStore(":memory:") as store:
            await store.append(key, lines)
            return await store.load(key)

    assert asyncio.run(there_and_back()) == lines


async def test_half_an_emoji_that_javascript_cut_off_is_stored(
    store: MemalchemySessionStore,
) -> None:
    lines = [said("cut \ud83d"), said("\x00")]
    await store.append(KEY, lines)
    assert await store.load(KEY) == lines


async def test_a_uuid_is_stored_once_and_lines_without_one_always(
    store: MemalchemySessionStore,
) -> None:
    title: Any = {"type": "custom-title", "customTitle": "Gate"}
    await store.append(KEY, [said("a", "1"), title, said("twice", "2"), said("twice", "2")])
    await store.append(KEY, [said("another", "1"), title, said("b", "3")])

    lines: Any = await store.load(KEY)
    assert lines == [said("a", "1"), title, said("twice", "2"), title, said("b", "3")]
    lines[0]["message"]["content"] = "changed"
    assert (await store.load(KEY) or [])[0] == said("a", "1")


async def test_a_line_that_is_sent_again_changes_no_summary(store: MemalchemySessionStore) -> None:
    def titled(title: str, uuid: str) -> Any:
        return {"type": "custom-title", "customTitle": title, "uuid": uuid}

    await store.append(KEY, [said("Mend the gate", "1"), titled("old", "2")])
    await store.append(KEY, [titled("new", "3"), titled("repeated", "3")])
    (before,) = await store.list_session_summaries(PROJECT)
    await store.append(KEY, [said("Mend the gate", "1"), titled("old", "2")])

    (summary,) = await store.list_session_summaries(PROJECT)
    (session,) = await store.list_sessions(PROJECT)
    assert summary["data"] == before["data"]
    assert summary["data"]["custom_title"] == "new"
    assert summary["data"]["first_prompt"] == "Mend the gate"
    assert summary["mtime"] >= session["mtime"], "otherwise the SDK reads the transcript again"


async def test_appends_at_once_lose_no_line_and_no_part_of_the_summary(
    store: MemalchemySessionStore,
) -> None:
    fields = ["customTitle", "aiTitle", "lastPrompt", "summary", "gitBranch"]

    async def write(field: str) -> None:
        for at in range(4):
            await store.append(KEY, [{"type": "x", "uuid": f"{field}{at}", field: f"{field}{at}"}])  # type: ignore[misc]

    await asyncio.gather(*map(write, fields))

    lines: list[Any] = await store.load(KEY) or []
    for field in fields:
        assert [one[field] for one in lines if field in one] == [f"{field}{at}" for at in range(4)]
    (summary,) = await store.list_session_summaries(PROJECT)
    whole = sdk.fold_session_summary(None, KEY, lines)
    assert summary["data"] == whole["data"]


@pytest.mark.parametrize("delay", [0.0, 0.001, 0.004])
async def test_a_cancelled_append_is_there_as_a_whole_or_not_at_all(
    store: MemalchemySessionStore, delay: float
) -> None:
    for number in range(12):
        batch = [said(str(number), f"{number}.{at}") for at in range(3)]
        task = asyncio.ensure_future(store.append(KEY, batch))
        await asyncio.sleep(delay)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    lines: list[Any] = await store.load(KEY) or []
    written = {line["uuid"].partition(".")[0] for line in lines}
    assert len(lines) == 3 * len(written)
    summaries = await store.list_session_summaries(PROJECT)
    assert [one["data"] for one in summaries] == [
        sdk.fold_session_summary(None, KEY, lines)["data"] for _ in lines[:1]
    ]


async def test_what_cannot_be_stored_is_refused_and_nothing_of_it_is_there(
    store: MemalchemySessionStore,
) -> None:
    with pytest.raises(NotSerialisable):
        await store.append(KEY, [said("a"), said("b", more=object())])
    with pytest.raises(TooLarge):
        await store.append(KEY, [said("a"), said("b", "u" * 200)])
    long: Any = {**KEY, "session_id": "s" * 300}
    with pytest.raises(TooLarge):
        await store.append(long, [said("a")])
    empty: Any = {**KEY, "subpath": ""}
    with pytest.raises(ValueError, match="leave it out"):
        await store.append(empty, [said("a")])
    with pytest.raises(ValueError, match="leave it out"):
        await store.delete(empty)

    assert await store.load(KEY) is None
    assert await store.list_sessions(PROJECT) == []


async def test_transcripts_are_logs_with_the_time_of_each_line(
    db: Database, store: MemalchemySessionStore
) -> None:
    noon = datetime(2026, 3, 1, 12, tzinfo=UTC)
    times = ["2026-03-01T12:00:00.000Z", "no time", None, "2026-03-01T13:00:00"]
    await store.append(KEY, [said(f"gate {at}", timestamp=at) for at in times])
    await store.append(SUB, [said("the smith forges a hinge")])

    entries = await store.transcript(KEY).range(SESSION)
    assert [entry.occurred_at for entry in entries] == [noon] * 4, "or that of the line before"
    (hit,) = await store.transcript(SUB).search("hinge")
    assert (hit.thread_id, hit.value) == (SESSION, said("the smith forges a hinge"))
    logs = {log.namespace for log in await Checkpointer(db).list_logs(SESSION, below=True)}
    assert logs == {
        ("claude_agent_sdk", "transcripts", PROJECT),
        ("claude_agent_sdk", "transcripts", PROJECT, *SUB["subpath"].split("/")),
        ("claude_agent_sdk", "summaries", PROJECT),
    }


async def test_forgetting_the_thread_leaves_nothing_of_the_session(
    db: Database, store: MemalchemySessionStore
) -> None:
    await store.append(KEY, [said("my secret")])
    await store.append(SUB, [said("my secret")])
    await Checkpointer(db).forget(thread_id=SESSION)

    assert await store.list_sessions(PROJECT) == []
    assert await store.list_session_summaries(PROJECT) == []
    assert await store.list_subkeys(KEY) == []
    assert await Checkpointer(db).list_logs(below=True) == []
    assert await Store(db).list_namespaces() == []


async def test_namespaces_and_tenants_do_not_meet_and_a_lifetime_ends(
    db: Database, store: MemalchemySessionStore
) -> None:
    other = MemalchemySessionStore(db, namespace=("other",))
    short = MemalchemySessionStore(db.for_tenant("short"), ttl=MOMENT)
    await store.append(KEY, [said("mine")])
    await other.append(KEY, [said("other")])
    await short.append(KEY, [said("short")])

    assert await other.load(KEY) == [said("other")]
    assert await short.load(KEY) is None
    assert await short.list_session_summaries(PROJECT) == []
    await other.delete(KEY)
    assert await store.load(KEY) == [said("mine")]


async def test_local_transcripts_are_imported_listed_and_forked(
    store: MemalchemySessionStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path))
    place = tmp_path / "project"
    place.mkdir()
    project = sdk.project_key_for_directory(place)
    key: Any = {"project_key": project, "session_id": SESSION}
    texts = ["Mend the gate", "Paint it"]
    uuids = [SESSION[:-1] + str(at) for at in range(len(texts))]
    lines = [said(*both, sessionId=SESSION) for both in zip(texts, uuids, strict=True)]
    file = tmp_path / "projects" / project / f"{SESSION}.jsonl"
    agent = file.with_suffix("") / "subagents" / "agent-a.jsonl"
    for path, content in ((file, lines), (agent, lines[:1])):
        path.parent.mkdir(parents=True)
        path.write_text("".join(json.dumps(line) + "\n" for line in content))

    for _ in range(2):
        await sdk.import_session_to_store(SESSION, store, directory=str(place))

    assert await store.load(key) == lines
    assert await store.list_subkeys(key) == ["subagents/agent-a"]
    await sdk.rename_session_via_store(store, SESSION, "The gate", directory=str(place))
    (info,) = await sdk.list_sessions_from_store(store, directory=str(place))
    assert (info.session_id, info.custom_title) == (SESSION, "The gate")
    assert info.first_prompt == "Mend the gate"
    fork = await sdk.fork_session_via_store(
        store, SESSION, directory=str(place), up_to_message_id=uuids[0]
    )
    messages = await sdk.get_session_messages_from_store(
        store, fork.session_id, directory=str(place)
    )
    assert [message.message["content"] for message in messages] == ["Mend the gate"]
    await sdk.delete_session_via_store(store, SESSION, directory=str(place))
    assert await store.list_subkeys(key) == []


@pytest.fixture
def claude(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClaudeAgentOptions:
    """Options with a CLI that is a script, which has a directory of its own for its transcripts."""
    script = tmp_path / "claude"
    script.write_text(f"#!{sys.executable}\n{Path(scripted_claude.__file__).read_text()}")
    script.chmod(0o755)
    monkeypatch.setenv("CLAUDE_CONFIG_DIR", str(tmp_path / "config"))
    environment = {"PROJECT_KEY": sdk.project_key_for_directory(tmp_path)}
    return ClaudeAgentOptions(cli_path=script, cwd=tmp_path, env=environment)


async def test_a_session_resumes_from_the_store_after_a_restart(
    shared_url: str,
    db: Database,
    lasting: None,
    claude: ClaudeAgentOptions,
    tmp_path: Path,
) -> None:
    async def ask(prompt: str, **options: Any) -> tuple[str, str]:
        async with Database(shared_url, tenant=db.tenant) as opened:
            claude.session_store = MemalchemySessionStore(opened)
            claude.resume = options.get("resume")
            claude.continue_conversation = options.get("continue_conversation", False)
            answer = session = ""
            async for message in sdk.query(prompt=prompt, options=claude):
                if isinstance(message, sdk.AssistantMessage):
                    (block,) = message.content
                    answer = block.text  # type: ignore[union-attr]
                elif isinstance(message, ResultMessage):
                    session = message.session_id
            return session, answer

    session, first = await ask("Mend the gate")
    shutil.rmtree(tmp_path / "config")  # as on another machine
    again, second = await ask("Paint it", resume=session)
    last, third = await ask("Oil it", continue_conversation=True)

    assert [first, second, third] == [f"I have seen {seen} lines." for seen in (0, 3, 6)]
    assert session == again == last
    infos = await sdk.list_sessions_from_store(MemalchemySessionStore(db), directory=str(tmp_path))
    assert [(one.session_id, one.summary) for one in infos] == [(session, "Oil it")]
