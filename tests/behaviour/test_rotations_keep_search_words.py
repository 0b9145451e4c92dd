"""No rotation loses words that a save has written, and those of an editor stop none.

The settings of these databases allow no readable words any more.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from sqlalchemy import Connection, text
from test_encryption import Open, opened, rows

from memalchemy import Checkpointer, Conflict, Database, Store, ThreadLog
from memalchemy.codec.secret_keys import generate_key
from memalchemy.rotation import rotate_keys
from rows import of_thread

__all__ = ["opened"]

OLD, NEW = generate_key(), generate_key()

pytestmark = [pytest.mark.own_keys, pytest.mark.usefixtures("lasting")]


async def save_states(db: Database) -> None:
    for step in range(3):
        await Checkpointer(db).save({"said": ["a word"] * step, "n": step}, "t", f"c{step}")


async def save_some_keys(db: Database) -> None:
    agent = Checkpointer(db, index_text=["said"])
    await agent.save({"said": ["hello there"], "secret": "kept out"}, "t")


async def prune(db: Database) -> None:
    agent = Checkpointer(db)
    for step in range(4):
        await agent.save({"said": f"sentence {step}"}, "t", f"c{step}")
    await agent.prune(keep_last=1)


async def append(db: Database) -> None:
    await ThreadLog(db).append("t", [{"text": "an entry"}])


async def put_text(db: Database) -> None:
    await Store(db).put(("n",), "k", "a text")


async def put_long_text(db: Database) -> None:
    await Store(db).put(("n",), "k", " ".join(f"word{n}" for n in range(40_000)))


async def put_fields(db: Database) -> None:
    await Store(db).put(("n",), "k", {"size": 5})


async def put_metadata(db: Database) -> None:
    await Store(db).put(("n",), "k", 1, {"size": 5})


async def put_named_fields(db: Database) -> None:
    await Store(db, index_metadata=["size"]).put(("n",), "k", {"size": 5, "secret": "s"})


async def put_many_fields(db: Database) -> None:
    value = {f"field{n}": n for n in range(100)}
    await Store(db, index_metadata=["field1"]).put(("n",), "k", value)


WRITES: dict[str, Callable[[Database], Awaitable[None]]] = {
    write.__name__: write
    for write in (
        *(save_states, save_some_keys, prune, append, put_text, put_long_text),
        *(put_fields, put_metadata, put_named_fields, put_many_fields),
    )
}


@pytest.mark.parametrize("keys", [[OLD], None], ids=["of another key", "not encrypted yet"])
@pytest.mark.parametrize("write", WRITES)
async def test_a_rotation_is_refused_while_words_would_be_lost(
    opened: Open, write: str, keys: list[str] | None
) -> None:
    readable = () if keys is None else ("text", "fields")
    await WRITES[write](await opened(keys=keys, readable=readable))
    db = await opened(keys=[NEW, OLD])
    before = await rows(db, "deltas"), await rows(db, "store_items")

    with pytest.raises(Conflict, match="drop_words=True"):
        await rotate_keys(db)

    assert (await rows(db, "deltas"), await rows(db, "store_items")) == before
    assert (await rotate_keys(db, drop_words=True)).left == 0


EDITS = {
    "a word of a state": f"UPDATE deltas SET search_text = 'word' WHERE {of_thread('t')}",
    "a word of an item": "UPDATE store_items SET search_text = 'text' WHERE key = 'k'",
    "a mark of fields": "UPDATE store_items SET field_terms = 'fothers m00' WHERE key = 'k'",
    "a blank": "UPDATE store_items SET field_terms = 'fothers ' WHERE key = 'k'",
}


@pytest.mark.own_signing_keys
@pytest.mark.parametrize("signed", [False, True], ids=["plain", "signed"])
@pytest.mark.parametrize("edit", EDITS)
async def test_words_that_an_editor_has_put_there_stop_no_rotation(
    opened: Open, edit: str, signed: bool
) -> None:
    keys: dict[str, Any] = {"signing_keys": [generate_key()]} if signed else {}
    db = await opened(keys=[OLD], **keys)
    await save_states(db)
    await put_text(db)
    await Store(db).put(("n",), "other", "a text")

    def change(connection: Connection) -> int:
        condition = text(f"{EDITS[edit]} AND tenant = '{db.tenant}'")
        return connection.execute(condition).rowcount

    edited = await db.run_sync(change)
    report = await rotate_keys(await opened(keys=[NEW, OLD], **keys))

    assert edited
    assert await Store(await opened(keys=[NEW], **keys)).get(("n",), "other") == "a text"
    if signed:
        assert (report.left, report.damaged, len(report.left_out)) == (edited,) * 3
    else:
        assert (report.left, report.words) == (0, edited)
        for table in ("deltas", "store_items"):
            for row in await rows(db, table):
                assert row["search_text"] is None
                assert row.get("field_terms") in (None, "fothers")


@pytest.mark.own_signing_keys
async def test_the_signature_tells_also_of_words_that_the_payload_has(opened: Open) -> None:
    keys: dict[str, Any] = {"signing_keys": [generate_key()]}
    db = await opened(keys=[OLD], **keys)
    await put_text(db)
    change = text(
        f"UPDATE store_items SET search_text = 'a text' WHERE key = 'k' AND tenant = '{db.tenant}'"
    )
    await db.run_sync(lambda connection: connection.execute(change))

    report = await rotate_keys(await opened(keys=[NEW, OLD], **keys))

    assert (report.left, report.damaged) == (1, 1)
    assert "'k'" in report.left_out[0]
