"""What each adapter of an earlier release has stored: read, and written on, by its framework."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from subjects import INSTALLED

from memalchemy import Database
from memalchemy.verify import verify
from stored.kinds import directory_of, releases, unzipped

STORED = [
    (release, name, subject)
    for release in releases()
    for name in INSTALLED
    for file in (directory_of(release) / "adapters").glob(f"{name}.json")
    for subject in json.loads(file.read_text())["texts"]
]
AFTER = "the crane flies on"


@pytest.mark.parametrize(("release", "name", "subject"), STORED)
async def test_an_adapter_reads_what_an_earlier_release_stored_and_goes_on(
    release: str, name: str, subject: str, tmp_path: Path
) -> None:
    place = directory_of(release) / "adapters"
    (tmp_path / "agent.db").write_bytes(unzipped(place / f"{name}.db.gz"))
    content: dict[str, Any] = json.loads((place / f"{name}.json").read_text())
    id_, texts = content["id"], content["texts"][subject]
    one = INSTALLED[name].SUBJECTS[subject]
    async with Database(f"sqlite:///{tmp_path}/agent.db") as db:
        assert await one.read(one.open(db), id_) == texts
        await one.write(one.open(db), id_, AFTER)
        assert await one.read(one.open(db), id_) == ([*texts, AFTER] if one.appends else [AFTER])
        assert (await verify(db)).ok
    async with Database(f"sqlite:///{tmp_path}/agent.db") as db:
        await one.delete(one.open(db), id_)
        assert await one.read(one.open(db), id_) == []


@pytest.mark.parametrize("name", INSTALLED)
def test_a_stored_database_has_each_subject_of_its_framework(name: str) -> None:
    newest = directory_of(releases()[-1]) / "adapters" / f"{name}.json"
    assert {*json.loads(newest.read_text())["texts"]} == {*INSTALLED[name].SUBJECTS}
