"""A process that forks after it has used its `Database`, as servers that preload do."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

import memalchemy
from memalchemy import Checkpointer, Database
from waiting import A_WHILE

PARENT_AND_CHILD = """
import asyncio, os, sys
from memalchemy import Checkpointer, Database

url, tenant = sys.argv[1:]
db = Database(url, tenant=tenant)
checkpointer = Checkpointer(db)

async def use(who, rounds):
    for n in range(rounds):
        await checkpointer.save({"who": who, "n": n}, "shared")
        await checkpointer.save({"who": who, "n": n}, who, f"{who}-{n}")
    assert await checkpointer.load(who) == {"who": who, "n": rounds - 1}
    assert len(await checkpointer.list_checkpoints(who, 100)) == rounds

async def all_of_it(who, rounds):
    await use(who, rounds)
    await db.close()

asyncio.run(use("before", 3))
child = os.fork()
if child == 0:
    try:
        assert asyncio.run(checkpointer.load("before")) == {"who": "before", "n": 2}
        asyncio.run(all_of_it("child", 20))
    except BaseException:
        import traceback
        traceback.print_exc()
        os._exit(1)
    os._exit(0)
asyncio.run(all_of_it("parent", 20))
_, status = os.waitpid(child, 0)
sys.exit(os.waitstatus_to_exitcode(status))
"""


def run(script: str, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=2 * A_WHILE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.unsigned_only("another process writes without the key")
async def test_parent_and_child_both_save_and_load_after_a_fork(
    db: Database, shared_url: str
) -> None:
    if shared_url == "sqlite://":
        pytest.skip("a database in memory is one process's own")

    await asyncio.to_thread(run, PARENT_AND_CHILD, shared_url, db.tenant)

    infos = [info async for info in Checkpointer(db).history("shared")]
    assert len(infos) == 43
    assert [i.parent_id for i in infos] == [i.checkpoint_id for i in infos[1:]] + [None]


def test_a_child_has_a_database_in_memory_of_its_own() -> None:
    inherited = 'asyncio.run(checkpointer.load("before")) == {"who": "before", "n": 2}'
    assert inherited in PARENT_AND_CHILD
    run(
        PARENT_AND_CHILD.replace(inherited, 'asyncio.run(checkpointer.load("before")) is None'),
        "sqlite://",
        "tenant",
    )


OPEN_FILES = """
import asyncio, os, signal, sqlite3, sys, threading
from sqlalchemy import create_engine
from memalchemy import DatabaseUnreachable
from memalchemy.database.sqlite import forks
from memalchemy.sync import Database, Store

url, holder, user = sys.argv[1:]
if holder in ("own_transaction", "snapshot"):
    forks.PATIENCE = 0.2  # they last for longer than any patience
path = url.removeprefix("sqlite:///")
db = Database(url)
store = Store(db)
store.put(("a",), "before", 1)
assert store.get(("a",), "before") == 1
ends = threading.Event()
holds = threading.Event()

def hold_own_transaction():
    with db.transaction() as tx:
        store.put(("a",), "held", 1, connection=tx)
        holds.set()
        ends.wait()

def hold_engine_transaction():
    with create_engine(url).begin() as connection:
        store.put(("a",), "held", 1, connection=connection)
        holds.set()
        ends.wait()

def hold_snapshot():
    async def run():
        from memalchemy import Database
        async with Database(url) as own, own.snapshot():
            holds.set()
            await asyncio.to_thread(ends.wait)
    asyncio.run(run())

def hold_engine_connection():
    with create_engine(url).connect() as connection:
        connection.exec_driver_sql("SELECT count(*) FROM threads").all()
        holds.set()
        ends.wait()

def hold_driver_connection():
    connection = sqlite3.connect(path)
    connection.execute("SELECT count(*) FROM threads").fetchall()
    holds.set()
    ends.wait()
    connection.close()

def hold_nothing():
    holds.set()

def hold_a_short_transaction():
    with db.transaction() as tx:
        store.put(("a",), "held", 1, connection=tx)
        holds.set()

threads = [threading.Thread(target=globals()["hold_" + holder])]
threads[0].start()
holds.wait()
to_child, from_child = os.pipe(), os.pipe()
child = os.fork()
if child == 0:
    signal.alarm(50)
    mine = store if user == "inherited" else Store(Database(url))
    answer = b"refused"
    try:
        for n in range(2):
            mine.put(("a",), f"child-{n}", n)
            os.write(from_child[1], b"put")
            os.read(to_child[0], 1)  # the parent has closed what it had
        answer = b"stored"
    except DatabaseUnreachable as error:
        assert not error.busy and "forked" in str(error), error
    os.write(from_child[1], answer)
    os.kill(os.getpid(), signal.SIGKILL)
first = os.read(from_child[0], 100)
ends.set()
threads[0].join()
db.close()
os.write(to_child[1], b"12")
os.waitpid(child, 0)
answer = first + os.read(from_child[0], 100) if first == b"put" else first
found = {n for n in range(2) if Store(Database(url)).get(("a",), f"child-{n}") is not None}
print(answer.decode(), sorted(found))
"""

WORKS_IN_A_CHILD = ("nothing", "a_short_transaction")
REFUSED_IN_A_CHILD = (
    "own_transaction",
    "snapshot",
    "engine_transaction",
    "engine_connection",
    "driver_connection",
)


@pytest.mark.parametrize("user", ["inherited", "new"])
@pytest.mark.parametrize("holder", [*WORKS_IN_A_CHILD, *REFUSED_IN_A_CHILD])
def test_a_child_stores_for_good_or_is_refused_at_once(
    tmp_path: Path, holder: str, user: str
) -> None:
    """SQLite's record of locks comes with a fork: beside it a child waits for ever, or writes into
    a log that the parent removes.
    """
    told = run(OPEN_FILES, f"sqlite:///{tmp_path / 'forked.db'}", holder, user)

    assert told.strip() == ("putputstored [0, 1]" if holder in WORKS_IN_A_CHILD else "refused []")


FORKED_UNDER_LOAD = """
import os, signal, sys, threading, time
from memalchemy import DatabaseUnreachable
from memalchemy.sync import Database, Store

db = Database(sys.argv[1])
store = Store(db)
store.put(("a",), "first", 0)
over = False

def work(me):
    n = 0
    while not over:
        n += 1
        with db.transaction() as tx:
            store.put(("a",), f"{me}-{n}", n, connection=tx)
        store.get(("a",), f"{me}-{n}")

threads = [threading.Thread(target=work, args=(me,)) for me in range(8)]
for thread in threads:
    thread.start()
children = {}
for number in range(15):
    child = os.fork()
    if child == 0:
        signal.alarm(50)
        try:
            for n in range(3):
                store.put(("child",), f"{number}-{n}", n)
                assert store.get(("a",), "first") == 0
        except DatabaseUnreachable as error:
            os._exit(2 if "forked" in str(error) else 3)
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(4)
        os.kill(os.getpid(), signal.SIGKILL)
    children[child] = number
codes = {number: os.waitpid(child, 0)[1] for child, number in children.items()}
over = True
for thread in threads:
    thread.join()
stored = [number for number, status in codes.items() if os.WIFSIGNALED(status)]
assert all(os.WTERMSIG(codes[number]) == signal.SIGKILL for number in stored), codes
refused = [n for n, s in codes.items() if os.WIFEXITED(s) and os.WEXITSTATUS(s) == 2]
db.close()
fresh = Store(Database(sys.argv[1]))
lost = [(a, b) for a in stored for b in range(3) if fresh.get(("child",), f"{a}-{b}") is None]
assert not lost, lost
assert len(stored) + len(refused) == 15, codes
print(len(stored))
"""


def test_children_forked_between_transactions_store_or_are_refused(tmp_path: Path) -> None:
    stored = int(run(FORKED_UNDER_LOAD, f"sqlite:///{tmp_path / 'forked.db'}"))

    assert stored > 0


HAMMERED = """
import os, sys, threading, time
from memalchemy import Database, _fork_safe_locks, migrate
from memalchemy.checkpoints.tip_cache import TipCache
from memalchemy.codec.compression import compress_for_bulk_reads, decompress
from memalchemy.database.per_database import shared
from memalchemy.integrations._base import Adapter
from memalchemy.log import Log
from memalchemy.memory._background import KeyedQueue
from memalchemy._cache import BoundedCache
from memalchemy.search._vector_cache import MATRICES, MatrixScope
from memalchemy.search.vectors import VectorSupport

db = Database("sqlite:///never-opened.db")
Adapter.root = "test"
log = Log("tenant", "thread", "/")
scope = MatrixScope("tenant", "/", False, "model", 3, True)
cache, bounded, jobs = TipCache.of(db), BoundedCache(9), KeyedQueue(1)
packed = compress_for_bulk_reads(b"text " * 99)
work = {
    "cache": lambda: cache.drop_thread("tenant", "thread"),
    "sharing": lambda: TipCache.of(db),
    "bounded": lambda: bounded.put(log, 1),
    "support": lambda: VectorSupport.of(db),
    "matrices": lambda: MATRICES.matrix_of(db, scope),
    "adapter": lambda: Adapter(db),
    "background": lambda: len(jobs),
    "compression": lambda: decompress(packed, 9999),
}
over = False

def hammer(one):
    while not over:
        one()

threads = [threading.Thread(target=hammer, args=(one,)) for one in work.values()]
for thread in threads:
    thread.start()
children = []
for _ in range(20):
    child = os.fork()
    if child == 0:
        for one in work.values():
            one()
        os._exit(0)
    children.append(child)
end = time.monotonic() + 60  # timed: against a hang
left = set(children)
while left and time.monotonic() < end:  # timed: against a hang
    left -= {child for child in left if os.waitpid(child, os.WNOHANG)[0]}
    time.sleep(0.01)
over = True
for thread in threads:
    thread.join()
for child in left:
    os.kill(child, 9)
    os.waitpid(child, 0)
sys.exit(f"{len(left)} of 20 children hang" if left else 0)
"""


def test_a_child_uses_what_other_threads_were_using_while_it_was_forked() -> None:
    run(HAMMERED, "", "")


HELD = """
import os, signal, sys, threading
from memalchemy import _fork_safe_locks

_fork_safe_locks.MAX_WAIT = 0.1
lock, other = _fork_safe_locks.create_lock(), _fork_safe_locks.create_lock()
held, over = threading.Event(), threading.Event()

def hold():
    with lock:
        held.set()
        over.wait()

thread = threading.Thread(target=hold)
thread.start()
held.wait()
child = os.fork()
if child == 0:
    signal.alarm(10)
    with lock, other:
        os._exit(0)
assert lock.locked() and not other.locked()
over.set()
thread.join()
_, status = os.waitpid(child, 0)
with lock, other:
    pass
sys.exit(os.waitstatus_to_exitcode(status))
"""


def test_a_lock_that_is_held_for_long_is_free_in_a_child_and_stays_held_in_the_parent() -> None:
    run(HELD, "", "")


def test_every_lock_that_lives_with_the_process_is_one_that_a_fork_knows() -> None:
    """`Database` replaces its own in a child; others come from `memalchemy._fork_safe_locks`."""
    own = {
        "_fork_safe_locks.py",
        # Made anew in a child, with what they guard.
        "database/sqlite/executor.py",
        "database/sqlite/readers.py",
        "database/sqlite/writer.py",
        "database/sqlite/forks.py",
        "database/thread_future.py",  # nobody waits for it
        "search/_vector_cache.py",
        "sync/loop.py",
    }
    top = Path(memalchemy.__file__).parent
    found = {
        str(path.relative_to(top))
        for path in top.rglob("*.py")
        if "threading.Lock()" in path.read_text() or "threading.RLock()" in path.read_text()
    }
    assert found == own
