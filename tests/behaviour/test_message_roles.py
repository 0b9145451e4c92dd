"""A conversation stores the roles that exist, and refuses a message with any other one."""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from drawn_examples import examples
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
RANDOM = settings(
    max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture]
)


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


own_roles = st.lists(
    st.text(min_size=1, max_size=12).filter(lambda role: role.strip() and role not in ROLES),
    min_size=2,
    max_size=4,
    unique=True,
)
OWN_ROADS: dict[str, Callable[[Conversation, ConversationStore, str, Any], Awaitable[Any]]] = {
    "add": lambda talk, store, id_, message: talk.add(message),
    "restore": lambda talk, store, id_, message: talk.restore({"messages": [message]}),
    "save": lambda talk, store, id_, message: store.save(id_, [message]),
    "through the store": lambda talk, store, id_, message: store.conversation(id_).add(message),
}


@pytest.mark.parametrize("road", OWN_ROADS)
@given(roles=own_roles, form=st.sampled_from([*FORMS]))
@RANDOM
async def test_roles_that_a_conversation_names_are_stored_and_no_others(
    db: Database, road: str, roles: list[str], form: str
) -> None:
    id_ = uuid.uuid4().hex
    *named, other = roles
    talk, store = Conversation(db, id_, roles=named), ConversationStore(db, roles=iter(named))
    for role in named:
        await OWN_ROADS[road](talk, store, id_, FORMS[form](role))
        assert str((await Conversation(db, id_).history())[-1].role) == role
    before = await store.load_snapshot(id_)

    with pytest.raises(ValueError, match="no role"):
        await OWN_ROADS[road](talk, store, id_, FORMS[form](other))

    assert await store.load_snapshot(id_) == before
    assert [one.role for one in await talk.messages()] == [
        one.role for one in await Conversation(db, id_).history()
    ]


@pytest.mark.parametrize("wrong", ["critic", b"critic", None, 5, [5], [""], [" "]])
@pytest.mark.parametrize(
    "make", [ConversationStore, lambda db, **own: Conversation(db, "t", **own)]
)
async def test_what_names_no_roles_is_refused(db: Database, make: Any, wrong: Any) -> None:
    with pytest.raises((TypeError, ValueError), match="role"):
        make(db, roles=wrong)
