"""A record that nobody can read is left out of an import, named and counted; the rest is imported.

The damage is generated: each field of a record of each table, file or line that a framework has
written is left out, is of another type, is no JSON, no UTF-8, no time, or is over every limit.
"""

from __future__ import annotations

import asyncio
import gc
import json
import re
import shutil
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from memalchemy import Database, Store
from memalchemy.cli.app import app
from memalchemy.cli.commands.import_ import FRAMEWORKS

DEEP = "[" * 100_000
LONG = "x" * 5_000
UNDECODABLE = b"\xff\xfe"
CELLS: dict[str, tuple[str, Any]] = {
    "missing": ("NULL", None),
    "bytes": ("?", UNDECODABLE),
    "no UTF-8": ("CAST(? AS TEXT)", UNDECODABLE),
    "no JSON, no time": ("?", '{"torn'),
    "a number": ("?", 10**18),
    "too long": ("?", LONG),
    "too deep": ("?", DEEP),
}
LINES: dict[str, bytes] = {
    "no UTF-8": b'{"type": "\xff"}',
    "torn": b'{"type": "use',
    "a list": b"[1]",
    "null": b"null",
    "empty": b"{}",
    "too deep": DEEP.encode(),
}
FIELDS: dict[str, Any] = {"null": None, "number": 10**18, "object": {"a": [1]}, "too long": LONG}

ARRANGES = {"message_structure", "turn_usage"}
"""Tables about others: the SDK shows neither messages without a place nor usage of no turn."""

TAKES_ALONG = ("writes.task_id", "writes.task_path", "writes.idx")
"""Fields by which LangGraph's saver sorts: with one of another type it reads no checkpoint."""


@dataclass(frozen=True)
class Damage:
    """A change of a copy of the place, and one that removes what it changes."""

    name: str
    damage: Callable[[Path], None]
    remove: Callable[[Path], None]
    removed: str
    """The same for all damage of what is removed."""


# --- Damage of tables -----------------------------------------------------------------------------


def damaged_tables(place: Path) -> Iterator[Damage]:
    with closing(sqlite3.connect(place)) as raw:
        tables = raw.execute(
            "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite%' "
            "AND sql NOT LIKE '%VIRTUAL%' AND name NOT LIKE '%migrations%' "
            "AND name NOT LIKE '%metadata%' AND name NOT LIKE '%\\_fts\\_%' ESCAPE '\\'"
        ).fetchall()
        for (table,) in tables:
            rows = raw.execute(f'SELECT rowid, * FROM "{table}" ORDER BY rowid')
            names = [one[0] for one in rows.description][1:]
            found = rows.fetchall()
            if not found:
                continue
            rowid, *cells = found[len(found) // 2]
            for name, cell in zip(names, cells, strict=True):
                for kind, (sql, value) in CELLS.items():
                    yield _of_cell(table, rowid, name, kind, sql, value)
                for kind, text in _damaged_documents(cell):
                    yield _of_cell(table, rowid, name, kind, "?", text)


def _of_cell(table: str, rowid: int, column: str, kind: str, sql: str, value: Any) -> Damage:
    def damage(place: Path) -> None:
        values = [] if value is None else [value]
        _execute(place, f'UPDATE "{table}" SET "{column}" = {sql} WHERE rowid = {rowid}', *values)

    def remove(place: Path) -> None:
        _execute(place, f'DELETE FROM "{table}" WHERE rowid = {rowid}')

    return Damage(f"{table}.{column}: {kind}", damage, remove, table)


def _execute(place: Path, sql: str, *values: Any) -> None:
    with closing(sqlite3.connect(place)) as raw, raw:
        raw.execute("PRAGMA ignore_check_constraints = ON")
        raw.execute(sql, values)


def _damaged_documents(cell: Any) -> Iterator[tuple[str, str]]:
    try:
        document = json.loads(cell)
    except (TypeError, ValueError):
        return
    for kind, changed in damaged_fields(document):
        yield kind, json.dumps(changed)


def damaged_fields(document: Any, depth: int = 2) -> Iterator[tuple[str, Any]]:
    """Yield a document with one field missing, or of another type, down to some depth."""
    if not isinstance(document, dict) or not depth:
        return
    for name, value in document.items():
        yield f"without {name}", {key: one for key, one in document.items() if key != name}
        for kind, other in FIELDS.items():
            yield f"{name}: {kind}", {**document, name: other}
        for kind, changed in damaged_fields(value, depth - 1):
            yield f"{name}.{kind}", {**document, name: changed}
        if isinstance(value, list) and value:
            for kind, changed in damaged_fields(value[0], depth - 1):
                yield f"{name}[0].{kind}", {**document, name: [changed, *value[1:]]}


# --- Damage of files ------------------------------------------------------------------------------


def damaged_files(*patterns: str) -> Callable[[Path], Iterator[Damage]]:
    """Return the damage of a file of each pattern, which holds one JSON document."""

    def found(place: Path) -> Iterator[Damage]:
        for pattern in patterns:
            files = sorted(place.glob(pattern))
            file = files[len(files) // 2].relative_to(place)
            document = json.loads((place / file).read_bytes())
            changed = {kind: json.dumps(one).encode() for kind, one in damaged_fields(document)}
            for kind, content in {**LINES, **changed}.items():
                yield Damage(
                    f"{file}: {kind}",
                    lambda where, file=file, content=content: _write(where / file, content),
                    lambda where, file=file: (where / file).unlink(),
                    str(file),
                )

    return found


def damaged_lines(*patterns: str) -> Callable[[Path], Iterator[Damage]]:
    """Return the damage of a line in the middle of a file of each pattern, or of *place*."""

    def found(place: Path) -> Iterator[Damage]:
        for pattern in patterns:
            file = sorted(place.glob(pattern))[0].relative_to(place) if pattern else Path()
            lines = (place / file).read_bytes().splitlines()
            middle = len(lines) // 2
            document = json.loads(lines[middle])
            changed = {kind: json.dumps(one).encode() for kind, one in damaged_fields(document)}
            for kind, line in {**LINES, **changed}.items():
                damaged = [*lines[:middle], line, *lines[middle + 1 :]]
                rest = [*lines[:middle], *lines[middle + 1 :]]
                yield Damage(
                    f"{file}: {kind}",
                    lambda where, file=file, lines=damaged: _write_lines(where / file, lines),
                    lambda where, file=file, lines=rest: _write_lines(where / file, lines),
                    str(file),
                )

    return found


def damaged_messages(place: Path) -> Iterator[Damage]:
    """Yield the damage of a message of a `SimpleChatStore`, whose file is one document."""
    document = json.loads(place.read_bytes())
    key = next(iter(document["store"]))
    messages = document["store"][key]

    def write(where: Path, some: list[Any]) -> None:
        changed = {**document, "store": {**document["store"], key: some}}
        _write(where, json.dumps(changed).encode())

    kinds = dict(damaged_fields(messages[1])) | {"a list": [1], "null": None, "text": LONG}
    for kind, message in kinds.items():
        yield Damage(
            f"message: {kind}",
            lambda where, one=message: write(where, [messages[0], one, *messages[2:]]),
            lambda where: write(where, [messages[0], *messages[2:]]),
            "message",
        )


def _write(file: Path, content: bytes) -> None:
    file.write_bytes(content)


def _write_lines(file: Path, lines: list[bytes]) -> None:
    file.write_bytes(b"".join(line + b"\n" for line in lines))


# --- Places that the frameworks have filled -------------------------------------------------------


def _file(directory: Path) -> Path:
    place = directory / "threads.jsonl"
    lines = [
        {"thread_id": f"t{n}", "messages": [{"role": "user", "content": f"{n}"}] * 2, "user": "ada"}
        for n in range(3)
    ]
    _write_lines(place, [json.dumps(line).encode() for line in lines])
    return place


def _claude_code(directory: Path) -> Path:
    from test_import_of_claude_code import as_lines, said

    project = directory / "projects" / "-home-ada-work"
    agents = project / "s1" / "subagents"
    agents.mkdir(parents=True)
    (project / "s1.jsonl").write_text(as_lines(*(said(at, f"word {at}") for at in range(5))))
    (project / "s2.jsonl").write_text(as_lines(said(0, "another", sessionId="s2")))
    (agents / "agent-a.jsonl").write_text(as_lines(*(said(at, "look") for at in range(3))))
    (agents / "agent-a.meta.json").write_text('{"agentType": "finder", "model": "m"}')
    return directory / "projects"


def _crewai(directory: Path) -> Path:
    place = directory / "crewai.db"
    time = "2021-03-04T05:06:07+00:00"
    with closing(sqlite3.connect(place)) as raw, raw:
        raw.executescript(
            "CREATE TABLE flow_states (id INTEGER PRIMARY KEY AUTOINCREMENT, flow_uuid TEXT, "
            "method_name TEXT, timestamp DATETIME, state_json TEXT);"
            "CREATE TABLE pending_feedback (id INTEGER PRIMARY KEY AUTOINCREMENT, flow_uuid TEXT, "
            "context_json TEXT, state_json TEXT, created_at DATETIME);"
            "CREATE TABLE checkpoints (id TEXT, created_at TEXT, parent_id TEXT, branch TEXT, "
            "data JSONB);"
        )
        for flow in ("f1", "f2"):
            for turn in range(3):
                state = json.dumps({"id": flow, "turn": turn})
                raw.execute(
                    "INSERT INTO flow_states VALUES (NULL, ?, 'step', ?, ?)", (flow, time, state)
                )
            context = json.dumps({"flow_id": flow, "method_name": "ask", "requested_at": time})
            raw.execute(
                "INSERT INTO pending_feedback VALUES (NULL, ?, ?, '{}', ?)", (flow, context, time)
            )
        for at in range(3):
            data = json.dumps({"n": at, "entities": []})
            row = (f"c{at}", "20210304T050607", f"c{at - 1}" if at else None, "main", data)
            raw.execute("INSERT INTO checkpoints VALUES (?, ?, ?, ?, ?)", row)
    return place


def _google_adk(directory: Path) -> Path:
    from google.adk.sessions.sqlite_session_service import SqliteSessionService
    from test_import_of_google_adk import fill

    asyncio.run(_filled(fill, SqliteSessionService(str(directory / "adk.db"))))
    return directory / "adk.db"


async def _filled(fill: Callable[[Any], Any], service: Any) -> None:
    await fill(service)


def _langgraph(directory: Path) -> Path:
    from langgraph.checkpoint.base import empty_checkpoint
    from langgraph.checkpoint.sqlite import SqliteSaver
    from langgraph.store.sqlite import SqliteStore

    place = directory / "langgraph.db"
    with SqliteSaver.from_conn_string(str(place)) as saver:
        for thread in ("a", "b"):
            for checkpoint_ns in ("", "inner:1"):
                config: Any = {
                    "configurable": {"thread_id": thread, "checkpoint_ns": checkpoint_ns}
                }
                for step in range(3):
                    checkpoint = empty_checkpoint() | {"channel_values": {"n": [step, thread]}}
                    config = saver.put(config, checkpoint, {"source": "loop", "step": step}, {})
                    saver.put_writes(config, [("n", step), ("m", "é")], f"task{step}")
    with SqliteStore.from_conn_string(str(place)) as store:
        store.setup()
        for number in range(3):
            store.put(("users", "ada"), f"k{number}", {"n": number, "é": [1.5]})
    return place


def _lauren_ai(directory: Path) -> Path:
    import test_imports_of_seed_systems as seeds

    places = {
        "lauren-ai": str(directory / "lauren.db"),
        "llm-agents-from-scratch": str(directory),
    }
    asyncio.run(seeds.fill(places))
    return directory / "lauren.db"


def _lazybridge(directory: Path) -> Path:
    import lazybridge

    with lazybridge.Store(db=str(directory / "lazybridge.db")) as store:
        for number in range(3):
            store.write(f"key{number}", {"n": number}, agent_id="planner")
            turns = [{"role": "user", "content": "Where is it?"}]
            store.write_memory("planner", turns=turns, summary="s", session_key=f"s{number}")
    return directory / "lazybridge.db"


def _llama_index(directory: Path) -> Path:
    from llama_index.core.storage.chat_store.sql import SQLAlchemyChatStore
    from test_import_of_llama_index import fill

    async def fill_and_close() -> None:
        url = f"sqlite+aiosqlite:///{directory}/chats.db"
        store = SQLAlchemyChatStore("chats", async_database_uri=url)
        await fill(store)
        if store._async_engine is not None:
            await store._async_engine.dispose()

    asyncio.run(fill_and_close())
    return directory / "chats.db"


def _llama_index_file(directory: Path) -> Path:
    messages = [
        {
            "role": "user",
            "additional_kwargs": {},
            "blocks": [{"block_type": "text", "text": f"m{n}"}],
        }
        for n in range(3)
    ]
    document = {"store": {"ada": messages, "bob": messages}, "class_name": "SimpleChatStore"}
    _write(directory / "chats.json", json.dumps(document).encode())
    return directory / "chats.json"


def _llm_agents(directory: Path) -> Path:
    _lauren_ai(directory)
    return directory / "episodes.jsonl"


def _locus(directory: Path) -> Path:
    from locus.memory.backends import FileCheckpointer
    from test_import_of_locus import state

    async def fill() -> None:
        theirs = FileCheckpointer(directory / "states")
        for thread in ("a/b", "c"):
            for at in range(3):
                await theirs.save(state("a" * (at + 1)), thread, f"c{at}", {"n": at})

    asyncio.run(fill())
    return directory / "states"


def _locus_store(directory: Path) -> Path:
    from locus.memory.store_backends.holographic import HolographicStore

    async def fill() -> None:
        theirs = HolographicStore(str(directory / "memory.db"))
        for number in range(3):
            await theirs.put(("users", "ada"), f"k{number}", {"drink": "tea"}, {"n": number})
        await theirs.close()

    asyncio.run(fill())
    return directory / "memory.db"


def _openai_agents(directory: Path) -> Path:
    from agents import SQLiteSession
    from agents.extensions.memory import AdvancedSQLiteSession

    async def fill() -> None:
        place = directory / "sessions.db"
        for name in ("a", "b"):
            session = SQLiteSession(name, place)
            await session.add_items([{"role": "user", "content": f"{n}"} for n in range(3)])
            session.close()
        advanced = AdvancedSQLiteSession(session_id="c", db_path=place, create_tables=True)
        for turn in range(2):
            said: Any = [{"role": "user", "content": f"{turn}"}]
            await advanced.add_items([*said, {"role": "assistant", "content": "yes"}])
        await advanced.create_branch_from_turn(2, "other")
        await advanced.add_items([{"role": "user", "content": "elsewhere"}])
        advanced.close()
        _execute(
            place,
            "INSERT INTO turn_usage (session_id, branch_id, user_turn_number, requests, "
            "input_tokens, output_tokens, total_tokens, input_tokens_details) "
            "VALUES ('c', 'main', 1, 1, 2, 3, 5, '{\"cached_tokens\": 1}')",
        )

    asyncio.run(fill())
    return directory / "sessions.db"


def _strands(directory: Path) -> Path:
    from test_import_of_strands import fill

    fill(directory / "sessions")
    return directory / "sessions"


Maker = Callable[[Path], Path]
PLACES: dict[str, tuple[str, Maker, Callable[[Path], Iterator[Damage]]]] = {
    "a file": ("", _file, damaged_lines("")),
    "claude-code": ("claude-code", _claude_code, damaged_lines("*/s1.jsonl", "*/s1/*/*.jsonl")),
    "claude-code metadata": ("claude-code", _claude_code, damaged_files("*/s1/*/*.meta.json")),
    "crewai": ("crewai", _crewai, damaged_tables),
    "google-adk": ("google-adk", _google_adk, damaged_tables),
    "langgraph": ("langgraph", _langgraph, damaged_tables),
    "lauren-ai": ("lauren-ai", _lauren_ai, damaged_tables),
    "lazybridge": ("lazybridge", _lazybridge, damaged_tables),
    "llama-index": ("llama-index", _llama_index, damaged_tables),
    "llama-index file": ("llama-index", _llama_index_file, damaged_messages),
    "llm-agents-from-scratch": ("llm-agents-from-scratch", _llm_agents, damaged_lines("")),
    "locus": ("locus", _locus, damaged_files("a_b/*.json")),
    "locus store": ("locus", _locus_store, damaged_tables),
    "openai-agents": ("openai-agents", _openai_agents, damaged_tables),
    "strands": (
        "strands",
        _strands,
        damaged_files(
            "session_s1/session.json",
            "session_s1/agents/agent_guide/agent.json",
            "session_s1/agents/agent_guide/messages/message_*.json",
            "session_s1/multi_agents/*/multi_agent.json",
        ),
    ),
}


def test_each_importer_has_a_place_that_is_damaged() -> None:
    assert {name for name, *_ in PLACES.values()} == {"", *FRAMEWORKS}


# --- Imports --------------------------------------------------------------------------------------

_OF_THIS_DATABASE = {
    *("created_at", "stored_at", "updated_at", "seq", "position", "version", "checkpoint_id"),
    *("parent_id", "raw_size", "stored_size", "key", "occurred_at"),
}


@dataclass(frozen=True)
class Imported:
    """What an import says, and what is in the database then."""

    code: int
    report: dict[str, Any]
    notes: str
    facts: Counter[str]


NEW = {
    "": ("checkpoints",),
    "langgraph": ("new_checkpoints", "new_items"),
    "openai-agents": ("items",),
}
"""What a report calls what was written; elsewhere it is ``written``."""


def call(*arguments: str) -> Any:
    """Run a command; what the garbage collector finds meanwhile is not of that command.

    A finaliser that it calls where JSON is nested too deeply says so on stderr.
    """
    gc.disable()
    try:
        return CliRunner().invoke(app, arguments, catch_exceptions=False)
    finally:
        gc.enable()


def imported(framework: str, place: Path, directory: Path) -> Imported:
    """Import after a dry run, which must say the same; and again, which must find nothing new."""
    url = ("--db", f"sqlite:///{directory}/ours.db")
    source = [framework, "--from", str(place)] if framework else [str(place)]
    if framework == "openai-agents":
        source[-1] = f"sqlite:///{place}"
    dry = call(*url, "import", *source, "--dry-run", "--json") if framework else None
    done = call(*url, "import", *source, "--json")
    report = without_times(done.stdout)
    if dry is not None:
        assert (dry.exit_code, without_times(dry.stdout)) == (done.exit_code, report)
        assert dry.stderr == done.stderr
    again = call(*url, "import", *source, "--json")
    assert again.exit_code in (0, 4)
    more = json.loads(again.stdout)
    new = NEW.get(framework, ("written",))
    assert not any(more[name] for name in new), again.stdout
    return Imported(done.exit_code, report, done.stderr, facts_in(directory / "ours.db"))


def facts_in(file: Path) -> Counter[str]:
    """Return what a database holds, without what follows from all of a thread."""
    found = [
        {name: one for name, one in json.loads(line).items() if name not in _OF_THIS_DATABASE}
        for line in call("--db", f"sqlite:///{file}", "export", "--all").stdout.splitlines()
    ]
    found = [one for one in found if not {"summaries", "summary"} & {*one["namespace"]}]

    async def items() -> list[Any]:
        async with Database(f"sqlite:///{file}") as db:
            store = Store(db)
            return [
                item
                for namespace in await store.list_namespaces()
                for item in await store.list_items(namespace)
            ]

    found += [
        {"item": [*one.namespace, one.key], "value": one.value, "metadata": one.metadata}
        for one in asyncio.run(items())
    ]
    texts = (json.dumps(one, sort_keys=True, default=repr) for one in found)
    # A fact says when it was written here, LlamaIndex's archived message how many are before it.
    undated = (re.sub(r'"as_of": "[^"]*"|"position": \d+', "", text) for text in texts)
    return Counter(text.replace(str(file.parent), "") for text in undated)


def without_times(printed: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(printed)
    for name in ("seconds", "dry_run"):
        found.pop(name, None)
    return found


@pytest.mark.parametrize("name", PLACES)
def test_a_damaged_record_is_left_out_and_named_and_the_rest_is_imported(
    name: str, tmp_path: Path
) -> None:
    framework, make, damages = PLACES[name]
    (tmp_path / "whole").mkdir()
    original = make(tmp_path / "whole")
    first = copied(original, tmp_path / "first")
    whole = imported(framework, first, first.parent)
    assert (whole.code, bool(whole.facts)) == (0, True), whole.notes
    rests: dict[str, Counter[str]] = {}
    tried = left_out = 0
    wrong: list[str] = []
    for number, one in enumerate(damages(original)):
        if one.removed not in rests:
            place = copied(original, tmp_path / f"rest{number}")
            one.remove(place)
            rests[one.removed] = imported(framework, place, place.parent).facts
        place = copied(original, tmp_path / f"case{number}")
        try:
            one.damage(place)
        except sqlite3.IntegrityError:  # which the table of that framework refuses
            continue
        tried += 1
        try:
            done = imported(framework, place, place.parent)
            assert done.code in (0, 4), done.notes
            lost = rests[one.removed] - done.facts
            if lost and not one.name.startswith(TAKES_ALONG):
                raise AssertionError(f"lost {[*lost][:1]}")
            if done.code == 4:
                left_out += 1
                problems = done.report["problems"]
                assert problems, "nothing is named"
                assert done.notes.strip(), "nothing is said"
            elif "without" not in one.name and one.removed not in ARRANGES:
                assert done.facts.total() >= whole.facts.total(), "something is lost in silence"
        except Exception as error:  # noqa: BLE001 - all of them are told at the end
            told = " ".join(str(error).split())[:200]
            wrong.append(f"{one.name}: {type(error).__name__}: {told}")
        shutil.rmtree(place.parent)
    assert not wrong, f"{len(wrong)} of {tried}:\n" + "\n".join(wrong[:20])
    assert left_out


@pytest.mark.parametrize("name", PLACES)
def test_a_thread_has_the_times_of_what_happened_in_it(name: str, tmp_path: Path) -> None:
    framework, make, _ = PLACES[name]
    (tmp_path / "source").mkdir()
    imported(framework, make(tmp_path / "source"), tmp_path)
    with closing(sqlite3.connect(tmp_path / "ours.db")) as raw:
        heads = {
            (thread, namespace): times
            for thread, namespace, *times in raw.execute(
                "SELECT thread_id, namespace, t.created_at, t.updated_at, t.active_at, "
                "min(d.at), max(d.at) FROM threads t JOIN ("
                "SELECT log_id, occurred_at AS at FROM checkpoints UNION ALL "
                "SELECT log_id, occurred_at FROM deltas WHERE kind = 'entry') d "
                "ON d.log_id = t.log_id WHERE namespace NOT LIKE '%/summar%' GROUP BY t.log_id"
            )
        }
    assert heads or name in ("locus store", "llm-agents-from-scratch")  # which have items alone
    for place, (created, updated, active, first, last) in heads.items():
        if name != "a file":  # whose messages have no times
            assert (created, updated) == (first, last), place
            assert active == last - last % 1_000_000, place


def copied(place: Path, directory: Path) -> Path:
    directory.mkdir()
    if place.is_dir():
        return Path(shutil.copytree(place, directory / place.name))
    return Path(shutil.copy(place, directory))
