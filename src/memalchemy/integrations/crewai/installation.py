"""`install`: one line that makes CrewAI store in a database what it stores in files."""

from __future__ import annotations

from collections.abc import Iterable

from crewai.flow.persistence.factory import set_flow_persistence_factory
from crewai.memory.storage.factory import set_memory_storage_factory
from crewai.state.provider import utils
from crewai.state.provider.core import BaseProvider

from memalchemy.integrations._base import AnyDatabase
from memalchemy.integrations.crewai import _installed_database
from memalchemy.integrations.crewai._adapter import CrewAdapter
from memalchemy.integrations.crewai.checkpoints import SCHEME, MemalchemyCheckpointProvider
from memalchemy.integrations.crewai.flows import MemalchemyFlowPersistence
from memalchemy.integrations.crewai.memory import MemalchemyMemoryStorage

OWN_SPECS = ("lancedb", "qdrant-edge")
"""Names of CrewAI's own storages of memory; other specs are paths of theirs."""

_crewais_detection = utils.detect_provider


class Installation(CrewAdapter):
    """The storages of this process, made by `install`, until `close`.

    ``flows`` and ``checkpoints`` are one object each; `memory` returns that of a memory.
    """

    def __init__(self, db: AnyDatabase | None = None, *, namespace: Iterable[str] = ()) -> None:
        super().__init__(db, namespace=namespace)
        below = self.namespace[1:]
        self.flows: MemalchemyFlowPersistence = MemalchemyFlowPersistence(self.db, namespace=below)
        self.checkpoints: MemalchemyCheckpointProvider = MemalchemyCheckpointProvider(
            self.db, namespace=below
        )
        _installed_database.installed.append(self)
        _put_in_force()

    def memory(self, spec: str = OWN_SPECS[0]) -> MemalchemyMemoryStorage:
        """Return the storage for ``Memory(storage=spec)``; each path has memories of its own."""
        below = self.namespace[1:]
        if spec not in OWN_SPECS:
            below = (*below, spec)
        return MemalchemyMemoryStorage(self.db, namespace=below)

    def close(self) -> None:
        """Let CrewAI store as it does without `install`, and close the database if it is owned.

        Of several installations, the last one that is left is in force then.
        """
        self._uninstall()
        super().close()

    async def aclose(self) -> None:
        """Do as `close`."""
        self._uninstall()
        await super().aclose()

    def detect_provider(self, path: str) -> BaseProvider:
        """Return our provider for a location of ours, and CrewAI's own for any other."""
        return self.checkpoints if path.startswith(SCHEME) else _crewais_detection(path)

    def _uninstall(self) -> None:
        if self in _installed_database.installed:
            _installed_database.installed.remove(self)
            _put_in_force()


def _put_in_force() -> None:
    """Let CrewAI use the last installation, or its own storage without one."""
    if not _installed_database.installed:
        set_flow_persistence_factory(None)
        set_memory_storage_factory(None)
        utils.detect_provider = _crewais_detection
        return
    last: Installation = _installed_database.installed[-1]
    set_flow_persistence_factory(lambda: last.flows)
    set_memory_storage_factory(last.memory)
    utils.detect_provider = last.detect_provider


def install(db: AnyDatabase | None = None, *, namespace: Iterable[str] = ()) -> Installation:
    """Store flows and memories of this process in a database, and restore checkpoints from it.

    Call it once, when the application starts. It holds for every flow and memory that names no
    storage of its own, and for flows that CrewAI makes anew of their settings. ``checkpoint=`` of a
    crew, flow or agent names its provider always::

        storage = install("postgresql://…")
        config = CheckpointConfig(provider=storage.checkpoints)
        Crew(…, checkpoint=config)

    Args:
        db: as every adapter takes it.
        namespace: keeps several applications apart in one database.

    Returns:
        What was installed, until its ``close()`` or the end of its ``with`` block.
    """
    return Installation(db, namespace=namespace)


__all__ = ["Installation", "install"]
