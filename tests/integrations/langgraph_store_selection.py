"""Selection of LangGraph's own tests of its stores: those that cannot pass here, with reasons.

A name is ``package/test``, or ``package/file/test`` if another file has a test of that name;
``memory`` is the package langgraph-checkpoint itself.
"""

from __future__ import annotations

VERSIONS = {
    "langgraph-checkpoint": "4.3.2",
    "langgraph-checkpoint-sqlite": "3.1.2",
    "langgraph-checkpoint-postgres": "3.2.0",
}

_IN_A_LOOP = "a plain method may be called in a running loop: in a notebook one always runs"
_RAW_SQL = "writes SQL to LangGraph's own tables; test_langgraph_store.py has the same of ours"

LEFT_OUT = {
    "memory/test_embed_with_path": "expects items without vectors in the results; only the "
    "in-memory store returns them",
    "sqlite/test_store.py/test_vector_store_initialization": "asks for LangGraph's own tables",
    "sqlite/test_sql_injection_vulnerability": "expects unusual keys of filters to be refused; "
    "here they are bound, and find what has such keys",
    "sqlite/test_filter_keys_with_hyphens_and_digits": "expects a dot in a key of a filter to be a "
    "path; in memory and on PostgreSQL it is a dot",
    "sqlite/test_no_running_loop": _IN_A_LOOP,
    "sqlite/test_ttl_override_default": "expects a read without refresh_on_read not to prolong an "
    "item; `BaseStore` says that it does, and so do we",
    "postgres/test_no_running_loop": _IN_A_LOOP,
    "postgres/test_omit_expired_filters_read_paths": _RAW_SQL,
    "postgres/test_omit_expired_disabled_preserves_expired_rows": _RAW_SQL,
    "postgres/test_omit_expired_refresh_ttl_only_refreshes_live_rows": _RAW_SQL,
    "postgres/test_omit_expired_search_pagination": _RAW_SQL,
}
"""Expected to fail, so that a reason that does not hold any more is told."""

_SLEEPS = "sleeps until items expire, with margins that a busy machine does not keep"
_NOT_OURS = "of `AsyncBatchedBaseStore` alone; no store of ours takes part"

NOT_RUN = {
    "postgres/test_store_ttl": _SLEEPS,
    "postgres/test_large_batches": "6,000 calls one by one; test_large_batches_async does run",
    "postgres/test_abatch_uses_single_pool_checkout": "of psycopg's pool",
    "postgres/test_escape_like_literal": "of their SQL",
    "postgres/test_namespace_match_pattern": "of their SQL",
    "postgres/test_nonnull_migrations": "of their SQL",
    "sqlite/test_escape_glob_literal": "of their SQL",
    "sqlite/test_namespace_match_pattern": "of their SQL",
    "sqlite/test_nonnull_migrations": "of their SQL",
    "sqlite/test_list_namespaces_prefix_uses_indexable_condition": "of their SQL",
    "memory/test_async_batch_store": _NOT_OURS,
    "memory/test_async_batch_store_resilience": _NOT_OURS,
    "memory/test_async_batch_store_handles_cancellation": _NOT_OURS,
    "memory/test_async_batch_store_deduplication": _NOT_OURS,
    "memory/test_dedupe_ops_maps_repeated_reads_and_puts_to_one_op": _NOT_OURS,
    "memory/test_get_text_at_path": _NOT_OURS,
    "memory/test_get_text_at_path_with_non_dict_mapping": _NOT_OURS,
    "memory/test_validate_op_namespace_rejects_invalid_labels": _NOT_OURS,
    "memory/test_validate_op_namespace_allows_empty_prefix_and_wildcards": _NOT_OURS,
}
"""Beside, of PostgreSQL, the parameters pipe, pool and halfvec, which are one thing here."""
