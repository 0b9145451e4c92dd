"""Private names of other libraries: each has a reason here, and a test of what is expected of it.

A name without an entry fails the first test; the reason in full is a comment where the name is
used. Those of frameworks have their tests in integrations/test_private_names_of_frameworks.py.
"""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
import socket
import threading
from asyncio import sslproto
from contextlib import suppress
from types import ModuleType
from typing import Any

import aiosqlite
import asyncpg
import pytest
import sqlalchemy as sa
from alembic.migration import MigrationContext
from sqlalchemy.exc import InvalidRequestError

import memalchemy
from memalchemy.dialects import DIALECTS
from memalchemy.http.client._connections import Connections, abandon
from private_names import example, private_overrides, private_uses
from servers import Postgres
from waiting import steps

FOREIGN = {
    ("integrations/a2a/versioned_task_store.py", "_value"): "A2A: the number of a task's version",
    (
        "_fork_safe_locks.py",
        "_at_fork_reinit",
    ): "threading: a lock that a vanished thread holds is made free",
    ("database/sqlite/aiosqlite_connection.py", "_execute"): (
        "aiosqlite: a whole program runs in the connection's thread"
    ),
    ("database/sqlite/aiosqlite_connection.py", "_stop_running"): (
        "aiosqlite before 0.22.1: the thread of a connection whose opening was cancelled ends"
    ),
    ("database/sqlite/aiosqlite_connection.py", "_trans_context_manager"): (
        "SQLAlchemy: the block of a savepoint that was ended inside it"
    ),
    ("database/sqlite/aiosqlite_connection.py", "_transaction_is_active"): "SQLAlchemy: the same",
    ("database/executors/asyncpg.py", "_transport"): (
        "asyncpg: the setting of a tenant is sent with its statement, in one round trip"
    ),
    ("migrate/environment.py", "_in_external_transaction"): (
        "Alembic: a transaction that the host began is the host's to commit"
    ),
    ("migrate/environment.py", "_transaction"): "Alembic: the transaction of its own block",
    ("integrations/agent_framework/_object_codec.py", "_checkpoint_encoding"): (
        "Agent Framework: the classes of `register_checkpoint_type`"
    ),
    ("integrations/agent_framework/_object_codec.py", "_workflows"): "Agent Framework: the same",
    ("integrations/agent_framework/_object_codec.py", "_REGISTERED_CHECKPOINT_TYPE_KEYS"): (
        "Agent Framework: the same"
    ),
    ("integrations/agent_framework/history.py", "_sessions"): (
        "Agent Framework: the rules by which a history leaves out what it has"
    ),
    ("integrations/google_adk/sessions.py", "_storage_update_marker"): (
        "ADK: the revision of a stored session, which all of its own services keep there"
    ),
    ("integrations/langgraph/_message_cache.py", "_custom_unpack_ext_hook"): (
        "LangGraph: a reading hook of the user's has rules of its own"
    ),
    ("dialects/postgresql/dialect.py", "_transport"): (
        "asyncpg: the socket of a connection, on which a server may have said its farewell"
    ),
    ("dialects/postgresql/ended_loops.py", "_transport"): (
        "asyncpg: the socket of a connection whose loop has ended"
    ),
    ("_per_loop.py", "_transport"): "asyncio: the socket below TLS, in a loop that has ended",
    ("_per_loop.py", "_ssl_protocol"): "asyncio: the same",
    ("_per_loop.py", "_sock"): "asyncio: whether the socket is open still",
    ("_per_loop.py", "_call_connection_lost"): (
        "asyncio: it closes the socket, which it has no public way to do in a closed loop"
    ),
    ("http/client/_connections.py", "_mounts"): "httpx: its transports for proxies",
    ("http/client/_connections.py", "_pool"): "httpx: the pool of a transport",
    ("http/client/_connections.py", "_network_backend"): (
        "httpcore: what opens the connections of a pool, which httpx lets nobody give"
    ),
    ("http/client/_connections.py", "_stream"): "httpcore: AnyIO's stream below its own",
    ("http/client/_connections.py", "_transport"): (
        "httpx: its transport; AnyIO: that of asyncio, which alone is closed without waiting"
    ),
    ("integrations/langgraph/importing.py", "_msgpack"): (
        "LangGraph: the classes and methods that its serialiser restores without being told"
    ),
    ("integrations/lauren_ai/_messages.py", "_transport"): "lauren-ai: parts of its messages",
    ("integrations/lauren_ai/documents.py", "_memory"): "lauren-ai: what its vector store returns",
    ("integrations/lauren_ai/facts.py", "_agents"): "lauren-ai: where @agent leaves the model",
    ("integrations/pydantic_ai_harness/memory_store.py", "_store"): (
        "Pydantic AI harness: the checks and the search that all its memory stores share"
    ),
    ("integrations/strands/_adapter.py", "_async"): (
        "Strands: whether the event loop is one that ends with a call of an agent"
    ),
    ("integrations/strands/storage.py", "_NAMESPACED"): (
        "Strands: the mark of a view, to which the SDK adds no prefix of its own"
    ),
    ("integrations/strands/storage.py", "_namespaced"): "Strands: the same",
    ("integrations/strands/storage.py", "_normalize_key"): (
        "Strands: the keys that all its storages take, and how they are spelt"
    ),
    ("integrations/strands/storage.py", "_normalize_prefix"): "Strands: the same",
}
OURS = {
    ("context/compaction.py", "_find_or_request_summary"),
    ("database/executors/asyncpg.py", "_engines"),
    ("database/executors/asyncpg.py", "_translate_connecting"),
    ("integrations/_base.py", "_async"),
    ("integrations/a2a/task_store.py", "_write"),
    ("integrations/a2a/versioned_task_store.py", "_index_text"),
    ("integrations/a2a/versioned_task_store.py", "_ttl"),
    ("integrations/a2a/versioned_task_store.py", "_write"),
    ("integrations/locus/_adapter.py", "_owns_db"),
    ("integrations/strands/storage.py", "_owns_db"),
    ("sync/face.py", "_connection"),
    ("sync/face.py", "_is_container"),
}
"""Names of memalchemy's own that another module of it uses: most are of a base class."""


def modules() -> list[str]:
    """All modules of memalchemy but those that need a framework."""
    found = pkgutil.walk_packages(memalchemy.__path__, "memalchemy.")
    skipped = ("memalchemy.integrations.", "memalchemy.__main__", "memalchemy.migrations")
    return [one.name for one in found if not one.name.startswith(skipped)]


def test_every_private_name_of_another_library_has_a_reason() -> None:
    assert private_uses() == FOREIGN.keys() | OURS


def test_no_class_replaces_a_private_method_of_another_library() -> None:
    assert {
        found for name in modules() for found in private_overrides(importlib.import_module(name))
    } == set()


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("pool._invalidate(x)", {"_invalidate"}),
        ("x = getattr(pool, '_creator', None)", {"_creator"}),
        ("from uvicorn._types import ASGI", {"_types"}),
        ("import rich._loop", {"_loop"}),
        ("from typer import _click", {"_click"}),
        ("begin(_per_migration=True)", {"_per_migration"}),
        ("self._mine = 1\nother._mine", set()),
        ("from memalchemy._retry import retry_on_conflict", set()),
        ("row._mapping, pair._replace(x=1), one.__dict__", set()),
    ],
)
def test_each_way_to_use_a_private_name_is_found(source: str, found: set[str]) -> None:
    assert example(source) == found


def test_a_private_method_of_another_library_that_is_replaced_is_found() -> None:
    module = ModuleType("memalchemy.example")
    made = "import threading\nclass Worker(threading.Thread):\n    def _bootstrap(self): ...\n"
    exec(made, vars(module))

    assert private_overrides(module) == {("Worker", "_bootstrap")}


# --- What is expected of each ---------------------------------------------------------------------


def test_a_lock_that_another_thread_holds_can_be_made_free() -> None:
    lock: Any = threading.Lock()
    thread = threading.Thread(target=lock.acquire)
    thread.start()
    thread.join()
    assert lock.locked()

    lock._at_fork_reinit()

    assert lock.acquire(blocking=False)


async def test_aiosqlite_runs_a_function_in_the_connections_thread_in_its_turn() -> None:
    connection: Any = await aiosqlite.connect(":memory:")
    threads = []

    def job(*given: int, more: int) -> int:
        threads.append(threading.current_thread())
        return sum(given) + more

    assert await connection._execute(job, 1, 2, more=3) == 6
    await connection.create_function("job", 1, lambda one: job(one, more=0))
    await connection.execute("SELECT job(1)")
    assert threads == [threads[0]] * 2 != [threading.current_thread()] * 2

    await connection.close()
    with pytest.raises(ValueError, match="closed"):
        await connection._execute(job, 1, more=1)


def test_sqlalchemy_knows_of_a_savepoint_that_was_ended_inside_its_block() -> None:
    engine = sa.create_engine("sqlite://")
    with engine.connect() as connection:
        any_connection: Any = connection
        assert any_connection._trans_context_manager is None
        with connection.begin():
            assert any_connection._trans_context_manager is connection.get_transaction()
            with pytest.raises(InvalidRequestError), connection.begin_nested() as savepoint:  # noqa: PT012
                assert any_connection._trans_context_manager is savepoint
                assert any_connection._trans_context_manager._transaction_is_active() is True
                savepoint.rollback()
                # In public it is as if the savepoint had never been, and yet no statement is taken.
                assert connection.in_transaction()
                assert connection.get_nested_transaction() is None
                assert any_connection._trans_context_manager._transaction_is_active() is False
                connection.execute(sa.select(1))
    engine.dispose()


def test_alembic_knows_of_a_transaction_that_the_host_began_or_its_own_block() -> None:
    engine = sa.create_engine("sqlite://")

    def context() -> Any:
        return MigrationContext.configure(connection, opts={"transactional_ddl": True})

    with engine.connect() as connection:
        with connection.begin():
            assert context()._in_external_transaction is True
        migration = context()
        connection.execute(sa.select(1))  # SQLAlchemy begins a transaction by itself
        assert connection.in_transaction()
        assert (migration._in_external_transaction, migration._transaction) == (False, None)
        connection.rollback()
        with migration.begin_transaction():
            assert migration._in_external_transaction is False
            assert migration._transaction is connection.get_transaction() is not None
        assert migration._transaction is None
    engine.dispose()


def test_sqlites_sizes_are_estimated_from_the_indexes_that_it_has() -> None:
    estimates = str(DIALECTS["sqlite"].maintenance.sizes(exact=False))

    assert "'ix_embeddings_tenant_namespace_change'" in estimates
    assert "'uq_deltas_entry_key'" in estimates
    assert "oracle" not in estimates


async def test_asyncpg_has_the_socket_of_a_connection(postgres: Postgres) -> None:
    connection: Any = await asyncpg.connect(
        host=postgres.host, port=postgres.port, user=postgres.user, database=postgres.database
    )

    assert connection._transport.get_extra_info("socket").fileno() > 0

    await connection.close()


def test_a_socket_of_a_closed_loop_can_be_closed() -> None:
    loop = asyncio.new_event_loop()
    one, other = socket.socketpair()

    async def connect() -> Any:
        transport, _ = await loop.create_connection(asyncio.Protocol, sock=one)
        return transport

    transport = loop.run_until_complete(connect())
    loop.close()
    assert transport._sock is one
    assert transport._loop is loop

    with suppress(RuntimeError):
        transport._call_connection_lost(None)

    assert transport._sock is None
    assert one.fileno() == -1
    other.close()


async def test_httpx_has_a_pool_for_each_proxy_and_the_transport_of_a_stream(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    monkeypatch.setenv("NO_PROXY", "localhost")
    connections = Connections({})
    client: Any = connections.client
    proxies = [one for one in client._mounts.values() if one is not None]
    assert proxies
    for transport in (client._transport, *proxies):
        assert type(transport._pool._network_backend).__module__ == Connections.__module__

    server = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1")
    host, port = server.sockets[0].getsockname()
    stream = await client._transport._pool._network_backend.connect_tcp(host, port)
    assert isinstance(stream._stream._transport, asyncio.Transport)
    connections.end(abandon)
    assert stream._stream._transport.is_closing()
    await steps(5)
    server.close()
    await server.wait_closed()
    await client.aclose()


def test_asyncio_has_the_transport_below_tls() -> None:
    protocol = sslproto.SSLProtocol.connection_made
    transport = sslproto._SSLProtocolTransport.__init__  # type: ignore[attr-defined]

    assert "_transport" in protocol.__code__.co_names
    assert "_ssl_protocol" in transport.__code__.co_names
