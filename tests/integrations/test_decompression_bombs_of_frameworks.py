"""What a framework's own format may become: refused when it is saved, Corrupt when it is read."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from decimal import Decimal
from ipaddress import IPv6Network
from typing import Any
from uuid import UUID

import pytest

from memalchemy import Database
from memalchemy import _bounds as bounds
from memalchemy.errors import Corrupt, NotSerialisable, TooLarge

P = 2**61 - 1
"""Modulus of the hashes of numbers."""


def _colliding() -> Iterator[int]:
    return (P * k for k in itertools.count(1))


SETS: dict[str, Callable[[int], Any]] = {
    "uuids": lambda n: UUID(int=n),
    "decimals": Decimal,
    "networks": lambda n: IPv6Network((n, 128)),
}


@pytest.mark.parametrize("kind", SETS)
@pytest.mark.parametrize("place", ["a channel", "a list", "a message"])
async def test_langgraph_stores_no_set_whose_members_have_one_hash(
    db: Database, monkeypatch: pytest.MonkeyPatch, kind: str, place: str
) -> None:
    messages = pytest.importorskip("langchain_core.messages")
    from langgraph.checkpoint.base import empty_checkpoint

    from memalchemy.integrations.langgraph import MemalchemySaver, _message_cache

    found = {SETS[kind](number) for number in itertools.islice(_colliding(), 500)}
    value: Any = {
        "a channel": found,
        "a list": [{"seen": found}],
        "a message": messages.HumanMessage("x", additional_kwargs={"seen": found}),
    }[place]
    saver = MemalchemySaver(db)
    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    checkpoint = empty_checkpoint() | {"channel_values": {"c": value}, "channel_versions": {"c": 1}}
    with pytest.raises(NotSerialisable, match="equal hashes"):
        await saver.aput(config, checkpoint, {}, {"c": 1})
    assert await saver.aget_tuple(config) is None

    with monkeypatch.context() as patch:  # as a release before would have stored it
        patch.setattr(_message_cache, "check", lambda form, data: None)
        await saver.aput(config, checkpoint, {}, {"c": 1})
    with pytest.raises(Corrupt, match="equal hashes"):
        await MemalchemySaver(db).aget_tuple(config)


async def test_langgraph_stores_no_value_that_it_could_not_read(db: Database) -> None:
    pytest.importorskip("langgraph.checkpoint.base")
    from langgraph.checkpoint.base import empty_checkpoint

    from memalchemy.integrations.langgraph import MemalchemySaver

    config: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}
    checkpoint = empty_checkpoint() | {
        "channel_values": {"c": [{} for _ in range(2_000_000)]},
        "channel_versions": {"c": 1},
    }
    with pytest.raises(TooLarge, match="memory"):
        await MemalchemySaver(db).aput(config, checkpoint, {}, {"c": 1})


def test_messages_of_a2a_take_bounded_memory() -> None:
    types = pytest.importorskip("a2a.types")
    from memalchemy.integrations.a2a._protobuf import read_into

    parts = types.Message.DESCRIPTOR.fields_by_name["parts"].number
    metadata = types.Message.DESCRIPTOR.fields_by_name["metadata"].number
    empty = bytes([parts << 3 | 2, 0])
    entries = b"".join(
        bytes([0x0A, 6, 0x0A, 4]) + f"{number:04x}".encode() for number in range(65_536)
    )
    length = len(entries) * 8
    varint = bytes([length & 0x7F | 0x80, length >> 7 & 0x7F | 0x80, length >> 14 & 0x7F | 0x80])
    struct = bytes([metadata << 3 | 2]) + varint + bytes([length >> 21]) + entries * 8
    for bomb in (empty * 1_000_000, struct):
        with pytest.raises(Corrupt, match="memory"):
            read_into(types.Message(), bomb)
    spoken = types.Message(message_id="m", parts=[types.Part(text="word " * 50)] * 10_000)
    assert read_into(types.Message(), spoken.SerializeToString()) == spoken


async def test_memories_of_adk_take_bounded_memory(db: Database) -> None:
    pytest.importorskip("google.adk")
    from memalchemy.integrations.google_adk.memory import _to_entry

    document = '{"content": {"parts": [' + "{}," * 2_000_000 + "{}]}}"
    with pytest.raises(Corrupt, match="memory"):
        _to_entry({"entry": document})
    small = _to_entry({"entry": json.dumps({"content": {"parts": [{"text": "a"}]}})})
    assert small.content.parts[0].text == "a"


def test_the_check_of_a_state_of_messages_costs_no_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = pytest.importorskip("langchain_core.messages")
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    form, data = JsonPlusSerializer().dumps_typed(
        {"messages": [messages.HumanMessage(f"message {n} " * 30) for n in range(1_000)]}
    )
    monkeypatch.setattr(bounds, "_decoded_memory", None)
    assert form == "msgpack"
    bounds.check_foreign(data)
