"""Encryption keys: their sources, the commands that need them, and rotation."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from commandline import Call, environment, lines, process, thread
from cryptography.fernet import Fernet
from sqlalchemy import update

from memalchemy import Database
from memalchemy.log import DELTAS

KEY, NEW = Fernet.generate_key().decode(), Fernet.generate_key().decode()


@pytest.fixture
def keyed(url: str, call: Call, monkeypatch: pytest.MonkeyPatch) -> str:
    """A database with a thread and an item, encrypted with `KEY`, which the environment holds."""
    monkeypatch.setenv("MEMALCHEMY_KEYS", KEY)
    assert call("--db", url, "upgrade").code == 0
    assert call("--db", url, "import", "-", stdin=lines(thread("airline-1", 8))).code == 0
    put = ("store", "put", "users/ada", "likes", '{"text": "tea"}')
    assert call("--db", url, *put).code == 0
    return url


def test_a_generated_key_is_a_fernet_key(call: Call) -> None:
    key, other = call("generate-key").out.strip(), call("generate-key", "--json").json["key"]

    assert key != other
    assert Fernet(other).decrypt(Fernet(other).encrypt(b"x")) == b"x"


def test_every_command_that_reads_payloads_takes_the_keys(
    keyed: str, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading = [
        ("show", "airline-1"),
        ("diff", "airline-1", "000001", "000008"),
        ("export", "--all"),
        ("store", "get", "users/ada", "likes"),
        ("store", "ls", "users/ada"),
        ("store", "export"),
        ("verify",),
        ("rotate-keys",),
    ]
    for command in reading:
        answer = call("--db", keyed, *command)
        assert answer.code == 0, (command, answer.err)
    assert '"tea"' in call("--db", keyed, "store", "get", "users/ada", "likes").out
    again = call("--db", keyed, "import", "-", "--json", stdin=lines(thread("airline-1", 9)))
    assert again.json["threads"]["resumed"] == 1, "what is there was compared"

    monkeypatch.delenv("MEMALCHEMY_KEYS")
    for command in reading[:6]:
        answer = call("--db", keyed, *command)
        assert answer.code == 4, command
        assert answer.err.startswith("error [MA-KEY-MISSING]: "), command
        assert KEY not in answer.err
    checked = call("--db", keyed, "verify")
    assert checked.code == 0
    assert "in what was checked; the note says what was not" in checked.out
    file = tmp_path / "keys.txt"
    file.write_text(f"# ours\n\n{KEY}\n")
    for command in reading:
        assert call("--db", keyed, *command, "--keys-file", str(file)).code == 0, command


def test_a_file_of_keys_wins_over_the_environment(keyed: str, call: Call, tmp_path: Path) -> None:
    file = tmp_path / "keys.txt"
    file.write_text(NEW)

    assert call("--db", keyed, "--keys-file", str(file), "show", "airline-1").code == 4
    file.write_text(f"{NEW}\n{KEY}\n")
    assert call("--db", keyed, "--keys-file", str(file), "show", "airline-1").code == 0


def test_invalid_keys_are_refused_and_not_shown(
    keyed: str, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "keys.txt"
    for content in ("hunter2-hunter2", KEY[:-3], "", "# nothing\n"):
        file.write_text(content)
        answer = call("--db", keyed, "--keys-file", str(file), "show", "airline-1")
        assert answer.code == 2
        assert answer.err.startswith("error [MA-USAGE]: ")
        assert "hunter2" not in answer.err
        assert KEY[:20] not in answer.err
    assert call("--db", keyed, "--keys-file", "/nowhere", "show", "airline-1").code == 2
    monkeypatch.setenv("MEMALCHEMY_KEYS", "hunter2")
    answer = call("--db", keyed, "show", "airline-1")
    assert (answer.code, "hunter2" in answer.err) == (2, False)
    assert call("--db", keyed, "--readable", "words", "show", "airline-1").code == 2


def test_rotation_reports_and_leaves_only_the_new_key(
    keyed: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMALCHEMY_KEYS", f"{NEW}, {KEY}")

    dry = call("--db", keyed, "rotate-keys", "--dry-run", "--json").json
    assert (dry["left"], dry["rotated"], dry["dry_run"]) == (9, 0, True)
    assert [(use["state"], use["rows"], use["items"]) for use in dry["uses"]] == [("given", 8, 1)]
    shown = call("--db", keyed, "rotate-keys")
    assert shown.code == 0
    assert "9 rows and items encrypted with the first key" in shown.out
    assert call("--db", keyed, "rotate-keys", "--json").json["rotated"] == 0

    monkeypatch.setenv("MEMALCHEMY_KEYS", NEW)
    assert call("--db", keyed, "show", "airline-1").code == 0
    assert call("--db", keyed, "verify").code == 0
    monkeypatch.setenv("MEMALCHEMY_KEYS", KEY)
    assert call("--db", keyed, "show", "airline-1").code == 4
    left = call("--db", keyed, "rotate-keys", "--json")
    assert (left.code, left.json["left"]) == (1, 9)
    assert left.json["uses"][0]["state"] == "missing"


def test_rotation_encrypts_a_plaintext_database(
    filled: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert call("--db", filled, "rotate-keys").code == 2, "no key"
    monkeypatch.setenv("MEMALCHEMY_KEYS", KEY)
    refused = call("--db", filled, "show", "airline-1")
    assert (refused.code, "MA-NOT-ENCRYPTED" in refused.err) == (4, True)
    assert call("--db", filled, "--allow-plaintext", "show", "airline-1").code == 0
    assert call("--db", filled, "verify").code == 5

    assert call("--db", filled, "rotate-keys").code == 4, "words are not lost"
    readable = "--readable", "text,fields"
    assert call("--db", filled, "rotate-keys", *readable).code == 0

    assert call("--db", filled, "show", "airline-1").code == 0
    assert call("--db", filled, "verify").code == 0
    found = call("--db", filled, "--readable", "text", "search", "flights", "--json")
    assert len(found.json) == 2
    refused = call("--db", filled, "search", "flights")
    assert (refused.code, "MA-CAPABILITY-MISSING" in refused.err) == (4, True)
    assert "--drop-words removes" in call("--db", filled, "rotate-keys", "--dry-run").out
    assert "were removed" in call("--db", filled, "rotate-keys", "--drop-words").out


def test_a_copy_needs_no_keys_for_encrypted_data(
    keyed: str, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = f"sqlite:///{tmp_path}/copied.db"
    monkeypatch.delenv("MEMALCHEMY_KEYS")

    assert call("copy", "--from", keyed, "--to", target).code == 0, "nothing is opened"

    monkeypatch.setenv("MEMALCHEMY_KEYS", KEY)
    assert (
        call("--db", target, "show", "airline-1").out
        == call("--db", keyed, "show", "airline-1").out
    )
    assert call("--db", target, "verify").code == 0


def test_the_demo_runs_with_keys() -> None:
    ended = process("demo", env=environment(MEMALCHEMY_KEYS=KEY))

    assert ended.returncode == 0, ended.stderr
    assert "not searched: the database is encrypted" in ended.stdout
    assert (
        process("demo", "--readable", "text", env=environment(MEMALCHEMY_KEYS=KEY)).returncode == 0
    )


def test_lost_words_are_counted_and_rebuilt(keyed: str, call: Call) -> None:
    readable = ("--db", keyed, "--readable", "text,fields")
    assert call("--db", keyed, "search", "tea").code == 4

    checked = call(*readable, "verify", "--json")
    assert checked.code == 5
    assert {finding["code"] for finding in checked.json["findings"]} == {"lost-words"}
    assert call("--db", keyed, "rebuild-words").code == 4, "none may be readable"
    listed = call(*readable, "rebuild-words", "--dry-run")
    assert listed.code == 0
    assert "/users/ada/ (items): 1" in listed.out
    some = call(*readable, "rebuild-words", "--namespace", "users", "--json")
    assert (some.json["states"], some.json["items"], some.json["left"]) == (0, 1, 0)
    every = call(*readable, "rebuild-words", "--all-namespaces", "--json")
    assert every.json["states"] > 0
    assert every.json["unnamed"] == []
    assert call(*readable, "verify").code == 0
    assert "likes" in call(*readable, "search", "tea").out
    refused = call(*readable, "rebuild-words", "--all-tenants", "--thread", "airline-1")
    assert refused.code == 2


def _lose_keys(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MEMALCHEMY_KEYS")


def _damage(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    async def damage() -> None:
        async with Database(url, keys=KEY) as db, db.transaction() as tx:
            await tx.execute(update(DELTAS).values(payload=b"\x00no"))

    asyncio.run(damage())


@pytest.mark.parametrize("outage", [_lose_keys, _damage])
@pytest.mark.parametrize("output", [(), ("--json",)])
def test_no_thread_that_cannot_be_read_is_counted_as_not_waiting(
    keyed: str,
    call: Call,
    monkeypatch: pytest.MonkeyPatch,
    outage: Callable[[str, pytest.MonkeyPatch], None],
    output: tuple[str, ...],
) -> None:
    assert call("--db", keyed, "threads", "--waiting", *output).code == 0

    outage(keyed, monkeypatch)
    blind = call("--db", keyed, "threads", "--waiting", *output)
    others = call("--db", keyed, "threads", "--waiting", "--pattern", "x*", *output)

    assert blind.code == 5
    assert "passed over: thread 'airline-1' in namespace / cannot be read (" in blind.err
    assert (others.code, "passed over" in others.err) == (0, False)
