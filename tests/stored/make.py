"""Make the stored databases of this release, for later releases to open, upgrade and verify.

    python -m tests.stored.make --write              # all that this environment can make
    python -m tests.stored.make --write adapters     # those of the frameworks installed here
    python -m tests.stored.make --write code         # see below; never made without its name

writes, into a directory named after the release,

    KIND.db.gz                a SQLite file: plain, encrypted, sealed, signed
    KIND.postgresql.sql.gz    a dump of PostgreSQL, of each kind, and walled, behind row-level
                              security; runs through psql or any driver, on 14 and later
    plain.oracle.sql.gz       INSERTs into tables that the revision's own script makes; made from
                              the SQLite file's rows and NOT RUN ON A SERVER
    signed.anchor             the anchor of signed.db
    http.json.gz, openapi.json.gz
                              what its clients and its server said to each other, and its document
    commands.json.gz          the commands, their options, codes, and what they print of plain.db
    items.jsonl.gz, records.jsonl.gz
                              what it exports of plain.db
    contents.json             the release, its revision, and what is in each of them
    adapters/FRAMEWORK.db.gz, FRAMEWORK.json
                              what the adapters of a framework have written, and a list of it

and, of the code,

    ../../public_api-RELEASE.txt
                              the public names and their parameters, as public_api.txt has them
    code.zip                  this checkout's package, as a wheel lays it out: the processes that
                              are still running when the next revision comes

A stored database is what a release wrote: once ``git tag`` has the release, nothing is made again.
Until then run it after a change of what is stored; write the code in the commit before the one that
adds the next revision. The environments of the nox sessions ``frameworks``, ``crewai`` and
``pydantic-ai-harness`` have all frameworks between them.

Needs the test dependencies (a PostgreSQL from a wheel, with pg_dump), or POSTGRES_URL.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import sqlite3
import subprocess
import sys
import tempfile
import zipfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / name) for name in (".", "migrations", "integrations")]

import httpx  # noqa: E402
from programs import postgres_program  # noqa: E402

from httpserver import running  # noqa: E402
from memalchemy import Database, migrate  # noqa: E402
from memalchemy._version import __version__  # noqa: E402
from memalchemy.anchors import anchor  # noqa: E402
from memalchemy.codec import vectors  # noqa: E402
from memalchemy.column_types import UtcDateTime, Vector  # noqa: E402
from memalchemy.maintenance import tenants  # noqa: E402
from memalchemy.schema import Base  # noqa: E402
from public_surface import SNAPSHOT, of_release  # noqa: E402
from servers import Postgres, postgres_server  # noqa: E402
from stored import commands  # noqa: E402
from stored.contents import (  # noqa: E402
    BESIDE,
    FEATURES,
    TENANT,
    decoded_rows,
    fill,
    readable,
)
from stored.kinds import KINDS, Kind, directory_of, file_of, unzipped, zipped  # noqa: E402
from stored.wire import exported_lines, recording, session  # noqa: E402

RELEASE = directory_of(__version__)
CODE_MIGRATIONS = "memalchemy/migrations"
ADAPTER_ID = "ada"
"""The id under which each adapter stores, and the texts."""
ADAPTER_TEXTS = ("the heron wades", "the stork flies")


async def write(url: str, kind: Kind) -> dict[str, Any]:
    """Write everything of a kind, and return the list of it."""
    async with Database(url, tenant=TENANT, migrate="off", **kind.options) as db:
        await db.migrate()
        expected = await fill(db, vectors=kind.searches)
        beside = db.for_tenant(BESIDE)
        found = {}
        for name in kind.features:
            await FEATURES[name].write(beside)
            found[name] = readable(await FEATURES[name].read(beside))
        if kind.walled:
            await tenants.enforce(db, leakproof=False)
    return expected | {"features": found}


def make_sqlite(name: str, kind: Kind) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "agent.db"
        expected = asyncio.run(write(f"sqlite:///{path}", kind))
        if "signing_keys" in kind.options:
            asyncio.run(_anchored(f"sqlite:///{path}", kind))
        _close(path)
        zipped(file_of(__version__, name, "sqlite"), path.read_bytes())
        if name == "plain":
            make_oracle(path, RELEASE / "plain.oracle.sql.gz")
    return expected


async def _anchored(url: str, kind: Kind) -> None:
    async with Database(url, **kind.options) as db:
        (await anchor(db, all_tenants=True)).write(RELEASE / "signed.anchor")


def _close(path: Path) -> None:
    """Make a SQLite database one file, without a log beside it."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = DELETE")
    connection.execute("VACUUM")
    connection.close()


def make_postgresql(server: Postgres, name: str, kind: Kind) -> dict[str, Any]:
    database = server.create_database()
    expected = asyncio.run(write(server.url(database), kind))
    command = [postgres_program("pg_dump"), "--no-owner", "--no-privileges", "--inserts"]
    dump = subprocess.run(
        [*command, server.url(database)], check=True, stdout=subprocess.PIPE, text=True
    ).stdout
    server.drop_database(database)
    # Without psql's own commands and the settings that older servers do not know.
    dump = re.sub(r"^(\\(un)?restrict .*|SET transaction_timeout = .*)\n", "", dump, flags=re.M)
    zipped(file_of(__version__, name, "postgresql"), dump.encode())
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
    zipped(target, "\n".join([*lines, "COMMIT", "/", ""]).encode())


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


async def write_adapters(url: str, subjects: dict[str, Any]) -> dict[str, Any]:
    """Write what each subject of a framework stores, and return the list of it."""
    texts = {}
    async with Database(url) as db:
        for name, subject in subjects.items():
            adapter = subject.open(db)
            for text in ADAPTER_TEXTS:
                await subject.write(adapter, ADAPTER_ID, text)
            texts[name] = await subject.read(adapter, ADAPTER_ID)
        return {"id": ADAPTER_ID, "texts": texts, "rows": await decoded_rows(db)}


def make_adapters() -> list[str]:
    """Make a file for each framework that is installed here, and return their names."""
    from subjects import INSTALLED

    for name, module in INSTALLED.items():
        with tempfile.TemporaryDirectory() as place:
            path = Path(place) / "agent.db"
            content = asyncio.run(write_adapters(f"sqlite:///{path}", module.SUBJECTS))
            _close(path)
            zipped(RELEASE / "adapters" / f"{name}.db.gz", path.read_bytes())
        _write_json(RELEASE / "adapters" / f"{name}.json", content)
    return [*INSTALLED]


def make_databases() -> list[str]:
    """Make those of each kind, and the list of what is in them."""
    RELEASE.mkdir(exist_ok=True)
    lists = {
        f"{name}.db": make_sqlite(name, kind)
        for name, kind in KINDS.items()
        if "sqlite" in kind.databases
    }
    with postgres_server() as server:
        for name, kind in KINDS.items():
            lists[f"{name}.postgresql.sql"] = make_postgresql(server, name, kind)
    content = {"release": __version__, "revision": migrate.head(), **lists["plain.db"]}
    for name, told in lists.items():
        known = content | {"features": {one: content["features"][one] for one in told["features"]}}
        assert known.items() >= told.items(), f"{name} holds something else than plain.db"
    _write_json(RELEASE / "contents.json", content)
    return sorted(lists)


async def _wire(url: str) -> dict[str, Any]:
    with recording() as noted:
        told = await session(url)
    return {"requests": noted, "told": told}


def make_wire() -> list[str]:
    """Record a session of the clients with the server, its document, and what commands print."""
    made: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as place:
        path = Path(place) / "agent.db"
        path.write_bytes(unzipped(file_of(__version__, "plain", "sqlite")))
        made["commands.json"] = _json(commands.told(f"sqlite:///{path}"))
        for name, lines in exported_lines(f"sqlite:///{path}").items():
            made[f"{name}.jsonl"] = lines.encode()
        with running(Database(f"sqlite:///{place}/served.db")) as url:
            made["http.json"] = _json(asyncio.run(_wire(url)))
            made["openapi.json"] = _json(httpx.get(f"{url}/v1/openapi.json").json())
    for name, data in made.items():
        zipped(RELEASE / f"{name}.gz", data)
    return [*made]


def make_api() -> list[str]:
    """Keep the public names of this checkout as those of the release."""
    of_release(__version__).write_text(SNAPSHOT.read_text())
    return [of_release(__version__).name]


def _write_json(path: Path, content: Any) -> None:
    path.write_bytes(_json(content))


def _json(content: Any) -> bytes:
    return json.dumps(content, indent=1, ensure_ascii=False).encode() + b"\n"


def refuse_what_was_released() -> None:
    """Exit if this version has a tag: what a release wrote is never made again."""
    tag = f"v{__version__}"
    listed = subprocess.run(
        ["git", "tag", "--list", tag], cwd=HERE, capture_output=True, text=True, check=True
    ).stdout
    if listed.strip():
        sys.exit(f"{tag} was released: its stored databases stay as they are")


MAKERS = {
    "databases": make_databases,
    "adapters": make_adapters,
    "wire": make_wire,
    "api": make_api,
    "code": lambda: make_code(RELEASE / "code.zip"),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--write", action="store_true", help="without it, say what would be written"
    )
    parser.add_argument("what", nargs="*", choices=[*MAKERS, []], metavar="WHAT")
    given = parser.parse_args()
    refuse_what_was_released()
    for name in given.what or [name for name in MAKERS if name != "code"]:
        print(f"{RELEASE.name}: {name}", *(MAKERS[name]() or () if given.write else ()))


if __name__ == "__main__":
    main()
