"""The behavioural suite's tests of a checkpointer, over a real socket.

Every test of these files that uses nothing but a checkpointer runs here once more, on an
`HTTPCheckpointer`. The tests that HTTP cannot pass are listed with the reason.
"""

from __future__ import annotations

import inspect
from types import ModuleType
from typing import Any

from behaviour import (
    test_branching,
    test_checkpoint_listings,
    test_checkpoint_search,
    test_deletion,
    test_order_and_branches,
    test_retention,
    test_saving_and_loading,
)

MODULES = (
    test_branching,
    test_checkpoint_listings,
    test_order_and_branches,
    test_deletion,
    test_retention,
    test_saving_and_loading,
    test_checkpoint_search,
)

BEHIND = {"db", "reopen", "monkeypatch"}
"""Fixtures of tests that use the database behind a checkpointer, or another one on it."""

SUPERSEDED = "nobody asks another process to hand words on at every step"

LEFT_OUT = {
    "test_events_tell_sizes_and_times_and_no_content": "here the server's events are seen as well",
    "test_forgetting_a_namespace_names_one": "that runs where the database is",
    "test_forgetting_needs_exactly_one_selector": "export runs where the database is",
    "test_of_more_words_than_fit_the_newest_stay": SUPERSEDED,
    "test_the_newest_checkpoints_are_those_that_were_saved_last": "HTTP has no pending writes",
    "test_the_words_of_a_deleted_checkpoint_go_with_it": SUPERSEDED,
    "test_what_a_superseded_checkpoint_added_is_found_at_the_next_one": SUPERSEDED,
}


def of_a_checkpointer(module: ModuleType) -> dict[str, Any]:
    """Return the tests of *module* that any checkpointer must pass."""
    found = {}
    for name, test in vars(module).items():
        if name.startswith("test_") and inspect.isfunction(test):
            needs = inspect.signature(test).parameters.keys()
            if "checkpointer" in needs and not needs & BEHIND and name not in LEFT_OUT:
                found[name] = test
    return found


for _module in MODULES:
    globals().update(of_a_checkpointer(_module))


def test_most_of_the_contract_is_run_and_the_exceptions_exist() -> None:
    run = [name for module in MODULES for name in of_a_checkpointer(module)]
    there = {name for module in MODULES for name in vars(module)}

    assert len(run) > 70
    assert there >= LEFT_OUT.keys()
