"""`restore`: a backup takes the place of a SQLite database, which stays beside it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from commandline import Call, lines, thread


@pytest.fixture
def backed_up(filled: str, call: Call, tmp_path: Path) -> Path:
    """A backup of a database that has changed since: airline-1 is gone, new-1 is new."""
    backup = tmp_path / "backup.db"
    assert call("--db", filled, "backup", str(backup)).code == 0
    assert call("--db", filled, "delete", "airline-1", "--yes").code == 0
    assert call("--db", filled, "import", "-", stdin=lines(thread("new-1"))).code == 0
    return backup


def threads(call: Call, url: str) -> set[str]:
    return {row["thread_id"] for row in call("--db", url, "threads", "--json").json}


def files(place: Path) -> set[str]:
    return {file.name for file in place.iterdir()}


def test_a_backup_takes_the_place_and_the_old_file_stays(
    call: Call, filled: str, backed_up: Path, tmp_path: Path
) -> None:
    before = backed_up.read_bytes()

    done = call("--db", filled, "restore", str(backed_up), "--yes", "--json")

    assert done.code == 0, done.err
    assert threads(call, filled) == {"airline-1", "retail-1"}
    assert call("--db", filled, "verify").code == 0
    replaced = Path(done.json["replaced"])
    assert replaced.parent == tmp_path
    assert threads(call, f"sqlite:///{replaced}") == {"retail-1", "new-1"}
    assert backed_up.read_bytes() == before
    assert not [name for name in files(tmp_path) if name.endswith(".restored")]
    # It goes back the same way.
    assert call("--db", filled, "restore", str(replaced)).code == 0
    assert threads(call, filled) == {"retail-1", "new-1"}


def test_a_database_that_is_gone_is_restored(call: Call, backed_up: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/elsewhere.db"

    done = call("--db", url, "restore", str(backed_up), "--json")

    assert done.json["replaced"] is None
    assert threads(call, url) == {"airline-1", "retail-1"}


def test_nothing_is_replaced_while_a_program_has_the_file_open(
    call: Call, filled: str, backed_up: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memalchemy.maintenance.restore._PATIENCE_SECONDS", 0.05)
    before = files(tmp_path)
    with closing(sqlite3.connect(filled.removeprefix("sqlite:///"))) as other:
        other.execute("SELECT count(*) FROM threads").fetchone()
        refused = call("--db", filled, "restore", str(backed_up), "--yes")

    assert refused.code == 4
    assert "in use" in refused.err
    assert threads(call, filled) == {"retail-1", "new-1"}
    assert {name for name in files(tmp_path) if "restore" in name} <= before


@pytest.mark.parametrize("kind", ["missing", "directory", "text", "cut off", "other", "itself"])
def test_what_is_no_backup_replaces_nothing(
    call: Call, filled: str, backed_up: Path, tmp_path: Path, kind: str
) -> None:
    wrong = tmp_path / "wrong"
    if kind == "directory":
        wrong.mkdir()
    elif kind == "text":
        wrong.write_text("not a database at all " * 100)
    elif kind == "cut off":
        wrong.write_bytes(backed_up.read_bytes()[:-9000])
    elif kind == "other":
        with closing(sqlite3.connect(wrong)) as connection:
            connection.execute("CREATE TABLE mine (id)")
    elif kind == "itself":
        wrong = Path(filled.removeprefix("sqlite:///"))
    before = {name for name in files(tmp_path) if "before" in name or "restored" in name}

    refused = call("--db", filled, "restore", str(wrong), "--yes")

    assert refused.code in (1, 2, 3, 5), refused.err
    assert refused.err.startswith("error [MA-")
    assert threads(call, filled) == {"retail-1", "new-1"}
    after = {name for name in files(tmp_path) if "before" in name or "restored" in name}
    assert after == before


@pytest.mark.parametrize(
    ("server", "tool"),
    [
        ("postgresql://me:secret@host:5433/agents", "pg_restore --exit-on-error"),
        ("oracle://me:secret@host/agents", "impdp"),
    ],
)
def test_a_server_is_told_what_to_run(call: Call, server: str, tool: str) -> None:
    answer = call("--db", server, "restore", "memory.dump")

    assert answer.code != 0
    assert tool in answer.err
    assert "memory.dump" in answer.err
    assert "secret" not in answer.err
