"""The head that is signed before a statement moves it is the one that the statement leaves."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy import Connection, create_engine, insert, select

from memalchemy.codec.signatures import NO_ROWS
from memalchemy.dialects import DIALECTS
from memalchemy.log.heads import known_head_binds, move_known_head
from memalchemy.log.tables import CHECKPOINTS, THREADS, Log
from memalchemy.protection.known_heads import HEAD_MOVE, KnownHead
from memalchemy.rows import HEAD, SignedHead

LOG = Log("tenant", "thread", "/")

times = st.datetimes(datetime(1970, 1, 2), datetime(2200, 1, 1), timezones=st.just(UTC))
ids = st.none() | st.text("abc", min_size=1, max_size=3)
numbers = st.integers(1, 2**40)
heads = st.builds(
    SignedHead,
    log_id=st.just(LOG.key),
    tenant=st.just(LOG.tenant),
    thread_id=st.just(LOG.thread_id),
    namespace=st.just(LOG.namespace),
    next_seq=numbers,
    version=numbers,
    last_ordinal=st.integers(0, 2**40),
    head_id=ids,
    previous_id=ids,
    created_at=times,
    updated_at=times,
    expires_at=st.none() | st.just(datetime(2300, 1, 1, tzinfo=UTC)),
    deleted_at=st.none(),
    meta=st.dictionaries(st.text("ab"), st.integers()),
)


@pytest.fixture(scope="module")
def connection() -> Iterator[Connection]:
    engine = create_engine("sqlite://")
    with engine.connect() as connection:
        for table in (THREADS, CHECKPOINTS):
            table.create(connection)
        connection.commit()
        yield connection
    engine.dispose()


@pytest.mark.parametrize("purpose", ["checkpoint", "entries"])
@given(head=heads, now=times, expires_at=st.none() | times, count=st.integers(1, 9))
def test_a_known_head_moves_to_what_was_signed(
    connection: Connection,
    purpose: str,
    head: SignedHead,
    now: datetime,
    expires_at: datetime | None,
    count: int,
) -> None:
    values = LOG.head_binds() | {
        "p_now": now,
        "p_active_at": now.replace(microsecond=0),
        "p_count": 1 if purpose == "checkpoint" else count,
        "p_epoch": 7,
        "p_expires_at": expires_at,
        "p_checkpoint_id": "new" if purpose == "checkpoint" else None,
    }
    binds = known_head_binds(KnownHead(head, NO_ROWS, b"before"), values, purpose)
    leaves = binds.pop(HEAD_MOVE).leaves
    stored = head._asdict() | {"epoch": 7, "active_at": now, "signature": b"before"}

    with connection.begin() as transaction:
        connection.execute(insert(THREADS).values(stored))
        moving = move_known_head(DIALECTS["sqlite"], purpose)
        names = moving.compile(dialect=connection.dialect).params
        given_to_it = {name: value for name, value in binds.items() if name in names}
        connection.execute(moving, given_to_it | {"p_head_signature": b"after"})
        moved = connection.execute(select(*(THREADS.c[name] for name in HEAD.signed))).one()
        transaction.rollback()

    assert SignedHead._make(moved) == leaves
    assert leaves != head
