"""A copy to and from Oracle: what is sent, and as which of the driver's types."""

from __future__ import annotations

import array
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import insert

from memalchemy import Checkpointer, Corrupt, Database
from memalchemy.codec.field_terms import field_terms
from memalchemy.codec.payloads import VALUE_CODEC, encode_payload
from memalchemy.schema import EmbeddingRow, StoreItemRow
from memalchemy.transfer import copy
from oracle.recording import Answer, Recorder

INSERT = "maintenance.copying.target.insert_copied_row"
NOW = datetime(2030, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


def rows(server: Recorder, *names: str) -> list[dict[str, Any]]:
    """What was inserted, in the order of *names*."""
    calls = [c for c in server.calls if c.name == INSERT]
    return [
        {bind.removeprefix("p_"): value for bind, value in c.binds.items()}
        for name in names
        for c in calls
        if f"INTO {name} " in c.sql
    ]


async def test_a_log_goes_to_oracle_and_is_not_committed_if_it_does_not_come_back(
    oracle: Database, server: Recorder, tmp_path: Path
) -> None:
    async with Database(f"sqlite:///{tmp_path}/a.db", tenant="acme") as source:
        await Checkpointer(source).save({"text": "hello"}, "", "", {"a": 1})
        server.answer("maintenance.copying.logs.read_whole_head", Answer(), Answer())

        with pytest.raises(Corrupt, match="threads"):
            await copy(source, oracle)

    assert INSERT in server.log
    assert server.log[-1] == "rollback"
    assert "commit" not in server.log[server.log.index(INSERT) :]
    (head,) = rows(server, "threads")
    assert head["thread_id"] == "\x1ae"
    assert head["created_at"].tzinfo is None


async def test_an_item_goes_to_oracle_with_its_vectors_as_float32(
    oracle: Database, server: Recorder, tmp_path: Path
) -> None:
    key = {"tenant": "acme", "namespace": "/", "key": ""}
    value = {"text": "two words", "bytes": random.Random(1).randbytes(40_000)}
    payload, checksum = encode_payload(value)
    fields = field_terms(value, {})
    item = key | {
        "meta": {}, "version": 1, "codec": VALUE_CODEC, "checksum": checksum, "created_at": NOW,
        "updated_at": NOW, "value": payload, "search_text": "two words",
        "field_terms": fields, "lifetime": 60_000_000,
    }  # fmt: skip
    vector = key | {
        "field": "", "model": "m", "part": 0, "dimensions": 2, "change": 1, "vector": [0.5, 2.0]
    }  # fmt: skip
    async with Database(f"sqlite:///{tmp_path}/a.db", tenant="acme") as source:
        await source.migrate()
        await source.run_sync(lambda c: c.execute(insert(StoreItemRow.__table__).values(item)))
        await source.run_sync(lambda c: c.execute(insert(EmbeddingRow.__table__).values(vector)))

        with pytest.raises(Corrupt, match="store_items"):
            await copy(source, oracle)

    (stored,) = rows(server, "store_items")
    assert stored["value"] == payload
    assert stored["updated_at"] == NOW.replace(tzinfo=None)
    assert (stored["search_text"], stored["field_terms"]) == ("two words", fields)
    assert stored["lifetime"] == 60_000_000
    (sent,) = (call.binds for call in server.calls if "INTO embeddings " in call.sql)
    assert sent["p_vector"] == array.array("f", [0.5, 2.0])
    assert sent["p_field"] == "\x1ae"


async def test_a_copy_from_oracle_reads_each_page_in_one_serializable_transaction(
    oracle: Database, server: Recorder, tmp_path: Path
) -> None:
    async with Database(f"sqlite:///{tmp_path}/a.db", tenant="acme") as target:
        server.answer(
            "maintenance.copying.database_copy.count_rows_to_copy", *[Answer([{"n": 0}])] * 2
        )

        report = await copy(oracle, target)

    assert report.done == 0
    isolated = [line for line in server.log if "ISOLATION_LEVEL" in line.upper()]
    assert any("SERIALIZABLE" in line for line in isolated)
    assert server.sent().count("maintenance.copying.database_copy.list_heads_to_copy") == 2
