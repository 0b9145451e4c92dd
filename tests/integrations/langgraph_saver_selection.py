"""Selection of LangGraph's own tests of its savers: those that cannot pass here, with reasons.

A name is ``package/test``, or ``package/file/test`` if another file has a test of that name.
"""

from __future__ import annotations

SAME = {"pipe", "pool", "aio_pipe", "aio_pool", "shallow"}
"""Parameters of tests: psycopg's pipelines and pools, which are one thing here, and the deprecated
savers that keep the latest checkpoint alone.
"""
WHY_SAME = (
    "the same test with a pipeline or pool of psycopg, or with LangGraph's deprecated shallow saver"
)

_DELTAS = "such a thread is pruned here, and keeps what the channel is rebuilt from"
_RAW_SQL = "reads or alters LangGraph's own tables"
_OLD_TABLES = "of a column that LangGraph's own table once lacked"
_HOOKED = (
    "waits for a statement of LangGraph's own SQL; test_langgraph_retention.py prunes while a "
    "graph runs"
)
_BEFORE_4 = (
    "of a format of checkpoints before 4, which no LangGraph writes that this saver works with; "
    "the import reads such ones through LangGraph's own saver, which converts them"
)
_OF_THEIRS = "of a private method or attribute of LangGraph's saver"
_CONFORMANCE = (
    "asks for a capability that the published conformance suite does not have; "
    "test_langgraph_conformance.py and the other files here look at delta histories"
)

LEFT_OUT = {
    "sqlite/test_delta_channel_conformance": _CONFORMANCE,
    "sqlite/test_walk_step_looks_up_the_parent_by_primary_key": _RAW_SQL,
    "sqlite/test_informative_async_errors": "the asynchronous methods are there",
    "sqlite/test_checkpoint_search_sql_injection_prevention": "expects unusual keys of "
    "filters to be refused; here they are bound, and find what has such keys",
    "sqlite/test_metadata_filter_keys_with_hyphens_and_digits": "expects a dot in a key of a "
    "filter to be a path; in memory and on PostgreSQL it is a dot",
    "sqlite/test_setup_migrates_legacy_writes_table_repeatably": _OLD_TABLES,
    "sqlite/test_put_writes_persists_task_path": _RAW_SQL,
    "sqlite/test_async_setup_migrates_legacy_writes_table_repeatably": _OLD_TABLES,
    "sqlite/test_setup_does_not_wait_on_another_writer": _OLD_TABLES,
    "sqlite/test_async_setup_does_not_wait_on_another_writer": _OLD_TABLES,
    "sqlite/test_read_only_legacy_database_still_reads_delta_history": _OLD_TABLES,
    "sqlite/test_async_read_only_legacy_database_still_reads_delta_history": _OLD_TABLES,
    "postgres/test_delta_channel_conformance": _CONFORMANCE,
    "postgres/test_pending_sends_migration": _BEFORE_4,
    "postgres/test_keep_latest_keeps_the_parent_holding_a_pre_v4_heads_sends": _BEFORE_4,
    "postgres/test_get_checkpoint_no_channel_values": _OF_THEIRS,
    "postgres/test_nonnull_migrations": _OF_THEIRS,
    "postgres/test_async_walk_reads_nothing_newer_than_the_target": _OF_THEIRS,
    "postgres/test_sync_walk_reads_nothing_newer_than_the_target": _OF_THEIRS,
    "postgres/test_inline_primitive_seed_is_found": "expects a stored None to be no value, "
    "because their JSON cannot tell the two apart; here it is a value, as in memory",
    "postgres/test_keep_latest_refuses_a_batch_with_a_delta_channel_thread": _DELTAS,
    "postgres/test_keep_latest_refuses_a_thread_that_turns_delta_after_the_batch_check": _DELTAS,
    "postgres/test_async_saver_prune_runs_from_another_thread_only": "a plain method may be called "
    "in a running loop: in a notebook one always runs",
    "postgres/test_keep_latest_keeps_a_checkpoint_saved_while_it_runs": _HOOKED,
    "postgres/test_keep_latest_keeps_the_history_of_a_delta_checkpoint_saved_after_the_thread_check"
    "": _HOOKED,
    "postgres/test_keep_latest_keeps_a_checkpoint_saved_meanwhile_whatever_its_id": _HOOKED,
}
"""Expected to fail, so that a reason that does not hold any more is told."""

NOT_RUN = {
    "sqlite/test_search_where": "of their SQL",
    "sqlite/test_metadata_predicate": "of their SQL",
    "sqlite/test_metadata_predicate_sql_injection_prevention": "of their SQL",
}
"""Tests that would pass without our classes."""
