"""The commands backup and copy."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from commandline import Call, environment, lines, thread

from servers import Postgres
from waiting import A_WHILE

REPORT = {
    "logs", "items", "looked", "new", "updated", "unchanged", "rows", "bytes", "seconds",
    "left", "left_out", "grown", "copied_again",
}  # fmt: skip


def test_a_backup_reports_its_file_and_size(filled: str, call: Call, tmp_path: Path) -> None:
    file = tmp_path / "backup.db"
    answer = call("backup", str(file), "--db", filled, "--json")

    assert answer.code == 0
    assert answer.json["file"] == str(file)
    assert answer.json["bytes"] == file.stat().st_size
    threads = [call("threads", "--db", db, "--json").json for db in (filled, f"sqlite:///{file}")]
    assert threads[0] == threads[1] != []


def test_a_backup_is_not_written_over_a_file_without_force(
    filled: str, call: Call, tmp_path: Path
) -> None:
    file = tmp_path / "backup.db"
    file.write_text("somebody's")

    refused = call("backup", str(file), "--db", filled)

    assert refused.code == 4
    assert "error [MA-CONFLICT]" in refused.err
    assert "--force" in refused.err
    assert file.read_text() == "somebody's"
    assert call("backup", str(file), "--db", filled, "--force").code == 0
    assert call("check", "--db", f"sqlite:///{file}").code == 0


def test_a_backup_that_cannot_be_written_is_a_one_line_error(
    filled: str, call: Call, tmp_path: Path
) -> None:
    answer = call("backup", str(tmp_path / "nowhere" / "backup.db"), "--db", filled)

    assert answer.code == 2
    assert answer.err == "error [MA-OUTPUT]: cannot write the output: No such file or directory\n"


def test_a_backup_of_a_missing_file_creates_nothing(call: Call, tmp_path: Path) -> None:
    answer = call("backup", str(tmp_path / "b.db"), "--db", f"sqlite:///{tmp_path}/none.db")

    assert answer.code == 3
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("server", ["postgresql://me:secret@host/db", "oracle://me:secret@host/db"])
def test_on_a_server_the_error_names_the_backup_command(server: str, call: Call) -> None:
    answer = call("backup", "out", "--db", server, "--schema", "memory")

    assert answer.code == 4
    assert answer.err.startswith("error [MA-CAPABILITY-MISSING]: ")
    assert answer.err.split("Run: ")[1].split()[0] in ("pg_dump", "expdp")
    assert "secret" not in answer.err


def test_a_copy_reports_what_it_did_and_a_second_copy_finds_nothing_new(
    filled: str, url: str, call: Call
) -> None:
    if not url.startswith("sqlite"):
        assert call("upgrade", "--db", url).code == 0
    else:
        url = url.replace("agent.db", "target.db")
    first = call("copy", "--from", filled, "--to", url, "--json")
    second = call("copy", "--to", url, "--db", filled)

    assert first.code == second.code == 0, first.err + second.err
    assert set(first.json) == REPORT
    assert (first.json["new"], first.json["rows"]) == (2, 2 + 2 * 12)
    assert second.out.startswith("2 logs and 0 items: 0 new, 0 updated, 2 unchanged\n")
    shown = [call("show", "airline-1", "--raw", "--db", db).json for db in (filled, url)]
    assert shown[0] == shown[1]


def test_a_variable_names_the_schema_where_no_option_does(
    filled: str, call: Call, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgres.url(name := postgres.create_database())
    monkeypatch.setenv("MEMALCHEMY_SCHEMA", "memory")
    try:
        assert call("upgrade", "--db", url).code == 0
        assert call("current", "--db", url, "--json").json["revision"]
        assert call("current", "--db", url, "--json", "--schema", "public").json["revision"] is None
        # The source is a file, which has no schemas; the target's schema is an option's alone.
        refused = call("copy", "--db", filled, "--to", url)
        assert refused.code == 1
        assert "has no memalchemy schema, " in refused.err
        copied = call("copy", "--db", filled, "--to", url, "--to-schema", "memory")
        assert copied.code == 0
        assert len(call("threads", "--db", url, "--json").json) == 2
        back = call("copy", "--db", url, "--to", filled, "--json")
        assert (back.code, back.json["new"]) == (0, 0)
    finally:
        postgres.drop_database(name)


def test_a_copy_to_a_schema_goes_into_that_schema(
    filled: str, call: Call, request: pytest.FixtureRequest
) -> None:
    postgres = request.getfixturevalue("postgres")
    name = postgres.create_database()
    url = postgres.url(name)
    for schema in ("one", "two"):
        postgres.execute(f"CREATE SCHEMA {schema}", name)
        call("upgrade", "--db", url, "--schema", schema)

    answers = [
        call("copy", "--from", filled, "--to", url, "--to-schema", "one", "--json"),
        call(
            *("copy", "--from", url, "--from-schema", "one"),
            *("--to", url, "--to-schema", "two", "--json"),
        ),
    ]

    assert [(answer.code, answer.json["new"]) for answer in answers] == [(0, 2), (0, 2)]
    assert postgres.execute("SELECT count(*) FROM two.checkpoints", name) == [(12,)]
    postgres.drop_database(name)


def test_one_tenant_or_all_are_copied(filled: str, call: Call, tmp_path: Path) -> None:
    given = lines(thread("theirs"))
    call("import", "-", "--db", filled, "--tenant", "acme", stdin=given)
    one, everybody = (f"sqlite:///{tmp_path}/{name}.db" for name in ("one", "all"))

    answers = [
        call("copy", "--from", filled, "--to", one, "--tenant", "acme", "--json"),
        call("copy", "--from", filled, "--to", everybody, "--all-tenants", "--json"),
    ]

    assert [answer.json["logs"] for answer in answers] == [1, 3]
    both = call("copy", "--from", filled, "--to", one, "--tenant", "acme", "--all-tenants")
    assert both.code == 2


def test_a_copy_needs_a_target(filled: str, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    assert call("copy", "--from", filled).code == 2
    monkeypatch.setenv("MEMALCHEMY_TO_URL", filled.replace("agent.db", "target.db"))
    assert call("copy", "--from", filled).code == 0


def test_a_copy_over_other_data_is_refused(filled: str, call: Call, tmp_path: Path) -> None:
    other = f"sqlite:///{tmp_path}/other.db"
    call("import", "-", "--db", other, stdin=lines(thread("retail-1", 3), thread("alone")))
    before = call("export", "--all", "--db", other).out

    answer = call("copy", "--from", filled, "--to", other)

    assert answer.code == 4
    assert answer.err.startswith("error [MA-CONFLICT]: ")
    assert "thread 'retail-1' in /" in answer.err
    assert call("export", "--all", "--db", other).out == before


def test_an_interrupted_copy_resumes_when_it_is_run_again(
    filled: str, call: Call, tmp_path: Path
) -> None:
    call("import", "-", "--db", filled, stdin=lines(*(thread(f"t{n}", 3) for n in range(400))))
    target = f"sqlite:///{tmp_path}/target.db"
    script = (
        "import memalchemy.transfer as transfer, os, signal\n"
        "copy = transfer.copy\n"
        "async def interrupted(source, target, *, progress, **options):\n"
        "    def show(report):\n"
        "        progress(report)\n"
        "        if report.done == 300: os.kill(os.getpid(), signal.SIGINT)\n"
        "    return await copy(source, target, progress=show, **options)\n"
        "transfer.copy = interrupted\n"
        "from memalchemy.cli import main; main()\n"
    )
    interrupted = subprocess.run(
        [sys.executable, "-c", script, "copy", "--from", filled, "--to", target],
        capture_output=True,
        text=True,
        env=environment(),
        timeout=2 * A_WHILE,
    )

    assert (interrupted.returncode, interrupted.stderr) == (130, "interrupted\n")
    again = call("copy", "--from", filled, "--to", target, "--json")
    assert again.code == 0, again.err
    assert 0 < again.json["unchanged"] < 402
    assert again.json["unchanged"] + again.json["new"] == 402
    assert call("stats", "--db", target, "--json").json["threads"] == 402


def test_a_copy_beside_damage_names_it_and_ends_with_its_code(
    filled: str, call: Call, tmp_path: Path
) -> None:
    with closing(sqlite3.connect(filled.removeprefix("sqlite:///"))) as file:
        (damaged,) = file.execute("SELECT thread_id FROM threads WHERE namespace = '/'").fetchone()
        file.execute(
            "UPDATE deltas SET checksum = 5 WHERE log_id IN (SELECT log_id FROM threads "
            "WHERE thread_id = ? AND namespace = '/')",
            (damaged,),
        )
        file.commit()
    target = f"sqlite:///{tmp_path / 'target.db'}"

    answer = call("copy", "--from", filled, "--to", target)
    again = call("copy", "--from", filled, "--to", target, "--json")

    assert (answer.code, again.code) == (5, 5)
    assert f"thread {damaged!r} in /" in answer.out
    assert again.json["left"] == len(again.json["left_out"]) == 1
    assert again.json["unchanged"] > 0
