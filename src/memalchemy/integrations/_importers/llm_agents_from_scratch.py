"""Reads the JSON lines of llm-agents-from-scratch's `JSONMemoryStore`: its episodes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

from llm_agents_from_scratch.data_structures import Episode

from memalchemy._bounds import check_json
from memalchemy.database import Database
from memalchemy.errors import DatabaseUnreachable, NotFound
from memalchemy.importers.target import Record, Unreadable, Whole
from memalchemy.importers.unreadable import UNREADABLE, Unusable, describe_problem
from memalchemy.integrations.llm_agents_from_scratch import MemalchemyMemoryStore

FILE = "episodes.jsonl"
"""Default name of the store's file."""


async def count(place: str, *, schema: str | None = None) -> int:
    """Count the episodes."""
    return await asyncio.to_thread(lambda: sum(1 for _ in _read_lines(place)))


async def read(place: str, *, schema: str | None = None) -> AsyncIterator[Record]:
    """Yield the episodes of a file, or of ``episodes.jsonl`` in a directory, in their order."""
    for number, line in await asyncio.to_thread(lambda: list(_read_lines(place))):
        try:
            check_json(line)
            episode = Episode.model_validate_json(line)
            if "id_" not in episode.model_fields_set:  # it would get another with each import
                raise Unusable("has no 'id_'")
            record = _to_record(episode)
        except UNREADABLE as error:
            yield Unreadable("item", f"line {number}", describe_problem(error))
        else:
            yield record


def _read_lines(place: str) -> Iterator[tuple[int, bytes]]:
    path = Path(place)
    if path.is_dir():
        path = path / FILE
        if not path.is_file():
            raise NotFound(f"there is no file {FILE} in {place}")
    try:
        with path.open("rb") as opened:
            for number, line in enumerate(opened, start=1):
                if line.strip():
                    yield number, line
    except OSError as error:
        raise DatabaseUnreachable(f"{path} cannot be read: {error.strerror}") from error


def _to_record(episode: Episode) -> Whole:
    async def get(db: Database, _: str) -> Any:
        found = await MemalchemyMemoryStore(db).get(episode.id_)
        return None if found is None else found.model_dump(mode="json")

    return Whole(
        "item",
        f"episode {episode.id_}",
        episode.model_dump(mode="json"),
        get,
        lambda db, *_: MemalchemyMemoryStore(db).write(episode),
    )
