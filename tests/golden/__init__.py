"""Every statement of the registry as the text that a database gets, and how texts compare.

``{sqlite,postgresql,citus,oracle}.sql`` hold one text of each family, reviewed by people, and
``.digests`` beside them a digest of every text: a change of a statement is a change of these files.
``MEMALCHEMY_GOLDEN=write pytest tests/golden`` writes them anew, and `tests/golden/show.py` prints
any text, and what has changed since a commit.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import make_url

import memalchemy
from memalchemy.dialects import DIALECTS, Dialect
from memalchemy.dialects.postgresql.dialect import PostgreSQL
from memalchemy.dialects.postgresql.distributed import use_distribution
from memalchemy.statements import REGISTRY

PACKAGE = Path(memalchemy.__file__).parent
for _path in sorted(PACKAGE.rglob("*.py")):
    if re.search(r"^@statement\(", _path.read_text(encoding="utf-8"), re.M):
        # A statement registers when its module is imported.
        import_module(".".join(("memalchemy", *_path.relative_to(PACKAGE).with_suffix("").parts)))

_URLS = {
    "sqlite": "sqlite+aiosqlite://",
    "postgresql": "postgresql+asyncpg://",
    "citus": "postgresql+asyncpg://",
    "oracle": "oracle+oracledb_async://",
}
ORACLE_VERSION = (23, 26)


@cache
def dialect(name: str) -> sa.Dialect:
    """The dialect that the library runs on, unconnected."""
    made = make_url(_URLS[name]).get_dialect(_is_async=True)()
    if name == "oracle":
        made.server_version_info = ORACLE_VERSION
    return made


_INLINED = re.compile(r"__\[POSTCOMPILE_(\w+)\]")


def text_of(statement: Any, name: str) -> str:
    """The text that database *name* gets for *statement*."""
    compiled = statement.compile(dialect=dialect(name))
    # SQLAlchemy writes these few values into the text when it executes it.
    text = _INLINED.sub(lambda match: str(compiled.binds[match[1]].value), str(compiled))
    return " ".join(text.split())


def dialect_called(name: str) -> Dialect:
    """The dialect whose statements are in a golden file; of Citus, what PostgreSQL's becomes."""
    if name != "citus":
        return DIALECTS[name]
    made = DIALECTS["postgresql"].for_database()
    assert isinstance(made, PostgreSQL)
    use_distribution(made)
    return made


def statements(name: str) -> Iterator[tuple[str, str]]:
    """Every (name, text) of the registry on a database, in the order of the names."""
    for _, texts in families(name):
        yield from texts


def families(name: str) -> Iterator[tuple[str, list[tuple[str, str]]]]:
    """Every family with its (name, text) pairs on a database, in the order of the names."""
    dialect = dialect_called(name)
    for family in sorted(REGISTRY):
        built = REGISTRY[family].enumerate(dialect)
        yield family, [(called, text_of(statement, name)) for called, statement in built]


DERIVED = (".proven", ".found")
"""Endings of families that are made of another one, whose text people read."""


def canonical(name: str) -> dict[str, str]:
    """The first text of each family on a database, by its name."""
    return {
        called: pretty(text)
        for family, texts in families(name)
        if not family.endswith(DERIVED)
        for called, text in texts[:1]
    }


def digests(name: str) -> dict[str, str]:
    """The digest of every text on a database, by its name."""
    return {called: digest(text) for called, text in statements(name)}


def digest(text: str) -> str:
    """A short digest of what of a text is not white space."""
    return hashlib.blake2b(unbroken(text).encode(), digest_size=8).hexdigest()


_BIND = re.compile(
    r"'(?:[^']|'')*'"  # a literal, which stays
    r"|(?:%\(\w+\)s|\$\d+|(?<![:\w]):\w+|\?(?!\())"
    r"(?:::(?:TIMESTAMP WITH TIME ZONE|[A-Z]+)(?:\[\])?)?"
)


def normalised(sql: str) -> str:
    """*sql* without what a driver decides: white space, how binds are spelt, cast and escaped."""
    bare = _BIND.sub(lambda m: m[0] if m[0].startswith("'") else "?", sql)
    # SQLAlchemy 2.0 doubles backslashes until a connection tells that the server does not.
    return " ".join(bare.split()).replace("%%", "%").replace(r"'\\'", r"'\'")


_BREAK = re.compile(
    r"'(?:[^']|'')*'"
    r"|(?<!\bDELETE)(?<!\bDO)(?<!\bFOR)(?<!\bUPDATE)\s(?=(?:"
    r"FROM|WHERE|AND|OR|SET|VALUES|RETURNING(?! JSON)|INTO :|ORDER BY|GROUP BY|UNION|LIMIT|OFFSET"
    r"|FETCH|FOR UPDATE|ON CONFLICT|DO UPDATE|CROSS JOIN|JOIN|WHEN|ELSE|SELECT|INSERT|UPDATE"
    r"|DELETE)\b)"
    r"|(?<=\()(?=SELECT\b|WITH\b)"
    r"|(?<=\)),\s(?=\w+(?:\([\w, ]+\))? AS\s\()"
)
_WIDTH = 100


def pretty(sql: str) -> str:
    """*sql* broken into lines for reading; only white space differs."""

    def broken(match: re.Match[str]) -> str:
        if match[0].startswith("'"):
            return match[0]
        return ",\n" if match[0].startswith(",") else "\n"

    lines: list[str] = []
    for line in _BREAK.sub(broken, sql).split("\n"):
        while len(line) > _WIDTH and (cut := line.rfind(", ", 0, _WIDTH)) > 0:
            lines.append(line[: cut + 1])
            line = "  " + line[cut + 2 :]
        lines.append(line)
    depth = 0
    indented: list[str] = []
    for line in lines:
        start = depth - (1 if line.startswith(")") else 0)
        indented.append("  " * max(start, 0) + line)
        bare = re.sub(r"'(?:[^']|'')*'", "", line)
        depth += bare.count("(") - bare.count(")")
    return "\n".join(indented)


def unbroken(sql: str) -> str:
    """What is the same of two texts that differ in white space only."""
    return re.sub(r"\s+", "", sql)


def read(stored: str) -> dict[str, str]:
    """The blocks of a golden file by name."""
    blocks = re.split(r"^-- (.+)\n", stored, flags=re.MULTILINE)
    return dict(zip(blocks[1::2], (block.strip() for block in blocks[2::2]), strict=True))


def written(texts: Mapping[str, str]) -> str:
    """A golden file of *texts* by their names."""
    return "\n\n".join(f"-- {name}\n{text}" for name, text in texts.items()) + "\n"
