"""A conversation stores the roles that exist, and refuses a message with any other one."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from memalchemy import Conversation, ConversationStore, Database
from memalchemy.messages import ROLES
from memalchemy.state import Message

Write = Callable[[Database, str, Any], Awaitable[Any]]


async def _add(db: Database, id_: str, message: Any) -> None:
    await Conversation(db, id_).add(Message.user("before"), message)


async def _restore(db: Database, id_: str, message: Any) -> None:
    await Conversation(db, id_).restore({"messages": [message], "summary": None})


async def _save(db: Database, id_: str, message: Any) -> None:
    await ConversationStore(db).save(id_, [message])


async def _save_snapshot(db: Database, id_: str, message: Any) -> None:
    await ConversationStore(db).save(id_, snapshot={"messages": [message], "mine": 1})


ROADS: dict[str, Write] = {
    "add": _add,
    "restore": _restore,
    "save": _save,
    "save a snapshot": _save_snapshot,
}
FORMS: dict[str, Callable[[str], Any]] = {
    "a dict": lambda role: {"role": role, "content": "said"},
    "with a block": lambda role: {"role": role, "content": [{"type": "text", "text": "said"}]},
    "a message": lambda role: Message(role=role, content="said"),
}
mistyped = st.sampled_from(["usr", "User", "assistent", "bot", "", "user ", "SYSTEM", "tools"])
RANDOM = settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.mark.parametrize("road", ROADS)
@given(role=st.one_of(mistyped, st.text(max_size=12)), form=st.sampled_from([*FORMS]))
@RANDOM
async def test_a_role_that_does_not_exist_is_refused_and_nothing_is_stored(
    db: Database, road: str, role: str, form: str
) -> None:
    assume(role not in ROLES)
    id_ = uuid.uuid4().hex
    with pytest.raises(ValueError, match="no role"):
        await ROADS[road](db, id_, FORMS[form](role))

    assert await ConversationStore(db).load_snapshot(id_) is None


async def test_the_refusal_says_what_was_meant(db: Database) -> None:
    with pytest.raises(ValueError, match="did you mean 'user'"):
        await Conversation(db, "t").add({"role": "usr", "content": "said"})


@pytest.mark.parametrize("road", ROADS)
@pytest.mark.parametrize("role", sorted(ROLES))
async def test_the_roles_of_frameworks_are_stored_as_they_are(
    db: Database, road: str, role: str
) -> None:
    await ROADS[road](db, "t", FORMS["a dict"](role))

    assert str((await Conversation(db, "t").history())[-1].role) == role
