"""The base of LangChain's adapters."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from memalchemy.integrations._base import AnyDatabase, SyncAdapter
from memalchemy.keys import check_namespace


class LangChainAdapter(SyncAdapter):
    """An adapter whose data lies in ``langchain``, its kind, and the namespace that was given."""

    root = "langchain"
    kind: ClassVar[str]
    """Second part of the namespace. Adapters of two kinds may be given the same namespace."""

    def __init__(self, db: AnyDatabase | None = None, *, namespace: Iterable[str] = ()) -> None:
        super().__init__(db, namespace=(self.kind, *check_namespace(namespace)))
