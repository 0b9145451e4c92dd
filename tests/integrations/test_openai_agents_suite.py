"""The SDK's own tests of its sessions, with ours in the place of theirs.

They come from the SDK's sdist, which is downloaded when this runs, into ``MEMALCHEMY_SDISTS`` if
that is set. What is left out is named here, each with its reason; the counts are of this release.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import suites

VERSION = "0.24.0"
PASSED = 195

MODULES = (
    "tests/memory/test_session.py",
    "tests/memory/test_session_limit.py",
    "tests/memory/test_compaction_suffix.py",
    "tests/memory/test_sqlalchemy_compaction.py",
    "tests/extensions/memory/test_sqlalchemy_session.py",
    "tests/extensions/memory/test_encrypt_session.py",
)

_CONNECTIONS = "looks at the private connections and locks of SQLiteSession"
_TABLES = "writes to, or puts triggers on, the SDK's own tables"
_CORRUPT = "damages a row; what is damaged is an error here, and is neither skipped nor thrown away"
_PRIVATE = "patches private methods of the class that it names"
_MAKING = "is about how SQLAlchemySession makes its tables and sets up engines"
_WRONG_KEY = "EncryptedSession checks the key before a pop for SQLiteSession only, by its class"

_SESSION, _, _SUFFIX, _COMPACTION, _SQLALCHEMY, _ENCRYPTED = MODULES
LEFT_OUT = {
    f"{_SESSION}::test_sqlite_session_close_closes_worker_thread_connections": _CONNECTIONS,
    f"{_SESSION}::test_sqlite_session_reaps_connections_from_exited_worker_threads": _CONNECTIONS,
    f"{_SESSION}::test_sqlite_session_closes_retired_connections_before": _CONNECTIONS,
    f"{_SESSION}::test_sqlite_session_keeps_connections_of_live_worker_threads": _CONNECTIONS,
    f"{_SESSION}::test_sqlite_session_rollback_failure_evicts_connection": _CONNECTIONS,
    f"{_SESSION}::test_sqlite_session_close_retries_quarantined_connection": _CONNECTIONS,
    f"{_SESSION}::test_sqlite_session_file_lock_is_shared_across_instances": _CONNECTIONS,
    f"{_SESSION}::test_sqlite_session_post_commit_cancellation_propagates": _CONNECTIONS,
    f"{_SESSION}::test_sqlite_session_closed_rejects_empty_add_items": "a closed session opens "
    "again when it is used, as every Database does",
    f"{_SESSION}::test_sqlite_session_pop_item_skips_corrupt_most_recent": _CORRUPT,
    f"{_SESSION}::test_sqlite_session_pop_item_returns_none_after_dropping": _CORRUPT,
    f"{_SESSION}::test_sqlite_session_get_items_limit_skips_corrupt_newest_rows": _CORRUPT,
    f"{_SESSION}::test_sqlite_session_get_items_session_settings_limit_skips": _CORRUPT,
    f"{_SESSION}::test_sqlite_session_failed_add_items_releases_write_lock": _TABLES,
    f"{_SESSION}::test_sqlite_session_failed_clear_session_rolls_back": _TABLES,
    f"{_SESSION}::test_sqlite_session_failed_pop_item_releases_write_lock": _TABLES,
    f"{_SUFFIX}::test_suffix_transaction_rolls_back_failed_insert[sqlite]": _TABLES,
    f"{_SUFFIX}::test_cancelled_suffix_transaction_settles_before_newer_append[sqlite]": _PRIVATE,
    f"{_SUFFIX}::test_failed_encrypted_suffix_transaction_preserves_original_tokens[sqlite-": (
        _TABLES
    ),
    f"{_COMPACTION}::test_encrypted_prefix_cleanup_is_atomic[file-True": _TABLES,
    f"{_COMPACTION}::test_encrypted_prefix_cleanup_is_atomic[memory-True": _TABLES,
    f"{_COMPACTION}::test_replacement_uses_timestamp_order_not_id_order": _TABLES,
    f"{_COMPACTION}::test_cancelled_replacement_settles_before_other_instance": _PRIVATE,
    f"{_COMPACTION}::test_failed_replacement_preserves_history_during_other": _PRIVATE,
    f"{_COMPACTION}::test_parent_constraint_rejection_propagates": _TABLES,
    f"{_SQLALCHEMY}::test_sqlalchemy_session_defaults_to_escaped_non_ascii_storage": _TABLES,
    f"{_SQLALCHEMY}::test_sqlalchemy_session_can_store_non_ascii_without_escaping": _TABLES,
    f"{_SQLALCHEMY}::test_sqlite_fallback_reserves_writer_before_tail_claim": "looks for the SQL "
    "of SQLAlchemySession; that one of two gets the item is passed, and tested here",
    f"{_SQLALCHEMY}::test_pop_item_supports_unknown_delete_rowcount": _PRIVATE,
    f"{_SQLALCHEMY}::test_pop_item_retries_returning_claim_lost_to_concurrent_delete": _PRIVATE,
    f"{_SQLALCHEMY}::test_mutation_cancellation_waits_for_transaction_exit": _PRIVATE,
    f"{_SQLALCHEMY}::test_pop_item_skips_corrupt_most_recent": _CORRUPT,
    f"{_SQLALCHEMY}::test_get_items_limit_skips_corrupt_newest_rows": _CORRUPT,
    f"{_SQLALCHEMY}::test_pop_item_returns_none_after_dropping_only_corrupt_rows": _CORRUPT,
    f"{_SQLALCHEMY}::test_get_items_same_timestamp_consistent_order": _TABLES,
    f"{_SQLALCHEMY}::test_pop_item_same_timestamp_returns_latest": _TABLES,
    f"{_SQLALCHEMY}::test_get_items_orders_by_id_for_ties": _TABLES,
    f"{_SQLALCHEMY}::test_add_items_cancelled_waiter_does_not_strand_table_init_lock": _MAKING,
    f"{_SQLALCHEMY}::test_add_items_concurrent_first_access_with_shared_session_cross_loop": "is "
    "about one AsyncEngine making tables on two event loops at once, within seconds",
    f"{_SQLALCHEMY}::test_create_tables_false_does_not_allocate_shared_init_lock": _MAKING,
    f"{_SQLALCHEMY}::test_sqlite_configuration_registry_releases_collected_engines": _MAKING,
    f"{_SQLALCHEMY}::test_sqlite_configuration_registry_does_not_grow_unbounded": _MAKING,
    f"{_ENCRYPTED}::test_encrypted_pop_wrong_key_preserves_recoverable_history": _WRONG_KEY,
    f"{_ENCRYPTED}::test_encrypted_pop_wrong_key_preserves_row_identity": _WRONG_KEY,
    f"{_ENCRYPTED}::test_encrypted_pop_rechecks_authentication_after_expired_tail": _WRONG_KEY,
    f"{_ENCRYPTED}::test_encrypted_pop_authentication_is_atomic_with_concurrent": _WRONG_KEY,
    f"{_ENCRYPTED}::test_encrypted_pop_cancellation_waits_for_authentication": _WRONG_KEY,
}
DESELECTED = 60


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return suites.sources("openai-agents", VERSION, tmp_path_factory)


def test_the_sdks_own_tests_pass(sources: Path) -> None:
    found = suites.run(sources, "openai_agents_suite", *MODULES, left_out=LEFT_OUT)
    assert (found["passed"], found["deselected"]) == (PASSED, DESELECTED), found
