"""Files that commands write: links are followed, modes kept, FIFOs and devices written directly."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from commandline import Answer, Call, commands, environment
from typer.main import get_command

from memalchemy.cli.app import app
from memalchemy.signing import generate_key
from waiting import A_WHILE

WRITES: dict[tuple[str, str], tuple[str, ...]] = {
    ("export", "--output"): ("export", "--all", "-o"),
    ("export", "--directory"): ("export", "--all", "--directory"),
    ("store export", "--output"): ("store", "export", "-o"),
    ("messages", "--parquet"): ("messages", "--parquet"),
    ("tools", "--parquet"): ("tools", "--parquet"),
    ("usage", "--parquet"): ("usage", "--parquet"),
    ("sql", "--parquet"): ("sql", "SELECT thread FROM messages", "--parquet"),
    ("sql", "--cache"): ("sql", "SELECT thread FROM messages", "--cache"),
    ("stats", "--plot"): ("stats", "--plot"),
    ("backup", "file"): ("backup", "--force"),
    ("anchor", "file"): ("anchor",),
}
"""The options and arguments that name what is written, and how each is called."""

READS = {
    ("import", "source"),
    ("restore", "file"),
    ("verify", "--anchor"),
    ("anchor", "--previous"),
    ("serve", "--token-file"),
    ("store import", "file"),
}

NEEDS = {"--parquet": "pyarrow", "--cache": "duckdb", "--plot": "matplotlib"}

FILES = [place for place in WRITES if place[1] != "--directory"]
STREAMED = [
    place for place in FILES if place[1] not in ("--cache", "--plot") and place[0] != "backup"
]


def name_of(place: tuple[str, str]) -> str:
    return "-".join(place).replace(" ", "-").replace("---", "-")


@pytest.fixture
def keyed(filled: str, call: Call, monkeypatch: pytest.MonkeyPatch) -> str:
    """A signed database with two threads and an item."""
    monkeypatch.setenv("MEMALCHEMY_SIGNING_KEYS", generate_key())
    assert call("--db", filled, "sign").code == 0
    assert call("--db", filled, "store", "put", "users/ada", "k", "1").code == 0
    return filled


@pytest.fixture
def write(keyed: str, call: Call) -> Callable[[tuple[str, str], Path], Answer]:
    """Call the command of a place with a file."""

    def write(place: tuple[str, str], file: Path) -> Answer:
        if place[1] in NEEDS:
            pytest.importorskip(NEEDS[place[1]])
        return call("--db", keyed, *WRITES[place], str(file))

    return write


Write = Callable[[tuple[str, str], Path], Answer]


def test_every_option_that_names_a_file_is_known_to_write_or_to_read() -> None:
    found = set()
    root = get_command(app)
    for name in commands(root):
        one = root
        for part in name.split():
            one = one.commands[part]  # type: ignore[attr-defined]
        for parameter in one.params:
            is_common = parameter.name in ("keys_file", "signing_keys_file")
            if getattr(parameter, "metavar", None) in ("FILE", "DIR") and not is_common:
                found.add((name, parameter.opts[0]))

    assert found == WRITES.keys() | READS


@pytest.mark.parametrize("place", WRITES, ids=name_of)
def test_a_link_stays_and_leads_to_what_was_written(
    place: tuple[str, str], write: Write, tmp_path: Path
) -> None:
    suffix = ".svg" if place[1] == "--plot" else ".out"
    (tmp_path / "away").mkdir()
    real, link = tmp_path / "away" / f"real{suffix}", tmp_path / f"link{suffix}"
    link.symlink_to(Path("away") / real.name)

    for turn in ("new", "replaced"):
        if place[1] == "--directory" and turn == "replaced":
            break  # a directory that is not empty is refused
        ended = write(place, link)
        assert ended.code == 0, (turn, ended.err)
        assert link.is_symlink()
        assert real.is_dir() == (place[1] == "--directory")
        assert real.stat().st_size > 0
        assert [file.name for file in real.parent.iterdir()] == [real.name]


@pytest.mark.parametrize("place", FILES, ids=name_of)
@pytest.mark.parametrize("mode", [0o600, 0o640], ids=oct)
def test_the_mode_of_a_file_is_kept(
    place: tuple[str, str], mode: int, write: Write, tmp_path: Path
) -> None:
    file = tmp_path / ("file.svg" if place[1] == "--plot" else "file.out")
    assert write(place, file).code == 0
    file.chmod(mode)
    before = file.stat().st_mtime_ns

    assert write(place, file).code == 0

    assert stat.S_IMODE(file.stat().st_mode) == mode
    assert file.stat().st_mtime_ns > before


def test_the_mode_of_an_empty_directory_is_kept(write: Write, tmp_path: Path) -> None:
    directory = tmp_path / "out"
    directory.mkdir(0o700)

    assert write(("export", "--directory"), directory).code == 0

    assert stat.S_IMODE(directory.stat().st_mode) == 0o700
    assert any(directory.iterdir())


@pytest.mark.parametrize("place", STREAMED, ids=name_of)
def test_a_fifo_is_written_to(place: tuple[str, str], write: Write, tmp_path: Path) -> None:
    file, fifo, read = tmp_path / "file", tmp_path / "fifo", list[bytes]()
    os.mkfifo(fifo)
    assert write(place, file).code == 0
    reader = threading.Thread(target=lambda: read.append(fifo.read_bytes()), daemon=True)
    reader.start()

    ended = write(place, fifo)

    reader.join(A_WHILE)
    assert ended.code == 0, ended.err
    assert stat.S_ISFIFO(fifo.lstat().st_mode)
    if place[1] == "file":  # an anchor has its time
        assert len(read[0]) == file.stat().st_size
    else:
        assert read == [file.read_bytes()]


def test_a_backup_into_what_is_no_file_is_refused(write: Write, tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)

    ended = write(("backup", "file"), fifo)

    assert (ended.code, "is no file" in ended.err) == (4, True)
    assert stat.S_ISFIFO(fifo.lstat().st_mode)


@pytest.mark.parametrize("place", STREAMED, ids=name_of)
def test_a_device_that_refuses_is_one_line_about_the_output(
    place: tuple[str, str], write: Write, tmp_path: Path
) -> None:
    # A name in /proc/self/fd of a descriptor that may only be read: no device of the machine.
    (tmp_path / "read").touch()
    read_only = os.open(tmp_path / "read", os.O_RDONLY)
    try:
        ended = write(place, Path(f"/proc/self/fd/{read_only}"))
    finally:
        os.close(read_only)

    assert ended.code == 2
    assert ended.err.startswith("error [MA-OUTPUT]: cannot write the output: ")
    assert ended.err.count("\n") == 1
    assert [file.name for file in tmp_path.iterdir() if ".part" in file.name] == []


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link"])
@pytest.mark.parametrize("stdout", ["pipe", "file"])
def test_names_of_stdout_are_stdout(
    name: str, stdout: str, filled: str, call: Call, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to("/dev/stdout")
    expected = b"before\n" + call("--db", filled, "export", "--all").out.encode()
    file = str(tmp_path / name)
    command = [sys.executable, "-m", "memalchemy", "--db", filled, "export", "--all", "-o", file]
    out = tmp_path / "out"
    with out.open("wb") as opened:
        opened.write(b"before\n")
        opened.flush()
        ended = subprocess.run(
            command,
            stdout=opened if stdout == "file" else subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(),
            timeout=2 * A_WHILE,
        )

    assert ended.returncode == 0, ended.stderr
    assert (out.read_bytes() if stdout == "file" else b"before\n" + ended.stdout) == expected


def test_restore_follows_a_link_and_keeps_the_mode(filled: str, call: Call, tmp_path: Path) -> None:
    backup, real, link = tmp_path / "backup.db", tmp_path / "real.db", tmp_path / "link.db"
    assert call("--db", filled, "backup", str(backup)).code == 0
    assert call("--db", filled, "backup", str(real)).code == 0
    link.symlink_to("real.db")
    real.chmod(0o600)
    backup.chmod(0o644)

    ended = call("--db", str(link), "restore", str(backup), "--yes")

    assert ended.code == 0, ended.err
    assert link.is_symlink()
    assert stat.S_IMODE(real.stat().st_mode) == 0o600
    assert len(list(tmp_path.glob("real.db.before-restore-*"))) == 1
