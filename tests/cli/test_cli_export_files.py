"""`export --directory`, which writes a readable file per checkpoint."""

from __future__ import annotations

import json
from pathlib import Path

from commandline import Call


def test_export_writes_a_file_per_checkpoint(filled: str, call: Call, tmp_path: Path) -> None:
    out = tmp_path / "out"
    answer = call("--db", filled, "export", "--all", "--directory", str(out), "--json")
    lines = call("--db", filled, "export", "--all").out.splitlines()

    files = [file for file in out.rglob("*") if file.is_file()]
    assert answer.json == {"records": len(lines), "file": str(out)}
    assert sorted(json.dumps(json.loads(f.read_text()), sort_keys=True) for f in files) == sorted(
        json.dumps(json.loads(line), sort_keys=True) for line in lines
    )


def test_export_refuses_an_existing_directory_and_creates_none_without_records(
    filled: str, call: Call, tmp_path: Path
) -> None:
    taken = call("--db", filled, "export", "--all", "--directory", str(tmp_path))
    nobody = call("--db", filled, "export", "--thread", "no", "--directory", str(tmp_path / "no"))
    both = call("--db", filled, "export", "--all", "-o", "x", "--directory", "y")

    assert (taken.code, nobody.code, both.code) == (4, 1, 2)
    assert not (tmp_path / "no").exists()
