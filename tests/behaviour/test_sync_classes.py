"""What is special about the classes without ``await``: their thread, and who waits for it how.

That they do what the asynchronous ones do is shown by the rest of this suite with ``--face sync``.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextvars import ContextVar
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlalchemy.pool import StaticPool

import memalchemy
from host_urls import async_url
from memalchemy import Conflict, MemalchemyError, events, sync
from memalchemy.checkpoints import checkpointer as checkpointer_module
from memalchemy.schema import ThreadRow
from memalchemy.sync import Checkpointer, Database
from memalchemy.sync.face import face
from memalchemy.sync.loop import NAME
from waiting import A_WHILE, wait_until

HERE = Path(__file__).parent

pytestmark = [
    pytest.mark.asyncio_only(reason="it is the synchronous face already"),
    pytest.mark.usefixtures("frozen_heap"),
]


def loop_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(NAME)]


@pytest.fixture(autouse=True)
def no_loop_thread_is_left() -> Iterator[None]:
    before = set(loop_threads())
    yield
    gc.collect()
    wait_until(lambda: not set(loop_threads()) - before)


@pytest.fixture
def db(shared_url: str) -> Iterator[Database]:
    with Database(shared_url, tenant=f"t-{uuid4().hex[:16]}") as database:
        yield database
        assert database.health()["checked_out"] == 0


@pytest.fixture
def checkpointer(db: Database) -> Checkpointer:
    return Checkpointer(db)


def in_threads(work: Callable[[int], None], count: int) -> None:
    """Run *work* in *count* threads at once; raise what it raised."""
    errors: list[BaseException] = []

    def run(number: int) -> None:
        try:
            work(number)
        except BaseException as error:  # noqa: BLE001 - raised again below
            errors.append(error)

    threads = [threading.Thread(target=run, args=(n,)) for n in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(A_WHILE)
        assert not thread.is_alive(), "a thread hangs"
    if errors:
        raise errors[0]


# --- The thread ----------------------------------------------------------------------------------


def test_a_database_starts_one_thread_when_it_is_used_and_shares_it_with_its_tenants(
    shared_url: str,
) -> None:
    before = len(loop_threads())
    db = Database(shared_url, tenant=f"t-{uuid4().hex[:8]}")
    checkpointers = [Checkpointer(db), Checkpointer(db.for_tenant(f"{db.tenant}-2"))]
    assert len(loop_threads()) == before, "construction starts nothing"

    for n, checkpointer in enumerate(checkpointers):
        checkpointer.save({"n": n}, "thread")

    (thread,) = loop_threads()[before:]
    assert thread.daemon
    assert [checkpointer.load("thread") for checkpointer in checkpointers] == [{"n": 0}, {"n": 1}]
    db.close()
    assert len(loop_threads()) == before


def test_a_closed_database_opens_anew_when_it_is_used(db: Database, shared_url: str) -> None:
    checkpointer = Checkpointer(db)
    checkpointer.save({"n": 1}, "thread")
    seen = checkpointer.history("thread")

    db.close()
    db.close()

    in_memory = shared_url == "sqlite://"
    assert checkpointer.load("thread") == (None if in_memory else {"n": 1})
    checkpointer.save({"n": 2}, "thread")
    assert [info.seq for info in seen] == ([1] if in_memory else [2, 1])


def test_closing_lets_the_calls_of_other_threads_end(db: Database, shared_url: str) -> None:
    if shared_url == "sqlite://":
        pytest.skip("closing a database in memory ends it")
    checkpointer = Checkpointer(db)

    def work(number: int) -> None:
        for n in range(10):
            checkpointer.save({"n": n}, f"thread-{number}", f"c{n}")
            if number == 0:
                db.close()

    in_threads(work, 6)
    for number in range(6):
        kept = checkpointer.list_checkpoints(f"thread-{number}", 100)
        assert kept == [f"c{n}" for n in reversed(range(10))]


def test_a_database_that_is_closed_while_its_file_is_looked_at_goes_on(
    db: Database, shared_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if db.dialect.name != "sqlite" or shared_url == "sqlite://":
        pytest.skip("the database is no file")
    path = shared_url.removeprefix("sqlite:///")
    look = os.stat

    def look_slowly(file: Any, *args: Any, **kw: Any) -> os.stat_result:
        if file == path:
            for _ in range(2_000):  # each lets other threads go on
                look(file)
        return look(file, *args, **kw)

    monkeypatch.setattr(os, "stat", look_slowly)
    checkpointer = Checkpointer(db)
    checkpointer.save({"n": 1}, "thread")

    def work(number: int) -> None:
        for _ in range(20):
            if number == 0:
                db.close()
            else:
                assert checkpointer.load("thread") == {"n": 1}

    in_threads(work, 4)


def test_closing_in_an_open_transaction_is_an_error_or_leaves_the_transaction_whole(
    db: Database, checkpointer: Checkpointer
) -> None:
    with db.transaction() as tx:
        checkpointer.save({"n": 1}, "thread", connection=tx)
        if db.dialect.single_writer:
            with pytest.raises(MemalchemyError, match="connection=tx"):
                db.close()
        checkpointer.save({"n": 2}, "thread", connection=tx)
    assert checkpointer.load("thread") == {"n": 2}


def test_a_database_that_is_dropped_takes_its_thread_and_connections_along(
    shared_url: str,
) -> None:
    before = set(threading.enumerate())
    checkpointer = Checkpointer(Database(shared_url, tenant=f"t-{uuid4().hex[:8]}"))
    for n in range(3):
        checkpointer.save({"n": n}, "thread")
    with pytest.raises(Conflict):  # an error's traceback must not keep it
        checkpointer.save({}, "thread", expected_parent="x")
    next(checkpointer.history("thread"))
    assert set(threading.enumerate()) - before

    del checkpointer

    wait_until(lambda: gc.collect() >= 0 and not set(threading.enumerate()) - before)


@pytest.mark.parametrize("ends", ["closed", "dropped", "closed in a transaction"])
def test_the_hosts_engine_keeps_no_connection_of_a_loop_that_has_ended(
    database_url: str, ends: str
) -> None:
    """A driver's connection serves the loop that opened it, and nobody else can close it."""
    engine = create_async_engine(async_url(database_url))
    for step in range(3):
        db = Database(engine, tenant="acme")
        db.migrate()
        checkpointer = Checkpointer(db)
        with contextlib.ExitStack() as block:
            if ends == "closed in a transaction" and not db.dialect.single_writer:
                tx = block.enter_context(db.transaction())
                checkpointer.save({"n": step}, "thread", f"c{step}", connection=tx)
                db.close()
            else:
                checkpointer.save({"n": step}, "thread", f"c{step}")
        if ends == "closed":
            db.close()
        del db, checkpointer
        gc.collect()
        wait_until(lambda: not loop_threads())

    assert isinstance(engine.pool, StaticPool) or engine.pool.checkedin() == 0
    with Database(engine, tenant="acme") as db:
        assert Checkpointer(db).list_checkpoints("thread") == ["c2", "c1", "c0"]
    asyncio.run(engine.dispose())


async def test_it_works_inside_a_running_loop(shared_url: str) -> None:
    with Database(shared_url, tenant=f"t-{uuid4().hex[:8]}") as db:
        checkpointer = Checkpointer(db)
        first = checkpointer.save({"n": 1}, "thread")
        with db.transaction() as tx:
            checkpointer.save({"n": 2}, "thread", connection=tx)
        assert [info.parent_id for info in checkpointer.history("thread")] == [first, None]
        task = asyncio.create_task(asyncio.to_thread(checkpointer.load, "thread"))
        assert await task == checkpointer.load("thread") == {"n": 2}


def test_many_threads_use_one_database_at_once(db: Database, checkpointer: Checkpointer) -> None:
    def work(number: int) -> None:
        for n in range(5):
            checkpointer.save({"n": n}, f"own-{number}", f"c{n}")
            checkpointer.save({"of": number, "n": n}, "shared")
        with db.transaction() as tx:
            checkpointer.save({"n": 9}, f"own-{number}", "c9", connection=tx)
        assert checkpointer.load(f"own-{number}", "c0") == {"n": 0}

    in_threads(work, 24)

    infos = list(checkpointer.history("shared"))
    assert len(infos) == 24 * 5
    assert [i.parent_id for i in infos] == [i.checkpoint_id for i in infos[1:]] + [None]


# --- Whatever an asynchronous class has ----------------------------------------------------------

WHO: ContextVar[str] = ContextVar("WHO", default="nobody")
SEEN: ContextVar[str] = ContextVar("SEEN", default="nothing")


class Counting:
    """An asynchronous feature as later ones may be."""

    def __init__(self, db: Any) -> None:
        self.db = db
        self.made = 0
        self.started, self.ended = threading.Event(), threading.Event()

    async def numbers(self, *, fail_at: int = -1) -> AsyncIterator[int]:
        try:
            for n in range(1000):
                await asyncio.sleep(0)
                if n == fail_at:
                    raise KeyError(n)
                self.made += 1
                yield n
        finally:
            await asyncio.sleep(0)
            self.ended.set()

    async def wait(self) -> None:
        self.started.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            self.ended.set()

    async def who(self) -> str:
        SEEN.set(WHO.get())
        return WHO.get()

    async def call(self, function: Callable[[], Any]) -> Any:
        return function()


SyncCounting = face(Counting)


@pytest.fixture
def counting() -> Iterator[Any]:
    with Database("sqlite://") as db:
        yield SyncCounting(db)


def test_an_iterator_is_pulled_as_it_is_used(counting: Any) -> None:
    numbers = counting.numbers()
    assert counting.made == 0
    assert next(numbers) == 0
    assert counting.made == 1
    assert [next(numbers) for _ in range(9)] == list(range(1, 10))
    assert counting.made < 20

    assert list(numbers) == list(range(10, 1000))
    assert list(numbers) == []


@pytest.mark.parametrize("how", ["closed", "dropped", "broken off"])
def test_an_iterator_left_midway_ends_the_asynchronous_one(counting: Any, how: str) -> None:
    numbers = counting.numbers()
    if how == "broken off":
        for n in numbers:
            if n == 3:
                break
    next(numbers)
    if how == "closed":
        numbers.close()
        assert counting.ended.is_set()
        assert list(numbers) == []
    del numbers

    assert counting.ended.wait(A_WHILE)


def test_an_index_is_refused_with_what_to_write(counting: Any) -> None:
    with pytest.raises(TypeError, match=r"write list\(…\)\[…\]"):
        counting.numbers()[1]


def test_errors_records_and_enums_are_those_of_memalchemy() -> None:
    lacking = object()
    shared = {n for n in sync.__all__ if getattr(sync, n) is getattr(memalchemy, n, lacking)}

    assert {"Conflict", "MemoryFact", "Episode", "Retention", "RecallMode", "remember"} <= shared
    assert not any(name in shared for name in ("Database", "Conversation", "UserMemoryStore"))
    # The rest is about coroutines.
    assert {*memalchemy.__all__} - {*sync.__all__} == {
        "BaseMemoryManager",
        "HTTPCheckpointer",
        "__version__",
        "get_checkpointer",
        "list_checkpointers",
        "register_checkpointer",
    }


def test_an_inspector_searches_everything(db: Database) -> None:
    Checkpointer(db).save({"text": "a flight to Lisbon"}, "t")
    sync.Conversation(db, "t").add("Is Lisbon sunny?", "In May.")
    sync.Store(db).put(("n",), "k", {"text": "Lisbon"})

    found = sync.Inspector(db).search("lisbon")

    assert sorted(hit["kind"] for hit in found["hits"]) == ["entry", "item", "step"]


def test_an_error_comes_after_the_items_that_came_before_it(counting: Any) -> None:
    got = []
    with pytest.raises(KeyError):  # noqa: PT012 - the loop is what raises
        for n in counting.numbers(fail_at=50):
            got.append(n)

    assert got == list(range(50))


def test_history_reads_page_by_page(
    checkpointer: Checkpointer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpointer_module, "PAGE", 5)
    for n in range(16):
        checkpointer.save({"n": n}, "thread", f"c{n}")
    history = checkpointer.history("thread")
    assert next(history).checkpoint_id == "c15"

    checkpointer.delete("thread", "c3")

    assert "c3" not in [info.checkpoint_id for info in history], "a page not read yet"


def test_the_context_of_the_caller_is_that_of_the_operation(
    counting: Any, checkpointer: Checkpointer
) -> None:
    WHO.set("ada")
    assert counting.who() == "ada"
    assert SEEN.get() == "ada", "what it sets is set for the caller"

    seen: list[str] = []
    unsubscribe = events.subscribe(lambda event: seen.append(WHO.get()))
    try:
        checkpointer.save({"n": 1}, "thread")
    finally:
        unsubscribe()
    assert set(seen) == {"ada"}


def test_what_would_wait_for_itself_is_an_error(counting: Any) -> None:
    with pytest.raises(RuntimeError, match="wait for itself"):
        counting.call(counting.db.current)


# --- Interrupts ----------------------------------------------------------------------------------


def interrupt_when(event: threading.Event) -> threading.Thread:
    """Press Ctrl-C when *event* is set."""

    def press() -> None:
        event.wait(A_WHILE)
        os.kill(os.getpid(), signal.SIGINT)

    thread = threading.Thread(target=press)
    thread.start()
    return thread


def test_an_interrupt_cancels_what_is_waited_for_and_goes_on(counting: Any) -> None:
    presser = interrupt_when(counting.started)
    with pytest.raises(KeyboardInterrupt):
        counting.wait()
    presser.join()

    assert counting.ended.is_set(), "the operation has ended when the caller hears of it"
    assert counting.who() == "nobody" or WHO.get()


def test_a_save_that_is_interrupted_while_it_waits_is_not_done_later(
    db: Database, checkpointer: Checkpointer
) -> None:
    inside, go_on, waiting = threading.Event(), threading.Event(), threading.Event()
    checkpointer.save({"n": 0}, "thread", "first")

    def hold() -> None:
        with db.transaction() as tx:
            checkpointer.save({"n": 1}, "thread", "theirs", connection=tx)
            inside.set()
            go_on.wait(A_WHILE)

    holder = threading.Thread(target=hold)
    holder.start()
    inside.wait(A_WHILE)
    presser = interrupt_when(waiting)
    threading.Timer(0.2, waiting.set).start()  # that the save waits by then does not matter much
    with pytest.raises(KeyboardInterrupt):
        checkpointer.save({"n": 2}, "thread", "mine")
    presser.join()
    go_on.set()
    holder.join(A_WHILE)

    checkpointer.save({"n": 3}, "thread", "last")
    assert checkpointer.list_checkpoints("thread") == ["last", "theirs", "first"]


# --- Transactions --------------------------------------------------------------------------------


def test_the_users_own_sql_runs_in_the_transaction(
    db: Database, checkpointer: Checkpointer
) -> None:
    own = text("SELECT head_id FROM threads WHERE tenant = :tenant")
    with db.transaction() as tx:
        checkpointer.save({"n": 1}, "thread", "a", connection=tx)
        assert tx.scalar(own, {"tenant": db.tenant}) == "a"
        assert tx.execute(own, {"tenant": db.tenant}).all() == [("a",)]
        assert tx.scalars(own, {"tenant": db.tenant}).all() == ["a"]
        with pytest.raises(KeyError), tx.begin_nested():  # noqa: PT012
            checkpointer.save({"n": 2}, "thread", "b", connection=tx)
            raise KeyError
        with tx.begin_nested():
            checkpointer.save({"n": 3}, "thread", "c", connection=tx)

    assert checkpointer.list_checkpoints("thread") == ["c", "a"]
    with pytest.raises(Exception, match=r"closed|ended"):
        tx.scalar(own, {"tenant": db.tenant})


def test_the_orm_runs_in_the_transaction(db: Database, checkpointer: Checkpointer) -> None:
    from sqlalchemy.orm import Session

    with db.transaction() as tx:
        checkpointer.save({"n": 1}, "thread", "a", connection=tx)
        row = tx.run_sync(lambda c: Session(c).query(ThreadRow).filter_by(tenant=db.tenant).one())
        assert (row.thread_id, row.head_id) == ("thread", "a")


def test_a_block_that_ends_with_an_exception_takes_everything_back(
    db: Database, checkpointer: Checkpointer
) -> None:
    for error in (KeyError, KeyboardInterrupt, GeneratorExit):
        with pytest.raises(error), db.transaction() as tx:  # noqa: PT012
            checkpointer.save({"n": 1}, "thread", connection=tx)
            raise error
        assert not checkpointer.exists("thread")
    with db.transaction() as tx:
        checkpointer.save({"n": 1}, "thread", connection=tx)
        tx.rollback()
    assert not checkpointer.exists("thread")


@pytest.mark.parametrize("seed", range(2))
def test_an_interrupt_at_any_place_of_a_call_ends_it_and_leaves_nothing_open(
    shared_url: str, seed: int
) -> None:
    if shared_url == "sqlite://":
        pytest.skip("each process has a database in memory of its own")
    command = [sys.executable, str(HERE / "interrupted_calls.py"), shared_url, str(seed), "250"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert (done.stdout, done.returncode) == ("", 0), done.stderr
