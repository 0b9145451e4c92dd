"""The tiers of the tests: which of them a change runs, CI, a release, or a session of their own.

``core`` is what plain nox runs, on SQLite and PostgreSQL; ``ci`` is the rest of what a change needs
(`nox -s ci`); ``release`` are soaks, kills and matrices, which take minutes each. The others need
packages or a machine of their own. A module that stands nowhere below is of the core.
"""

from __future__ import annotations

from fnmatch import fnmatch
from pathlib import Path

HERE = Path(__file__).parent

PATTERNS: dict[str, tuple[str, ...]] = {
    "release": (
        "behaviour/test_copies_go_on_in_full.py",
        "behaviour/test_damaged_cells.py",
        "behaviour/test_damaged_text_indexes.py",
        "behaviour/test_edited_reads_in_full.py",
        "behaviour/test_jobs_go_on_servers_in_full.py",
        "behaviour/test_rotations_go_on_in_full.py",
        "behaviour/test_shared_transactions.py",
        "behaviour/test_sync_processes.py",
        "durability/test_cut_connections.py",
        "durability/test_small_pool.py",
        "durability/test_cut_at_each_statement.py",
        "durability/test_disk_full.py",
        "durability/test_killed_savers.py",
        "durability/test_log_processes.py",
        "durability/test_memory_of_a_thousand_databases.py",
        "durability/test_processes.py",
        "durability/test_pruning_beside_savers.py",
        "durability/test_shared_transactions_soak.py",
        "durability/test_slow_server.py",
        "durability/test_store_processes.py",
        "migrations/test_rolling_upgrade.py",
    ),
    "integrations": ("integrations/*",),
    "browser": ("browser/*",),
    "citus": ("citus/*",),
    "ci": (
        "behaviour/test_callers_are_let_go.py",
        "behaviour/test_conditions_of_proven_statements.py",
        "behaviour/test_copies_go_on.py",
        "behaviour/test_database_fork.py",
        "behaviour/test_edited_reads.py",
        "behaviour/test_edits_at_rest.py",
        "behaviour/test_empty_ids.py",
        "behaviour/test_ended_loops_and_dropped_databases.py",
        "behaviour/test_jobs_end_with_the_code_of_damage.py",
        "behaviour/test_jobs_go_on.py",
        "behaviour/test_jobs_go_on_servers.py",
        "behaviour/test_kept_promises.py",
        "behaviour/test_ranking.py",
        "behaviour/test_rebuilt_words.py",
        "behaviour/test_retention_model.py",
        "behaviour/test_rotations_go_on.py",
        "behaviour/test_servers_as_they_are.py",
        "behaviour/test_statements_say_what_proves_them.py",
        "benchmark_reports/*",
        "cli/test_cli_contract.py",
        "cli/test_cli_encryption.py",
        "cli/test_cli_output.py",
        "cli/test_cli_processes.py",
        "cli/test_cli_read_only.py",
        "cli/test_numbers_agree.py",
        "codec/test_bounds.py",
        "conformance/test_each_check_can_fail.py",
        "conformance/test_own_classes.py",
        "conformance/test_report.py",
        "dialects/test_third_party_dialects.py",
        "dialects/test_variants_of_third_parties.py",
        "durability/test_cancelled_in_each_await.py",
        "durability/test_dead_connections.py",
        "durability/test_memory_of_closed_databases.py",
        "durability/test_read_only_nodes.py",
        "fuzz/*",
        "http/*",
        "migrations/*",
        "oracle/*",
        "parity/*",
        "search/test_vector_indexes.py",
        "transfer/test_copying_again.py",
        "test_*.py",
    ),
}
"""By tier, the modules that are not of the core; the first that fits decides."""

TIERS = ("core", *PATTERNS)


def tiers_in(directory: Path) -> set[str]:
    """Return the tiers of the test modules in *directory* and below it."""
    return {tier_of(path) for path in directory.rglob("test_*.py")}


def tier_of(path: Path) -> str:
    """Return the tier of the test module at *path*."""
    name = path.relative_to(HERE).as_posix()
    for tier, patterns in PATTERNS.items():
        if any(fnmatch(name, pattern) for pattern in patterns):
            return tier
    return "core"
