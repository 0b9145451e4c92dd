"""The tiers of the tests: which of them a change runs, CI, a release, or a session of their own.

``core`` is what plain nox runs, on SQLite and PostgreSQL; ``ci`` is the rest of what a change needs
(`nox -s ci`); ``release`` are soaks, kills and matrices, which take minutes each. The others need
packages or a machine of their own. A module that stands nowhere below is of the core.

Some modules ask one question in hundreds of cases, which differ in a driver, a mode, a method: a
change runs a sample of these, and a release them all. Others ask what is above the dialects, and
need a database of their own for each case, which a server takes its time to make: a change runs a
sample of these on a server. Of random examples it draws a part: see tests/drawn_examples.py.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable
from fnmatch import fnmatch
from math import ceil
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent

PATTERNS: dict[str, tuple[str, ...]] = {
    "release": (
        "behaviour/test_copies_beside_damaged_rows_in_full.py",
        "behaviour/test_damaged_cells.py",
        "behaviour/test_damaged_text_indexes.py",
        "behaviour/test_reads_of_edited_rows_in_full.py",
        "behaviour/test_jobs_beside_damaged_rows_in_full.py",
        "behaviour/test_jobs_beside_damaged_rows_on_servers_in_full.py",
        "behaviour/test_jobs_beside_edits_at_rest_in_full.py",
        "behaviour/test_rotations_beside_damaged_rows_in_full.py",
        "behaviour/test_transactions_shared_by_tasks.py",
        "behaviour/test_sync_processes.py",
        "durability/test_cut_connections.py",
        "durability/test_many_tasks_on_a_small_pool.py",
        "durability/test_connection_cut_at_each_statement.py",
        "durability/test_disk_full.py",
        "durability/test_killed_savers.py",
        "durability/test_log_processes.py",
        "durability/test_memory_after_a_thousand_databases.py",
        "durability/test_checkpointer_processes.py",
        "durability/test_pruning_beside_savers.py",
        "durability/test_shared_transactions_soak.py",
        "durability/test_slow_server.py",
        "durability/test_store_processes.py",
        "migrations/test_rolling_upgrade.py",
        "transfer/test_moving_beside_writers.py",
    ),
    "integrations": ("integrations/*",),
    "browser": ("browser/*",),
    "citus": ("citus/*",),
    "month": ("month/test_month.py",),
    "ci": (
        "analysis/*",
        "behaviour/test_anchors.py",
        "behaviour/test_anchors_model.py",
        "behaviour/test_conformance_on_fresh_databases.py",
        "behaviour/test_context_variables_of_callers.py",
        "behaviour/test_copies_beside_damaged_rows.py",
        "behaviour/test_database_fork.py",
        "behaviour/test_empty_ids.py",
        "behaviour/test_ended_loops_and_dropped_databases.py",
        "behaviour/test_exit_codes_beside_damage.py",
        "behaviour/test_jobs_beside_damaged_rows.py",
        "behaviour/test_jobs_beside_damaged_rows_on_servers.py",
        "behaviour/test_jobs_beside_edits_at_rest.py",
        "behaviour/test_key_rotation.py",
        "behaviour/test_memory_relevance_measured.py",
        "behaviour/test_pages_of_searches.py",
        "behaviour/test_proven_statements_leave_no_row_out.py",
        "behaviour/test_read_only_file.py",
        "behaviour/test_read_replica.py",
        "behaviour/test_reads_of_edited_rows.py",
        "behaviour/test_rebuilding_search_words.py",
        "behaviour/test_retention_model.py",
        "behaviour/test_rotations_beside_damaged_rows.py",
        "behaviour/test_rotations_keep_search_words.py",
        "behaviour/test_row_level_security.py",
        "behaviour/test_server_configurations.py",
        "behaviour/test_statements_declare_proofs.py",
        "behaviour/test_text_ranking.py",
        "behaviour/test_vector_search_with_filters.py",
        "behaviour/test_writes_beside_a_stale_replica.py",
        "benchmark_reports/*",
        "cli/test_cli_backup_copy.py",
        "cli/test_cli_closed_streams.py",
        "cli/test_cli_contract.py",
        "cli/test_cli_distribute.py",
        "cli/test_cli_empty_arguments.py",
        "cli/test_cli_encryption.py",
        "cli/test_cli_export_files.py",
        "cli/test_cli_import.py",
        "cli/test_cli_index.py",
        "cli/test_cli_operator.py",
        "cli/test_cli_output.py",
        "cli/test_cli_output_files.py",
        "cli/test_cli_processes.py",
        "cli/test_cli_read_only.py",
        "cli/test_cli_reembed.py",
        "cli/test_cli_references.py",
        "cli/test_cli_sql.py",
        "cli/test_cli_views.py",
        "cli/test_commands_of_releases.py",
        "cli/test_inspector_and_cli_numbers.py",
        "codec/test_decoding_bounds.py",
        "conformance/test_adapter_checks_of_native_classes.py",
        "conformance/test_each_check_can_fail.py",
        "conformance/test_report.py",
        "context/test_whole_exchanges_in_windows.py",
        "dialects/test_third_party_dialects.py",
        "dialects/test_variants_of_third_parties.py",
        "durability/test_cancelled_in_each_await.py",
        "durability/test_dead_connections.py",
        "durability/test_memory_of_closed_databases.py",
        "durability/test_query_plans.py",
        "durability/test_read_only_nodes.py",
        "durability/test_signed_processes.py",
        "durability/test_store_query_plans.py",
        "fuzz/*",
        "golden/*",
        "http/*",
        "inspection/*",
        "migrations/*",
        "oracle/*",
        "parity/*",
        "protection/test_statements_say_which_rows_they_write.py",
        "search/test_vector_indexes.py",
        "transfer/*",
        "test_*.py",
    ),
}
"""By tier, the modules that are not of the core; the first that fits decides."""

TIERS = ("core", *PATTERNS)

SAMPLED = (
    "behaviour/test_arguments_of_any_kind.py",
    "behaviour/test_copies_beside_damaged_rows.py",
    "behaviour/test_database_server.py",
    "behaviour/test_decompression_bombs_in_rows.py",
    "behaviour/test_empty_ids.py",
    "behaviour/test_ended_loops_and_dropped_databases.py",
    "behaviour/test_held_loads.py",
    "behaviour/test_jobs_beside_damaged_rows.py",
    "behaviour/test_jobs_beside_damaged_rows_on_servers.py",
    "behaviour/test_jobs_beside_edits_at_rest.py",
    "behaviour/test_match_of_words.py",
    "behaviour/test_pages_of_searches.py",
    "behaviour/test_reads_of_edited_rows.py",
    "behaviour/test_reembedding.py",
    "behaviour/test_row_level_security.py",
    "behaviour/test_text_ranking.py",
    "behaviour/test_vector_search_with_filters.py",
    "behaviour/test_writes_beside_a_stale_replica.py",
    "cli/test_cli_closed_streams.py",
    "cli/test_cli_output.py",
    "cli/test_cli_read_only.py",
    "codec/test_decoding_bounds.py",
    "conformance/test_adapter_checks_of_native_classes.py",
    "durability/test_cancelled_in_each_await.py",
    "durability/test_dead_connections.py",
    "durability/test_memory_of_closed_databases.py",
    "durability/test_read_only_nodes.py",
    "http/test_ended_loops_and_dropped_clients.py",
    "http/test_http_contract.py",
    "http/test_http_framing.py",
    "http/test_http_inspector_sql.py",
    "http/test_http_limits.py",
    "http/test_http_server.py",
    "migrations/test_ddl_beside_other_transactions.py",
    "search/test_vector_indexes.py",
    "transfer/test_copies_after_any_operations.py",
    "transfer/test_repeated_copies.py",
)
"""Modules of which the core or CI runs a sample; ``release`` has the whole of them, too."""

SAMPLED_ON_SERVERS = (
    "analysis/*",
    "behaviour/test_anchors.py",
    "behaviour/test_anchors_model.py",
    "behaviour/test_arguments_changed_meanwhile.py",
    "behaviour/test_checkpoint_changes.py",
    "behaviour/test_conformance_on_fresh_databases.py",
    "behaviour/test_context_variables_of_callers.py",
    "behaviour/test_empty_ids.py",
    "behaviour/test_encryption.py",
    "behaviour/test_jobs_beside_edits_at_rest.py",
    "behaviour/test_jobs_do_not_launder_edits.py",
    "behaviour/test_key_rotation.py",
    "behaviour/test_lists_of_signed_databases.py",
    "behaviour/test_memory_relevance_measured.py",
    "behaviour/test_message_roles.py",
    "behaviour/test_pages_of_searches.py",
    "behaviour/test_reads_of_edited_rows.py",
    "behaviour/test_rebuilding_search_words.py",
    "behaviour/test_registered_keys.py",
    "behaviour/test_retention_model.py",
    "behaviour/test_rotations_keep_search_words.py",
    "behaviour/test_sessions_refuse_writes.py",
    "behaviour/test_signature_versions.py",
    "behaviour/test_signed_items.py",
    "behaviour/test_signed_logs.py",
    "behaviour/test_signed_saves.py",
    "behaviour/test_snippets_of_hits.py",
    "behaviour/test_threads_of_several_logs.py",
    "behaviour/test_words_of_an_older_release.py",
    "behaviour/test_writes_beside_edited_rows.py",
    "cli/test_cli_import.py",
    "http/*",
    "inspection/*",
    "transfer/test_cost_of_repeated_copies.py",
    "transfer/test_repeated_copies.py",
)
"""Patterns of modules of which the core or CI runs a sample on a server, and ``release`` the whole;
without a server a change runs them as any other, or their sample if they stand above, too.
"""
PART = 4
"""A sample has one of so many cases, and at least one."""


def tiers_in(directory: Path) -> set[str]:
    """Return the tiers of the test modules in *directory* and below it."""
    return {tier for path in directory.rglob("test_*.py") for tier in tiers_of(path)}


def tiers_of(path: Path) -> set[str]:
    """Return the tiers that run the test module at *path*, or a sample of it."""
    return {tier_of(path)} | ({"release"} if is_sampled(path) else set())


def is_sampled(path: Path) -> bool:
    """Return whether a change runs a sample of the test module at *path*."""
    return _fits(path, SAMPLED + SAMPLED_ON_SERVERS)


class Case(NamedTuple):
    """A test with its parameters, as much as decides whether it is in the sample."""

    name: str
    path: Path
    needs_server: bool
    is_for_each_database: bool


def left_out_of_sample(cases: Iterable[Case]) -> set[str]:
    """Return the names of the cases that a change does not run, the same in each run.

    Of the cases of one test it runs one of `PART`, whatever these differ in; of tests for each
    database on a server one of `PART` of their module; of each of these at least one.
    """
    alike: dict[str, list[str]] = defaultdict(list)
    for case in cases:
        if (group := _group_of(case)) is not None:
            alike[group].append(case.name)
    return {name for group, found in alike.items() for name in {*found} - {*_sample(group, found)}}


def _group_of(case: Case) -> str | None:
    """Return the name of the group of cases of which a part runs; ``None`` of a case that runs."""
    test = case.name.partition("[")[0]
    if case.needs_server and _fits(case.path, SAMPLED_ON_SERVERS):
        return test.partition("::")[0] if case.is_for_each_database else test
    return test if _fits(case.path, SAMPLED) else None


def _sample(group: str, names: list[str]) -> list[str]:
    return random.Random(group).sample(sorted(names), ceil(len(names) / PART))


def _fits(path: Path, patterns: Iterable[str]) -> bool:
    name = path.relative_to(HERE).as_posix()
    return any(fnmatch(name, pattern) for pattern in patterns)


def tier_of(path: Path) -> str:
    """Return the tier of the test module at *path*."""
    name = path.relative_to(HERE).as_posix()
    for tier, patterns in PATTERNS.items():
        if any(fnmatch(name, pattern) for pattern in patterns):
            return tier
    return "core"
