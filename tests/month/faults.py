"""What befalls those at work. Each fault is a function of the team."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from month.places import PostgresPlace
from month.team import Team


async def kill_a_worker(team: Team) -> None:
    """Kill a worker in the middle of whatever it does; another takes its place."""
    async with team.changing:
        if team.workers:
            worker = team.chance.choice(team.workers)
            await team.kill(worker)
            await team.start(worker.tenant)


async def restart_a_worker(team: Team) -> None:
    """Deploy: a worker ends its turn, and another takes its place."""
    async with team.changing:
        if team.workers:
            await team.restart(team.chance.choice(team.workers))


async def restart_the_server(team: Team) -> None:
    """Restart the HTTP server under its clients."""
    async with team.changing:
        await team.stop_server()
        await team.start_server()


async def kill_the_server(team: Team) -> None:
    """Kill the HTTP server under its clients, and start it again."""
    async with team.changing:
        await asyncio.to_thread(team.kill_server)
        await team.start_server()


async def cut_all_connections(team: Team) -> None:
    """Cut every connection to the database's server, as a restarted switch does."""
    assert isinstance(team.place, PostgresPlace)
    team.place.network.cut_all()


async def cut_a_connection_in_the_middle(team: Team) -> None:
    """Cut the next new connection after some bytes, in either direction."""
    assert isinstance(team.place, PostgresPlace)
    direction = team.chance.choice(("to_server", "to_client"))
    team.place.network.cut_after(direction, int(team.chance.expovariate(1 / 30_000)))


async def lose_an_answer(team: Team) -> None:
    """Let the server commit the next write, and cut the connection before its answer."""
    assert isinstance(team.place, PostgresPlace)
    team.place.network.drop_answer_to(team.chance.choice(("COMMIT", "INSERT", "UPDATE")))


Fault = Callable[[Team], Awaitable[None]]
FAULTS: dict[Fault, int] = {
    kill_a_worker: 10,
    restart_a_worker: 4,
    restart_the_server: 2,
    kill_the_server: 1,
}
ON_A_NETWORK: dict[Fault, int] = {
    cut_all_connections: 6,
    cut_a_connection_in_the_middle: 6,
    lose_an_answer: 8,
}


def faults(team: Team) -> dict[Fault, int]:
    """Return what can befall a team, each with how often."""
    return FAULTS | (ON_A_NETWORK if isinstance(team.place, PostgresPlace) else {})
