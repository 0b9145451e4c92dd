"""Any sequence of writes, removals and anchors, and an older state put back, against a model."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from test_anchors import ITEM, LOGS, NS, Rows, put_back, records, rows_of, save, signed

from drawn_examples import examples
from memalchemy import Checkpointer, Database, Store
from memalchemy.anchors import Anchor, anchor
from memalchemy.codec import anchors as codec
from memalchemy.verify import verify

pytestmark = [pytest.mark.own_signing_keys, pytest.mark.usefixtures("lasting")]

PLACES = ("t1", "t2", "i1", "i2")
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(("write", "write", "remove")), st.sampled_from(PLACES)),
        st.just(("anchor", "")),
    ),
    max_size=12,
)


@pytest.fixture(autouse=True)
def one_clock() -> Iterator[None]:
    """All is written by this process, so that its clock tells which of two lives was earlier."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(codec, "SKEW", timedelta(0))
        yield


@dataclass
class Past:
    """The states that a place had, with all rows of that moment, and what was anchored of it."""

    states: list[tuple[bool, Rows]] = field(default_factory=list)
    """Whether something was there, and the rows."""
    anchored: int = 0
    """The state of which the last anchor was taken."""

    def is_refused(self, put_back: int) -> bool:
        """Return whether a state that is put back contradicts the last anchor."""
        there = [present for present, _ in self.states]
        if there[put_back]:
            was_known = any(there[: self.anchored + 1])
            return (was_known and put_back < self.anchored) or not all(there[put_back:])
        return all(there[self.anchored :])


async def change(db: Database, what: str, place: str) -> None:
    if place.startswith("t"):
        if what == "write":
            await save(db, place)
        else:
            await Checkpointer(db).forget(thread_id=place)
    elif what == "write":
        await Store(db).put(NS, place, "value")
    else:
        await Store(db).delete(NS, place)


@settings(
    max_examples=examples(25),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(steps=steps, victim=st.sampled_from(PLACES), back=st.integers(0, 12))
@example(steps=[("write", "i1"), ("anchor", ""), ("remove", "i1")], victim="i1", back=1)
@example(steps=[("write", "t1"), ("anchor", ""), ("write", "t1")], victim="t1", back=1)
async def test_an_older_state_is_refused_if_the_last_anchor_has_a_later_one(
    shared_url: str, steps: list[tuple[str, str]], victim: str, back: int
) -> None:
    async with AsyncExitStack() as stack:
        db = await stack.enter_async_context(signed(shared_url, f"t-{uuid.uuid4().hex[:16]}"))
        past = {place: Past([(False, await rows_of(db))]) for place in PLACES}
        last = await anchor(db)
        for what, place in steps:
            if what == "anchor":
                last = await taken(db, last)
                for one in past.values():
                    one.anchored = len(one.states) - 1
            elif what == "write" or past[place].states[-1][0]:
                await change(db, what, place)
                past[place].states.append((what == "write", await rows_of(db)))
        assert (await verify(db, anchor=last)).findings == ()
        await taken(db, last)

        of_victim = past[victim]
        index = back % len(of_victim.states)
        if index == len(of_victim.states) - 1:
            return
        tables: tuple[str, ...] = LOGS if victim.startswith("t") else ITEM
        await put_back(db, of_victim.states[index][1], victim, tables)
        found: list[Any] = list((await verify(db, anchor=last)).findings)
        assert bool(found) == of_victim.is_refused(index), found
        assert {one.code for one in found} <= {"anchor"}


async def taken(db: Database, last: Anchor) -> Anchor:
    """Take the next anchor, of what has changed, which is as one of everything."""
    new, full = await anchor(db, last), await anchor(db, last, full=True)
    assert records(new) == records(full)
    return new
