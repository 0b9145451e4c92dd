"""Signed threads and logs: what was changed at rest is refused when it is read, and told by verify.

The edits T1 to T9 are those that any store of an agent's memory should refuse: a changed payload, a
cut tail, a removed middle, a swapped order, a forged step, a step of another thread, an old step in
the newest place, changed metadata. A whole older copy is what only an anchor tells.

The whole behavioural suite runs with a key under ``pytest --signed``.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from sqlalchemy import text

from lifetimes import MOMENT
from memalchemy import (
    Checkpointer,
    Corrupt,
    Database,
    DatabaseUnreachable,
    KeyMissing,
    Store,
    ThreadLog,
    sync,
)
from memalchemy.codec.secret_keys import generate_key
from memalchemy.database import known_keys
from memalchemy.errors import NotSigned
from memalchemy.events import StatementEvent, subscribe_statements
from memalchemy.keys import log_key
from memalchemy.maintenance import sign as signing
from memalchemy.signing import sign
from memalchemy.verify import verify
from waiting import A_WHILE, until

pytestmark = [pytest.mark.own_signing_keys, pytest.mark.own_keys]

KEY, OTHER = generate_key(), generate_key()
STEPS = 6

Read = Callable[[Database], Awaitable[Any]]


@pytest.fixture(autouse=True)
def nobody_else_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let `sign` wait for no other process to notice; one test is about that."""
    monkeypatch.setattr(signing, "NOTICED_AFTER", 0)


@pytest.fixture
async def opened(database_url: str) -> AsyncIterator[Callable[..., Any]]:
    """Opens a database of the test's own, each time as another process would."""
    async with AsyncExitStack() as stack:

        async def open_(**settings: Any) -> Database:
            settings.setdefault("signing_keys", [KEY])
            db = Database(database_url, migrate="off", **settings)
            if not await db.current():
                await db.migrate()
            return await stack.enter_async_context(db)

        yield open_


async def fill(db: Database) -> None:
    """Save two threads alike, pending writes, and two logs of entries alike."""
    checkpointer, log = Checkpointer(db), ThreadLog(db)
    for thread in ("t", "u"):
        for step in range(STEPS):
            state = {"step": step, "words": f"sentence number {step} of {thread}"}
            await checkpointer.save(
                state, thread, f"c{step}", metadata={"step": step, "user": "ada", "at": 1.5}
            )
        await checkpointer.put_writes([("channel", thread)], thread, "c5", "task")
        await log.append(f"{thread}-log", [{"text": f"message {n}"} for n in range(8)])


async def execute(db: Database, sql: str, **binds: Any) -> None:
    def job(connection: Any) -> None:
        for one in sql.split(";"):
            names = {name: value for name, value in binds.items() if f":{name}" in one}
            connection.execute(text(one), names)

    # As somebody would who has the file or the password, and none of the keys.
    plain = Database(db._backend.url, migrate="off")
    async with plain:
        await plain.run_sync(job)


def of(db: Database, thread: str, path: str = "/") -> Any:
    """Return the key of a thread's log as the database has it."""
    key = log_key("default", thread, path)
    return key.bytes if db.dialect.single_writer else key


T = "log_id = :t"
ROW = "log_id = :t AND seq = :seq"


async def load(db: Database) -> Any:
    return await Checkpointer(db).load("t")


async def load_c2(db: Database) -> Any:
    return await Checkpointer(db).load("t", "c2")


async def list_all(db: Database) -> Any:
    return [info async for info in Checkpointer(db).history("t")]


async def history(db: Database) -> Any:
    return [one async for one in Checkpointer(db).history("t", limit=2)]


async def snapshot(db: Database) -> Any:
    return await Checkpointer(db).snapshot("t")


async def writes(db: Database) -> Any:
    return await Checkpointer(db).get_writes("t", "c5")


async def by_metadata(db: Database) -> Any:
    return await Checkpointer(db).query_by_metadata("user", "eve")


async def search(db: Database) -> Any:
    return await Checkpointer(db).search("forged")


async def entries(db: Database) -> Any:
    return await ThreadLog(db).range("t-log")


async def tail(db: Database) -> Any:
    return await ThreadLog(db).tail("t-log", 3)


async def found_entries(db: Database) -> Any:
    return await ThreadLog(db).search("forged")


async def save(db: Database) -> Any:
    return await Checkpointer(db).save({"step": 99}, "t")


async def append_and_read(db: Database) -> Any:
    await ThreadLog(db).append("t-log", ["one more"], expected_version=1)
    return await entries(db)


SWAP = (
    "UPDATE {table} SET seq = 1000 WHERE log_id = :t AND seq = :a; "
    "UPDATE {table} SET seq = :a WHERE log_id = :t AND seq = :b; "
    "UPDATE {table} SET seq = :b WHERE log_id = :t AND seq = 1000"
)
EDITS: dict[str, tuple[str, Read]] = {
    "T1 a changed payload under its right checksum": ("forge", load),
    "T2 a cut tail": (f"DELETE FROM checkpoints WHERE {T} AND seq > 4", load),
    "T2 a cut tail, listed": (f"DELETE FROM checkpoints WHERE {T} AND seq > 4", history),
    "T2 a cut tail with the head set back": (
        f"DELETE FROM checkpoints WHERE {T} AND seq > 4; "
        f"UPDATE threads SET head_id = 'c3', previous_id = 'c2', last_ordinal = 4 WHERE {T}",
        load,
    ),
    "T3 a removed middle, listed": (f"DELETE FROM checkpoints WHERE {T} AND seq = 3", list_all),
    "T3 a removed middle, asked for": (f"DELETE FROM checkpoints WHERE {T} AND seq = 3", load_c2),
    "T4 a swapped order": ("swap states", load_c2),
    "T4 swapped names": (
        f"UPDATE checkpoints SET checkpoint_id = 'x' WHERE {T} AND seq = 3; "
        f"UPDATE checkpoints SET checkpoint_id = 'c2' WHERE {T} AND seq = 4; "
        f"UPDATE checkpoints SET checkpoint_id = 'c3' WHERE {T} AND seq = 3",
        load_c2,
    ),
    "T5 a forged step": ("append", load),
    "T5 a forged step, listed": ("append", list_all),
    "T6 a state of another thread": ("from another thread", load),
    "T7 an old state in the newest place": ("replay", load),
    "T8 changed metadata": (
        f'UPDATE checkpoints SET meta = \'{{"user": "eve"}}\' WHERE {T} AND seq = 3',
        list_all,
    ),
    "T8 changed metadata, found": (
        f'UPDATE checkpoints SET meta = \'{{"user": "eve"}}\' WHERE {T} AND seq = 3',
        by_metadata,
    ),
    "another parent": (f"UPDATE checkpoints SET parent_id = 'c0' WHERE {T} AND seq = 6", load),
    "another time": (
        f"UPDATE checkpoints SET occurred_at = created_at, ordinal = 9 WHERE {T} AND seq = 6",
        load,
    ),
    "another state's words": (
        f"UPDATE deltas SET search_text = 'forged words' WHERE {T} AND seq = 2",
        search,
    ),
    "no signature": (f"UPDATE deltas SET signature = NULL WHERE {T} AND seq = 6", load),
    "a thread without checkpoints": (
        f"DELETE FROM checkpoints WHERE {T}; DELETE FROM deltas WHERE {T}",
        load,
    ),
    "a wrong position to save at": (f"UPDATE threads SET next_seq = 99 WHERE {T}", save),
    "an expiry": ("expire", load),
    "another lineage, saved upon": (
        f"UPDATE threads SET previous_id = 'c0', version = 77 WHERE {T}",
        save,
    ),
    "changed pending writes": ("writes from another thread", writes),
    "changed pending writes, loaded": ("writes from another thread", snapshot),
    "swapped entries": ("swap entries", entries),
    "a removed entry": ("DELETE FROM deltas WHERE log_id = :log AND seq = 3", entries),
    "a removed newest entry": ("DELETE FROM deltas WHERE log_id = :log AND seq = 8", tail),
    "all entries removed": ("DELETE FROM deltas WHERE log_id = :log", entries),
    "a forged entry": ("forge entry", entries),
    "another key of an entry": (
        "UPDATE deltas SET entry_key = 'k' WHERE log_id = :log AND seq = 2",
        entries,
    ),
    "another entry's words": (
        "UPDATE deltas SET search_text = 'forged words' WHERE log_id = :log AND seq = 2",
        found_entries,
    ),
    "a log cut and appended to": (
        "DELETE FROM deltas WHERE log_id = :log AND seq = 8",
        append_and_read,
    ),
}


async def edit(db: Database, what: str) -> None:
    """Change the rows of a database as somebody without the keys can."""
    ids = {"t": of(db, "t"), "u": of(db, "u"), "log": of(db, "t-log", ThreadLog(db)._path)}
    columns = "payload = (SELECT payload FROM deltas d WHERE d.log_id = :{0} AND d.seq = {1}), "
    columns += "checksum = (SELECT checksum FROM deltas d WHERE d.log_id = :{0} AND d.seq = {1})"
    also = ", signature = (SELECT signature FROM deltas d WHERE d.log_id = :{0} AND d.seq = {1})"
    named = ", kind = (SELECT kind FROM deltas d WHERE d.log_id = :{0} AND d.seq = {1})"
    based = ", base_seq = (SELECT base_seq FROM deltas d WHERE d.log_id = :{0} AND d.seq = {1})"
    depth = ", depth = (SELECT depth FROM deltas d WHERE d.log_id = :{0} AND d.seq = {1})"
    whole = columns + named + based + depth
    if what in ("forge", "forge entry"):
        from memalchemy.codec.payloads import encode_payload

        payload, checksum = encode_payload({"text": "forged"})
        if what == "forge":
            payload = b"\x00" + payload[1:]
            checksum = zlib.crc32(payload)
        where = f"log_id = :{'t' if what == 'forge' else 'log'} AND seq = 6"
        sql = f"UPDATE deltas SET payload = :p, checksum = :c WHERE {where}"
        await execute(db, sql, **ids, p=payload, c=checksum)
    elif what == "swap states":
        await execute(db, SWAP.format(table="checkpoints"), **ids, a=2, b=3)
    elif what == "swap entries":
        await execute(db, SWAP.format(table="deltas"), **ids | {"t": ids["log"]}, a=2, b=3)
    elif what == "from another thread":
        values = whole.format("u", 6) + also.format("u", 6)
        await execute(db, f"UPDATE deltas SET {values} WHERE log_id = :t AND seq = 6", **ids)
    elif what == "replay":
        values = whole.format("t", 1) + also.format("t", 1)
        await execute(db, f"UPDATE deltas SET {values} WHERE log_id = :t AND seq = 6", **ids)
    elif what == "writes from another thread":
        values = columns.format("u", 7) + also.format("u", 7)
        await execute(db, f"UPDATE deltas SET {values} WHERE log_id = :t AND seq = 7", **ids)
    elif what == "append":
        rows = (
            ("deltas", "seq = 8"),
            ("checkpoints", "seq = 8, checkpoint_id = 'c9', parent_id = 'c5', ordinal = 7"),
        )
        for table, values in rows:
            names = await _columns(db, table)
            changed = dict(one.split(" = ") for one in values.split(", "))
            chosen = ", ".join(changed.get(name, name) for name in names)
            sql = f"INSERT INTO {table} ({', '.join(names)}) SELECT {chosen} FROM {table} "
            await execute(db, sql + f"WHERE {T} AND seq = 6", **ids)
        head = "UPDATE threads SET next_seq = 9, head_id = 'c9', previous_id = 'c5' "
        await execute(db, head + f"WHERE {T}", **ids)
    elif what == "expire":
        await execute(db, f"UPDATE threads SET expires_at = created_at WHERE {T}", **ids)
    else:
        await execute(db, what, **ids)


async def _columns(db: Database, table: str) -> list[str]:
    def job(connection: Any) -> list[str]:
        found = connection.execute(text(f"SELECT * FROM {table} LIMIT 1")).keys()
        return [name for name in found if name != "rowid"]

    return await db.run_sync(job)


@pytest.mark.parametrize("name", EDITS)
async def test_what_was_changed_is_refused_and_its_neighbours_are_not(
    opened: Callable[..., Any], name: str
) -> None:
    what, read = EDITS[name]
    db = await opened()
    await fill(db)
    await edit(db, what)
    other = await opened()

    with pytest.raises((Corrupt, KeyMissing)):
        await read(other)

    assert await Checkpointer(other).load("u") == {"step": 5, "words": "sentence number 5 of u"}
    assert len(await ThreadLog(other).range("u-log")) == 8
    report = await verify(other)
    assert "signature" in {finding.code for finding in report.findings}, report.findings
    assert {one.thread_id for one in report.findings if one.severity == "error"} <= {"t", "t-log"}


async def test_everything_works_with_signatures_and_nothing_is_found(
    opened: Callable[..., Any],
) -> None:
    db = await opened()
    await fill(db)
    checkpointer, log = Checkpointer(db), ThreadLog(db)
    copy = await checkpointer.fork("t", "c3")
    await checkpointer.save({"step": 7}, copy)
    await checkpointer.save({"step": 3, "again": True}, "t", "c3")
    await checkpointer.delete("t", "c1")
    await checkpointer.prune("t", keep_last=3)
    await checkpointer.set_thread_metadata("t", {"title": "a thread"})
    await checkpointer.save({"short": 1}, "short", ttl=MOMENT)
    await checkpointer.vacuum(None)
    await log.edit("t-log", 3, {"text": "edited"})
    await log.pop("t-log")
    await log.remove("t-log", [2])
    await log.append("t-log", ["once"], keys=["k"])
    await log.append("t-log", ["once"], keys=["k"])
    await checkpointer.rewrite("u")
    await checkpointer.delete("u")
    await checkpointer.fork("t", new_thread_id="u")
    assert await list_all(db)
    await checkpointer.delete("u")
    await checkpointer.save({"new": "life"}, "u")

    other = await opened()
    assert (await verify(other)).findings == ()
    assert await Checkpointer(other).load(copy) == {"step": 7}
    assert await Checkpointer(other).load("t") == {"step": 3, "again": True}
    assert await list_all(other)


async def test_a_process_without_the_key_writes_nothing(opened: Callable[..., Any]) -> None:
    await fill(await opened())
    for settings in ({"signing_keys": None}, {"signing_keys": [OTHER]}):
        other = await opened(**settings)
        with pytest.raises(KeyMissing, match="signing_keys"):
            await Checkpointer(other).save({"step": 7}, "t")
        with pytest.raises(KeyMissing, match="signing_keys"):
            await ThreadLog(other).append("t-log", ["entry"])
        with pytest.raises(KeyMissing, match="signing_keys"):
            await Checkpointer(other).delete("t")
    with pytest.raises(KeyMissing, match="signing_keys"):
        await load(await opened(signing_keys=[OTHER]))
    assert await load(await opened(signing_keys=[OTHER, KEY])) == {
        "step": 5,
        "words": "sentence number 5 of t",
    }


async def test_the_key_is_asked_for_after_its_registration_was_removed(
    opened: Callable[..., Any],
) -> None:
    db = await opened()
    await fill(db)
    await execute(db, "DELETE FROM store_items WHERE namespace = '/~signing/'")
    with pytest.raises(KeyMissing, match="registration was removed"):
        await Checkpointer(await opened(signing_keys=None)).save({"step": 7}, "new")


async def test_a_database_is_signed_afterwards_and_its_key_is_changed(
    opened: Callable[..., Any],
) -> None:
    unsigned = await opened(signing_keys=None)
    await fill(unsigned)
    db = await opened()
    with pytest.raises(NotSigned, match="memalchemy --tenant TENANT sign"):
        await load(db)
    during = await opened(allow_unsigned=True)
    assert await load(during) is not None
    dry = await sign(await opened(), dry_run=True)
    assert dry.signed > 0
    assert dry.refused == []

    report = await sign(db)
    assert (report.refused, report.signed) == ([], dry.signed)
    assert await load(db) is not None
    assert (await verify(db)).findings == ()

    both = await opened(signing_keys=[OTHER, KEY])
    (old_key,) = db.signing.ids
    assert (await sign(both, dry_run=True)).unregistered == []
    changed = await sign(both)
    assert (changed.signed, changed.unregistered) == (report.signed, [old_key])
    alone = await opened(signing_keys=[OTHER])
    assert await load(alone) is not None
    assert (await verify(alone)).findings == ()
    assert (await sign(both)).unregistered == []


async def test_who_has_only_the_old_key_may_not_write_once_it_is_changed(
    opened: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await opened()
    await fill(old)
    await Checkpointer(old).save({"step": 1}, "old")
    await sign(await opened(signing_keys=[OTHER, KEY]))

    monkeypatch.setattr(known_keys, "KNOWN_SECONDS", 0.0)
    for process in (old, await opened()):
        with pytest.raises(KeyMissing, match="nothing was written"):
            await Checkpointer(process).save({"step": 2}, "new")
        with pytest.raises(KeyMissing, match="nothing was written"):
            await Store(process).put(("n",), "k", 1)
    alone = await opened(signing_keys=[OTHER])
    assert await Checkpointer(alone).load("old") == {"step": 1}


async def test_an_old_key_stays_registered_while_something_is_refused(
    opened: Callable[..., Any],
) -> None:
    await fill(await opened())
    both = await opened(signing_keys=[OTHER, KEY])
    edit = f'UPDATE checkpoints SET meta = \'{{"user": "eve"}}\' WHERE {T} AND seq = 3'
    await execute(both, edit, t=of(both, "t"))

    report = await sign(both)
    assert (report.refused_count, report.unregistered) == (1, [])
    await Checkpointer(await opened()).save({"step": 2}, "old")


async def test_verify_without_the_key_of_a_row_asks_for_it(opened: Callable[..., Any]) -> None:
    db = await opened()
    await fill(db)
    await Store(db).put(("n",), "k", 1, embedding=[1.0, 0.0])

    report = await verify(await opened(signing_keys=[OTHER]))
    (finding,) = [one for one in report.findings if one.severity == "error"]
    assert finding.code == "signing-key"
    assert "rows signed with the key" in finding.sentence
    assert finding.remedy is not None
    assert finding.remedy.startswith("run verify with the key in MEMALCHEMY_SIGNING_KEYS, too")


async def test_a_tenant_that_was_never_signed_is_one_finding(opened: Callable[..., Any]) -> None:
    await fill(await opened())
    never = (await opened(signing_keys=None)).for_tenant("it's new")
    await fill(never)
    await Store(never).put(("n",), "k", 1, embedding=[1.0, 0.0])

    report = await verify(await opened(), all_tenants=True)

    (finding,) = [one for one in report.findings if one.severity == "error"]
    assert (finding.code, finding.tenant) == ("signature", "it's new")
    assert "rows without a signature: it was never signed, or" in finding.sentence
    remedy = "if it was never signed: memalchemy --tenant 'it'\"'\"'s new' sign"
    assert finding.remedy == remedy


async def test_a_changed_row_of_a_tenant_without_a_key_is_a_finding_of_its_own(
    opened: Callable[..., Any],
) -> None:
    db = await opened()
    await fill(db)
    await Store(db).put(("n",), "k", 1)
    await execute(db, "DELETE FROM store_items WHERE namespace = '/~signing/'")
    await execute(db, "UPDATE store_items SET expires_at = NULL, version = 7 WHERE key = 'k'")
    await execute(db, "UPDATE deltas SET signature = NULL WHERE seq = 1")

    report = await verify(await opened())

    found = [(one.code, one.key) for one in report.findings if one.severity == "error"]
    assert ("signature", "k") in found
    together = [one for one in report.findings if "no signing key is registered" in one.sentence]
    assert len(together) == 1


async def test_verify_without_any_key_says_that_signatures_were_not_checked(
    opened: Callable[..., Any],
) -> None:
    await fill(await opened())

    report = await verify(await opened(signing_keys=None))
    assert report.ok
    assert {(one.code, one.severity) for one in report.findings} == {("unchecked", "note")}
    assert "1 tenant is signed and no signing keys were given" in report.findings[0].sentence
    elsewhere = (await opened(signing_keys=None)).for_tenant("never signed")
    assert not [one for one in (await verify(elsewhere)).findings if "signed and" in one.sentence]


async def test_all_tenants_are_signed_by_one_run(opened: Callable[..., Any]) -> None:
    tenants = ("default", "acme", "zoo")
    plain = await opened(signing_keys=None)
    for tenant in tenants:
        await fill(plain.for_tenant(tenant))
        await Store(plain.for_tenant(tenant)).put(("n",), "k", 1)
    counts: list[int] = []

    report = await sign(await opened(), all_tenants=True, progress=counts.append)

    assert (report.logs, report.items, report.refused) == (12, 3, [])
    assert counts == sorted(counts)
    assert counts[-1] == 15
    assert (await verify(await opened(), all_tenants=True)).findings == ()

    await execute(plain, "UPDATE deltas SET signature = NULL WHERE tenant = 'acme' AND seq = 1")
    rotated = await sign(await opened(signing_keys=[OTHER, KEY]), all_tenants=True)

    assert {one.tenant for one in rotated.refused} == {"acme"}
    assert rotated.unregistered == []  # acme still has rows under it


async def test_one_thread_is_not_signed_in_all_tenants(opened: Callable[..., Any]) -> None:
    with pytest.raises(ValueError, match="thread_id is of one tenant"):
        await sign(await opened(), all_tenants=True, thread_id="t")


async def test_a_running_process_without_the_key_notices_that_the_tenant_is_signed(
    opened: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that goes on writing while `sign` runs: none of its rows is left without a signature."""
    monkeypatch.setattr(known_keys, "KNOWN_SECONDS", 0)
    noticed_after, sleep = object(), asyncio.sleep
    monkeypatch.setattr(signing, "NOTICED_AFTER", noticed_after)

    async def noticed(seconds: Any) -> None:
        if seconds is noticed_after:
            await asyncio.wait([going], timeout=A_WHILE)
        else:
            await sleep(seconds)

    monkeypatch.setattr(asyncio, "sleep", noticed)
    keyless = await opened(signing_keys=None)
    await fill(keyless)
    saved = 0

    async def go_on() -> None:
        nonlocal saved
        while True:
            await Checkpointer(keyless).save({"step": saved}, f"later {saved}")
            await ThreadLog(keyless).append("t-log", {"text": f"later {saved}"})
            saved += 1

    going = asyncio.ensure_future(go_on())
    await until(lambda: saved)
    db = await opened()
    report = await sign(db)
    with pytest.raises(KeyMissing, match="is signed"):
        await asyncio.wait_for(going, A_WHILE)
    with pytest.raises(KeyMissing, match="is signed"):
        await Checkpointer(keyless).delete("later 0")

    assert saved > 0
    assert report.refused == []
    assert (await verify(db)).findings == ()


async def test_a_running_process_without_keys_notices_that_the_tenant_is_encrypted(
    opened: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    keyless = await opened(signing_keys=None)
    await Checkpointer(keyless).save({}, "t")
    encrypting = await opened(signing_keys=None, keys=[KEY])
    await Checkpointer(encrypting).save({}, "u")
    monkeypatch.setattr(known_keys, "KNOWN_SECONDS", 0)  # that time has passed

    with pytest.raises(KeyMissing, match="is encrypted"):
        await Checkpointer(keyless).save({}, "v")
    assert not await Checkpointer(keyless).exists("v")


async def test_a_wrong_row_does_not_hide_from_verify_that_another_is_missing(
    opened: Callable[..., Any],
) -> None:
    db = await opened()
    await fill(db)
    await edit(db, f"DELETE FROM checkpoints WHERE {T} AND seq = 3")
    await edit(db, f"UPDATE checkpoints SET parent_id = 'c0' WHERE {T} AND seq = 6")

    found = [one.sentence for one in (await verify(await opened())).findings]

    assert any("the rows of the thread" in message for message in found)
    assert any("checkpoint 'c" in message for message in found)


async def test_signing_again_blesses_nothing_that_was_changed(opened: Callable[..., Any]) -> None:
    db = await opened()
    await fill(db)
    await edit(db, f"UPDATE checkpoints SET parent_id = 'c0' WHERE {T} AND seq = 6")
    await edit(db, "UPDATE deltas SET signature = NULL WHERE log_id = :log AND seq = 2")

    report = await sign(await opened())
    assert report.refused_count == 2
    with pytest.raises(Corrupt):
        await load(await opened())
    with pytest.raises(Corrupt):
        await entries(await opened())

    # Somebody has looked at the thread, and keeps it as it is.
    assert (await sign(await opened(), thread_id="t", resign=True)).refused == []
    assert await load(await opened()) is not None
    await ThreadLog(await opened()).delete("t-log")
    assert await entries(await opened()) == []
    assert (await verify(await opened())).findings == ()


async def test_a_sample_holds_what_it_reads_to_its_signature(opened: Callable[..., Any]) -> None:
    db = await opened()
    await fill(db)
    forged = "UPDATE checkpoints SET run_id = 'forged' WHERE log_id = :t AND seq = 3"
    await execute(db, forged, t=of(db, "t"))

    report = await verify(await opened(), sample=1000)
    assert [(one.code, one.seq) for one in report.findings] == [("signature", 3)]
    assert (await verify(await opened(signing_keys=[OTHER]), sample=1)).errors == 1


@pytest.mark.parametrize("store", [False, True], ids=["threads", "items"])
async def test_a_sample_finds_every_tenant_that_was_never_signed(
    opened: Callable[..., Any], store: bool
) -> None:
    await fill(await opened())
    plain = await opened(signing_keys=None)
    for tenant in ("acme", "zoo"):
        if store:
            await Store(plain.for_tenant(tenant)).put(("n",), "k", 1)
        else:
            await Checkpointer(plain.for_tenant(tenant)).save({"n": 1}, "t")

    report = await verify(await opened(), all_tenants=True, sample=1)
    errors = [one for one in report.findings if one.severity == "error"]
    assert [(one.code, one.tenant) for one in errors] == [
        ("signature", "acme"),
        ("signature", "zoo"),
    ]


@pytest.mark.parametrize(
    "read", [Checkpointer.load, Checkpointer.exists], ids=lambda it: it.__name__
)
async def test_a_thread_that_is_written_without_a_pause_is_not_taken_for_damaged(
    opened: Callable[..., Any], database_url: str, read: Callable[..., Awaitable[Any]]
) -> None:
    """The proof that a checkpoint is absent takes three statements; somebody saves after each."""
    agents = Checkpointer(await opened())
    await agents.save({"n": 0}, "t")
    saved, is_saving = 0, False

    with sync.Database(database_url, migrate="off", signing_keys=[KEY]) as other:
        others = sync.Checkpointer(other)

        def save_after(_: StatementEvent) -> None:
            nonlocal saved, is_saving
            if not is_saving:  # it hears of its own statements, too
                is_saving = True
                saved += 1
                others.save({"n": saved}, "t")
                is_saving = False

        others.save({"n": saved}, "t")
        unsubscribe = subscribe_statements(save_after)
        try:
            with pytest.raises(DatabaseUnreachable, match="read it again") as raised:
                await read(agents, "t", "absent")
        finally:
            unsubscribe()

    assert raised.value.busy
    assert saved >= 3 * 20
    assert not await read(agents, "t", "absent")
