"""The schema's revisions: upgrade, downgrade, current, check, scripts, and a host's own Alembic.

Everything runs on a connection that is handed in, under a lock that the connection's transaction
holds, with a version table of memalchemy's own. Reading what is there (`current`, `check`) never
writes. The chain runs without Alembic's ``env.py``, so it can also run inside a host's.
"""

from memalchemy.dialects import VERSION_TABLE
from memalchemy.migrate.chain import (
    TABLES,
    check,
    current,
    downgrade,
    head,
    offline,
    revisions,
    script_location,
    scripts,
    sqlite_script,
    upgrade,
    usable,
)
from memalchemy.migrate.environment import (
    include_name,
    is_ours,
    render_item,
    run_environment,
    upgrade_alongside,
)

__all__ = [
    "TABLES",
    "VERSION_TABLE",
    "check",
    "current",
    "downgrade",
    "head",
    "include_name",
    "is_ours",
    "offline",
    "render_item",
    "revisions",
    "run_environment",
    "script_location",
    "scripts",
    "sqlite_script",
    "upgrade",
    "upgrade_alongside",
    "usable",
]
