"""The source of a copy: which keys its rows are under, and checks of its logs and items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from memalchemy.codec.encryption import Keyring
from memalchemy.codec.signatures import SigningKeys
from memalchemy.database import Database
from memalchemy.errors import Corrupt
from memalchemy.keys import INTERNAL_PREFIX
from memalchemy.log import Log
from memalchemy.log.scan import run_query
from memalchemy.maintenance.copying.grown_logs import CopiedPrefix
from memalchemy.maintenance.copying.row_comparison import Values
from memalchemy.maintenance.log_positions import BEFORE_ALL
from memalchemy.maintenance.verify.items import ItemCheck, StoreNamespace
from memalchemy.maintenance.verify.log_verification import verify_log
from memalchemy.maintenance.verify.report import CODES, ReportBuilder
from memalchemy.maintenance.verify.text_indexes import TextIndexCheck
from memalchemy.protection.found_items import check_items
from memalchemy.protection.key_registry import (
    KEYS_NAMESPACE,
    SIGNING_NAMESPACE,
    read_registered_keys,
)
from memalchemy.search.scope import ITEM_KEY

NAMED_FINDINGS = 3
"""Maximum number of faults that the reason for leaving out a log or an item names."""


class CopySource:
    """Checks logs and items before they are copied, as `verify` does, with the keys of both sides.

    Attributes:
        encrypted: the tenants that are encrypted.
        signed: the tenants that are signed.
    """

    def __init__(self, db: Database, target: Database) -> None:
        self.db = db
        self.encrypted: set[str] = set()
        self.signed: set[str] = set()
        self._target = target

    async def read_keys(self, scope: str, binds: Mapping[str, Any]) -> None:
        """Note which tenants are encrypted and signed."""
        keys = await run_query(self.db, read_registered_keys(self.db.dialect, scope=scope), binds)
        self.encrypted = {row.tenant for row in keys if row.namespace == KEYS_NAMESPACE}
        self.signed = {row.tenant for row in keys if row.namespace == SIGNING_NAMESPACE}

    def has_keys(self, tenant: str) -> bool:
        """Return whether rows of a tenant may have been encrypted or signed anew."""
        return tenant in self.encrypted or tenant in self.signed

    async def check_log(
        self, head: Values, snapshot: Any, prefix: CopiedPrefix | None = None
    ) -> None:
        """Check a log; of its rows, those that are not of the part that was copied before.

        Raises:
            Corrupt: it is damaged, or not what was signed.
        """
        log, report = to_log(head), ReportBuilder()
        if head["log_id"] != log.key:
            raise Corrupt(f"{CODES['log-id']}: {head['log_id']}")
        keyring = self._keyring_of(log.tenant)
        after, then = BEFORE_ALL, None
        if prefix is not None:
            after = prefix.until
            then = None if prefix.gone else SimpleNamespace(**prefix.head)
        await verify_log(
            *(self.db, log, report),
            after=after,
            head_then=then,
            keyring=keyring,
            connection=snapshot,
        )
        _raise_findings(report)

    async def check_item(self, item: Values, vectors: Sequence[Values]) -> None:
        """Check an item and its vectors; of the library's own items only the signatures.

        Raises:
            Corrupt: it is damaged, or not what was signed.
        """
        report = ReportBuilder()
        tenant, namespace, key = (item[name] for name in ITEM_KEY)
        keyring, location = self._keyring_of(tenant), StoreNamespace(tenant, namespace)
        is_internal = namespace.startswith(INTERNAL_PREFIX)
        if is_internal and item["signature"] is None:
            return
        row = SimpleNamespace(**item)
        if is_internal:
            check_items(tenant, [row], keyring.signing, words=True)
            return
        check = ItemCheck(self.db, tenant, report, TextIndexCheck(self.db), keyring)
        await check.check_item(location, row)
        if keyring.signing.signs:
            signatures = [vector["signature"] for vector in vectors]
            check.check_vector_set(location, key, item["signature"], signatures)
        for vector in vectors:
            signed = {"vector_signature": vector["signature"], "version": item["version"]}
            check.check_vector(location, SimpleNamespace(**vector, **signed))
        _raise_findings(report)

    def _keyring_of(self, tenant: str) -> Keyring:
        """Return the keys that open and prove what the source has of a tenant."""
        signing: SigningKeys = self._target.signing
        if not signing.signs and tenant in self.signed:
            signing = self.db.signing
        if tenant not in self.encrypted:
            return Keyring(signing=signing)
        keys = self.db if self.db.keyring.encrypts else self._target
        return keys.keyring.with_signing(signing)


def _raise_findings(report: ReportBuilder) -> None:
    """Raise what the check of a log or an item has found.

    Raises:
        Corrupt: something was found.
    """
    report.add_shared_faults()
    found = [one.sentence for one in report.findings if one.severity == "error"]
    if not found:
        return
    more = len(found) - NAMED_FINDINGS
    named = "; ".join(found[:NAMED_FINDINGS])
    raise Corrupt(named + (f"; and {more:,} more" if more > 0 else ""))


def to_log(head: Values) -> Log:
    """Return the log that a head names."""
    return Log(*(head[name] for name in Log._fields))
