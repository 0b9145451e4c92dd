"""`Selection`: the threads and times that are read, which SQL selects."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from types import NoneType
from typing import Any

from memalchemy.contracts import check_filter
from memalchemy.errors import InvalidArgument
from memalchemy.keys import check_namespace, check_thread_id


@dataclass(frozen=True, kw_only=True)
class Selection:
    """Selection of what is stored; without arguments, everything of the tenant.

    Args:
        thread: only this thread.
        pattern: only threads whose whole id matches this glob.
        namespace: only this namespace; with *below* also those under it.
        framework: only what this framework keeps, such as ``"langgraph"``.
        metadata: only threads that have each of these pairs, in their own metadata or in a
            checkpoint's, and only items that have them.
        since, until: only steps that happened at *since* or later, and before *until*; of items,
            those that were written then. A time without a zone is UTC.

    Rows of items and memories are of no thread: with *thread* or *pattern* there are none.
    """

    thread: str | None = None
    pattern: str = "*"
    namespace: Iterable[str] | None = None
    below: bool = False
    framework: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    since: datetime | None = None
    until: datetime | None = None

    def __post_init__(self) -> None:
        check_filter("pattern", self.pattern, str)
        check_filter("framework", self.framework, str, NoneType)
        check_filter("metadata", self.metadata, Mapping)
        check_filter("since", self.since, datetime, NoneType)
        check_filter("until", self.until, datetime, NoneType)
        if self.thread is not None:
            check_thread_id(self.thread)
            if self.pattern != "*":
                raise InvalidArgument("give thread or pattern, not both")
        if self.framework is not None and self.namespace is not None:
            raise InvalidArgument("give framework or namespace, not both")
        if self.namespace is not None:
            object.__setattr__(self, "namespace", check_namespace(self.namespace))
        if self.framework is not None and not self.framework:
            raise InvalidArgument("the name of a framework is not empty")
        for name in ("since", "until"):
            moment = getattr(self, name)
            if moment is not None and moment.tzinfo is None:
                object.__setattr__(self, name, moment.replace(tzinfo=UTC))

    @property
    def place(self) -> tuple[tuple[str, ...], bool]:
        """The namespace, and whether those under it are meant too."""
        if self.framework is not None:
            return (self.framework,), True
        if self.namespace is None:
            return (), True
        return tuple(self.namespace), self.below

    def has_namespace(self, namespace: tuple[str, ...]) -> bool:
        """Return whether what is in *namespace* is selected."""
        path, below = self.place
        return namespace[: len(path)] == path if below else namespace == path

    @property
    def is_of_threads(self) -> bool:
        """True if the selection names threads, so that no item belongs to it."""
        return self.thread is not None or self.pattern != "*"

    def has_time(self, moment: datetime) -> bool:
        """Return whether what happened at *moment* is selected."""
        return (self.since is None or moment >= self.since) and (
            self.until is None or moment < self.until
        )


EVERYTHING = Selection()
