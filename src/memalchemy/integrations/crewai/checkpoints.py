"""`MemalchemyCheckpointProvider`: the checkpoints of CrewAI's crews, flows and agents."""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import partial
from typing import Any, ClassVar

from crewai.state.provider.json_provider import JsonProvider
from pydantic import ConfigDict, Field, PrivateAttr

from memalchemy._bounds import parse_json
from memalchemy.checkpoints import Checkpointer
from memalchemy.database import Database
from memalchemy.errors import NotFound, ThreadDeleted
from memalchemy.integrations._base import AnyDatabase, blocking
from memalchemy.integrations._stored_forms import StoredForm
from memalchemy.integrations.crewai._adapter import CrewAdapter

_FORM = StoredForm("checkpoint of CrewAI")

SCHEME = "memalchemy:"
"""Beginning of the locations of checkpoints, by which CrewAI finds the provider that reads them."""

BRANCH = "branch"
"""Key in a checkpoint's metadata."""

TEXT = "text"
"""Key in the state and in the metadata of a checkpoint that is not a JSON object."""


class MemalchemyCheckpointProvider(CrewAdapter, JsonProvider):
    """Checkpoints of crews, flows and agents, each of which costs what differs from its parent.

    The ``location`` of a `CheckpointConfig` is a name here: checkpoints of one location are those
    of one thread, and `prune` looks at no other. A checkpoint is whole or absent; its parent and
    its branch are recorded. Its location is ``memalchemy:LOCATION#ID``, from which `install` lets
    CrewAI restore it. What is read is equal JSON, spelt as `json.dumps` does; what is not a JSON
    object is read as it was.

    It is a `JsonProvider` by its type alone, because a `CheckpointConfig` takes no other class than
    CrewAI's own two; it writes no file.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        namespace: keeps the checkpoints of several applications apart in one database.
        index_text: make the words of checkpoints searchable.
        provider_type: CrewAI's name for the class; leave it out.

    ``native`` is the `memalchemy.Checkpointer` underneath.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        TooLarge: the location has over 255 characters.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True)

    db: Database = Field(default=None, exclude=True, repr=False)  # type: ignore[assignment]
    namespace: tuple[str, ...] = Field(default=(), exclude=True)
    _owns_db: bool = PrivateAttr()
    _loop: Any = PrivateAttr()
    _native: Checkpointer = PrivateAttr()

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        namespace: Iterable[str] = (),
        index_text: bool = True,
    ) -> None:
        JsonProvider.__init__(self)
        CrewAdapter.__init__(self, db, namespace=namespace)
        self._native = Checkpointer(
            self.db, namespace=(*self.namespace, "checkpoints"), index_text=index_text
        )

    @property
    def native(self) -> Checkpointer:
        """The checkpoints of all locations, a thread for each."""
        return self._native

    async def acheckpoint(
        self, data: str, location: str, *, parent_id: str | None = None, branch: str = "main"
    ) -> str:
        """Store a checkpoint, and return its location.

        A parent that is not there any more, or never was, is recorded all the same.
        """
        place, state = location.removeprefix(SCHEME), _state_of(data)
        metadata: dict[str, Any] = {BRANCH: branch}
        if state is None:
            state, metadata = {TEXT: data}, metadata | {TEXT: True}
        save = partial(self._native.save, state, place, None, metadata)
        try:
            if parent_id is None:
                return _join_location(place, await save(lineage=None))
            return _join_location(place, await save(parent_id=parent_id))
        except (NotFound, ThreadDeleted):
            return _join_location(place, await save(lineage=parent_id))

    async def afrom_checkpoint(self, location: str) -> str:
        """Return the text of the checkpoint with a location that `checkpoint` returned.

        Raises:
            ValueError: there is none.
            Corrupt, KeyMissing, NotEncrypted: the stored checkpoint cannot be read.
        """
        place, id_ = _split_location(location)
        state = await self._native.load(place, id_)
        if state is None:
            raise ValueError(f"Checkpoint not found: {id_}")
        if state.keys() == {TEXT}:
            info = await self._native.get_metadata(place, id_)
            if info is not None and info["metadata"].get(TEXT):
                text: str = _FORM.fields_of(state, **{TEXT: str})[TEXT]
                return text
        with _FORM:
            return json.dumps(state)

    async def aprune(self, location: str, max_keep: int, *, branch: str = "main") -> int:
        """Delete all but the newest *max_keep* checkpoints of a branch; return how many.

        Raises:
            ValueError: *max_keep* is negative.
        """
        if max_keep < 0:
            raise ValueError(f"max_keep is at least 0, not {max_keep}")
        place = location.removeprefix(SCHEME)
        newest = [
            one.checkpoint_id
            async for one in self._native.history(place)
            if one.metadata.get(BRANCH) == branch
        ]
        return await self._native.delete_checkpoints(place, newest[max_keep:])

    def extract_id(self, location: str) -> str:
        """Return the id of the checkpoint with a location that `checkpoint` returned."""
        return _split_location(location)[1]

    checkpoint = blocking(acheckpoint)
    from_checkpoint = blocking(afrom_checkpoint)
    prune = blocking(aprune)


def _state_of(data: str) -> dict[str, Any] | None:
    """Return the JSON object that a text is; ``None`` if it is anything else."""
    try:
        state = parse_json(data)
    except ValueError:
        return None
    return state if isinstance(state, dict) else None


def _join_location(place: str, checkpoint_id: str) -> str:
    return f"{SCHEME}{place}#{checkpoint_id}"


def _split_location(location: str) -> tuple[str, str]:
    place, mark, id_ = location.removeprefix(SCHEME).rpartition("#")
    if not mark or not place or not id_:
        raise ValueError(f"not the location of a checkpoint, LOCATION#ID: {location!r}")
    return place, id_


__all__ = ["MemalchemyCheckpointProvider"]
