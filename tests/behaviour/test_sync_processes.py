"""The classes without ``await`` in processes that end without closing, and in ones that fork."""

from __future__ import annotations

import subprocess
import sys
from uuid import uuid4

import pytest

from memalchemy.sync import Checkpointer, Database

pytestmark = pytest.mark.asyncio_only(reason="it is the synchronous face already")

BEGIN = """
import os, sys, threading
from memalchemy.sync import Checkpointer, Database

url, tenant = sys.argv[1:]
db = Database(url, tenant=tenant)
checkpointer = Checkpointer(db)
"""

ENDINGS = {
    "never closed": """
for n in range(3):
    checkpointer.save({"n": n}, "thread")
""",
    "never used": "",
    "with an iterator half read": """
for n in range(3):
    checkpointer.save({"n": n}, "thread")
history = checkpointer.history("thread")
next(history)
""",
    "in the middle of a transaction": """
block = db.transaction()
tx = block.__enter__()
checkpointer.save({"n": 1}, "lost", connection=tx)
block.__exit__(None, None, None)
sys.exit(0)
""",
    "while threads work that nobody waits for": """
go = threading.Event()
def work(number):
    while True:
        checkpointer.save({"n": 1}, f"thread-{number}")
        go.set()
for number in range(3):
    threading.Thread(target=work, args=(number,), daemon=True).start()
go.wait()
""",
    "with an error": """
checkpointer.save({"n": 1}, "thread")
try:
    checkpointer.save({}, "thread", expected_parent="x")
except Exception as error:
    kept = error
""",
}

FORKS = """
def use(who, rounds):
    for n in range(rounds):
        checkpointer.save({"who": who, "n": n}, "shared")
        checkpointer.save({"who": who, "n": n}, who, f"{who}-{n}")
    assert checkpointer.load(who) == {"who": who, "n": rounds - 1}

use("before", 3)
stop = threading.Event()
def work():
    n = 0
    while not stop.is_set():
        checkpointer.save({"n": n}, "busy")
        n += 1
worker = threading.Thread(target=work)
worker.start()
children = []
for number in range(3):
    child = os.fork()
    if child == 0:
        try:
            names = [t.name for t in threading.enumerate()]
            assert checkpointer.load("before") == {"who": "before", "n": 2}
            use(f"child-{number}", 5)
            db.close()
            assert [t.name for t in threading.enumerate()] == ["MainThread"], threading.enumerate()
        except BaseException:
            import traceback
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    children.append(child)
    use(f"parent-{number}", 3)
codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
stop.set()
worker.join()
use("after", 3)
sys.exit(max(codes))
"""


# Python warns of any fork of a process with threads, from 3.12 on.
FORKING = ("-W", "ignore::DeprecationWarning")


@pytest.fixture
def tenant() -> str:
    return f"t-{uuid4().hex[:16]}"


def run(script: str, url: str, tenant: str, *options: str) -> None:
    done = subprocess.run(
        [sys.executable, *options, "-c", BEGIN + script, url, tenant],
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_process_ends_in_silence(shared_url: str, tenant: str, ending: str) -> None:
    run(ENDINGS[ending], shared_url, tenant, "-W", "error")


@pytest.mark.unsigned_only("another process writes without the key")
def test_a_forked_child_and_its_parent_both_go_on(shared_url: str, tenant: str) -> None:
    if shared_url == "sqlite://":
        pytest.skip("a database in memory is one process's own")

    run(FORKS, shared_url, tenant, *FORKING)

    with Database(shared_url, tenant=tenant) as db:
        infos = list(Checkpointer(db).history("shared"))
        assert len(infos) == 3 + 3 * (5 + 3) + 3
        assert [i.parent_id for i in infos] == [i.checkpoint_id for i in infos[1:]] + [None]


def test_a_transaction_belongs_to_the_process_that_began_it(shared_url: str, tenant: str) -> None:
    run(
        """
with db.transaction() as tx:
    child = os.fork()
    if child == 0:
        try:
            checkpointer.load("thread", connection=tx)
        except RuntimeError:
            os._exit(0)
        os._exit(1)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""",
        shared_url,
        tenant,
        *FORKING,
    )


def test_a_forked_child_may_end_like_any_process(shared_url: str, tenant: str) -> None:
    if shared_url == "sqlite://":
        pytest.skip("a database in memory is one process's own")
    run(
        """
checkpointer.save({"n": 1}, "thread")
child = os.fork()
if child == 0:
    assert checkpointer.load("thread") == {"n": 1}
    sys.exit(0)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""",
        shared_url,
        tenant,
        *FORKING,
    )
