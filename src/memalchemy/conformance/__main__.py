"""The checks as a program: ``python -m memalchemy.conformance MODULE:OBJECT``."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from memalchemy._named_objects import load_object
from memalchemy.conformance import (
    ADAPTER_CHECKS,
    CHECKPOINTER_CHECKS,
    LOG_CHECKS,
    STORE_CHECKS,
    Check,
    Report,
    Subject,
    check_adapter,
    check_checkpointer,
    check_log,
    check_store,
)
from memalchemy.conformance._checks import made_by
from memalchemy.conformance._databases import on_database

_CONTRACTS: dict[str, tuple[Any, list[Check], tuple[str, str]]] = {
    "checkpointer": (check_checkpointer, CHECKPOINTER_CHECKS, ("save", "load")),
    "store": (check_store, STORE_CHECKS, ("put", "get")),
    "log": (check_log, LOG_CHECKS, ("append", "tail")),
}
"""The function, the checks, and two methods of each kind of object that is no subject."""

_EPILOG = """\
OBJECT is a Subject, a mapping of them, or a class or function that returns a checkpointer, a store
or a log: without arguments, or of a memalchemy.Database.

exit codes: 0, all promises are kept; 1, one is broken; 2, nothing could be checked.
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the checks of an object, print the report, and return the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m memalchemy.conformance",
        description="Check what an adapter, a checkpointer, a store or a log promises.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("object", metavar="MODULE:OBJECT", help="what to check, to be imported")
    parser.add_argument("--database", metavar="URL", help="a migrated database; or SQLite files")
    parser.add_argument("--check", metavar="NAME", action="append", help="run this check only")
    parser.add_argument("--json", action="store_true", help="print a list of reports as JSON")
    given = parser.parse_args(arguments)
    try:
        reports = asyncio.run(_check_object(given.object, given.database, given.check))
    except ValueError as error:
        parser.error(str(error))
    if given.json:
        print(json.dumps([report.to_dict() for report in reports], indent=2))
    else:
        print("\n\n".join(map(str, reports)))
    if any(report.failed for report in reports):
        return 1
    return 0 if all(report.ok for report in reports) else 2


async def _check_object(name: str, database: str | None, names: list[str] | None) -> list[Report]:
    found = load_object(name)
    if isinstance(found, Mapping) and found:
        return [await _check_adapter(f"{name}[{key}]", database, names) for key in found]
    if isinstance(found, Subject):
        return [await _check_adapter(name, database, names)]
    if not callable(found):
        raise ValueError(f"{name} is no Subject, and cannot be called")
    async with made_by(on_database(found, database)) as one:
        kinds = [of for of in _CONTRACTS.values() if all(hasattr(one, method) for method in of[2])]
    if not kinds:
        raise ValueError(f"{name} makes no checkpointer, store or log, but {type(one).__name__}")
    check, checks, _ = kinds[0]
    return [await check(found, database=database, checks=_choose_checks(checks, names))]


async def _check_adapter(name: str, database: str | None, names: list[str] | None) -> Report:
    return await check_adapter(
        name, database=database, checks=_choose_checks(ADAPTER_CHECKS, names)
    )


def _choose_checks(checks: list[Check], names: list[str] | None) -> list[Check]:
    unknown = {*(names or ())} - {check.name for check in checks}
    if unknown:
        raise ValueError(f"there is no check {', '.join(sorted(unknown))}")
    return [check for check in checks if names is None or check.name in names]


if __name__ == "__main__":
    sys.exit(main())
