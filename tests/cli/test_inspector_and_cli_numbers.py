"""The inspector, the command line and Python tell the same numbers and times, those of a model.

Random databases of several tenants are built, with branches, deletions, lifetimes that are over,
pending writes and entries with old times; then each place that counts is asked.
"""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import typer
from commandline import Call, commands
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from drawn_examples import examples
from lifetimes import MOMENT
from memalchemy import Checkpointer, Database, Store, ThreadLog, space
from memalchemy.cli.app import app
from memalchemy.importers import openai_chat
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
        st.tuples(st.just("import"), st.sampled_from(["i1", "i2"]), st.integers(1, 3)),
    ),
    min_size=1,
    max_size=14,
)
EACH_KIND: list[Any] = [
    ("save", ("t1", ("langgraph",)), 0),
    ("save", ("t1", ("langgraph",)), 0),
    ("write", ("t1", ("langgraph",)), 0),
    ("append", ("t1", ("langgraph",)), 2),
    ("append", ("t2", ("openai",)), 3),
    ("put", (("users", "ada"), "x"), 0),
    ("put", (("users", "ada"), "x"), 1),
    ("put", (("docs",), "y"), 0),
    ("import", "i1", 3),
]

COMPARED = {
    "history",
    "log ls",
    "search",
    "show",
    "stats",
    "store get",
    "store ls",
    "store search",
    "tail",
    "tenants list",
    "threads",
}
"""Commands whose numbers and times are those of the model, of the inspector and of Python."""

OTHERS = {
    "numbers of rows of a job, which its own tests compare with the rows": {
        "copy", "delete", "distribute", "export", "forget", "import", "prune", "rebuild-words",
        "reembed", "rotate-keys", "sign", "store export", "store import", "store rm",
        "store sweep", "vacuum", "verify", "anchor",
    },
    "rows of messages, calls and usage, which tests/analysis compares with what was stored": {
        "messages", "sql", "tools", "usage",
    },
    "sizes of files and pages, which nothing else counts": {"backup", "restore"},
    "versions of the schema": {"check", "current", "downgrade", "upgrade"},
    "a number that only the write itself knows": {"fork", "store put"},
    "no number and no time of what is stored": {
        "demo", "diff", "generate-key", "grants", "index build", "index drop", "index show",
        "inspect", "serve", "tenants enforce", "tenants release", "tenants status", "views",
    },
}  # fmt: skip
"""Commands that are not compared here, and why."""

Span = tuple[datetime, datetime]
"""The moments between which something happened."""


@dataclass
class ItemTimes:
    """When an item was put first and last, how often, and for how long."""

    created: Span
    updated: Span
    version: int
    ttl: timedelta | None


@dataclass
class Model:
    """What a tenant holds."""

    checkpoints: dict[Log, list[str]] = field(default_factory=dict)
    entries: dict[Log, int] = field(default_factory=dict)
    items: dict[tuple[Place, str], ItemTimes] = field(default_factory=dict)
    created: dict[Log, Span] = field(default_factory=dict)
    updated: dict[Log, Span] = field(default_factory=dict)
    saved: dict[str, Span] = field(default_factory=dict)
    imported: dict[tuple[str, str], datetime] = field(default_factory=dict)
    occurred: dict[Log, list[datetime]] = field(default_factory=dict)

    def logs(self) -> dict[Log, tuple[int, int]]:
        names = {*self.checkpoints, *self.entries}
        found = {
            log: (len(self.checkpoints.get(log, ())), self.entries.get(log, 0)) for log in names
        }
        return {log: counts for log, counts in found.items() if any(counts)}

    def forget(self, log: Log) -> None:
        self.checkpoints.pop(log, None)
        for kept in (self.entries, self.created, self.updated, self.occurred):
            kept.pop(log, None)

    def write(self, log: Log, span: Span, *, is_certain: bool = True) -> None:
        """Note a write of a log; *is_certain* if it writes the time of the log, whatever it met."""
        self.created.setdefault(log, span)
        before = self.updated.get(log, span)
        self.updated[log] = span if is_certain else (before[0], span[1])


async def do(db: Database, model: Model, step: tuple[str, Any, int]) -> None:
    what, place, number = step
    store = Store(db)
    began = datetime.now(UTC)
    if what == "import":
        await import_thread(db, model, place, number)
    elif what == "put":
        ttl = None if number else timedelta(hours=1)
        await store.put(*place, {"n": "x" * 10**number, "words": "kettle"}, ttl=ttl)
        span = (began, datetime.now(UTC))
        known = model.items.get(place)
        first, version = (known.created, known.version + 1) if known else (span, 1)
        model.items[place] = ItemTimes(first, span, version, ttl)
    elif what == "end an item":
        await store.put(*place, {"n": 1}, ttl=MOMENT)
        model.items.pop(place, None)
    elif what == "remove an item":
        await store.delete(*place)
        model.items.pop(place, None)
    else:
        await do_in_log(db, model, what, place, number)


async def import_thread(db: Database, model: Model, thread: str, number: int) -> None:
    """Import a thread whose messages have old times; what is there already stays as it is."""
    times = [OLD + timedelta(days=day) for day in range(number)]
    messages = [
        {"role": "user", "content": "a copper kettle", "created_at": at.isoformat()} for at in times
    ]
    line = json.dumps({"thread_id": thread, "messages": messages})
    log: Log = (thread, ())
    known = model.checkpoints.get(log, [])
    async for _ in openai_chat.import_threads(Checkpointer(db), [line]):
        pass
    if number <= len(known):
        return  # unchanged, or a conflict
    model.checkpoints[log] = [f"{at:06}" for at in range(1, number + 1)]
    model.imported |= {(thread, f"{at:06}"): time for at, time in enumerate(times, 1)}
    model.created[log], model.updated[log] = (times[0],) * 2, (times[-1],) * 2


async def do_in_log(db: Database, model: Model, what: str, log: Log, number: int) -> None:
    thread, namespace = log
    states = Checkpointer(db, namespace=namespace)
    entries = ThreadLog(db, namespace=namespace)
    known = model.checkpoints.get(log, [])
    began = datetime.now(UTC)
    is_certain = what in ("save", "append")
    if what == "save":
        parent = {"parent_id": known[0]} if known and number == 1 else {}
        state = {"messages": [{"role": "user", "content": "é" * 10**number}] * (len(known) + 1)}
        made = await states.save(state, thread, **parent)
        model.checkpoints.setdefault(log, []).append(made)
        model.saved[made] = began, datetime.now(UTC)
    elif what == "append":
        at = [OLD + timedelta(days=day) for day in range(number)]
        value = {"n": "x" * 30, "text": "a copper kettle"}
        await entries.append(thread, [value] * number, occurred_at=at)
        model.entries[log] = model.entries.get(log, 0) + number
        model.occurred.setdefault(log, []).extend(at)
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
        model.occurred.pop(log, None)
    elif what == "fork":
        if known:
            made = await states.fork(thread, new_thread_id=f"{thread}-fork-{len(model.logs())}")
            infos = [info.checkpoint_id async for info in states.history(made)]
            model.checkpoints[made, namespace] = infos
            model.write((made, namespace), (began, datetime.now(UTC)))
        return
    else:
        if what == "end":
            ending = ThreadLog(db, namespace=namespace, ttl=MOMENT)
            await ending.append(thread, {"last": 1})
        else:
            await states.delete(thread, all_namespaces=False)
        model.forget(log)
        return
    if is_certain or log in model.created:
        model.write(log, (began, datetime.now(UTC)), is_certain=is_certain)


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
            "pages": {
                (one["thread_id"], tuple(one["namespace"])): await inspector.entries(
                    one["thread_id"], one["namespace"], limit=200
                )
                for one in listed
                if one["entries"]
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
@example(given_steps=EACH_KIND, others=EACH_KIND)
@settings(max_examples=examples(5), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_all_places_tell_the_numbers_and_times_of_what_happened(
    url: str, call: Call, given_steps: list[Any], others: list[Any]
) -> None:
    tenants = {f"a{len(USED)}": given_steps, f"b{len(USED)}": others}
    USED.append(1)
    assert call("--db", url, "upgrade").code == 0
    model = {tenant: Model() for tenant in tenants}
    asyncio.run(fill(url, model, tenants))

    called: set[str] = set()
    for tenant, held in model.items():
        told = asyncio.run(asked(url, tenant))

        def command(*arguments: str, tenant: str = tenant) -> Any:
            answer = call("--db", url, "--tenant", tenant, *arguments, "--json")
            assert answer.code == 0, answer.err
            given = f"{' '.join(arguments)} "
            called.add(next(name for name in COMPARED if given.startswith(f"{name} ")))
            return answer.json

        check_threads(held, told, command("threads", "--limit", "200"))
        check_steps(held, told, command)
        check_items(held, told, command)
        check_totals(held, told, command("stats"))
        check_entries(held, told, command)
        check_hits(held, command)
        listed = {one["tenant"] for one in command("tenants", "list")}
        assert (tenant in listed) >= bool(held.logs() or held.items)
    assert called == COMPARED or given_steps != EACH_KIND


def test_every_command_is_compared_or_says_why_not() -> None:
    found = set(commands(typer.main.get_command(app)))

    assert found == COMPARED.union(*OTHERS.values())


USED: list[int] = []
"""Makes the names of tenants new in each example."""


def assert_within(time: Any, span: Span) -> None:
    assert span[0] <= datetime.fromisoformat(as_text(time)) <= span[1]


def check_entries(held: Model, told: dict[str, Any], command: Any) -> None:
    """Compare what lists entries, and their times, which are those that were given."""
    logs = {log: number for log, number in held.entries.items() if number}
    listed = by_log(command("log", "ls"))
    assert {log: one["entries"] for log, one in listed.items()} == logs
    for log in logs:
        assert_within(listed[log]["updated_at"], held.updated[log])
        thread, namespace = log
        place = "/".join(namespace) or "/"
        if held.checkpoints.get(log):
            continue  # `show` and `tail` print its states
        shown = command("show", thread, "--raw", "--namespace", place)
        tailed = command("tail", thread, "-n", "100", "--namespace", place)
        pages = told["pages"][log]["entries"]
        for found in (shown, tailed, sorted(pages, key=lambda one: one["position"])):
            times = [as_text(one["occurred_at"]) for one in found]
            assert times == [as_text(at) for at in held.occurred[log]]


def check_hits(held: Model, command: Any) -> None:
    """Compare how much is found, and when it happened, with what was written."""
    found = command("search", "kettle", "--limit", "200")
    kinds = Counter(one["kind"] for one in found)
    assert kinds["entry"] == sum(held.entries.values())
    assert kinds["item"] == len(held.items)
    assert kinds["checkpoint"] == len(held.imported)
    for one in found:
        if one["kind"] == "checkpoint":
            happened = held.imported[one["thread_id"], one["checkpoint_id"]]
            assert as_text(one["occurred_at"]) == as_text(happened)
        if one["kind"] == "item":
            place = tuple(one["namespace"]), one["key"]
            assert_within(one["occurred_at"], held.items[place].updated)
        elif one["kind"] == "entry":
            log = one["thread_id"], tuple(one["namespace"])
            assert as_text(one["occurred_at"]) in map(as_text, held.occurred[log])
    if held.items:
        hits = command("store", "search", "/", "kettle", "--prefix", "--limit", "200")
        assert len(hits) == len(held.items)


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
        assert_within(one.updated_at, held.updated[log])
        for time in (one.created_at, listed[log]["created_at"], each[log]["created_at"]):
            assert_within(time, held.created[log])
    order = [(one["thread_id"], tuple(one["namespace"])) for one in told["threads"]]
    assert order == [*printed] == [*python]


def check_steps(held: Model, told: dict[str, Any], command: Any) -> None:
    for at, known in held.checkpoints.items():
        thread, namespace = at
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
            if (span := held.saved.get(step["checkpoint_id"])) is not None:
                assert_within(step["saved_at"], span)
            happened = held.imported.get((thread, step["checkpoint_id"]), step["occurred_at"])
            for one in (printed, step):
                assert as_text(one["occurred_at"]) == as_text(happened)
            sizes = printed["raw_size"], printed["stored_size"]
            assert sizes == (step["raw_bytes"], step["stored_bytes"])
        measured = command("stats", thread, "--namespace", place)
        (log,) = (one for one in told["python"] if (one.thread_id, one.namespace) == at)
        for name in ("checkpoints", "entries"):
            assert measured[name] == getattr(log, name)
        sizes = measured["raw_bytes"], measured["stored_bytes"]
        assert sizes == (log.raw_size, log.stored_size)
        newest = command("show", thread, "--raw", "--namespace", place)
        assert newest["checkpoint_id"] == steps[0]["checkpoint_id"]
        assert as_text(newest["created_at"]) == as_text(steps[0]["saved_at"])


def check_items(held: Model, told: dict[str, Any], command: Any) -> None:
    names = {(tuple(one["namespace"]), one["key"]) for one in told["items"]}
    stored = {(item.namespace, item.key): item for item in told["stored"]}
    printed = command("store", "ls", "/", "--prefix", "--limit", "200")
    assert names == stored.keys() == held.items.keys()
    assert {(tuple(one["namespace"]), one["key"]) for one in printed} == held.items.keys()
    for one in (*told["items"], *printed):
        place = tuple(one["namespace"]), one["key"]
        got = command("store", "get", "/".join(place[0]), place[1])
        for item in (one, got, vars_of(stored[place])):
            check_item(item, held.items[place])
    counts = Counter(namespace for namespace, _ in held.items)
    spaces = command("store", "ls", "--limit", "200")
    assert {tuple(one["namespace"]): one["items"] for one in spaces} == counts


def vars_of(item: Any) -> dict[str, Any]:
    return {name: getattr(item, name) for name in ("version", "created_at", "updated_at")} | {
        "expires_at": item.expires_at
    }


def check_item(item: dict[str, Any], known: ItemTimes) -> None:
    assert item["version"] == known.version
    assert_within(item["created_at"], known.created)
    assert_within(item["updated_at"], known.updated)
    assert (item["expires_at"] is None) == (known.ttl is None)
    if known.ttl is not None:
        first, last = known.updated
        assert_within(item["expires_at"], (first + known.ttl, last + known.ttl))


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
    sums = await storage.StorageMeter(db).sums()
    measured = {one.name: one for one in (await space.measure(db)).frameworks}

    assert sums["estimated"] == estimated
    for one in sums["frameworks"]:
        held = measured[one["name"]]
        sizes = one["raw_bytes"], one["stored_bytes"], one["threads"]
        assert sizes == (held.raw_bytes, held.stored_bytes, held.threads)
        assert held.stored_bytes > 0
