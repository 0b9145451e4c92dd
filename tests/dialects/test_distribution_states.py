"""What a cluster's catalogue tells of the tables, and whether this release works with it."""

from __future__ import annotations

import pytest

from memalchemy.dialects import VERSION_TABLE, DistributedTable, Distribution
from memalchemy.migrate import TABLES

LOGS = ("threads", "checkpoints", "deltas")


def distribution(*spread: str) -> Distribution:
    """A coordinator's, with the tables *spread* as this release does it, and the others local."""
    tables = [
        DistributedTable(
            name,
            column="log_id" if name in LOGS else "namespace",
            shards=4,
            nodes=2,
            group=1 if name in LOGS else 2,
        )
        if name in spread
        else DistributedTable(name)
        for name in TABLES
    ]
    replicated = VERSION_TABLE in spread
    version = DistributedTable(VERSION_TABLE, shards=int(replicated), is_replicated=replicated)
    return Distribution("Citus", is_coordinator=True, nodes=2, tables=(*tables, version))


@pytest.mark.parametrize(
    ("spread", "is_usable"),
    [
        ((), True),
        ((*TABLES, VERSION_TABLE), True),
        (tuple(TABLES), True),
        ((VERSION_TABLE,), True),
        (LOGS, False),
        ((*LOGS, "store_items", VERSION_TABLE), False),
    ],
)
def test_all_tables_are_spread_or_none(spread: tuple[str, ...], is_usable: bool) -> None:
    found = distribution(*spread)

    assert found.is_usable is is_usable
    assert found.is_whole is (len(spread) == len(TABLES) + 1)
    assert not found.misplaced
