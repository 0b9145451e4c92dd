"""Commands as processes: entry points, the demo, Ctrl-C, kills and closed pipes."""

from __future__ import annotations

import json
import os
import pty
import re
import resource
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from commandline import Call, environment, lines, process, thread

from memalchemy import __version__
from waiting import A_WHILE, wait_until

LONG = thread("long", 400)


def count(url: str) -> int:
    """Count the checkpoints in a SQLite file that another process writes."""
    path = url.removeprefix("sqlite:///")
    if not Path(path).exists():
        return 0
    with sqlite3.connect(path) as connection:
        try:
            found = connection.execute("SELECT count(*) FROM checkpoints").fetchone()[0]
        except sqlite3.OperationalError:  # not migrated yet
            found = 0
    connection.close()
    return found


def start_import(url: str, source: Path) -> subprocess.Popen[str]:
    """Start an import of *source*, and return while it is writing."""
    running = subprocess.Popen(
        [sys.executable, "-m", "memalchemy", "import", str(source), "--db", url],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )

    def is_writing() -> bool:
        assert running.poll() is None, running.communicate()
        return count(url) >= 10

    wait_until(is_writing)
    return running


def test_the_installed_command_and_the_module_are_one_program() -> None:
    script = shutil.which("memalchemy", path=str(Path(sys.executable).parent))
    assert script is not None
    installed = subprocess.run([script, "--version"], capture_output=True, text=True, check=True)

    assert installed.stdout == process("--version").stdout == f"memalchemy {__version__}\n"


@pytest.mark.alone
def test_the_demo_shows_everything_within_ten_seconds_of_processor_time(tmp_path: Path) -> None:
    # The processor's time: how long it takes on the clock is the machine's and its neighbours'.
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    ended = process("demo", "--no-color", env=environment(TMPDIR=str(tmp_path), COLUMNS="120"))
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    assert ended.returncode == 0, ended.stderr
    assert seconds < 10
    found = re.search(r"process (\d+) \(this one is (\d+)\) found step-43", ended.stdout)
    assert found
    assert found[1] != found[2]
    for said in (
        "equal to what was saved: yes",
        "what-if is the newest now, its parent is step-14",
        "/messages/14",
        "deadlock",
        "all 44 states in full, as JSON, added up",
        "stored for the 44 states",
        "the database file",
    ):
        assert said in ended.stdout
    assert list(tmp_path.iterdir()) == []


def test_the_figures_of_the_demo_are_those_of_its_file(tmp_path: Path) -> None:
    ended = process("demo", "--json", "--keep", env=environment(TMPDIR=str(tmp_path)))
    document = json.loads(ended.stdout)
    (file,) = tmp_path.glob("*/agent.db")
    with sqlite3.connect(file) as connection:
        payloads = connection.execute("SELECT sum(length(payload)) FROM deltas").fetchone()[0]
        states = connection.execute("SELECT sum(raw_size) FROM checkpoints").fetchone()[0]
    connection.close()

    bytes_ = document["bytes"]
    assert bytes_["file"] == file.stat().st_size
    assert bytes_["payloads"] == payloads
    # As JSON a state takes somewhat more than its encoding.
    assert states < bytes_["states_whole"] < states * 1.2
    assert not file.with_name("agent.db-wal").exists()


def test_the_kept_demo_answers_what_its_model_took(tmp_path: Path) -> None:
    file = tmp_path / "demo.db"
    kept = process("demo", "--keep", "--db", str(file))
    used = process("usage", "--by", "model", "--json", "--db", str(file))

    assert kept.returncode == used.returncode == 0
    (total,) = json.loads(used.stdout)
    assert total["answers"] > 10
    assert total["input_tokens"] > total["output_tokens"] > 0


def test_the_demo_ignores_the_url_in_the_environment(tmp_path: Path) -> None:
    elsewhere = tmp_path / "production.db"
    ended = process("demo", env=environment(MEMALCHEMY_URL=f"sqlite:///{elsewhere}"))

    assert ended.returncode == 0
    assert not elsewhere.exists()


def test_the_demo_leaves_no_thread_in_a_given_database(url: str, call: Call) -> None:
    call("upgrade", "--db", url)

    answer = call("demo", "--db", url)

    assert answer.code == 0
    assert "equal to what was saved: yes" in answer.out
    assert call("threads", "--db", url, "--json").json == []


def test_a_killed_import_resumes_where_it_stopped(
    file_url: str, tmp_path: Path, call: Call
) -> None:
    source = tmp_path / "threads.jsonl"
    source.write_text(lines(thread("first"), LONG))
    running = start_import(file_url, source)
    running.kill()
    running.communicate()
    before = count(file_url)
    assert before < 404

    answer = call("import", str(source), "--json", "--db", file_url)

    assert answer.code == 0
    assert answer.json["threads"]["resumed"] >= 1
    assert answer.json["checkpoints"] == 404 - before
    assert call("show", "long", "--raw", "--db", file_url).json == {"messages": LONG["messages"]}


def test_an_interrupted_command_ends_with_130_and_no_traceback(
    file_url: str, tmp_path: Path
) -> None:
    source = tmp_path / "threads.jsonl"
    source.write_text(lines(LONG))
    running = start_import(file_url, source)
    running.send_signal(signal.SIGINT)
    _, messages = running.communicate(timeout=A_WHILE)

    assert running.returncode == 130
    assert messages == "interrupted\n"


def test_ctrl_c_at_a_question_erases_nothing(filled: str) -> None:
    asked = subprocess.Popen(
        [sys.executable, "-m", "memalchemy", "forget", "--thread", "airline-1", "--db", filled],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    )
    assert asked.stderr is not None
    question = b""
    while not question.endswith(b"[y/N] "):
        question += asked.stderr.read(1)
    asked.send_signal(signal.SIGINT)

    assert asked.wait(A_WHILE) == 130
    asked.communicate()
    assert count(filled) == 12


@pytest.mark.parametrize(
    ("typed", "options", "code", "left"),
    [("n", (), 4, 12), ("y", (), 0, 4), ("", ("--yes",), 0, 4)],
)
def test_delete_asks_whoever_sits_at_a_terminal(
    filled: str, typed: str, options: tuple[str, ...], code: int, left: int
) -> None:
    outer, inner = pty.openpty()
    os.write(outer, f"{typed}\n".encode())

    deleted = process("delete", "airline-1", *options, "--db", filled, stdin=inner)

    os.close(inner)
    os.close(outer)
    assert deleted.returncode == code
    assert ("[y/N]" in deleted.stderr) is (not options)
    assert count(filled) == left


def test_ctrl_c_ends_an_import_that_waits_for_its_input(file_url: str) -> None:
    waiting = subprocess.Popen(
        [sys.executable, "-m", "memalchemy", "import", "-", "--db", file_url],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    wait_until(Path(file_url.removeprefix("sqlite:///")).exists)
    waiting.send_signal(signal.SIGINT)

    assert waiting.wait(A_WHILE) == 130
    assert waiting.communicate()[1] == "interrupted\n"


@pytest.mark.skipif(os.name == "nt", reason="a pipe of a POSIX shell")
def test_a_closed_pipe_is_no_error(filled: str, call: Call) -> None:
    call("import", "-", "--db", filled, stdin=lines(LONG))
    command = f"'{sys.executable}' -m memalchemy export --all --db {filled} | head -n 1"
    ended = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"],
        capture_output=True,
        text=True,
        timeout=2 * A_WHILE,
        env=environment(),
    )

    assert ended.stdout.count("\n") == 1
    assert "Traceback" not in ended.stderr
    assert ended.returncode == 0


@pytest.mark.parametrize(
    "module",
    [
        "typer.core",
        "memalchemy.cli.exit_codes",
        "memalchemy.cli.app",
        "sqlalchemy.engine",
        "memalchemy.checkpoints.checkpointer",
    ],
)
def test_ctrl_c_during_startup_prints_one_line(filled: str, module: str) -> None:
    starting = subprocess.Popen(
        [sys.executable, "-X", "importtime", "-m", "memalchemy", "threads", "--db", filled],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert starting.stderr is not None
    for line in starting.stderr:
        if line.rstrip().endswith(f" {module}"):
            starting.send_signal(signal.SIGINT)
            break
    _, messages = starting.communicate(timeout=A_WHILE)

    said = [line for line in messages.splitlines() if not line.startswith("import time:")]
    assert (starting.returncode, said) == (130, ["interrupted"])


def test_a_second_ctrl_c_prints_no_traceback(file_url: str, tmp_path: Path) -> None:
    source = tmp_path / "threads.jsonl"
    source.write_text(lines(LONG))
    running = start_import(file_url, source)
    while running.poll() is None:
        running.send_signal(signal.SIGINT)
        time.sleep(0.002)
    _, messages = running.communicate(timeout=A_WHILE)

    assert running.returncode in (130, -signal.SIGINT)
    assert messages in ("interrupted\n", "")


def test_importing_the_command_line_does_not_import_sqlalchemy() -> None:
    """Ctrl-C must be handled from the first moment."""
    code = "import sys, memalchemy.cli; sys.exit('sqlalchemy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_demo_says_that_its_second_process_could_not_be_started(
    url: str, call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = tmp_path / "python"
    program.write_text("")  # nobody may execute it
    call("upgrade", "--db", url)
    monkeypatch.setattr(sys, "executable", str(program))

    answer = call("demo", "--db", url)

    assert answer.code == 4
    assert f"{program} could not be started: Permission denied" in answer.err
