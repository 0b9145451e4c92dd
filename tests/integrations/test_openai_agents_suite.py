"""The OpenAI Agents SDK's own tests of its sessions, from its sdist, on `MemalchemySession`.

The tests that are left out are named with reasons; the counts are those of this release.
"""

from __future__ import annotations

from pathlib import Path

import suites

VERSION = "0.24.0"
PASSED = 188
SKIPPED = 1
"""By the SDK itself."""

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
_BY_HAND = "compacts by hand beside an EncryptedSession, which is refused: see the page"
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
    "about one AsyncEngine on two event loops at once, which SQLAlchemy asks not to be done",
    f"{_SQLALCHEMY}::test_create_tables_false_does_not_allocate_shared_init_lock": _MAKING,
    f"{_SQLALCHEMY}::test_sqlite_configuration_registry_releases_collected_engines": _MAKING,
    f"{_SQLALCHEMY}::test_sqlite_configuration_registry_does_not_grow_unbounded": _MAKING,
    f"{_ENCRYPTED}::test_encrypted_pop_wrong_key_preserves_recoverable_history": _WRONG_KEY,
    f"{_ENCRYPTED}::test_encrypted_pop_wrong_key_preserves_row_identity": _WRONG_KEY,
    f"{_ENCRYPTED}::test_encrypted_pop_rechecks_authentication_after_expired_tail": _WRONG_KEY,
    f"{_ENCRYPTED}::test_encrypted_pop_authentication_is_atomic_with_concurrent": _WRONG_KEY,
    f"{_ENCRYPTED}::test_encrypted_pop_cancellation_waits_for_authentication": _WRONG_KEY,
    f"{_ENCRYPTED}::test_encrypted_compaction_replaces_complete_logical_history_after": _BY_HAND,
    f"{_ENCRYPTED}::test_encrypted_compaction_restores_original_tokens_before_concurrent": _BY_HAND,
    f"{_ENCRYPTED}::test_compaction_wrapping_encrypted_storage": _BY_HAND,
    f"{_ENCRYPTED}::test_encrypted_pop_preserves_compaction_wrapper": _BY_HAND,
}
DESELECTED = 67

_ADVANCED = "tests/extensions/memory/test_advanced_sqlite_session.py"
_OF_ADVANCED = {
    "reads, breaks or alters the tables of AdvancedSQLiteSession, or its connections": (
        "test_add_items_rollback_failure_invalidates_connection",
        "test_structure_initialization_failure_invalidates_connection",
        "test_post_commit_cancellation_propagates_after_known_mutation_outcome",
        "test_auxiliary_mutation_cancellation_waits_for_commit",
        "test_tool_usage_reads_legacy_shell_and_patch_names",
        "test_failed_branch_reservation_rolls_back_and_allows_retry",
        "test_branch_reservations_migrate_existing_populated_branches",
        "test_legacy_branch_ids_are_backfilled_before_destructive_operations",
        "test_legacy_destructive_noops_leave_database_unlocked",
        "test_delete_branch_removes_branch_only_messages",
        "test_delete_branch_keeps_messages_still_referenced_by_another_branch",
        "test_orphan_cleanup_uses_set_based_delete_for_many_messages",
        "test_failed_usage_write_rolls_back_cached_connection",
        "test_concurrent_add_items_preserves_message_structure_for_file_db",
        "test_clear_session_removes_structure_and_usage_metadata",
        "test_clear_session_resets_current_branch_to_main",
        "test_pop_item_removes_its_structure_row",
        "test_pop_item_removes_turn_usage_only_when_turn_emptied",
        "test_pop_item_respects_current_branch_and_keeps_shared_messages",
        "test_pop_item_deletes_shared_copied_message_only_when_unreferenced",
        "test_pop_item_rolls_back_on_failure_after_earlier_delete",
        "test_clear_session_rolls_back_on_failure_after_earlier_delete",
        "test_store_run_usage_skips_when_current_branch_has_no_turn",
        "test_default_read_does_not_initialize_clear_generation_table",
        "test_switch_validation_cancellation_waits_for_generation_commit",
    ),
    "is about whose AdvancedSQLiteSession's tables in a file are, and what they are called": (
        "test_advanced_session_respects_custom_table_names",
        "test_structure_tables_reject_a_second_base_table_pair",
        "test_structure_tables_reject_changed_sessions_with_shared_messages",
        "test_structure_tables_reject_changed_messages_with_shared_sessions",
        "test_structure_tables_accept_equivalent_identifier_casing",
        "test_structure_tables_accept_quoted_custom_session_table",
        "test_identifier_resolution_leaves_connection_authorized",
        "test_structure_tables_reject_distinct_non_ascii_identifiers",
        "test_no_create_session_rejects_a_database_without_an_owner",
        "test_no_create_session_rejects_owner_metadata_without_base_tables",
        "test_structure_tables_reject_an_ownerless_layout",
        "test_structure_tables_reject_malformed_owner_layouts",
        "test_structure_tables_accept_equivalent_child_column_casing",
    ),
    "overrides or patches private methods of AdvancedSQLiteSession": (
        "test_add_items_rolls_back_messages_when_structure_metadata_fails",
        "test_add_items_can_retry_after_structure_metadata_failure",
        "test_add_items_failure_preserves_existing_history",
        "test_add_items_rolls_back_partial_structure_metadata_write",
        "test_usage_tracking_failure_identity_follows_model_data_policy",
        "test_add_captures_coherent_branch_after_clear_publication",
    ),
    "holds back a private worker or lock of AdvancedSQLiteSession; of what it asks, that a write "
    "goes to the branch it was begun on, and usage to its own turn, is tested here": (
        "test_pop_item_uses_branch_snapshot_when_branch_switches_concurrently",
        "test_stale_switch_after_clear_does_not_repoint_to_deleted_branch",
        "test_stale_create_branch_after_clear_does_not_repoint",
        "test_clear_before_branch_transaction_prevents_stale_reservation",
        "test_store_run_usage_waits_for_database_lock_off_event_loop",
        "test_store_run_usage_cancellation_during_capture_waits_for_commit",
        "test_store_run_usage_keeps_target_while_capture_is_waiting",
        "test_store_run_usage_keeps_turn_when_history_changes_during_capture",
        "test_queued_add_keeps_selected_branch",
        "test_queued_append_cannot_resurrect_deleted_branch",
        "test_queued_turn_mutation_releases_later_usage_capture",
        "test_turn_ordering_survives_reuse_on_another_event_loop",
        "test_stale_store_run_usage_skipped_when_turn_removed_by_pop",
        "test_stale_store_run_usage_not_recorded_against_reused_turn_number",
        "test_store_run_usage_survives_unrelated_branch_deletion",
    ),
    "starts processes that import AdvancedSQLiteSession": (
        "test_branch_allocation_is_serialized_across_processes",
        "test_pop_item_claim_is_unique_across_processes",
        "test_concurrent_structure_table_claims_leave_one_coherent_owner",
    ),
    _CORRUPT: ("test_get_items_limit_skips_corrupt_newest_rows",),
    "looks for a turn's words in the log that it hands over; ours writes no logs": (
        "test_create_branch_logging_respects_model_data_policy[False]",
    ),
    "expects the second of the day in a name that is made up; here it is a random number": (
        "test_generated_branch_ids_do_not_merge_within_the_same_second",
    ),
    "expects that É is not é to a search in any case; here it is": (
        "test_find_turns_by_content_matches_literal_text[CAF\\xc9-caf\\xe9-\\xe9]",
    ),
    "expects that a failure to keep usage is logged; here it is raised": (
        "test_error_handling_in_usage_tracking",
    ),
    "fails with AdvancedSQLiteSession as well, where the openai package knows one more detail": (
        "test_external_clear_resets_stale_branch_before_default_reads[usage]",
    ),
}
PASSED_BRANCHES = 82
DESELECTED_BRANCHES = 97


def test_the_sdks_own_tests_pass(tmp_path: Path) -> None:
    sdist = suites.unpacked("openai-agents", VERSION, tmp_path)
    counts, said = suites.run(
        sdist, "openai_agents_plugin", "-W", "ignore", *MODULES, left_out=LEFT_OUT
    )

    assert counts == {"passed": PASSED, "skipped": SKIPPED, "left out": DESELECTED}, said


def test_the_sdks_own_tests_of_branches_and_usage_pass(tmp_path: Path) -> None:
    sdist = suites.unpacked("openai-agents", VERSION, tmp_path)
    left_out = {
        f"{_ADVANCED}::{name}": reason for reason, some in _OF_ADVANCED.items() for name in some
    }
    counts, said = suites.run(
        sdist, "openai_agents_plugin", "-W", "ignore", _ADVANCED, left_out=left_out
    )

    assert counts == {"passed": PASSED_BRANCHES, "left out": DESELECTED_BRANCHES}, said
