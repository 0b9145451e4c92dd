"""Checks that prove the rows which statements return, and reasons why some need no proof.

`memalchemy.statements.statement` takes the names of `CHECKS` as ``proves=``, and one of the reasons
below as ``unproven=``. A page of the documentation lists both, so all of it is written for users.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple


class RowCheck(NamedTuple):
    """Check of the rows that a statement has returned."""

    sentence: str
    """The rows whose signatures are verified, for users."""
    by: tuple[str, ...]
    """The functions and methods that do it, each of which is enough, by their names in here."""
    before: tuple[str, ...] = ()
    """Effects on the tables of `tables` for which `Database.run` makes the check.

    Values of `memalchemy.protection.work.Work.does`. The programs themselves call nothing then.
    """
    tables: tuple[str, ...] = ()


_LOGS = ("threads", "checkpoints", "deltas")
_ITEMS = ("store_items", "embeddings")
_SIGNER = "protection.signed_logs.LogSigner"
_ITEM_SIGNER = "protection.signed_items.ItemSigner"
_READS = "protection.signed_reads"
_KEYS = "codec.signatures.SigningKeys"

CHECKS: Mapping[str, RowCheck] = MappingProxyType({
    # Checks that programs make.
    "state": RowCheck(
        "each row from which a state is rebuilt, and its checkpoint; a load also checks the head "
        "of the log, and that the newest checkpoint is the newest",
        (f"{_READS}.check_chain", f"{_READS}.check_states"),
    ),
    "checkpoint": RowCheck("each checkpoint", (f"{_READS}.check_info",)),
    "entry": RowCheck("each entry", (f"{_READS}.check_entries",)),
    "write": RowCheck("each pending write", (f"{_READS}.check_write",)),
    "log": RowCheck(
        "the head of the log, and that no row of the log is missing; for a read of some rows of a "
        "log of more than 1,000 positions, only the head",
        tuple(f"{_READS}.{name}" for name in (
            "check_all_checkpoints", "check_all_entries", "check_entries_of_logs",
            "check_newest_checkpoint", "check_newest_entry", "check_nothing_missing",
            "check_nothing_missing_of_logs", "check_sum_of_entries", "check_sums",
            "missing_checkpoint",
        )),
    ),
    "whole log": RowCheck(
        "each row of the log in the table, the head, and that no row is missing",
        (f"{_READS}.check_every_row",),
    ),
    "head": RowCheck(
        "each head",
        ("codec.signed_rows.check_head", f"{_KEYS}.check_head", f"{_KEYS}.check_head_alone"),
    ),
    "words": RowCheck("the words by which each hit was found", (f"{_READS}.check_hit_words",)),
    "item": RowCheck(
        "each item",
        ("codec.signed_rows.check_item", "protection.found_items.check_items",
         "protection.removals.prove_item"),
    ),
    "vector": RowCheck("each vector", ("protection.found_items.check_vectors",)),
    "vectors": RowCheck(
        "each vector, and that the item has no others",
        ("protection.signed_items.check_vector_sets", f"{_KEYS}.check_vectors"),
    ),
    "row": RowCheck("each row", (f"{_KEYS}.check_whole", f"{_KEYS}.check")),
    "note": RowCheck("each note of a removal", ("protection.removals.genuine_removal",)),
    "verify": RowCheck(
        "the whole log or item, as `verify` does",
        (
            "maintenance.verify.log_verification.verify_log",
            "maintenance.verify.items.ItemCheck.check_item",
        ),
    ),
    # Checks that `Database.run` makes when a program writes.
    "written log": RowCheck(
        "the head of the log, or that it is the one that this process wrote last, before a write "
        "into the log; at the end, if nothing is written",
        (f"{_SIGNER}._open",),
        ("insert", "copy", "update", "delete", "save"),
        _LOGS,
    ),
    "copied log": RowCheck(
        "the head and all rows of the log before it is copied",
        (f"{_SIGNER}._read_known",),
        ("copy",),
        _LOGS,
    ),
    "removed rows": RowCheck(
        "the head and all rows of the log before some of them are removed; before a whole log is "
        "removed, the rows that are the reason for the removal",
        (f"{_SIGNER}._read_known", f"{_SIGNER}._prove_locked"),
        ("delete",),
        _LOGS,
    ),
    "changed row": RowCheck(
        "the row before it is changed",
        (f"{_SIGNER}._check_row", f"{_ITEM_SIGNER}._check_item"),
        ("update",),
        (*_LOGS, *_ITEMS),
    ),
    "removed item": RowCheck(
        "the item before it is removed",
        (f"{_ITEM_SIGNER}._prove_items",),
        ("delete",),
        _ITEMS,
    ),
})  # fmt: skip
"""Checks by the names under which statements declare them."""


# --- Reasons why nothing proves what a statement returns -----------------------------------------

COUNTED = "the proof of a number or a size would have to read all counted rows"
FOUND = (
    "it only finds rows, which are then read again and verified; rows that an edit hides are not "
    "noticed"
)
REMOVED_BY_NAME = "a removal by name removes the rows whatever they contain"
REPLACED = (
    "a put replaces the whole row, which may be damaged: it keeps the version and the creation "
    "time, which an anchor proves; a put with `expected_version=` verifies the row first"
)
RANKED = "a search only ranks by it; the hits are verified"
REFUSED = "it finds the reason why a write was refused; nothing is written"
COMPARED = "it is compared with the row that the writer knows; if it differs, the write is refused"
ARRIVED = "it finds out by id and time whether a sent write arrived; a load verifies the write"
ON_TARGET = (
    "a copy compares it with the source; nothing proves that no other process has written to the "
    "copy on the target since"
)
OWN_ROWS = "it is an internal counter of memalchemy, which works with any value"
REGISTRY = (
    "it lists the keys and anchors of a tenant; after an edit of it, writes are refused, or an "
    "anchor reports the edit"
)
REPORTED = "`verify` and other reports read all rows, and name the wrong ones"
NOTED = "it is the last state of a removed log or item, for the note of the removal"
NO_KEYS = "it is not sent if there are signing keys"
