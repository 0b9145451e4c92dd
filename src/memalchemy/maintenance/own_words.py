"""Tell the words that a save or a put wrote from those that somebody else added to a row.

A database whose settings allow no readable words may have some all the same: it allowed them
before, or whoever can write to its tables has edited a row. For a signed row the signature tells
which. For another row the payload does, which nobody without a key can write: the row's own words
are those that are made from it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from sqlalchemy import Executable, and_, select

from memalchemy.codec.field_terms import may_be_field_terms, words_of_fields
from memalchemy.codec.payloads import decode_payload
from memalchemy.codec.places import item_place, row_place
from memalchemy.codec.search_text import is_cut, may_be_item_search_text, words_in
from memalchemy.codec.signed_rows import item_content_of, parts_of_log_row
from memalchemy.database import Database, off_loop
from memalchemy.dialects import Dialect
from memalchemy.errors import Corrupt, KeyMissing, NotEncrypted, NotSigned
from memalchemy.log import Log
from memalchemy.log.scan import run_query
from memalchemy.log.tables import CHECKPOINTS, DELTAS, of_log, same_log
from memalchemy.maintenance.verify.items import StoreNamespace, read_stored_items
from memalchemy.maintenance.words.states_of_log import StatesOfLog
from memalchemy.proofs import REPORTED
from memalchemy.protection.signed_logs import read_signed_row
from memalchemy.statements import column_bind, statement


class OwnWords:
    """The check of the words of single rows, with the keys of a database."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._states: StatesOfLog | None = None

    async def has(self, table: str, row: Any) -> bool:
        """Return whether a row of a log, or an item, has words or terms that are its own.

        Words that the settings allow are not looked at. A row that cannot be read or opened has no
        words of its own. A row that is not encrypted yet has some: they are as genuine as its
        payload.

        Args:
            row: what names the row.
        """
        db = self._db.for_tenant(row.tenant)
        try:
            if table == "store_items":
                return await _item_has(db, row)
            return row.thread_id is not None and await self._log_row_has(db, row)
        except NotEncrypted:
            return True
        except (Corrupt, KeyMissing, NotSigned):
            return False

    async def _log_row_has(self, db: Database, named: Any) -> bool:
        log = Log(db.tenant, named.thread_id, named.namespace)
        at = {"k_log_id": named.log_id, "p_seq": named.seq}
        if db.signing.signs:
            for signed in await run_query(db, read_signed_row(db.dialect, table="deltas"), at):
                signed_parts = parts_of_log_row("deltas", signed, named.log_id)
                db.signing.check_whole(signed.signature, *signed_parts)
                if signed.signature is not None:
                    return True
        for row in await run_query(db, read_worded_row(db.dialect), at):
            if row.kind == "entry":
                place = row_place(db.tenant, log.key, row.seq, "entry", None)
                value = await off_loop(len(row.payload), partial(_open_value, db, row, place))
                return may_be_item_search_text(row.search_text, value, {})
            if self._states is None or self._states.log != log:
                self._states = StatesOfLog(db, log, index_text=True)
            found = {*words_in(row.search_text)}
            for words in await self._states.words_by_key(row):
                # A state that saw others pruned also has their words; a long text is cut.
                if words <= found or (is_cut(row.search_text) and found <= words):
                    return True
        return False


async def _item_has(db: Database, named: Any) -> bool:
    binds = StoreNamespace(db.tenant, named.namespace).binds()
    only = {"p_low": named.key, "p_high": named.key}
    for row in await run_query(db, read_stored_items(db.dialect), binds | only):
        if db.signing.signs:
            words = (row.search_text, row.field_terms)
            db.signing.check_whole(row.signature, item_content_of(row, db.tenant), words)
            if row.signature is not None:
                return True
        place = item_place(db.tenant, row.namespace, row.key, row.version)
        value = await off_loop(len(row.value), partial(_open_value, db, row, place))
        metadata: Mapping[str, Any] = row.meta or {}
        has_text = row.search_text is not None and not db.keyring.is_readable("text")
        if has_text and may_be_item_search_text(row.search_text, value, metadata):
            return True
        if not db.keyring.is_readable("fields"):
            return _has_own_terms(row.field_terms, value, metadata)
    return False


def _has_own_terms(stored: str | None, value: Any, metadata: Mapping[str, Any]) -> bool:
    """Return whether field terms are those of an item, at least one of them of its value.

    The terms of metadata can be made without a key. So they count only for an item whose value has
    no fields.
    """
    own = words_of_fields(value) or words_of_fields(metadata)
    found = set((stored or "").split())
    return not own.isdisjoint(found) and may_be_field_terms(stored, value, metadata)


def _open_value(db: Database, row: Any, place: Any) -> Any:
    payload = bytes(row.payload if "payload" in row._mapping else row.value)
    codec, checksum, opened = db.keyring.decrypt(row.codec, row.checksum, payload, place)
    return decode_payload(opened, checksum, codec)


@statement(unproven=REPORTED)
def read_worded_row(dialect: Dialect) -> Executable:
    """Select the row at a position of a log with its words, and the checkpoint that has it."""
    checkpoint = and_(same_log(CHECKPOINTS, DELTAS), CHECKPOINTS.c.seq == DELTAS.c.seq)
    columns = ("seq", "kind", "codec", "checksum", "search_text", "payload")
    return (
        select(
            *(DELTAS.c[name] for name in columns),
            *(CHECKPOINTS.c[name] for name in ("checkpoint_id", "parent_id")),
        )
        .select_from(DELTAS.outerjoin(CHECKPOINTS, checkpoint))
        .where(of_log(DELTAS), DELTAS.c.seq == column_bind(DELTAS.c.seq, "p"))
    )
