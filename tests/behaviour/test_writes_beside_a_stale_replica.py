"""A write chooses what it changes by the primary, however far behind the replica is.

Here the replica has the tables and no rows. Each public write is done beside it and without it, and
changes the same.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from public_reads import NOT_READS, USERS, fill, fill_memories
from sqlalchemy import func, select
from write_operations import WRITES
from write_operations import fill as fill_for_writes

import memalchemy
from memalchemy import Database, Memory, MemoryType
from memalchemy.schema import CheckpointRow, DeltaRow, EmbeddingRow, StoreItemRow, ThreadRow
from servers import Postgres, migrated_database

pytestmark = [
    pytest.mark.asyncio_only("the statements are the same"),
    pytest.mark.own_keys,
    pytest.mark.own_signing_keys,
]

TABLES = (ThreadRow, CheckpointRow, DeltaRow, StoreItemRow, EmbeddingRow)

_C, _L, _S = memalchemy.Checkpointer, memalchemy.ThreadLog, memalchemy.Store
_KV, _V, _E = memalchemy.KeyValue, memalchemy.VectorStore, memalchemy.EpisodeStore
_F, _O = memalchemy.UserMemoryStore, memalchemy.ToolOutputs
_M, _K = memalchemy.Conversation, memalchemy.ConversationStore
_X = memalchemy.StoreContext

Call = Callable[[Database], Awaitable[Any]]


async def _change(db: Database) -> int:
    async def work(items: list[Any], tx: Any) -> None:
        await _S(db).put_batch([(one.namespace, one.key, 0) for one in items], connection=tx)

    return await _S(db).change_matching(USERS, {"likes": "tea"}, work)


async def _remember_few(db: Database) -> None:
    manager = memalchemy.LLMMemoryManager(db, max_memories=2)
    for number in range(4):
        await manager.save([Memory(MemoryType.USER, f"m{number}", f"fact {number}")])


def _view(db: Database) -> Any:
    return memalchemy.NamespacedStore(_S(db), USERS)


REMOVALS: dict[str, Call] = {
    "Checkpointer.copy_thread": lambda db: _C(db).copy_thread("t", "copy"),
    "Checkpointer.delete": lambda db: _C(db).delete("t", "c1"),
    "Checkpointer.delete_checkpoints": lambda db: _C(db).delete_checkpoints("t", ["c1", "c2"]),
    "Checkpointer.forget": lambda db: _C(db).forget(metadata={"step": 2}),
    "Checkpointer.fork": lambda db: _C(db).fork("t", "c1"),
    "Checkpointer.prune": lambda db: _C(db).prune(keep_last=1),
    "Checkpointer.vacuum": lambda db: _C(db).vacuum(0),
    "ThreadLog.clear": lambda db: _L(db).clear("l"),
    "ThreadLog.delete": lambda db: _L(db).delete("l"),
    "ThreadLog.fork": lambda db: _L(db).fork("l", 2),
    "ThreadLog.pop": lambda db: _L(db).pop("l"),
    "ThreadLog.remove": lambda db: _L(db).remove("l", [1]),
    "Store.change_matching": _change,
    "Store.clear_namespace": lambda db: _S(db).clear_namespace(USERS),
    "Store.delete": lambda db: _S(db).delete(USERS, "ada"),
    "Store.delete_batch": lambda db: _S(db).delete_batch([(USERS, "ada"), (USERS, "bob")]),
    "Store.delete_matching": lambda db: _S(db).delete_matching(USERS, {"likes": "tea"}),
    "Store.forget_namespace": lambda db: _S(db).forget_namespace(USERS),
    "Store.refresh": lambda db: _S(db).refresh([(USERS, "ada"), (USERS, "eve")]),
    "Store.sweep": lambda db: _S(db).sweep(),
    "NamespacedStore.clear": lambda db: _view(db).clear(),
    "NamespacedStore.delete": lambda db: _view(db).delete("ada"),
    "StoreContext.forget": lambda db: _X(_S(db), "ada", "s").forget("likes"),
    "KeyValue.clear": lambda db: _KV(db).clear(),
    "KeyValue.delete": lambda db: _KV(db).delete("color"),
    "KeyValue.delete_memory": lambda db: _KV(db).delete_memory("agent"),
    "VectorStore.clear": lambda db: _V(db).clear(),
    "VectorStore.delete": lambda db: _V(db).delete(["lamp"]),
    "EpisodeStore.delete": lambda db: _E(db).delete("first"),
    "EpisodicMemory.delete": lambda db: memalchemy.EpisodicMemory(_E(db)).delete("first"),
    "UserMemoryStore.clear": lambda db: _F(db).clear("ada"),
    "UserMemoryStore.delete": lambda db: _F(db).delete("ada", "f1"),
    "LLMMemoryManager.save": _remember_few,
    "ToolOutputs.clear": lambda db: _O(db).clear(),
    "Conversation.abort_tool_exchange": lambda db: _M(db, "open").abort_tool_exchange(),
    "Conversation.clear": lambda db: _M(db, "talk").clear(),
    "Conversation.delete": lambda db: _M(db, "talk").delete(),
    "Conversation.purge_messages": lambda db: _M(db, "talk").purge_messages(1e-6),
    "ConversationStore.clear": lambda db: _K(db).clear(),
    "ConversationStore.delete": lambda db: _K(db).delete("talk"),
    "ConversationStore.purge_messages": lambda db: _K(db).purge_messages(1e-6),
    "RetainedCheckpointer.purge_messages": lambda db: memalchemy.RetainedCheckpointer(
        db, max_age=1
    ).purge_messages(1e-6),
}
WRITE_NOTHING = {
    *(f"{name}.close" for name in ("Checkpointer", "Store", "KeyValue")),
    *("Checkpointer.export_files", "ThreadLog.hold", "Store.hold"),
    *("LLMMemoryManager.drain", "LLMMemoryManager.extract"),
}
CALLS: dict[str, Call] = REMOVALS | {
    one.name: lambda db, call=one.call: call(db, {})  # type: ignore[misc]
    for one in WRITES
    if one.name not in REMOVALS
}


def test_every_public_write_is_tried() -> None:
    tried = {name.split(" ")[0] for name in CALLS}
    assert NOT_READS - tried - WRITE_NOTHING == set()


@pytest.fixture(scope="module")
def urls(postgres: Postgres) -> Any:
    """The primary, and what stands in for a replica that has seen no write."""
    with migrated_database(postgres) as primary, migrated_database(postgres) as stale:
        yield postgres.url(primary), postgres.url(stale)


async def _rows(db: Database) -> list[int]:
    def count(session: Any) -> list[int]:
        tables = [one.__table__ for one in TABLES]
        return [
            session.scalar(
                select(func.count()).select_from(table).where(table.c.tenant == db.tenant)
            )
            for table in tables
        ]

    return list(await db.primary().run_sync(count))


@pytest.mark.parametrize("name", CALLS)
async def test_a_write_changes_what_it_changes_without_a_replica(
    urls: tuple[str, str], name: str
) -> None:
    url, stale = urls
    told = {}
    for how, known in (("beside", {"read_url": stale}), ("without", {})):
        tenant = f"{name}-{how}"[:60]
        async with Database(url, tenant=tenant) as db:
            await fill(db)
            await fill_memories(db)
            await fill_for_writes(db)
        async with Database(url, tenant=tenant, **known) as db:
            returned = await CALLS[name](db)
            plain = returned if isinstance(returned, int | None) else None
            told[how] = plain, await _rows(db)
    assert told["beside"] == told["without"]
