"""Take an anchor of a database.

The next anchor of a tenant reads what has changed since the last one, and keeps its other records.
So a log that was removed without proof stays in it, and a full reading finds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from memalchemy.codec.anchors import Anchor, AnchorCheck, Section, make_anchor
from memalchemy.database import Database
from memalchemy.errors import Corrupt
from memalchemy.maintenance.anchor_reading import (
    AnchorFinding,
    RowCounter,
    TenantReading,
    find_missing_tenants,
    first_key_id,
)
from memalchemy.maintenance.command_names import anchor_command, verify_anchor_command
from memalchemy.maintenance.stored_tenants import list_tenants

NAMED = 5
"""The findings that an error tells; further ones are counted."""


async def anchor(
    db: Database,
    previous: Anchor | None = None,
    *,
    all_tenants: bool = False,
    full: bool = False,
    accept_rollback: bool = False,
    progress: Callable[[int], None] | None = None,
) -> Anchor:
    """Take an anchor of what the tenant of *db* has stored: keep it where its writers cannot go.

    With the *previous* anchor only what has changed since is read, and checked against it; the rest
    is copied from it. The database is not changed, except for memalchemy's own registry: from the
    first anchor of a tenant on, removals are noted there.

    Args:
        previous: the last anchor of this database. Its other tenants stay in the new one.
        all_tenants: take all tenants in.
        full: read everything, not only what has changed.
        accept_rollback: take an anchor of the database as it is, even if it contradicts *previous*.
            For a backup that was restored on purpose, or rows that were removed without a key.
        progress: called with the number of logs and items so far.

    Raises:
        ValueError: *db* has no signing keys.
        Corrupt: the database contradicts *previous*, a row is not what was signed, or *previous* is
            an anchor of another database, or was changed. There is no new anchor.
        KeyMissing: *previous* was made with another key.
        ReadOnly, CapabilityMissing: the registry cannot be written; or *all_tenants*, and row-level
            security shows the role one of them.
    """
    if not db.signing.signs:
        raise ValueError("there is no key to make an anchor with: give Database signing_keys=[…]")
    db.check_writable()
    before = None if previous is None else AnchorCheck(previous, db.signing)
    tenants = [db.tenant]
    if all_tenants:
        await db.check_sees_all_tenants("an anchor of all tenants")
        tenants = await list_tenants(db)
    key_id = first_key_id(db)
    sections: dict[bytes, Section] = {}
    if before is not None and before.anchor.key_id == key_id:
        sections = {one.tenant: one for one in before.anchor.sections}
    elif before is not None and not all_tenants and len(before.anchor.sections) > 1:
        raise ValueError(
            "the previous anchor was made with an older key and has several tenants: take one of "
            "all tenants (on the command line --all-tenants)"
        )
    findings: list[AnchorFinding] = []
    done = RowCounter(progress)
    for tenant in tenants:
        taking = TenantReading(db.for_tenant(tenant), before, findings.append, done)
        section = await taking.take(full=full, accept_rollback=accept_rollback)
        sections[section.tenant] = section
    if before is not None and all_tenants and not accept_rollback:
        findings += find_missing_tenants(before, tenants)
    if findings and not accept_rollback:
        raise _refusal_of_findings(findings, None if all_tenants else db.tenant)
    return make_anchor(db.signing, sections.values())


def _refusal_of_findings(findings: Sequence[AnchorFinding], tenant: str | None) -> Corrupt:
    named = "; ".join(str(one) for one in findings[:NAMED])
    more = f"; and {len(findings) - NAMED:,} more" if len(findings) > NAMED else ""
    return Corrupt(
        f"no new anchor was taken, since the database is not what the last one tells: {named}"
        f"{more}. `{verify_anchor_command(tenant)}` lists all. If a backup was restored on "
        f"purpose, `{anchor_command(tenant)} --accept-rollback` takes an anchor of what is there."
    )
