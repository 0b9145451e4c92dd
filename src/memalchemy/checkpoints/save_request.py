"""The request of a save: its arguments, checked, and the state as bytes."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, NamedTuple, TypedDict

from memalchemy.checkpoints.skip_deltas import Tip
from memalchemy.codec import values
from memalchemy.codec.deltas import Comparison
from memalchemy.contracts import UNSET, Unset
from memalchemy.log import Log


class Encoded(NamedTuple):
    """State as bytes, with facts learnt while encoding it."""

    parts: values.Parts
    size: int
    """Bytes of the parts, with their keys."""
    textual: frozenset[str]
    tip: Tip | None
    """The parent that the cache had."""
    parent: Comparison | None
    """The comparison of the state with it."""
    waited: bool
    """Other tasks ran while it was encoded: the caller's object may have changed since."""


class SaveConditions(TypedDict, total=False):
    """The parts of a `Request` that a plain save leaves out."""

    parent_id: str | None
    lineage: str | Unset | None
    run_id: str | None
    expected_parent: str | Unset | None
    expected_row: tuple[int, int] | None
    rests_on: str | None


class Request(NamedTuple):
    """Arguments of a save, checked."""

    log: Log
    checkpoint_id: str
    state: Mapping[str, Any]
    encoded: Encoded
    metadata: dict[str, Any]
    now: datetime
    occurred_at: datetime
    expires_at: datetime | None
    parent_id: str | None = None
    lineage: str | Unset | None = UNSET
    """The parent to record, even if it does not exist; the state is appended to the newest."""
    run_id: str | None = None
    expected_parent: str | Unset | None = UNSET
    expected_row: tuple[int, int] | None = None
    """Position and checksum of the expected parent: another may have its id since."""
    rests_on: str | None = None
    """The named parent, if the state is incomplete without it; it must exist then."""
