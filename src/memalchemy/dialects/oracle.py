"""Oracle AI Database 26ai: no upsert statement, JSON_EXISTS, Oracle Text, DBMS_LOCK.

Compiled and driver-checked, not yet run on a server: none is to be had where this is built.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import orjson
from sqlalchemy import (
    ColumnElement,
    Connection,
    FromClause,
    Insert,
    Select,
    Table,
    column,
    text,
)

from memalchemy.dialects.base import Dialect, Failure, original

_BY_CODE = {
    "ORA-00001": Failure.UNIQUE,
    "ORA-00942": Failure.MISSING_TABLE,
    "ORA-01017": Failure.AUTHENTICATION,
    "ORA-28000": Failure.AUTHENTICATION,
    "ORA-28001": Failure.AUTHENTICATION,
    "ORA-01031": Failure.PERMISSION,
    "ORA-00060": Failure.ROLLED_BACK,
    "ORA-08177": Failure.ROLLED_BACK,
    "ORA-51815": Failure.ROLLED_BACK,
    "ORA-00054": Failure.BUSY,
    "ORA-30006": Failure.BUSY,
    "ORA-01653": Failure.FULL,
    "ORA-01654": Failure.FULL,
    "ORA-01691": Failure.FULL,
    "ORA-01578": Failure.CORRUPT,
    # The driver rewrites most lost connections to DPY-4011; these it does not know.
    "ORA-03138": Failure.DISCONNECTED,
    "ORA-12571": Failure.DISCONNECTED,
    "ORA-25408": Failure.DISCONNECTED,
    "ORA-03113": Failure.DISCONNECTED,
    "ORA-03114": Failure.DISCONNECTED,
    "ORA-03135": Failure.DISCONNECTED,
    "DPY-1001": Failure.DISCONNECTED,
    "DPY-4011": Failure.DISCONNECTED,
    "DPY-6000": Failure.UNREACHABLE,
    "DPY-6001": Failure.UNREACHABLE,
    "DPY-6003": Failure.UNREACHABLE,
    "DPY-6005": Failure.UNREACHABLE,
}


class Oracle(Dialect):
    name: ClassVar[str] = "oracle"
    upserts: ClassVar[bool] = False
    transactional_ddl: ClassVar[bool] = False
    server_version: ClassVar[str] = "SELECT version_full FROM product_component_version"
    utc_now: ClassVar[str] = "SYS_EXTRACT_UTC(SYSTIMESTAMP)"
    byte_literal: ClassVar[str] = "HEXTORAW('2D')"

    def upsert(
        self,
        table: Table,
        values: Mapping[str, Any],
        key: Sequence[str],
        set_: Mapping[str, Any],
        *,
        source: Select[Any] | None = None,
        where: ColumnElement[bool] | None = None,
    ) -> Insert:
        # MERGE with a bytes bind over 32 KB is ORA-01461, and it still races to ORA-00001.
        raise AssertionError("Oracle has no upsert here; log.py updates, inserts and retries")

    def json_equals(self, owner: Table, kind: str) -> ColumnElement[bool]:
        # A JSON path must be a literal and a key is data, so no path: merging {key: value} into the
        # metadata changes nothing exactly when it is there. A null in a merge removes the key, so
        # for null the key must be there and some value must be null; the caller looks again.
        if kind == "null":
            return text(
                "NOT JSON_EQUAL(checkpoints.meta, JSON_MERGEPATCH(checkpoints.meta, :match_pair)) "
                "AND JSON_EXISTS(checkpoints.meta, '$.*?(@ == null)')"
            )  # type: ignore[return-value]
        return text("JSON_EQUAL(checkpoints.meta, JSON_MERGEPATCH(checkpoints.meta, :match_pair))")  # type: ignore[return-value]

    def json_parameters(self, key: str, value: Any, kind: str) -> dict[str, Any]:
        return {"match_pair": orjson.dumps({key: value}).decode()}

    def text_hits(self) -> FromClause:
        return (
            text(
                "SELECT terms.term AS term, deltas.tenant AS tenant, "
                "deltas.thread_id AS thread_id, deltas.namespace AS namespace, deltas.seq AS seq "
                "FROM JSON_TABLE(:terms, '$[*]' COLUMNS (term VARCHAR2(1000 CHAR) PATH '$')) terms "
                "JOIN deltas ON CONTAINS(deltas.search_text, terms.term) > 0 "
                "WHERE deltas.tenant = :tenant AND deltas.namespace = :namespace"
            )
            .columns(
                column("term"),
                column("tenant"),
                column("thread_id"),
                column("namespace"),
                column("seq"),
            )
            .cte("hits")
        )

    def text_terms(self, terms: Sequence[Sequence[str]]) -> Any:
        # Braces quote a token for Oracle Text; tokens hold no braces.
        return json.dumps([" ".join(f"{{{token}}}" for token in phrase) for phrase in terms])

    def classify(self, error: BaseException) -> tuple[Failure, str | None]:
        cause = original(error)
        detail = cause.args[0] if cause.args else None
        code = getattr(detail, "full_code", None)
        if code is None and (match := re.match(r"(?:ORA|DPY)-\d+", str(cause))):
            code = match.group()
        if code in _BY_CODE:
            return _BY_CODE[code], code
        if getattr(error, "connection_invalidated", False):
            return Failure.DISCONNECTED, code
        if isinstance(cause, (OSError, TimeoutError)):
            return Failure.UNREACHABLE, code
        return Failure.OTHER, code

    def migration_lock(self, connection: Connection, schema: str | None) -> None:
        # DDL commits, so a row lock would be gone after the first statement; this one is the
        # session's. Needs EXECUTE on DBMS_LOCK, which `memalchemy grants` names.
        connection.execute(
            text(
                "DECLARE answer INTEGER; BEGIN answer := DBMS_LOCK.REQUEST(id => 1296385356, "
                "lockmode => DBMS_LOCK.X_MODE, timeout => 600, release_on_commit => FALSE); "
                "IF answer NOT IN (0, 4) THEN RAISE_APPLICATION_ERROR(-20001, "
                "'memalchemy migration lock: ' || answer); END IF; END;"
            )
        )
