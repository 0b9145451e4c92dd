"""What any framework stores is found, exported, pruned and erased by the same commands."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from subjects import INSTALLED
from typer.testing import CliRunner

from memalchemy import Database
from memalchemy.cli.app import app
from memalchemy.conformance import Subject

SUBJECTS: dict[str, Subject[Any]] = {
    name: subject for module in INSTALLED.values() for name, subject in module.SUBJECTS.items()
}
ID = "ada"
WORDLESS = {
    "A2A's push notifications": "they are addresses and tokens",
    "LangChain's cache": "an answer is found by its prompt alone",
    "LangChain's store of bytes": "bytes have no words",
    "LlamaIndex's values": "index_text=True has them; the words of a document are its nodes'",
    "Strands' snapshots": "they are states as JSON, which repeat the messages",
}
"""Subjects whose words are not indexed unless somebody asks for it, and the reason."""


def word_of(name: str) -> str:
    """A word that only one subject stores."""
    return f"marigold{list(SUBJECTS).index(name):03}"


async def write_all(url: str) -> None:
    async with Database(url) as db:
        for name, subject in SUBJECTS.items():
            await subject.write(subject.open(db), ID, f"the {word_of(name)} blooms")


async def read_all(url: str) -> dict[str, list[str]]:
    async with Database(url) as db:
        return {name: await one.read(one.open(db), ID) for name, one in SUBJECTS.items()}


@pytest.fixture
def url(tmp_path: Path) -> str:
    made = f"sqlite:///{tmp_path}/agent.db"
    asyncio.run(write_all(made))
    return made


@pytest.fixture(scope="module")
def read_only(tmp_path_factory: pytest.TempPathFactory) -> str:
    made = f"sqlite:///{tmp_path_factory.mktemp('all')}/agent.db"
    asyncio.run(write_all(made))
    return made


def call(url: str, *arguments: str) -> Any:
    result = CliRunner().invoke(app, [*arguments, "--db", url, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, (arguments, result.stderr)
    return json.loads(result.stdout) if result.stdout.strip() else None


def root_of(name: str) -> str:
    adapter = SUBJECTS[name].open("sqlite://")
    root: str = adapter.root
    return root


@pytest.mark.parametrize("name", SUBJECTS)
def test_its_words_are_found_below_the_frameworks_name(name: str, read_only: str) -> None:
    found = call(read_only, "search", word_of(name))

    expected = set() if name in WORDLESS else {root_of(name)}
    assert {hit["namespace"][0] for hit in found} == expected


def test_threads_are_listed_below_the_names_of_their_frameworks(read_only: str) -> None:
    listed = {log["namespace"][0] for log in call(read_only, "threads")}
    items = {space["namespace"][0] for space in call(read_only, "store", "ls")}

    assert listed | items >= {root_of(name) for name in SUBJECTS}


def test_what_is_appended_is_exported_whole_and_erased_without_a_trace(url: str) -> None:
    appended = [name for name, subject in SUBJECTS.items() if subject.appends]
    assert appended
    output = Path(url.removeprefix("sqlite:///")).with_name("export.jsonl")
    call(url, "export", "--thread", ID, "--output", str(output))
    exported = output.read_text()
    for name in appended:
        assert word_of(name) in exported

    call(url, "forget", "--thread", ID, "--yes")

    for name in appended:
        assert word_of(name).encode() not in Path(url.removeprefix("sqlite:///")).read_bytes()


def test_pruning_all_that_can_be_pruned_breaks_no_framework(url: str) -> None:
    before = asyncio.run(read_all(url))
    call(url, "prune", "--all", "--keep-last", "1")

    assert asyncio.run(read_all(url)) == before


def test_all_of_it_is_sound_and_a_tenant_is_erased_with_it(url: str) -> None:
    call(url, "verify")

    call(url, "forget", "--whole-tenant", "default", "--yes")

    assert set(map(len, asyncio.run(read_all(url)).values())) == {0}
