"""No payload is in what the drivers log, whatever the levels of their loggers are."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from memalchemy import Checkpointer, Conversation, Database, Store, ThreadLog
from memalchemy.verify import verify

MARKER = "quaggasecret"


@pytest.mark.parametrize("opens_transaction", [False, True])
async def test_no_logger_prints_a_payload_at_the_level_debug(
    db: Database, caplog: pytest.LogCaptureFixture, opens_transaction: bool
) -> None:
    caplog.set_level(logging.DEBUG)
    for name in ("sqlalchemy.engine", "sqlalchemy.pool", "aiosqlite", "psycopg", "asyncpg"):
        caplog.set_level(logging.DEBUG, logger=name)
    value = {"text": MARKER}

    async def use(db: Database, **given: Any) -> None:
        await Checkpointer(db).save(value, "t", **given)
        assert await Checkpointer(db).load("t", **given) == value
        await Store(db).put(("a",), "k", value, **given)
        assert await Store(db).get(("a",), "k", **given) == value
        await Store(db).search(("a",), MARKER, **given)
        await ThreadLog(db).append("log", [value], **given)
        assert [entry.value for entry in await ThreadLog(db).range("log", **given)] == [value]

    if opens_transaction:
        async with db.transaction() as connection:
            await use(db, connection=connection)
    else:
        await use(db)
    await Conversation(db, "c").add(MARKER, MARKER)
    assert (await verify(db)).ok
    assert MARKER not in caplog.text
