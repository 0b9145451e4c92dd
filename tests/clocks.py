"""A clock that the library reads, and a test sets."""

from __future__ import annotations

import sys
from datetime import UTC, datetime, timedelta, tzinfo

import pytest

_BY_TYPE = ("memalchemy.codec", "memalchemy._unreadable_rows")
"""Modules that know values by their types, and read no clock."""

NOON = datetime(2026, 6, 1, 12, tzinfo=UTC)


class Clock:
    """The time that the library thinks it is: `NOON`, until a test says another."""

    def __init__(self) -> None:
        self.now = NOON
        self.readings = 0

    def read(self, zone: tzinfo | None = None) -> datetime:
        assert zone is UTC
        self.readings += 1
        return self.now

    def go_on(self, by: timedelta) -> None:
        self.now += by


def set_clock(monkeypatch: pytest.MonkeyPatch, clock: Clock | None = None) -> Clock:
    """Put one in place of the clock of every module of the library that reads one."""
    clock = clock or Clock()

    class Kind(type(datetime)):  # type: ignore[misc]
        def __instancecheck__(cls, value: object) -> bool:
            return isinstance(value, datetime)

    class Told(datetime, metaclass=Kind):
        now = clock.read

    for name, module in list(sys.modules.items()):
        if name.startswith(_BY_TYPE):
            continue
        if name.startswith("memalchemy.") and getattr(module, "datetime", None) is datetime:
            monkeypatch.setattr(module, "datetime", Told)
    return clock
