"""The files of the inspector's page: safe by construction, complete, and part of the wheel."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from hashlib import sha256
from pathlib import Path

import pytest

from pages import ROOT

STATIC = ROOT / "src" / "memalchemy" / "http" / "inspector" / "static"
VENDORED = {
    "vendor/markdown-it.js": "40ee4f75f35a4c8d24f1d7a902f4c56a26da8bd9eec5bb02ad4a672d6ba05525",
}
"""Files of other projects, unchanged but for the reference to their source map, and their SHA-256.

npm's markdown-it 15.0.3, dist/browser/markdown-it.esm.min.mjs. It parses; `html` is off, and what
it makes is a list of tokens, whose rendering as HTML nobody calls.
"""
SCRIPTS = sorted(
    path for path in STATIC.rglob("*.js") if path.relative_to(STATIC).as_posix() not in VENDORED
)
MARKUP = (
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|DOMParser|createContextualFragment"
    r"|setHTML|srcdoc|\beval\(|new Function|importScripts|setAttribute\(\"on|javascript:"
)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.relative_to(STATIC).as_posix())
def test_no_script_makes_markup_or_code_of_text(path: Path) -> None:
    assert re.findall(MARKUP, path.read_text()) == []


def test_the_page_has_no_script_style_or_handler_of_its_own() -> None:
    page = (STATIC / "index.html").read_text()

    assert re.findall(r"<style|\sstyle=|\son\w+=|javascript:", page) == []
    assert re.findall(r"<script[^>]*>([^<]*)</script>", page) == ["", ""]


def test_nothing_comes_from_another_server() -> None:
    namespace = "http://www.w3.org/2000/svg"
    for path in STATIC.rglob("*.*"):
        if path.parent.name == "vendor":
            continue
        text = path.read_text().replace(namespace, "")

        assert re.findall(r"https?://|//[a-z]+\.[a-z]+/|@import|url\(", text) == [], path.name


def test_every_import_names_a_file_that_is_there_and_every_file_is_used() -> None:
    used = {STATIC / name for name in ("main.js", "theme.js")}
    known = {*SCRIPTS, *(STATIC / name for name in VENDORED)}
    for path in SCRIPTS:
        for name in re.findall(r'from "(\.[^"]+)"', path.read_text()):
            used.add((path.parent / name).resolve())

    assert used == known


@pytest.mark.parametrize("name", VENDORED)
def test_a_vendored_file_is_the_published_one_with_its_licence(name: str) -> None:
    file = STATIC / name
    licence = file.with_suffix(".LICENSE.txt").read_text()

    assert sha256(file.read_bytes()).hexdigest() == VENDORED[name]
    assert "Permission is hereby granted, free of charge" in licence


def test_markdown_is_parsed_and_never_rendered_as_html() -> None:
    source = (STATIC / "markdown.js").read_text()

    assert "html: false" in source
    assert re.findall(r"\.render\w*\(|\.renderer", source) == []


def test_the_wheel_has_every_file_of_the_page(tmp_path: Path) -> None:
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("*.whl")
    names = set(zipfile.ZipFile(wheel).namelist())
    files = {path.relative_to(ROOT / "src").as_posix() for path in STATIC.rglob("*.*")}
    assert files <= names
