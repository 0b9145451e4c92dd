"""A copy is equal, refuses what is not its own, and brings what came since."""

from __future__ import annotations

import asyncio
import random
from datetime import timedelta
from itertools import pairwise
from pathlib import Path

import pytest
from contents import AWKWARD, WHEN, everything, fill, item, run, states, stored, vector
from sqlalchemy import delete, insert, text, update

from memalchemy import Checkpointer, Conflict, Corrupt, Database
from memalchemy.maintenance.copying import logs as copying_logs
from memalchemy.schema import DeltaRow, EmbeddingRow, StoreItemRow
from memalchemy.transfer import CopyReport, copy
from rows import of_thread
from servers import Postgres


async def test_a_copy_there_and_back_is_equal_in_every_row(
    source: Database, target: Database, tmp_path: Path
) -> None:
    await fill(source)
    before = await everything(source)

    async with Database(f"sqlite:///{tmp_path}/back.db") as back:
        there = await copy(source, target, all_tenants=True)
        again = await copy(target, back, all_tenants=True)

        assert await everything(target) == before
        assert await everything(back) == before
    assert there.new == again.new == there.logs + there.items
    assert there.rows == again.rows == sum(map(len, before.values()))
    assert there.bytes == again.bytes > 300_000


async def test_what_was_copied_loads_lists_and_is_found(source: Database, target: Database) -> None:
    await fill(source)

    await copy(source, target)

    there = await states(target)
    assert there == await states(source)
    assert len(there) > 70
    for query in ("word3", "branch", "é", "replaced"):
        hits = [await Checkpointer(db).search(query, limit=500) for db in (source, target)]
        found, expected = ({(h["thread_id"], h["checkpoint_id"]) for h in hit} for hit in hits)
        assert found == expected
    assert await Checkpointer(target).search("word3")
    by_metadata = [await Checkpointer(db).query_by_metadata("yes", True) for db in (source, target)]
    assert len(by_metadata[0]) == len(by_metadata[1]) > 0


async def test_the_copy_goes_on_where_the_source_was(source: Database, target: Database) -> None:
    await fill(source)
    await copy(source, target)
    newest = (await Checkpointer(source).list_checkpoints("plain", 1))[0]
    agent = Checkpointer(target)

    await agent.save({"m": ["next"]}, "plain", "next", expected_parent=newest)
    await agent.save({"m": ["more"]}, "plain", "more", parent_id="2-é")

    assert await agent.load("plain", "next") == {"m": ["next"]}
    assert await agent.load("plain", "more") == {"m": ["more"]}
    assert await agent.load("plain", newest) == await Checkpointer(source).load("plain", newest)


async def test_one_tenant_is_copied_without_the_others(source: Database, target: Database) -> None:
    await fill(source)

    await copy(source, target)

    assert await everything(target) == await everything(source, tenant="acme")


async def test_a_second_run_changes_nothing_and_a_later_one_brings_what_came_since(
    source: Database, target: Database
) -> None:
    await fill(source)
    await copy(source, target, all_tenants=True)
    second = await copy(source, target, all_tenants=True)
    agent = Checkpointer(source)
    await agent.save({"m": ["since"]}, "plain", "since")
    await agent.delete("large")
    await agent.delete("a/b", "2-é")
    await agent.save({"born": 1}, "newborn")
    later = stored(b"later") | {"version": 9, "updated_at": WHEN + timedelta(hours=1)}
    await run(
        source,
        update(StoreItemRow).where(StoreItemRow.key == "one").values(later),
        delete(EmbeddingRow).where(EmbeddingRow.part == 0),
        insert(EmbeddingRow.__table__).values(vector("", 1, 5)),
    )

    third = await copy(source, target, all_tenants=True)

    assert (second.new, second.updated, second.rows) == (0, 0, 0)
    assert second.unchanged == second.logs + second.items
    assert (third.new, third.updated) == (1, 6)
    assert await everything(target) == await everything(source)


async def test_a_copied_log_has_an_epoch_of_its_own_in_each_life(
    source: Database, target: Database, urls: list[str]
) -> None:
    text, other = (random.Random(n).randbytes(5000).hex() for n in (1, 2))
    agent, elsewhere = Checkpointer(source), Checkpointer(target)
    for number in range(4):
        await agent.save({"text": text, "n": number}, "thread", f"{number}")
    await copy(source, target)
    # The target's process knows a fifth state that no later copy has.
    await elsewhere.save({"text": other, "n": "here"}, "thread", "here")
    async with Database(urls[1], tenant="acme") as another:
        await Checkpointer(another).forget(thread_id="thread")
    await agent.save({"text": text, "n": "there"}, "thread", "there")
    await copy(source, target)

    await elsewhere.save({"text": other + "!", "n": "after"}, "thread", "after")

    async with Database(urls[1], tenant="acme") as another:
        fresh = Checkpointer(another)
        assert await fresh.load("thread") == {"text": other + "!", "n": "after"}
        assert await fresh.load("thread", "there") == {"text": text, "n": "there"}


@pytest.mark.parametrize(
    "theirs",
    ["saved", "saved after a copy", "deleted after a copy", "item", "newer item", "altered row"],
)
async def test_a_target_that_holds_something_else_is_refused_and_left_as_it_is(
    source: Database, target: Database, theirs: str
) -> None:
    for thread in ("a", "m", "z"):
        await Checkpointer(source).save({"n": 1}, thread, "one")
    await run(source, insert(StoreItemRow.__table__).values(item("one")))
    if "after a copy" in theirs:
        await copy(source, target)
        await Checkpointer(source).save({"n": 2}, "a", "two")
    if theirs.startswith("saved"):
        await Checkpointer(target).save({"other": 1}, "m", "two")
        if "after" in theirs:
            await Checkpointer(source).save({"other": 1}, "m", "two")
    elif theirs.startswith("deleted"):
        await Checkpointer(target).delete("m", "one")
        await Checkpointer(source).save({"n": 2}, "m", "two")
        await Checkpointer(source).save({"n": 3}, "m", "three")
    elif theirs == "altered row":
        await copy(source, target)
        await run(target, update(DeltaRow).where(text(of_thread("m"))).values(checksum=1))
    else:
        changed = stored(b"theirs") | {"updated_at": WHEN + timedelta(days=2)}
        version = 2 if theirs == "item" else 4
        await run(
            target,
            insert(StoreItemRow.__table__).values(item("one") | changed | {"version": version}),
        )
    before = await everything(target)

    with pytest.raises(Conflict, match="something else") as refused:
        await copy(source, target, recheck=True)

    assert await everything(target) == before
    assert len(refused.value.current) == 1
    assert ("'one'" if "item" in theirs else "'m'") in str(refused.value)


async def test_what_is_equal_already_needs_no_earlier_copy(
    source: Database, target: Database, tmp_path: Path
) -> None:
    await fill(source)
    await copy(source, target, all_tenants=True)

    back = await copy(target, source, all_tenants=True)

    assert back.unchanged == back.logs + back.items
    assert back.rows == 0


async def test_what_only_the_target_has_stays(source: Database, target: Database) -> None:
    await Checkpointer(source).save({"n": 1}, "ours")
    await Checkpointer(target).save({"n": 2}, "theirs")

    await copy(source, target)

    assert sorted(await Checkpointer(target).list_threads()) == ["ours", "theirs"]


async def test_a_row_that_does_not_come_back_as_it_was_written_is_not_committed(
    source: Database, target: Database
) -> None:
    await Checkpointer(source).save({"n": 1}, "thread", "one", {"a": 1})
    if target.dialect.single_writer:
        spoil = [
            "CREATE TRIGGER spoil AFTER INSERT ON checkpoints BEGIN "
            "UPDATE checkpoints SET raw_size = raw_size + 1 WHERE rowid = new.rowid; END"
        ]
    else:
        spoil = [
            "CREATE FUNCTION spoil() RETURNS trigger LANGUAGE plpgsql AS "
            '$$ BEGIN new.meta = \'{"a":"1"}\'; RETURN new; END $$',
            "CREATE TRIGGER spoil BEFORE INSERT ON checkpoints "
            "FOR EACH ROW EXECUTE FUNCTION spoil()",
        ]
    for sql in spoil:
        await target.run_sync(lambda c, sql=sql: c.exec_driver_sql(sql))

    with pytest.raises(Corrupt, match="checkpoints"):
        await copy(source, target)

    assert not any((await everything(target)).values())


async def test_a_log_is_copied_as_of_one_moment_while_others_save(
    source: Database, target: Database
) -> None:
    agent = Checkpointer(source)
    enough = asyncio.Event()
    saved = 0

    async def save() -> None:
        nonlocal saved
        while not enough.is_set():
            saved += 1
            await agent.save({"m": list(range(saved % 50)), "n": saved}, "busy", f"{saved}")
            if saved % 7 == 0:
                await agent.prune("busy", keep_last=20)

    saving = asyncio.create_task(save())
    try:
        copies = 0
        while copies < 8 or saved <= 20:  # on a busy machine saves may be rare
            before, copies = saved, copies + 1
            await copy(source, target)
            infos = [info async for info in Checkpointer(target).history("busy")]
            if before > 1:
                assert int(infos[0].checkpoint_id) >= before - 1
            for info in infos:
                state = await Checkpointer(target).load("busy", info.checkpoint_id)
                assert state["n"] == int(info.checkpoint_id)
    finally:
        enough.set()
        await saving
    await copy(source, target)
    assert await everything(target) == await everything(source)


async def test_a_large_log_is_held_in_pages(
    source: Database, target: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent = Checkpointer(source, index_text=False, max_chain_depth=1)
    for number in range(30):
        await agent.save({"n": number, "noise": f"{number}-" * 500}, "thread", f"{number}")
    monkeypatch.setattr(copying_logs, "BATCH_BYTES", 300)
    monkeypatch.setattr(copying_logs, "BATCH_ROWS", 7)
    told: list[CopyReport] = []

    await copy(source, target, progress=told.append)

    pages = [b.bytes - a.bytes for a, b in pairwise(told) if b.bytes > a.bytes]
    assert len(pages) > 4
    assert all(page <= 300 for page in pages)
    assert await everything(target) == await everything(source)


async def test_progress_counts_up_to_what_there_is(source: Database, target: Database) -> None:
    await fill(source)
    told: list[CopyReport] = []

    report = await copy(source, target, progress=told.append)

    assert told[-1] == report
    assert [t.done for t in told] == sorted(t.done for t in told)
    assert (told[0].logs, told[0].items) == (report.logs, report.items)
    assert report.done == report.looked == report.logs + report.items > len(AWKWARD)


async def test_a_database_is_not_copied_to_itself_nor_to_another_tenant(source: Database) -> None:
    with pytest.raises(ValueError, match="same Database"):
        await copy(source, source.for_tenant("acme"))
    with pytest.raises(ValueError, match="'acme'"):
        await copy(source, Database("sqlite://", tenant="other"))


async def test_a_schema_is_copied_to_another_of_the_same_database(postgres: Postgres) -> None:
    name = postgres.create_database()
    for schema in ("memory_a", "memory_b"):
        postgres.execute(f"CREATE SCHEMA {schema}", name)
    a, b = (Database(postgres.url(name), tenant="acme", schema=s) for s in ("memory_a", "memory_b"))
    await a.migrate()
    await b.migrate()
    await fill(a)

    await copy(a, b, all_tenants=True)

    assert await everything(b) == await everything(a)
    await a.close()
    await b.close()
    postgres.drop_database(name)


async def test_vectors_reach_a_server_without_pgvector(tmp_path: Path, postgres: Postgres) -> None:
    name = postgres.create_database()
    async with Database(f"sqlite:///{tmp_path}/a.db", tenant="acme") as source:
        await fill(source)
        target = Database(postgres.url(name), tenant="acme")
        await target.migrate()
        # As the first revision makes it where the extension cannot be had.
        postgres.execute("ALTER TABLE embeddings DROP COLUMN vector", name)
        postgres.execute("ALTER TABLE embeddings ADD COLUMN vector BYTEA NOT NULL", name)

        await copy(source, target)
        again = await copy(source, target, recheck=True)

        stored = postgres.execute("SELECT vector FROM embeddings WHERE part = 1", name)
        (row,) = [r for r in (await everything(source))["embeddings"] if r["part"] == 1]
        assert bytes(stored[0][0]) == row["vector"]
        assert again.unchanged == again.done
        await target.close()
    postgres.drop_database(name)
