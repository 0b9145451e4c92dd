"""`install`: one line that makes CrewAI store in a database what it stores in files."""

from __future__ import annotations

from collections.abc import Iterable

import crewai.flow.persistence.factory as flow_factory
import crewai.memory.storage.factory as memory_factory
from crewai.state.provider import utils
from crewai.state.provider.core import BaseProvider

from memalchemy.integrations._base import AnyDatabase
from memalchemy.integrations.crewai import _default
from memalchemy.integrations.crewai._adapter import CrewAdapter
from memalchemy.integrations.crewai.checkpoints import SCHEME, MemalchemyCheckpointProvider
from memalchemy.integrations.crewai.flows import MemalchemyFlowPersistence
from memalchemy.integrations.crewai.memory import MemalchemyMemoryStorage

OWN_SPECS = ("lancedb", "qdrant-edge")
"""What CrewAI calls its own storages of memory; other specs are paths of theirs."""


class Installation(CrewAdapter):
    """The storages of this process, made by `install`, until `close`.

    ``flows`` and ``checkpoints`` are one object each; `memory` returns that of a memory.
    """

    def __init__(self, db: AnyDatabase | None = None, *, namespace: Iterable[str] = ()) -> None:
        super().__init__(db, namespace=namespace)
        below = self.namespace[1:]
        self.flows = MemalchemyFlowPersistence(self.db, namespace=below)
        self.checkpoints = MemalchemyCheckpointProvider(self.db, namespace=below)
        self._before = flow_factory._factory, memory_factory._factory, utils.detect_provider
        flow_factory.set_flow_persistence_factory(lambda: self.flows)
        memory_factory.set_memory_storage_factory(self.memory)
        utils.detect_provider = self._detect_provider
        _default.installed.append(self.db)
        self._is_in_force = True

    def memory(self, spec: str = OWN_SPECS[0]) -> MemalchemyMemoryStorage:
        """Return the storage for ``Memory(storage=spec)``; each path has memories of its own."""
        below = self.namespace[1:]
        if spec not in OWN_SPECS:
            below = (*below, spec)
        return MemalchemyMemoryStorage(self.db, namespace=below)

    def close(self) -> None:
        """Let CrewAI store as it did before `install`, and close the database if it is owned."""
        self._uninstall()
        super().close()

    async def aclose(self) -> None:
        """Do as `close`."""
        self._uninstall()
        await super().aclose()

    def _uninstall(self) -> None:
        if not self._is_in_force:
            return
        self._is_in_force = False
        flows, memories, detect = self._before
        flow_factory.set_flow_persistence_factory(flows)
        memory_factory.set_memory_storage_factory(memories)
        utils.detect_provider = detect
        _default.installed.remove(self.db)

    def _detect_provider(self, path: str) -> BaseProvider:
        """Return our provider for a location of ours, and CrewAI's own for any other."""
        return self.checkpoints if path.startswith(SCHEME) else self._before[2](path)


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
        What was installed. Its ``close()``, or the end of its ``with`` block, restores what was
        there before.
    """
    return Installation(db, namespace=namespace)


__all__ = ["Installation", "install"]
