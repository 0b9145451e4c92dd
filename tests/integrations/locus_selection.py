"""Selection of locus-sdk's own tests: those that run here, and those that cannot pass."""

from __future__ import annotations

VERSION = "3.0.1"

SELECTED = """
    memory/test_memory_manager memory/test_memory_manager_ephemeral_background
    memory/test_memory_manager_multiturn memory/test_memory_manager_namespace_resolver
    memory/test_memory_recall_many memory/test_retention
    test_cache_prefix test_checkpoint_history test_checkpointer_registry test_completion_check
    test_concurrent_runs test_continue_turn test_cov_memory_manager test_file_checkpointer
    test_file_checkpointer_retention test_final_answer_fallback test_final_answer_verifier
    test_graph test_graph_checkpoint_history test_hermes_full_e2e test_hook_run_context test_memory
    test_memory_checkpointer test_memory_store test_memory_store_namespaced_and_context
    test_multi_turn_threads test_multiturn_checkpointer test_observation_pack
    test_resume_by_thread test_resume_structured_progress test_store test_terminate_event_spend
"""
"""Of tests/unit, the files whose subject is one of the classes, or an agent or graph over one.

Ten more make one. test_research_workflow asks for locus' notebooks, which are not in the sdist, and
test_server_resume_stream for FastAPI. In the others it is a bystander: test_cli, test_dbos_durable,
test_dbos_graph_durable, test_durable_approval_holds, test_skills_host_routed,
test_temporal_durable; in test_mcp_secrets_and_sessions and test_run_aclose_and_secret_args its
files are searched for a secret, and there are none here.
"""
ON_A_SERVER = """
    memory/test_memory_recall_many memory/test_retention test_checkpoint_history
    test_graph_checkpoint_history test_memory_checkpointer test_memory_store
    test_multiturn_checkpointer test_store
"""
CHECKPOINTER = "tests/unit/test_memory_checkpointer.py::TestMemoryCheckpointer"
STORE = "tests/unit/test_memory_store.py::TestInMemoryStore"
FILE = "tests/unit/test_file_checkpointer.py::TestFileCheckpointer"
SESSION = "tests/unit/test_memory.py::TestFileCheckpointer"
FILES = "tests/unit/test_file_checkpointer_retention.py::test_"

_PRIVATE = "looks into _storage, a private dict of the class it was written for"
_PRIVATE_STORE = "looks into _data or _namespaces, private to the class it was written for"
_FILES = "looks at, or damages, files that there are none of: a thread is rows of a database"
_PATHS = "asks for a private path of a file, or for base_dir, pretty and their methods"

LEFT_OUT = {
    f"{CHECKPOINTER}Init::test_create_checkpointer": _PRIVATE,
    f"{CHECKPOINTER}Save::test_save_creates_thread": _PRIVATE,
    f"{CHECKPOINTER}Save::test_save_with_metadata": _PRIVATE,
    f"{CHECKPOINTER}Save::test_save_multiple_checkpoints": _PRIVATE,
    f"{CHECKPOINTER}Load::test_load_empty_thread": _PRIVATE,
    f"{CHECKPOINTER}Delete::test_delete_all_checkpoints": _PRIVATE,
    f"{CHECKPOINTER}Delete::test_delete_specific_checkpoint": _PRIVATE,
    f"{CHECKPOINTER}Clear::test_clear": _PRIVATE,
    f"{CHECKPOINTER}Threads::test_get_thread_ids": _PRIVATE,
    f"{CHECKPOINTER}Count::test_count_all_checkpoints": _PRIVATE,
    f"{CHECKPOINTER}Count::test_count_thread_checkpoints": _PRIVATE,
    f"{CHECKPOINTER}Count::test_repr_with_data": _PRIVATE,
    f"{CHECKPOINTER}Init::test_repr_empty": "counts what is stored in a repr, which here asks no "
    "database",
    f"{STORE}Init::test_create_store": _PRIVATE_STORE,
    f"{STORE}Put::test_put_adds_namespace": _PRIVATE_STORE,
    "tests/unit/memory/test_memory_recall_many.py::test_base_store_has_search_many": "asserts that "
    "InMemoryStore does not override search_many; the adapter does, to embed a query once",
    "tests/unit/memory/test_retention.py"
    "::test_retained_checkpointer_hands_everything_else_to_inner": "asserts that vacuum raises",
    "tests/unit/test_store.py::TestInMemoryStore::test_capabilities": "asserts that there is no "
    "time to live",
    f"{FILE}Init::test_default_init": _PATHS,
    f"{FILE}Init::test_custom_base_dir_string": _PATHS,
    f"{FILE}Init::test_custom_base_dir_path": _PATHS,
    f"{FILE}Init::test_pretty_false": _PATHS,
    f"{FILE}Init::test_repr": _PATHS,
    f"{FILE}Paths::test_get_thread_dir": _PATHS,
    f"{FILE}Paths::test_get_thread_dir_sanitizes_unsafe_chars": _PATHS,
    f"{FILE}Paths::test_get_checkpoint_path": _PATHS,
    f"{FILE}Paths::test_get_storage_path": _PATHS,
    f"{FILE}DiskUsage::test_disk_usage_nonexistent_thread": _PATHS,
    f"{FILE}DiskUsage::test_disk_usage_for_thread": _PATHS,
    f"{FILE}DiskUsage::test_disk_usage_total_nonexistent_dir": _PATHS,
    f"{FILE}DiskUsage::test_disk_usage_total": _PATHS,
    f"{FILE}JsonWriting::test_write_json_pretty": _PATHS,
    f"{FILE}JsonWriting::test_write_json_compact": _PATHS,
    f"{FILE}JsonWriting::test_read_json_nonexistent": _PATHS,
    f"{FILE}JsonWriting::test_read_json_existing": _PATHS,
    f"{FILE}Save::test_save_creates_directory": _FILES,
    f"{FILE}Save::test_save_creates_json_file": _FILES,
    f"{FILE}Save::test_save_json_structure": _FILES,
    f"{FILE}Delete::test_delete_specific_checkpoint": _FILES,
    f"{SESSION}::test_save_creates_file": _FILES,
    f"{SESSION}::test_sanitizes_thread_id": _PATHS,
    f"{SESSION}::test_get_disk_usage": _PATHS,
    f"{FILES}list_threads_newest_first_under_the_ids_they_were_saved_with": _FILES,
    f"{FILES}vacuum_deletes_old_checkpoints_and_empty_threads": _FILES,
    f"{FILES}a_write_never_leaves_a_partial_file": _FILES,
    f"{FILES}a_torn_checkpoint_is_skipped_not_fatal": _FILES,
    f"{FILES}a_checkpoint_file_holding_a_non_object_is_ignored": _FILES,
    f"{FILES}latest_falls_back_past_a_damaged_newest_checkpoint": _FILES,
    f"{FILES}listing_reads_a_file_written_in_another_key_order": _FILES,
    f"{FILES}listing_skips_a_file_it_cannot_open": _FILES,
    f"{FILES}list_with_metadata_skips_files_that_are_not_checkpoints": _FILES,
}
"""Tests that cannot pass, each with its reason. They run, and one that does pass is a failure."""

BY_THE_CLOCK = {
    "tests/unit/memory/test_memory_manager_ephemeral_background.py"
    "::test_background_extraction_does_not_delay_the_run": "gives a run a quarter of a second, "
    "whatever else the machine does; test_locus_agents.py asks the same of an extraction that "
    "waits for an event"
}
"""The test that does not run."""

WITHOUT_SEARCH = {
    f"{CHECKPOINTER}Init::test_capabilities",
    f"{STORE}Init::test_capabilities",
    "tests/unit/test_memory_store_namespaced_and_context.py::TestStoreContext"
    "::test_remember_with_embedding_unsupported_backend_raises",
}
"""Tests of a checkpointer without search, or of a store without vectors: they get an encrypted
database, which truly has neither.
"""
