"""Long threads and many threads, copied within the database from some that were really saved.

What is copied is what a save writes: a block of checkpoints, with its deltas, stands on its own,
and so it may follow itself; a thread's rows become another's with another key and another name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from sqlalchemy import (
    Connection,
    String,
    case,
    cast,
    insert,
    literal,
    literal_column,
    select,
    text,
    update,
)

from benchmarks.filling import settle
from benchmarks.subjects.ours import Ours
from benchmarks.workload import Message
from memalchemy.keys import log_key
from memalchemy.schema import CheckpointRow, DeltaRow, ThreadRow

THREADS: Any = ThreadRow.__table__
CHECKPOINTS: Any = CheckpointRow.__table__
DELTAS: Any = DeltaRow.__table__

BLOCK = 1_000
"""Checkpoints that are saved before they are copied."""
RECENT = 20
"""The messages of a state: a thread of any length has states of one size."""
PRIME = 48_271
"""Multiples of it, modulo anything smaller, are in no order."""
OWN_SQL = {
    "sqlite": (
        "randomblob(16)",
        "threads.updated_at - 1000000 * {}",
        "({}) / 1000000 * 1000000",
        "{} + 3600000000 * n",
    ),
    "postgresql": (
        "gen_random_uuid()",
        "threads.updated_at - {} * interval '1 second'",
        "date_trunc('second', {})",
        "{} + interval '1 hour' * n",
    ),
}
"""A new key, times some seconds earlier, cut to the second, and n hours later."""
COMMON_WORD = "brindled"
"""A word of every second checkpoint."""


def state_of(messages: Sequence[Message], step: int) -> dict[str, Any]:
    """A state of the last messages, with a note that says the common word at every second step.

    Each step replaces one message, in the place of the oldest: nothing else moves.
    """
    said = [messages[(step - (step - at) % RECENT) % len(messages)] for at in range(RECENT)]
    word = COMMON_WORD if step % 2 else "plain"
    return {"messages": said, "step": step, "note": f"a {word} note of step {step}"}


async def fill_thread(ours: Ours, thread_id: str, messages: Sequence[Message], count: int) -> None:
    """Make a thread of *count* checkpoints: up to `BLOCK`, or a multiple of it."""
    saved = min(count, BLOCK)
    times, rest = divmod(count, saved)
    assert rest == 0, f"{count} is no multiple of {BLOCK}"
    for step in range(saved):
        state = state_of(messages, step)
        await ours.checkpointer.save(state, thread_id, metadata={"step": step, "team": "blue"})
    if times > 1:
        key = log_key(ours.db.tenant, thread_id, "/")
        await ours.db.run_sync(lambda connection: _repeat(connection, key, times - 1))
    if isinstance(ours.place, str):
        settle(ours.place)


def _repeat(connection: Connection, key: Any, times: int) -> None:
    """Let a thread's checkpoints follow themselves *times* times, each time an hour later."""
    head = connection.execute(select(THREADS).where(THREADS.c.log_id == key)).mappings().one()
    size, last = head["next_seq"] - 1, head["head_id"]
    numbers = _numbers(times)
    n = numbers.c.n
    mark = literal("-") + cast(n, String)
    before = case((n == 1, literal(last)), else_=literal(f"{last}-") + cast(n - 1, String))
    named, later = CHECKPOINTS.c, OWN_SQL[connection.dialect.name][-1]
    changed = {
        CHECKPOINTS: {
            "seq": named.seq + n * size,
            "ordinal": named.ordinal + n * size,
            "checkpoint_id": named.checkpoint_id + mark,
            "parent_id": case((named.parent_id.is_(None), before), else_=named.parent_id + mark),
            "created_at": literal_column(later.format("checkpoints.created_at")),
        },
        DELTAS: {"seq": DELTAS.c.seq + n * size, "base_seq": DELTAS.c.base_seq + n * size},
    }
    for table, columns in changed.items():
        _insert_copies(connection, table, columns, key, numbers)
    last_active = {
        name: literal_column(later.format(name).replace("* n", f"* {times}"))
        for name in ("updated_at", "active_at")
    }
    connection.execute(
        update(THREADS)
        .where(THREADS.c.log_id == key)
        .values(
            next_seq=THREADS.c.next_seq + times * size,
            version=THREADS.c.version + times * size,
            last_ordinal=THREADS.c.last_ordinal + times * size,
            head_id=f"{last}-{times}",
            previous_id=f"{head['previous_id']}-{times}",
            **last_active,
        )
    )


async def fill_threads(ours: Ours, count: int, *, whole: bool) -> None:
    """Make *count* threads, updated a second apart and none in their order.

    They are *whole*, with a checkpoint each, or heads alone, which is all that a listing reads.
    Only the first, ``thread-0``, can be loaded: the keys of the others are drawn at random.
    """
    await ours.save("thread-0", {"content": "of all threads"})
    copy = partial(_copy_thread, tenant=ours.db.tenant, count=count, whole=whole)
    await ours.db.run_sync(partial(_with_large_cache, copy))
    if isinstance(ours.place, str):
        settle(ours.place)


def _with_large_cache(work: Callable[[Connection], None], connection: Connection) -> None:
    """Do *work* with all pages in memory: keys in no order would write each page many times."""
    if connection.dialect.name != "sqlite":
        return work(connection)
    before = connection.execute(text("PRAGMA cache_size")).scalar_one()
    connection.execute(text("PRAGMA cache_size = -2000000"))
    work(connection)
    connection.execute(text(f"PRAGMA cache_size = {before}"))


def _copy_thread(connection: Connection, tenant: str, count: int, whole: bool) -> None:
    if count == 1:
        return
    key = log_key(tenant, "thread-0", "/")
    n = _numbers(count - 1)
    drawn, earlier, second, _ = OWN_SQL[connection.dialect.name]
    updated = earlier.format(f"((CAST(n AS BIGINT) * {PRIME}) % {count} + 1)")
    changed = {
        "log_id": literal_column(drawn),
        "thread_id": literal("thread-") + cast(n.c.n, String),
        "updated_at": literal_column(updated),
        "active_at": literal_column(second.format(updated)),
    }
    _insert_copies(connection, THREADS, changed, key, n)
    if not whole:
        return
    other = THREADS.alias("other")
    for table in (CHECKPOINTS, DELTAS):
        found = select(*(other.c.log_id if one.name == "log_id" else one for one in table.c))
        found = found.select_from(table.join(other, other.c.log_id != key))
        found = found.where(table.c.log_id == key)
        connection.execute(insert(table).from_select([*table.c.keys()], found))


def _numbers(count: int) -> Any:
    """The numbers from 1 on, as a table with a column ``n``."""
    numbers = select(literal(1).label("n")).cte("numbers", recursive=True)
    return numbers.union_all(select(numbers.c.n + 1).where(numbers.c.n < count))


def _insert_copies(
    connection: Connection, table: Any, changed: dict[str, Any], key: Any, numbers: Any
) -> None:
    """Insert a log's rows of *table* once for each of *numbers*, but for what is *changed*."""
    columns = (changed.get(one.name, one) for one in table.c)
    found = select(*columns).select_from(table.join(numbers, literal(1) == 1))
    found = found.where(table.c.log_id == key)
    connection.execute(insert(table).from_select([*table.c.keys()], found))
