"""Make the stored databases of this release's schema, for later releases to upgrade.

    python tests/stored/make.py

writes, for the revision that this checkout migrates to,

    REVISION.db               a SQLite file
    REVISION.postgresql.sql   a dump of PostgreSQL; runs through psql or any driver, on 14 and later
    REVISION.oracle.sql       INSERTs into tables that the revision's own script makes; made from
                              the SQLite file's rows and NOT RUN ON A SERVER
    REVISION.json             what is in all three: what a test may expect after an upgrade

and, if these are there already,

    REVISION.code.zip         this checkout's package, as a wheel lays it out: the processes that
                              are still running when the next revision comes

Run it once when a revision is new: that its own release reads what it wrote is tested from then on.
Run it again in the commit before the one that adds the next revision, while the checkout still
writes the old schema, and commit the code with the new revision. Once it is released a stored
database is never made again: it is what a release wrote.

Needs the test dependencies (a PostgreSQL from a wheel, with pg_dump), or POSTGRES_URL.
"""

from __future__ import annotations

import asyncio
import json
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent), str(HERE.parent / "migrations")]

from programs import postgres_program  # noqa: E402

from memalchemy import Checkpointer, Database, Store, ThreadLog, migrate  # noqa: E402
from memalchemy.codec import vectors  # noqa: E402
from memalchemy.column_types import UtcDateTime, Vector  # noqa: E402
from memalchemy.schema import Base  # noqa: E402
from servers import Postgres, postgres_server  # noqa: E402

TENANT = "stored"
NESTED = ("graph", "sub")
CODE_MIGRATIONS = "memalchemy/migrations"


def conversation(steps: int) -> list[dict[str, Any]]:
    """The states of a thread that grows by a message a step."""
    messages = [
        {"role": ("user", "assistant")[step % 2], "content": f"Message {step} about lighthouses."}
        for step in range(steps)
    ]
    return [{"messages": messages[: step + 1], "step": step} for step in range(steps)]


WRITES = [["channel", {"said": "first"}], ["other", [1, 2]]]
ENTRIES = [{"role": "user", "content": "A zebra?"}, "plain text", ["a", "list"]]
SPACE = ["users", "naïve/~"]
ITEMS = [
    {
        "key": "ada",
        "value": {"likes": "giraffes", "age": 36},
        "meta": {"n": 1},
        "vector": [1.0, 0.5],
    },
    {"key": "", "value": ["no", "key"], "meta": {}, "vector": [-0.25, 3.0]},
    {"key": "ключ/🔑", "value": "no vector", "meta": {"nested": {"a": [1, None]}}, "vector": None},
]


async def fill(db: Database) -> dict[str, Any]:
    """Threads with deltas, a branch, a fork, metadata, text, ids of every kind, and a tombstone; a
    log in a namespace with pending writes, a log of entries, and items with vectors.
    """
    checkpointer = Checkpointer(db)
    expected: dict[str, Any] = {"tenant": db.tenant, "threads": {}, "deleted": ["deleted"]}

    async def save(thread: str, state: dict[str, Any], **options: Any) -> str:
        name = await checkpointer.save(state, thread, **options)
        expected["threads"].setdefault(thread, {})[name] = state
        return name

    for step, state in enumerate(conversation(12)):
        await save("long", state, metadata={"step": step, "colour": "red" if step == 7 else "blue"})
    root = await save("branched", {"path": ["root"]})
    await save("branched", {"path": ["root", "left"]}, parent_id=root)
    await save("branched", {"path": ["root", "right"]}, parent_id=root)
    await save("naïve/ключ/🔑", {"text": "Ünïcode, 漢字"}, checkpoint_id="first: 1")
    await checkpointer.save({"gone": True}, "deleted")
    await checkpointer.delete("deleted")
    await checkpointer.fork("branched", root, new_thread_id="forked")
    expected["threads"]["forked"] = {root: {"path": ["root"]}}

    nested = Checkpointer(db, namespace=NESTED, radix=8)
    below = None
    states = conversation(10)
    for step, state in enumerate(states):
        parent = {"parent_id": below, "rests_on_parent": True} if below else {}
        below = await nested.save(state, "long", f"nested {step}", run_id="run", **parent)
    await nested.put_writes([tuple(write) for write in WRITES], "long", "nested 9", "task")
    expected["nested"] = {f"nested {step}": state for step, state in enumerate(states)}
    expected["writes"] = WRITES

    await ThreadLog(db).append("long", ENTRIES, keys=["first", None, "third"])
    expected["entries"] = ENTRIES

    store = Store(db)
    for item in ITEMS:
        await store.put(SPACE, item["key"], item["value"], item["meta"], embedding=item["vector"])
    expected |= {"space": SPACE, "items": ITEMS}
    return expected


def make_sqlite(target: Path) -> dict[str, Any]:
    async def main(path: Path) -> dict[str, Any]:
        async with Database(f"sqlite:///{path}", tenant=TENANT) as db:
            return await fill(db)

    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "agent.db"
        expected = asyncio.run(main(path))
        connection = sqlite3.connect(path, isolation_level=None)
        # One file, without a log beside it.
        connection.execute("PRAGMA journal_mode = DELETE")
        connection.execute("VACUUM")
        connection.close()
        shutil.copyfile(path, target)
    return expected


def make_postgresql(server: Postgres, target: Path) -> dict[str, Any]:
    async def main(url: str) -> dict[str, Any]:
        async with Database(url, tenant=TENANT, migrate="off") as db:
            await db.migrate()
            return await fill(db)

    name = server.create_database()
    expected = asyncio.run(main(server.url(name)))
    command = [postgres_program("pg_dump"), "--no-owner", "--no-privileges", "--inserts"]
    dump = subprocess.run(
        [*command, server.url(name)], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    server.drop_database(name)
    # Without psql's own commands and the settings that older servers do not know.
    dump = re.sub(r"^(\\(un)?restrict .*|SET transaction_timeout = .*)\n", "", dump, flags=re.M)
    target.write_text(dump)
    return expected


def make_oracle(source: Path, target: Path) -> None:
    """INSERTs for the tables that ``migrate.offline("oracle")`` makes."""
    lines = [
        "-- NOT RUN ON A SERVER: made from the rows of the SQLite file of the same revision.",
        "-- Run the revision's upgrade script first, then this, as its owner.",
        "SET DEFINE OFF",
    ]
    connection = sqlite3.connect(source)
    for table in migrate.TABLES:
        # Not `*`: SQLite's tables have a rowid that is no column elsewhere.
        columns = list(Base.metadata.tables[table].columns)
        listed = ", ".join(f'"{column.name}"' for column in columns)
        # Beside a vector type nothing counts changes.
        ours = "tenant <> '~' AND namespace NOT LIKE '/~%'" if table == "store_items" else "1 = 1"
        for row in connection.execute(f"SELECT {listed} FROM {table} WHERE {ours}"):
            values = ", ".join(map(_oracle_literal, columns, row))
            names = ", ".join(column.name for column in columns)
            lines += [f"INSERT INTO {table} ({names}) VALUES ({values})", "/"]
    connection.close()
    # SQL*Plus takes no longer line, and at an empty one a statement ends.
    assert all(0 < len(line) < 2500 and "\n" not in line for line in lines)
    target.write_text("\n".join([*lines, "COMMIT", "/", ""]))


def _oracle_literal(column: Any, value: Any) -> str:
    name = column.name
    if value is None:
        return "NULL"
    if isinstance(column.type, UtcDateTime):
        time = datetime.fromtimestamp(value // 10**6, UTC) + timedelta(microseconds=value % 10**6)
        return f"TIMESTAMP '{time:%Y-%m-%d %H:%M:%S.%f}'"
    if isinstance(column.type, Vector):
        return f"TO_VECTOR('{vectors.from_bytes(value).tolist()}')"
    if isinstance(value, (int, float)):
        return str(value)
    if isinstance(value, bytes):
        # A literal ends at 4,000 bytes.
        assert len(value) <= 1900, f"{name}: {len(value)} bytes do not fit in a literal"
        return f"HEXTORAW('{value.hex().upper()}')"
    assert len(value.encode()) <= 3900, f"{name}: too long for a literal"
    if value.isascii() and value.isprintable():
        text = value.replace("'", "''")
        return f"'{text}'"
    units = memoryview(value.encode("utf-16-be")).cast("B")
    escaped = "".join(f"\\{units[i]:02X}{units[i + 1]:02X}" for i in range(0, len(units), 2))
    return f"UNISTR('{escaped}')"


def make_code(target: Path) -> None:
    """The package and, inside it as in a wheel, the revisions; nothing in it but what was written.

    The same tree gives the same bytes.
    """
    top = HERE.parents[1]
    with zipfile.ZipFile(target, "w") as archive:
        for root, inside in (("src/memalchemy", "memalchemy"), ("migrations", CODE_MIGRATIONS)):
            for path in sorted((top / root).rglob("*")):
                if path.is_file() and "__pycache__" not in path.parts:
                    name = f"{inside}/{path.relative_to(top / root).as_posix()}"
                    entry = zipfile.ZipInfo(name)
                    entry.external_attr = 0o644 << 16
                    archive.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED, 9)


def main() -> None:
    revision = migrate.head()
    sqlite_file = HERE / f"{revision}.db"
    if sqlite_file.exists():
        make_code(HERE / f"{revision}.code.zip")
        return
    expected = {"sqlite": make_sqlite(sqlite_file)}
    with postgres_server() as server:
        expected["postgresql"] = make_postgresql(server, HERE / f"{revision}.postgresql.sql")
    make_oracle(sqlite_file, HERE / f"{revision}.oracle.sql")
    text = json.dumps(expected, indent=1, ensure_ascii=False)
    (HERE / f"{revision}.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
