"""The inspector, the command line and Python tell the same numbers and times, those of a model.

Random databases of several tenants are built, with branches, deletions, lifetimes that are over,
pending writes and entries with old times; then each place that counts is asked.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from commandline import Call
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lifetimes import MOMENT
from memalchemy import Checkpointer, Database, Store, ThreadLog, space
from memalchemy.inspection import Inspector

Place = tuple[str, ...]
Log = tuple[str, Place]

NAMESPACES: list[Place] = [(), ("langgraph",), ("langgraph", "sub"), ("openai",), ("own", "a")]
THREADS = ["t1", "t2", "t10"]
ITEMS: list[Place] = [("users", "ada"), ("users",), ("docs",)]
OLD = datetime(2023, 1, 2, 3, 4, 5, 678, tzinfo=UTC)

logs = st.tuples(st.sampled_from(THREADS), st.sampled_from(NAMESPACES))
items = st.tuples(st.sampled_from(ITEMS), st.sampled_from("xyz"))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("save"), logs, st.integers(0, 2)),
        st.tuples(st.just("append"), logs, st.integers(1, 3)),
        st.tuples(st.just("write"), logs, st.just(0)),
        st.tuples(st.just("delete a checkpoint"), logs, st.integers(0, 5)),
        st.tuples(st.just("clear"), logs, st.just(0)),
        st.tuples(st.just("delete"), logs, st.just(0)),
        st.tuples(st.just("end"), logs, st.just(0)),
        st.tuples(st.just("fork"), logs, st.just(0)),
        st.tuples(st.just("put"), items, st.integers(0, 3)),
        st.tuples(st.just("end an item"), items, st.just(0)),
        st.tuples(st.just("remove an item"), items, st.just(0)),
    ),
    min_size=1,
    max_size=14,
)


@dataclass
class Model:
    """What a tenant holds."""

    checkpoints: dict[Log, list[str]] = field(default_factory=dict)
    entries: dict[Log, int] = field(default_factory=dict)
    items: set[tuple[Place, str]] = field(default_factory=set)

    def logs(self) -> dict[Log, tuple[int, int]]:
        names = {*self.checkpoints, *self.entries}
        found = {
            log: (len(self.checkpoints.get(log, ())), self.entries.get(log, 0)) for log in names
        }
        return {log: counts for log, counts in found.items() if any(counts)}

    def forget(self, log: Log) -> None:
        self.checkpoints.pop(log, None)
        self.entries.pop(log, None)


async def do(db: Database, model: Model, step: tuple[str, Any, int]) -> None:
    what, place, number = step
    store = Store(db)
    if what == "put":
        await store.put(*place, {"n": "x" * 10**number}, ttl=None if number else 3600)
        model.items.add(place)
    elif what == "end an item":
        await store.put(*place, {"n": 1}, ttl=MOMENT)
        model.items.discard(place)
    elif what == "remove an item":
        await store.delete(*place)
        model.items.discard(place)
    else:
        await do_in_log(db, model, what, place, number)


async def do_in_log(db: Database, model: Model, what: str, log: Log, number: int) -> None:
    thread, namespace = log
    states = Checkpointer(db, namespace=namespace)
    entries = ThreadLog(db, namespace=namespace)
    known = model.checkpoints.get(log, [])
    if what == "save":
        parent = {"parent_id": known[0]} if known and number == 1 else {}
        state = {"messages": [{"role": "user", "content": "é" * 10**number}] * (len(known) + 1)}
        made = await states.save(state, thread, **parent)
        model.checkpoints.setdefault(log, []).append(made)
    elif what == "append":
        at = [OLD + timedelta(days=day) for day in range(number)]
        await entries.append(thread, [{"n": "x" * 30}] * number, occurred_at=at)
        model.entries[log] = model.entries.get(log, 0) + number
    elif what == "write":
        if known:
            await states.put_writes([("channel", 1)], thread, known[-1], "task")
    elif what == "delete a checkpoint":
        if known:
            gone = known.pop(number % len(known))
            await states.delete_checkpoints(thread, [gone])
    elif what == "clear":
        await entries.clear(thread)
        model.entries.pop(log, None)
    elif what == "fork":
        if known:
            made = await states.fork(thread, new_thread_id=f"{thread}-fork-{len(model.logs())}")
            infos = [info.checkpoint_id async for info in states.history(made)]
            model.checkpoints[made, namespace] = infos
    else:
        if what == "end":
            ending = ThreadLog(db, namespace=namespace, ttl=MOMENT)
            await ending.append(thread, {"last": 1})
        else:
            await states.delete(thread, all_namespaces=False)
        model.forget(log)


def by_log(records: Iterable[Any]) -> dict[Log, Any]:
    return {(one["thread_id"], tuple(one["namespace"])): one for one in records}


def as_text(time: Any) -> str:
    """Return a time in the spelling of all: Python's, the inspector's, and JSON's."""
    found = time if isinstance(time, datetime) else datetime.fromisoformat(time)
    return found.astimezone(UTC).isoformat()


async def asked(url: str, tenant: str) -> dict[str, Any]:
    """Return what the inspector and Python tell of a tenant."""
    db = Database(url, tenant=tenant)
    async with db:
        inspector = Inspector(db)
        listed = (await inspector.threads(limit=200))["threads"]
        spaces = await inspector.namespaces(limit=200)
        return {
            "overview": await inspector.overview(),
            "space": await inspector.space(),
            "threads": listed,
            "each": [await inspector.thread(one["thread_id"], one["namespace"]) for one in listed],
            "steps": {
                (one["thread_id"], tuple(one["namespace"])): (
                    await inspector.timeline(one["thread_id"], one["namespace"])
                )["steps"]
                for one in listed
                if one["checkpoints"]
            },
            "items": (await inspector.items((), below=True, limit=200))["items"],
            "namespaces": spaces["namespaces"],
            "python": await Checkpointer(db).list_logs(below=True, limit=200),
            "entries": {
                (one["thread_id"], tuple(one["namespace"])): await ThreadLog(
                    db, namespace=one["namespace"]
                ).count(one["thread_id"])
                for one in listed
            },
            "measured": await space.measure(db),
            "stored": [item async for item in Store(db).iter_items((), prefix=True)],
        }


async def fill(url: str, model: dict[str, Model], work: dict[str, list[Any]]) -> None:
    for tenant, steps_of_tenant in work.items():
        async with Database(url, tenant=tenant) as db:
            for step in steps_of_tenant:
                await do(db, model[tenant], step)


@given(given_steps=steps, others=steps)
@settings(max_examples=5, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_all_places_tell_the_numbers_and_times_of_what_happened(
    url: str, call: Call, given_steps: list[Any], others: list[Any]
) -> None:
    tenants = {f"a{len(USED)}": given_steps, f"b{len(USED)}": others}
    USED.append(1)
    assert call("--db", url, "upgrade").code == 0
    model = {tenant: Model() for tenant in tenants}
    asyncio.run(fill(url, model, tenants))

    for tenant, held in model.items():
        told = asyncio.run(asked(url, tenant))

        def command(*arguments: str, tenant: str = tenant) -> Any:
            answer = call("--db", url, "--tenant", tenant, *arguments, "--json")
            assert answer.code == 0, answer.err
            return answer.json

        check_threads(held, told, command("threads", "--limit", "200"))
        check_steps(held, told, command)
        check_items(held, told, command)
        check_totals(held, told, command("stats"))


USED: list[int] = []
"""Makes the names of tenants new in each example."""


def check_threads(held: Model, told: dict[str, Any], commanded: Any) -> None:
    expected = held.logs()
    listed, each = by_log(told["threads"]), by_log(told["each"])
    printed = by_log(commanded)
    python = {(one.thread_id, one.namespace): one for one in told["python"]}
    assert listed.keys() == each.keys() == printed.keys() == python.keys() == expected.keys()
    for log, (checkpoints, entries) in expected.items():
        one = python[log]
        assert (one.checkpoints, one.entries) == (checkpoints, entries)
        assert told["entries"][log] == entries
        for record in (listed[log], each[log], printed[log]):
            assert (record["checkpoints"], record["entries"]) == (checkpoints, entries)
            sizes = record["raw_bytes"], record["stored_bytes"]
            assert sizes == (one.raw_size, one.stored_size)
            assert as_text(record.get("updated_at") or record["saved_at"]) == as_text(
                one.updated_at
            )
        assert one.stored_size > 0
    order = [(one["thread_id"], tuple(one["namespace"])) for one in told["threads"]]
    assert order == [*printed] == [*python]


def check_steps(held: Model, told: dict[str, Any], command: Any) -> None:
    for (thread, namespace), known in held.checkpoints.items():
        if not known:
            continue
        place = "/".join(namespace) or "/"
        history = command("history", thread, "--namespace", place, "--limit", "200")
        steps = told["steps"][thread, namespace]
        assert len(history) == len(steps) == len(known)
        for printed, step in zip(history, steps, strict=True):
            assert printed["checkpoint_id"] == step["checkpoint_id"]
            times = [as_text(printed["created_at"]), as_text(step["saved_at"])]
            assert times[0] == times[1]


def check_items(held: Model, told: dict[str, Any], command: Any) -> None:
    names = {(tuple(one["namespace"]), one["key"]) for one in told["items"]}
    stored = {(item.namespace, item.key): item for item in told["stored"]}
    printed = command("store", "ls", "/", "--prefix", "--limit", "200")
    assert names == stored.keys() == held.items
    assert {(tuple(one["namespace"]), one["key"]) for one in printed} == held.items
    for one in (*told["items"], *printed):
        item = stored[tuple(one["namespace"]), one["key"]]
        assert one["version"] == item.version
        assert as_text(one["updated_at"]) == as_text(item.updated_at)
    counts = Counter(namespace for namespace, _ in held.items)
    spaces = command("store", "ls", "--limit", "200")
    assert {tuple(one["namespace"]): one["items"] for one in spaces} == counts


def check_totals(held: Model, told: dict[str, Any], stats: Any) -> None:
    logs, overview, inspected = held.logs(), told["overview"], told["space"]
    threads = {thread for thread, _ in logs}
    checkpoints = sum(counts[0] for counts in logs.values())
    entries = sum(counts[1] for counts in logs.values())
    expected = (len(threads), checkpoints, len(held.items))
    measured = told["measured"]
    assert (measured.threads, measured.checkpoints, measured.items) == expected
    for found in (overview, stats):
        assert (found["threads"], found["checkpoints"], found["items"]) == expected
    assert stats["entries"] == entries

    frameworks = Counter("".join(namespace[:1]) for _, namespace in logs)
    numbers = ("threads", "raw_bytes", "stored_bytes")
    printed = {one["name"]: [one[name] for name in numbers] for one in stats["frameworks"]}
    assert {name: found[0] for name, found in printed.items()} == frameworks
    assert {one["name"]: one["threads"] for one in overview["frameworks"]} == frameworks
    shown = {one["name"]: [one[name] for name in numbers] for one in inspected["frameworks"]}
    assert shown == printed
    for name in ("raw_bytes", "stored_bytes"):
        added = sum(getattr(one, name.replace("bytes", "size")) for one in told["python"])
        assert inspected[name] == overview.get(name, added) == stats[name] == added
        assert added == sum(one[name] for one in stats["frameworks"])
        assert added == getattr(measured, name)
    assert bool(inspected["stored_bytes"]) == bool(logs)


@pytest.mark.parametrize("estimated", [False, True])
async def test_sums_before_the_measurement_are_those_after_it(
    db: Database, monkeypatch: pytest.MonkeyPatch, estimated: bool
) -> None:
    from memalchemy.inspection import storage

    for thread in range(4):
        await ThreadLog(db, namespace=("openai",)).append(f"t{thread}", [{"said": "x" * 99}] * 3)
        await Checkpointer(db, namespace=("langgraph",)).save({"n": thread}, f"t{thread}")
    monkeypatch.setattr(storage, "EXACT", 5 if estimated else 5_000)
    monkeypatch.setattr(storage, "SAMPLE", 100_000)  # all logs
    sums = await storage.Storage(db).sums()
    measured = {one.name: one for one in (await space.measure(db)).frameworks}

    assert sums["estimated"] == estimated
    for one in sums["frameworks"]:
        held = measured[one["name"]]
        sizes = one["raw_bytes"], one["stored_bytes"], one["threads"]
        assert sizes == (held.raw_bytes, held.stored_bytes, held.threads)
        assert held.stored_bytes > 0
