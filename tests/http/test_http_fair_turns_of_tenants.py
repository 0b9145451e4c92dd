"""Tenants take turns: the order in which a busy server works on the requests of several."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from memalchemy import Database, Store
from memalchemy.http import Limits, app
from memalchemy.http.server._limits import Turns
from waiting import until

TENANTS = [f"tenant{number}" for number in range(4)]
LIMITS = Limits(running=4, tenant_running=3, heavy=4, tenant_heavy=2)
LARGE = {"value": "x" * 300_000}


class Gate:
    """Lets calls begin one by one, and notes whose they were."""

    def __init__(self) -> None:
        self.asked = 0
        """The requests that have asked for a place, and have it or wait for it."""
        self.placed: list[str] = []
        """Whose requests were given a place, in that order. Those with places begin in any."""
        self.given_back = 0
        self.with_place = 0
        """The requests that had a place when one was given back last, and to the next."""
        self.begun: list[str] = []
        self.left = 0
        self.running: Counter[str] = Counter()
        self.most: Counter[str] = Counter()
        self._open = asyncio.Semaphore(0)

    async def enter(self, tenant: str) -> None:
        self.begun.append(tenant)
        self.running[tenant] += 1
        self.most[tenant] = max(self.most[tenant], self.running[tenant])
        self.most["all"] = max(self.most["all"], self.running.total())
        try:
            await self._open.acquire()
        finally:
            self.running[tenant] -= 1
            self.left += 1

    def let_out(self, number: int = 1) -> None:
        for _ in range(number):
            self._open.release()


@pytest.fixture
async def gate(monkeypatch: pytest.MonkeyPatch) -> Gate:
    """Every read, search and put of a store waits at the gate."""
    gate = Gate()
    for name in ("get_item", "search", "put"):
        real = getattr(Store, name)

        async def waiting(self: Store, *given: Any, real: Any = real, **named: Any) -> Any:
            await gate.enter(self.db.tenant)
            return await real(self, *given, **named)

        monkeypatch.setattr(Store, name, waiting)
    take, give_back = Turns.take, Turns.give_back

    async def asking(self: Turns, tenant: str) -> None:
        gate.asked += 1
        await take(self, tenant)
        gate.placed.append(tenant)

    def giving_back(self: Turns, tenant: str) -> None:
        give_back(self, tenant)
        gate.given_back += 1
        gate.with_place = self._running.total()

    monkeypatch.setattr(Turns, "take", asking)
    monkeypatch.setattr(Turns, "give_back", giving_back)
    return gate


@asynccontextmanager
async def client(db: Database) -> AsyncIterator[httpx.AsyncClient]:
    tokens = {f"token-{tenant}-0123456789abcdef": tenant for tenant in TENANTS}
    transport = httpx.ASGITransport(app(db, tokens=tokens, limits=LIMITS, timeout=600))
    async with httpx.AsyncClient(transport=transport, base_url="http://server") as made:
        yield made


KINDS = {
    "reads": ("GET", "/v1/store/a/items/k", None),
    "searches": ("POST", "/v1/store/a/search", {"query": "word"}),
    "large bodies": ("PUT", "/v1/store/a/items/k", LARGE),
}
PLACES = {"reads": (4, 3), "searches": (4, 2), "large bodies": (4, 2)}


def send(http: httpx.AsyncClient, kind: str, tenant: str, number: int) -> list[asyncio.Task[Any]]:
    method, path, body = KINDS[kind]
    headers = {"Authorization": f"Bearer token-{tenant}-0123456789abcdef"}
    return [
        asyncio.create_task(http.request(method, path, json=body, headers=headers))
        for _ in range(number)
    ]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("others", [1, 2, 3])
async def test_a_flood_of_one_tenant_is_served_in_turns_with_the_others(
    db: Database, gate: Gate, kind: str, others: int
) -> None:
    places, tenant_places = PLACES[kind]
    flooding, *quiet = TENANTS[: others + 1]
    async with client(db) as http:
        sent = send(http, kind, flooding, 40)
        await until(lambda: len(gate.begun) == tenant_places)
        for tenant in quiet:
            sent += send(http, kind, tenant, 5)
        await until(lambda: len(gate.begun) == places)
        await until(lambda: gate.asked == len(sent))
        for served in range(1, 41 + 5 * others):
            gate.let_out()
            # All that have a place are at the gate before the next is let out.
            await until(
                lambda served=served: (
                    gate.given_back == served and gate.running.total() == gate.with_place
                )
            )
        answers = await asyncio.gather(*sent)
    assert {answer.status_code for answer in answers} <= {200, 404}
    assert gate.most["all"] <= places
    assert all(gate.most[tenant] <= tenant_places for tenant in TENANTS)
    for tenant in quiet:
        turns = [index for index, name in enumerate(gate.placed) if name == tenant]
        assert len(turns) == 5
        for number, index in enumerate(turns):
            before = gate.placed[:index].count(flooding)
            assert before <= tenant_places + 1 + number, "one of each tenant, then the next"


@pytest.mark.parametrize("flood", KINDS)
@pytest.mark.parametrize("wanted", KINDS)
async def test_what_takes_long_takes_no_place_of_what_does_not(
    db: Database, gate: Gate, flood: str, wanted: str
) -> None:
    if flood == wanted:
        return
    async with client(db) as http:
        sent = [one for tenant in TENANTS for one in send(http, flood, tenant, 20)]
        await until(lambda: len(gate.begun) == PLACES[flood][0])
        sent += send(http, wanted, TENANTS[0], 1)
        await until(lambda: len(gate.begun) == PLACES[flood][0] + 1)
        gate.let_out(len(sent))
        await asyncio.gather(*sent)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_client_that_gives_up_leaves_its_place_and_its_turn(
    db: Database, gate: Gate, kind: str
) -> None:
    places, tenant_places = PLACES[kind]
    async with client(db) as http:
        sent = send(http, kind, TENANTS[0], 10)
        await until(lambda: len(gate.begun) == tenant_places)
        for one in sent[:9]:  # some of them are worked on, the others wait
            one.cancel()
        await asyncio.gather(*sent[:9], return_exceptions=True)
        await until(lambda: gate.running[TENANTS[0]] == 1)
        more = [one for tenant in TENANTS for one in send(http, kind, tenant, 3)]
        await until(lambda: gate.running.total() == places)
        gate.let_out(100)
        await asyncio.gather(sent[9], *more)
