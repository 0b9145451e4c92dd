"""Anchors on the command line, with a backup that is put back."""

from __future__ import annotations

import base64
import subprocess
import sys
from pathlib import Path

import pytest
from commandline import Call, environment, lines, thread

from memalchemy.signing import generate_key


@pytest.fixture
def keyed(url: str, call: Call, monkeypatch: pytest.MonkeyPatch) -> str:
    """A signed database with a thread and an item; the environment has the key."""
    monkeypatch.setenv("MEMALCHEMY_SIGNING_KEYS", generate_key())
    assert call("--db", url, "upgrade").code == 0
    work(call, url, 8)
    return url


def work(call: Call, url: str, steps: int) -> None:
    """Do what agents do."""
    given = lines(thread("airline-1", steps))
    assert call("--db", url, "import", "-", stdin=given).code == 0
    assert call("--db", url, "store", "put", "users/ada", "steps", str(steps)).code == 0


def test_a_database_is_anchored_and_held_to_it(keyed: str, call: Call, tmp_path: Path) -> None:
    file = str(tmp_path / "agent.anchor")
    taken = call("--db", keyed, "anchor", file)
    assert taken.code == 0, taken.err
    assert "2 logs and items of 1 tenant are anchored" in taken.out
    work(call, keyed, 9)
    again = call("--db", keyed, "anchor", file, "--json").json
    assert (again["records"], again["tenants"], again["file"]) == (2, 1, file)
    assert again["bytes"] == Path(file).stat().st_size

    digest = again["digest"]
    assert call("--db", keyed, "verify", "--anchor", file, "--digest", digest).code == 0
    other = call("--db", keyed, "verify", "--anchor", file, "--digest", "00" * 16)
    assert (other.code, digest in other.err) == (5, True)
    assert call("--db", keyed, "verify", "--digest", digest).code == 2
    assert call("--db", keyed, "verify", "--anchor", f"{file}.not").code == 2
    assert call("--db", keyed, "verify", "--anchor", file, "--sample", "3").code == 2


def test_an_anchor_goes_to_stdout_and_follows_another_file(
    keyed: str, call: Call, tmp_path: Path
) -> None:
    written = subprocess.run(
        [sys.executable, "-m", "memalchemy", "--db", keyed, "anchor", "-"],
        env=environment(),
        capture_output=True,
        check=True,
    )
    first = tmp_path / "first.anchor"
    first.write_bytes(written.stdout)
    assert b"2 logs and items" in written.stderr
    second = tmp_path / "second.anchor"
    taken = call("--db", keyed, "anchor", str(second), "--previous", str(first), "--full")
    assert taken.code == 0, taken.err
    assert first.read_bytes() != second.read_bytes()
    assert call("--db", keyed, "verify", "--anchor", str(first)).code == 0


def test_a_removed_thread_stops_the_next_anchor(keyed: str, call: Call, tmp_path: Path) -> None:
    file = tmp_path / "agent.anchor"
    assert call("--db", keyed, "anchor", str(file)).code == 0
    assert call("--db", keyed, "delete", "airline-1").code == 0
    assert call("--db", keyed, "anchor", str(file)).code == 0, "it was deleted with the key"
    broken = bytearray(file.read_bytes())
    broken[-1] ^= 1
    file.write_bytes(bytes(broken))
    refused = call("--db", keyed, "anchor", str(file))
    assert (refused.code, refused.err.count("\n")) == (5, 1)
    assert file.read_bytes() == broken


def test_a_backup_that_is_put_back_is_refused_until_it_is_accepted(
    file_url: str, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMALCHEMY_SIGNING_KEYS", generate_key())
    database, file = tmp_path / "agent.db", str(tmp_path / "agent.anchor")
    assert call("--db", file_url, "upgrade").code == 0
    work(call, file_url, 4)
    assert call("--db", file_url, "anchor", file).code == 0
    backup = tmp_path / "backup.db"
    assert call("--db", file_url, "backup", str(backup)).code == 0
    work(call, file_url, 8)
    assert call("--db", file_url, "store", "put", "users/ada", "new", "1").code == 0
    assert call("--db", file_url, "anchor", file).code == 0
    before = Path(file).read_bytes()

    for rest in tmp_path.glob("agent.db*"):
        rest.unlink()
    database.write_bytes(backup.read_bytes())

    assert call("--db", file_url, "verify").code == 0, "signatures believe it"
    report = call("--db", file_url, "verify", "--anchor", file, "--json")
    assert report.code == 5
    assert {one["code"] for one in report.json["findings"]} == {"anchor"}
    assert len(report.json["findings"]) == 4
    remedy = report.json["findings"][0]["remedy"]
    printed = call("--db", file_url, "verify", "--anchor", file).out
    assert printed.count("[anchor]") == 4
    assert printed.count(remedy) == 1, "one remedy stands below the findings that it is for"
    assert "memalchemy anchor FILE --accept-rollback;" in remedy
    of_all = call("--db", file_url, "verify", "--anchor", file, "--all-tenants", "--json").json
    assert (
        "memalchemy anchor FILE --all-tenants --accept-rollback;" in of_all["findings"][0]["remedy"]
    )
    for _ in range(2):
        refused = call("--db", file_url, "anchor", file)
        assert refused.code == 5
        assert "--accept-rollback" in refused.err
    assert Path(file).read_bytes() == before
    accepted = call("--db", file_url, "anchor", file, "--accept-rollback")
    assert accepted.code == 0, accepted.err
    assert call("--db", file_url, "verify", "--anchor", file).code == 0
    work(call, file_url, 6)
    assert call("--db", file_url, "anchor", file).code == 0
    assert call("--db", file_url, "verify", "--anchor", file).code == 0


def test_an_anchor_without_keys_says_what_is_missing(
    file_url: str, call: Call, tmp_path: Path
) -> None:
    assert call("--db", file_url, "upgrade").code == 0
    answer = call("--db", file_url, "anchor", str(tmp_path / "agent.anchor"))
    assert answer.code == 2
    assert "MEMALCHEMY_SIGNING_KEYS" in answer.err
    text = tmp_path / "text.anchor"
    text.write_bytes(base64.b64encode(b"no anchor"))
    answer = call("--db", file_url, "verify", "--anchor", str(text))
    assert (answer.code, "not an anchor" in answer.err) == (5, True)
