"""Looking, deleting, copying and exporting in one namespace, in those below it, and in all."""

from __future__ import annotations

from datetime import timedelta

import pytest
from sqlalchemy import func, select

from lifetimes import MOMENT
from memalchemy import Checkpointer, Database, LogInfo, ThreadLog
from memalchemy.schema import DeltaRow, ThreadRow


def named(found: list[LogInfo]) -> list[tuple[str, str]]:
    return [(log.thread_id, "/".join(log.namespace)) for log in found]


@pytest.fixture
async def busy(db: Database) -> Database:
    """One thread id used by an agent, a framework, its subgraph and a conversation; and another."""
    await Checkpointer(db).save({"say": "kettle"}, "ada", "a1")
    await Checkpointer(db, namespace=("graph",)).save({"say": "copper kettle"}, "ada", "g1")
    await Checkpointer(db, namespace=("graph", "sub")).save({"say": "teapot"}, "ada", "s1")
    await ThreadLog(db, namespace=("talk",)).append("ada", ["kettle", "on"])
    await Checkpointer(db, namespace=("graphs",)).save({"say": "copper"}, "bob", "b1")
    return db


async def test_logs_of_all_namespaces_are_listed_by_their_last_write(busy: Database) -> None:
    await Checkpointer(busy).save({"say": "again"}, "ada", "a2")
    root = Checkpointer(busy)

    assert named(await root.list_logs(below=True)) == [
        ("ada", ""),
        ("bob", "graphs"),
        ("ada", "talk"),
        ("ada", "graph/sub"),
        ("ada", "graph"),
    ]
    assert named(await root.list_logs(below=True, limit=2)) == [("ada", ""), ("bob", "graphs")]
    assert await root.list_logs(below=True, limit=0) == []


async def test_logs_are_listed_of_a_namespace_of_those_below_it_of_a_thread_and_by_a_glob(
    busy: Database,
) -> None:
    root, graph = Checkpointer(busy), Checkpointer(busy, namespace=("graph",))

    assert named(await root.list_logs()) == [("ada", "")]
    assert named(await graph.list_logs()) == [("ada", "graph")]
    assert named(await graph.list_logs(below=True)) == [("ada", "graph/sub"), ("ada", "graph")]
    assert named(await root.list_logs("bob", below=True)) == [("bob", "graphs")]
    assert named(await root.list_logs(pattern="b*", below=True)) == [("bob", "graphs")]
    assert named(await root.list_logs(pattern="?ob", below=True)) == [("bob", "graphs")]
    assert await root.list_logs("b*", below=True) == []
    assert await root.list_logs("nobody", below=True) == []


async def test_a_log_says_which_thread_it_was_forked_from(db: Database) -> None:
    checkpointer, talk = Checkpointer(db), ThreadLog(db, namespace=("talk",))
    await checkpointer.save({"n": 1}, "ada", "a1")
    await talk.append("ada", ["kettle"])
    await checkpointer.fork("ada", new_thread_id="eve")
    await talk.fork("ada", new_thread_id="eve")

    logs = await checkpointer.list_logs(below=True)

    assert {(log.thread_id, log.namespace, log.forked_from) for log in logs} == {
        ("ada", (), None),
        ("ada", ("talk",), None),
        ("eve", (), "ada"),
        ("eve", ("talk",), "ada"),
    }


async def test_a_log_says_what_is_in_it(busy: Database) -> None:
    graph = Checkpointer(busy, namespace=("graph",))
    await graph.save({"say": "copper kettle", "n": 2}, "ada", "g2")
    await graph.save({"say": "copper kettle", "n": 3}, "ada", "g3")
    await graph.delete("ada", "g3")
    history = [info async for info in graph.history("ada")]
    (saved,) = await graph.list_logs()
    (talk,) = await Checkpointer(busy, namespace=("talk",)).list_logs()

    assert (saved.checkpoints, saved.entries, saved.newest_id) == (2, 0, "g2")
    assert saved.raw_size == sum(info.raw_size for info in history)
    assert saved.stored_size == sum(info.stored_size for info in history)
    assert saved.created_at == history[-1].created_at
    assert saved.updated_at >= history[0].created_at
    assert saved.updated_at.utcoffset() == timedelta(0)
    assert (talk.checkpoints, talk.entries, talk.newest_id) == (0, 2, None)
    assert talk.raw_size == talk.stored_size
    async with busy.transaction() as connection:
        taken = func.sum(func.length(DeltaRow.payload))
        of_talk = (DeltaRow.log_id == ThreadRow.log_id) & (ThreadRow.namespace == "/talk/")
        query = select(taken).where(of_talk, ThreadRow.tenant == busy.tenant)
        assert talk.stored_size == await connection.scalar(query) > 0


async def test_a_log_that_is_over_is_not_listed(busy: Database) -> None:
    await Checkpointer(busy).delete("ada")
    await Checkpointer(busy, namespace=("short",), ttl=MOMENT).save({}, "ada")

    assert named(await Checkpointer(busy).list_logs(below=True)) == [("bob", "graphs")]


async def test_no_tenant_sees_the_logs_of_another(busy: Database) -> None:
    acme = Checkpointer(busy.for_tenant("acme"))
    await acme.save({"say": "kettle"}, "carl", "c1")

    assert named(await acme.list_logs(below=True)) == [("carl", "")]
    assert [hit["thread_id"] for hit in await acme.search("kettle", below=True)] == ["carl"]


@pytest.mark.parametrize("thread_id", ["", "\x00", "a'\"[*]", "\ud800", "漢字"])
async def test_any_id_is_listed_with_what_it_holds(db: Database, thread_id: str) -> None:
    await Checkpointer(db, namespace=("a/b", "~")).save({}, thread_id, "one")

    (log,) = await Checkpointer(db).list_logs(thread_id, below=True)
    assert (log.thread_id, log.namespace, log.checkpoints) == (thread_id, ("a/b", "~"), 1)
    assert await Checkpointer(db).list_logs(below=True) == [log]


async def test_logs_are_listed_through_every_page(
    db: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("memalchemy.log.listing.PAGE", 3)
    for n in range(8):
        await Checkpointer(db, namespace=("odd",) if n % 2 else ()).save({}, f"t{n // 2}")
    root = Checkpointer(db)

    found = await root.list_logs(below=True)
    assert named(found) == [(f"t{n // 2}", "odd" if n % 2 else "") for n in range(7, -1, -1)]
    assert all(log.checkpoints == 1 for log in found)
    assert named(await root.list_logs(pattern="*0", below=True)) == [("t0", "odd"), ("t0", "")]
    assert len(await root.list_logs(pattern="t*", below=True)) == 8
    assert len(await root.list_logs("t1", below=True)) == 2
    assert await root.list_threads() == ["t3", "t2", "t1", "t0"]


async def test_a_search_below_ranks_what_all_namespaces_hold(busy: Database) -> None:
    root, graph = Checkpointer(busy), Checkpointer(busy, namespace=("graph",))

    everywhere = await root.search("copper kettle", below=True)
    assert [(hit["checkpoint_id"], hit["namespace"]) for hit in everywhere] == [
        ("g1", ("graph",)),
        ("b1", ("graphs",)),
        ("a1", ()),
    ]
    assert everywhere[0]["score"] == 1.0
    assert everywhere[0]["snippet"] == "copper kettle"
    assert [h["checkpoint_id"] for h in await graph.search("copper teapot", below=True)] == [
        "s1",
        "g1",
    ]
    assert [hit["checkpoint_id"] for hit in await graph.search("teapot")] == []
    assert [hit["checkpoint_id"] for hit in await root.search("kettle")] == ["a1"]
    assert len(await root.search("copper kettle", 2, below=True)) == 2


async def test_what_a_transaction_has_written_is_listed_in_it(busy: Database) -> None:
    root = Checkpointer(busy)
    async with busy.transaction() as tx:
        await root.save({"say": "new"}, "new", connection=tx)
        assert named(await root.list_logs("new", connection=tx)) == [("new", "")]
        assert len(await root.search("new", below=True, connection=tx)) == 1


async def test_a_thread_is_deleted_with_all_its_logs_or_in_one_namespace(busy: Database) -> None:
    root, graph = Checkpointer(busy), Checkpointer(busy, namespace=("graph",))
    await graph.load("ada")

    assert await graph.delete("ada", all_namespaces=False) is True
    assert await graph.delete("ada", all_namespaces=False) is False
    assert await graph.load("ada") is None
    assert named(await root.list_logs("ada", below=True)) == [
        ("ada", "talk"),
        ("ada", "graph/sub"),
        ("ada", ""),
    ]
    assert await graph.delete("ada") is True
    assert await root.list_logs("ada", below=True) == []


async def test_a_deletion_in_one_namespace_takes_its_entries_too(busy: Database) -> None:
    assert await Checkpointer(busy, namespace=("talk",)).delete("ada", all_namespaces=False)
    assert await ThreadLog(busy, namespace=("talk",)).count("ada") == 0
    assert await Checkpointer(busy).load("ada") == {"say": "kettle"}


async def test_a_thread_is_copied_with_all_its_logs_or_from_one_namespace(busy: Database) -> None:
    root, graph = Checkpointer(busy), Checkpointer(busy, namespace=("graph",))

    assert await graph.copy_thread("ada", "one", all_namespaces=False) is True
    assert await graph.copy_thread("nobody", "none", all_namespaces=False) is False
    assert await graph.copy_thread("ada", "all") is True
    assert named(await root.list_logs("one", below=True)) == [("one", "graph")]
    assert await graph.load("one") == {"say": "copper kettle"}
    assert len(await root.list_logs("all", below=True)) == 4


async def test_an_export_is_of_all_namespaces_or_of_one(busy: Database) -> None:
    graph = Checkpointer(busy, namespace=("graph",))
    whole = [record async for record in graph.export(thread_id="ada")]
    one = [r async for r in graph.export(thread_id="ada", all_namespaces=False)]
    tenant = [r async for r in graph.export(tenant=busy.tenant, all_namespaces=False)]

    assert len(whole) == 5
    assert [(record["checkpoint_id"], record["namespace"]) for record in one] == [("g1", ["graph"])]
    assert tenant == one
