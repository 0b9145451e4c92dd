"""Traps that a statement or a table for Oracle can fall into, looked for in text and metadata.

Compiling proves that SQLAlchemy can write a statement, not that Oracle takes it. Each rule here is
a mistake that compiles; `test_lint` shows every rule an example of it. No rule proves anything
right: a server does that.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import sqlalchemy as sa
from sqlalchemy.schema import CreateColumn

from golden import dialect
from memalchemy.keys import MAX_ID_BYTES, MAX_NAMESPACE_BYTES, MAX_TENANT_BYTES

ORACLE_KEY_BYTES = 6398
"""Three quarters of a block of 8 KB: ORA-01450."""
POSTGRESQL_KEY_BYTES = 2704
"""A third of a page of 8 KB."""
IDENTIFIER_BYTES = 63
"""PostgreSQL's; Oracle has 128."""

RESERVED = frozenset(
    re.findall(
        r"\w+",
        """
    access add all alter and any as asc audit between by char check cluster column column_value
    comment compress connect create current date decimal default delete desc distinct drop else
    exclusive exists file float for from grant group having identified immediate in increment index
    initial insert integer intersect into is level like lock long maxextents minus mlslabel mode
    modify nested_table_id noaudit nocompress not nowait null number of offline on online option or
    order pctfree prior privileges public raw rename resource revoke row rowid rownum rows select
    session set share size smallint start successful synonym sysdate table then to trigger uid union
    unique update user validate values varchar varchar2 view whenever where with
        """,
    )
)
"""Words that cannot be a name without quotes; SQLAlchemy's own list lacks some twenty of them."""

_LOBS = ("search_text", "payload", "value", "meta", "vector")
"""Columns that are a LOB, JSON or VECTOR: neither compared, sorted nor grouped."""

_FOREIGN = (
    "now|random|strftime|datetime|julianday|printf|group_concat|string_agg|array_agg|unnest"
    "|json_each|json_type|json_extract|jsonb_\\w+|to_tsvector|to_tsquery|ts_rank|char_length"
    "|octet_length|ifnull|isnull|date_trunc|gen_random_uuid|hex|md5|string_to_array"
    "|generate_series|json_array_elements|bool_and"
)

Rule = Callable[[str], bool]


def masked(sql: str) -> str:
    """*sql* without the text of its literals, whose words mean nothing."""
    return re.sub(r"'(?:[^']|'')+'", "'…'", sql)


def _found(pattern: str) -> Rule:
    compiled = re.compile(pattern, re.IGNORECASE | re.DOTALL)
    return lambda sql: compiled.search(masked(sql)) is not None


def _verb(sql: str) -> str:
    """The verb of a statement, behind its WITH clause."""
    depth, words = 0, re.findall(r"\(|\)|\w+", masked(sql))
    for word in words:
        depth += {"(": 1, ")": -1}.get(word, 0)
        if depth == 0 and word.upper() in ("SELECT", "INSERT", "UPDATE", "DELETE", "MERGE"):
            return str(word.upper())
    return ""


def _clauses(sql: str, start: str) -> Iterator[str]:
    """What follows each *start* up to the next clause or the end of its parenthesis."""
    stop = r"\b(?:FROM|WHERE|GROUP BY|HAVING|ORDER BY|OFFSET|FETCH|FOR UPDATE|UNION|RETURNING)\b"
    for found in re.finditer(start, masked(sql), re.IGNORECASE):
        rest = masked(sql)[found.end() :]
        depths = itertools.accumulate({"(": 1, ")": -1}.get(c, 0) for c in rest)
        end = next((at for at, depth in enumerate(depths) if depth < 0), len(rest))
        yield re.split(stop, rest[:end], maxsplit=1, flags=re.IGNORECASE)[0]


def _lob_in(start: str) -> Rule:
    column = re.compile(rf"\b\w+\.(?:{'|'.join(_LOBS)})\b(?!\s*\()", re.IGNORECASE)
    # A distance is a number.
    number = re.compile(r"\bVECTOR_DISTANCE\s*\([^()]*\)", re.IGNORECASE)
    return lambda sql: any(column.search(number.sub("", part)) for part in _clauses(sql, start))


def _compares_a_lob(sql: str) -> bool:
    conditions = re.sub(r"\bSET\b.*?(?=\bWHERE\b|\bRETURNING\b|$)", "", masked(sql), flags=re.S)
    lob = rf"\b\w+\.(?:{'|'.join(_LOBS)})\b"
    compared = rf"{lob}\s*(?:=|!=|<>|<|>|IN\b)|(?:=|!=|<>|<|>)\s*{lob}"
    return re.search(compared, conditions, re.IGNORECASE) is not None


def _reserved_name(sql: str) -> bool:
    bare = re.sub(r"\bCAST\b", "", masked(sql))
    # A type behind AS is a type: CAST(x AS FLOAT).
    bare = re.sub(r"\bAS\s+(?:FLOAT|NUMBER|INTEGER|VARCHAR2|DATE|CHAR|RAW)\s*[()]", "", bare)
    names = re.findall(r"\bAS\s+(\w+)|(?<=[\w\"])\.(\w+)|:(\w+)|(\w+)\s+AS\s*\(", bare)
    aliases = re.findall(r"\b(?:FROM|JOIN)\s+\w+\s+(\w+)\b", bare, re.IGNORECASE)
    follows = {"on", "where", "join", "order", "group", "fetch", "for", "union", "set", "values"}
    used = {name.lower() for found in names for name in found if name}
    used |= {alias.lower() for alias in aliases} - follows
    return bool(used & RESERVED)


def _update_of_a_table(sql: str) -> bool:
    of = re.search(r"FOR UPDATE OF\s*(\S*)", masked(sql), re.IGNORECASE)
    return of is not None and "." not in of[1]


def _returns_wrongly(sql: str) -> bool:
    text = re.sub(r"\bRETURNING (?:JSON|VARCHAR2|CLOB|BLOB|NUMBER)\b", "", masked(sql))
    returns = re.search(r"\bRETURNING\b", text, re.IGNORECASE) is not None
    into = re.search(r"\bRETURNING\b.+\bINTO\s+:", text, re.IGNORECASE | re.DOTALL) is not None
    return (returns and _verb(sql) == "SELECT") or (returns and not into)


def _tables_without_columns(sql: str) -> Iterator[tuple[str, str]]:
    """Each table of a WITH clause that does not name its columns, and the text between its
    parentheses.
    """
    for found in re.finditer(r"(?:WITH|,)\s+(\w+)\s+AS\s*\(", masked(sql)):
        rest = masked(sql)[found.end() :]
        depths = itertools.accumulate({"(": 1, ")": -1}.get(c, 0) for c in rest)
        yield found[1], rest[: next(at for at, depth in enumerate(depths) if depth < 0)]


def _has_with_inside_with(sql: str) -> bool:
    """Whether a query of a WITH clause has a WITH clause of its own: ORA-32034."""
    text = masked(sql)
    for found in re.finditer(r"\w+\s*(?:\([^()]*\))?\s+AS\s*\(", text):
        rest = text[found.end() :]
        depths = itertools.accumulate({"(": 1, ")": -1}.get(c, 0) for c in rest)
        body = rest[: next((at for at, depth in enumerate(depths) if depth < 0), len(rest))]
        if re.search(r"\bWITH\b", body, re.IGNORECASE):
            return True
    return False


RULES: dict[str, Rule] = {
    "LIMIT is FETCH FIRST here": _found(r"\bLIMIT\b"),
    "a bare true or false": _found(r"(?<![\w.:])(?:true|false)\b"),
    "IS goes with NULL only": _found(r"\bIS\s+(?:NOT\s+)?(?!NULL\b|NOT\b|JSON\b|CTXSYS\b)\w+"),
    "a number is not a condition": _found(r"\b(?:WHERE|AND|OR|ON)\s+\d+\s*(?:$|\)|AND|OR)"),
    "a condition is not a value": _found(r"\b(?:json_equal|json_exists)\s*\([^()]*\)\s*=\s*[1:]"),
    "FOR UPDATE with FETCH is ORA-02014": lambda sql: (
        _found(r"\bFOR UPDATE\b")(sql) and _found(r"\bFETCH\b|\bDISTINCT\b|\bGROUP BY\b")(sql)
    ),
    "FOR UPDATE OF takes columns": _update_of_a_table,
    "UNION without ALL in a WITH clause": lambda sql: (
        _found(r"\bWITH\b")(sql) and _found(r"\bUNION\b(?!\s+ALL)")(sql)
    ),
    "WITH RECURSIVE": _found(r"\bRECURSIVE\b"),
    "a recursive WITH names its columns": lambda sql: any(
        re.search(rf"UNION ALL\b.*?\b(?:FROM|JOIN)\s+{name}\b", body, re.S) is not None
        for name, body in _tables_without_columns(sql)
    ),
    "WITH inside of WITH is ORA-32034": _has_with_inside_with,
    "WITH before DELETE, UPDATE or INSERT": lambda sql: (
        sql.lstrip().upper().startswith("WITH") and _verb(sql) != "SELECT"
    ),
    "an empty text is NULL": lambda sql: re.search(r"(?<!')''(?!')", sql) is not None,
    "a LOB in GROUP BY": _lob_in(r"\bGROUP BY\b"),
    "a LOB in ORDER BY": _lob_in(r"\bORDER BY\b"),
    "a LOB in DISTINCT": _lob_in(r"\bDISTINCT\b"),
    "a LOB compared": _compares_a_lob,
    "a JSON path is a literal": _found(
        r"\bJSON_(?:EXISTS|VALUE|QUERY|TABLE)\s*\([^,()]+,\s*[^'\s]|\bPATH\s+[^'\s]"
    ),
    "ERROR ON ERROR fails on a missing key": _found(r"\bERROR ON ERROR\b(?!.*ON EMPTY)"),
    "a table's alias takes no AS": _found(
        r"\b(?:FROM|JOIN)\s+\"?[\w.]+\"?\s+AS\s|\)\s+AS\s+\w+\s+(?:ON|JOIN|WHERE)\b"
    ),
    "several rows of VALUES": _found(r"\bVALUES\s*\((?:[^()]|\([^()]*\))*\)\s*,\s*\("),
    "RETURNING needs INTO, and DML": _returns_wrongly,
    "ON CONFLICT": _found(r"\bON CONFLICT\b|\bINSERT OR\b|\bexcluded\."),
    "MERGE with a large bind is ORA-01461": _found(r"^\s*MERGE\b"),
    "a cast by two colons": _found(r"::"),
    "another database's operator": _found(r"@>|@@|\bILIKE\b|\bGLOB\b|\bMATCH\b|(?<![\w'])%|\s%\s"),
    "another database's function": _found(rf"\b(?:{_FOREIGN})\s*\("),
    "CONTAINS is a number": _found(r"\bCONTAINS\s*\([^()]*\)(?!\s*>)"),
    "a reserved word as a name": _reserved_name,
    "a bind without a name": _found(r"\?|%s|%\(|\$\d|__\[POSTCOMPILE|(?<![:\w]):\d"),
    "a zoned time": _found(r"\bTIME ZONE\b|\bCURRENT_TIMESTAMP\b"),
}


def lint_sql(sql: str) -> list[str]:
    """The rules that a statement breaks."""
    return [name for name, broken in RULES.items() if broken(sql)]


# --- Tables --------------------------------------------------------------------------------------

_API_BYTES = {"tenant": MAX_TENANT_BYTES, "namespace": MAX_NAMESPACE_BYTES}


def oracle_bytes(column: sa.Column[Any]) -> int:
    """What a column takes in a key: lengths are in CHAR, of up to four bytes."""
    length = getattr(column.type, "length", None)
    if length:
        return int(length) * 4
    return 11 if "TIMESTAMP" in _ddl(column) else 22


def postgresql_bytes(column: sa.Column[Any]) -> int:
    """What a column takes in a key at most, as the API limits ids; with its header."""
    length = getattr(column.type, "length", None)
    if length is None:
        return 8
    return _API_BYTES.get(column.name, min(MAX_ID_BYTES, int(length) * 4)) + 4


def _ddl(column: sa.Column[Any]) -> str:
    return str(CreateColumn(column).compile(dialect=dialect("oracle"))).upper()


def keys(table: sa.Table) -> Iterator[tuple[str, list[sa.Column[Any]]]]:
    """Every (name, columns) of a primary key, unique constraint and index."""
    for constraint in table.constraints:
        if isinstance(constraint, (sa.PrimaryKeyConstraint, sa.UniqueConstraint)):
            yield str(constraint.name), list(constraint.columns)
    for index in table.indexes:
        # Oracle's index over CASE expressions has the column behind THEN in its key.
        names = [
            re.sub(r".*\bTHEN (\w+) END", r"\1", str(expression)).rpartition(".")[2]
            for expression in index.expressions
        ]
        yield str(index.name), [table.c[name] for name in names]


def lint_table(table: sa.Table) -> list[str]:
    """What Oracle, or PostgreSQL where it is stricter, would refuse or silently change."""
    broken: list[str] = []
    indexed = list(keys(table))
    for name, columns in indexed:
        if (size := sum(map(oracle_bytes, columns))) > ORACLE_KEY_BYTES:
            broken.append(f"{name} has a key of {size} bytes on Oracle")
        if (size := sum(map(postgresql_bytes, columns)) + 16) > POSTGRESQL_KEY_BYTES:
            broken.append(f"{name} has a key of {size} bytes on PostgreSQL")
        broken += [
            f"{name} has {column.name}, a LOB, in its key"
            for column in columns
            if re.search(r" (?:CLOB|BLOB|JSON|VECTOR)\b", _ddl(column))
        ]
        if len(name.encode()) > IDENTIFIER_BYTES:
            broken.append(f"{name} is too long a name")
    for column in table.columns:
        broken += [f"{table.name}.{column.name} {what}" for what in _lint_column(column)]
    if table.name in RESERVED:
        broken.append(f"{table.name} is a reserved word")
    for foreign in table.foreign_key_constraints:
        names = [column.name for column in foreign.columns]
        if not any([c.name for c in columns][: len(names)] == names for _, columns in indexed):
            broken.append(f"{foreign.name} has no index: a delete would lock {table.name} whole")
        if foreign.onupdate:
            broken.append(f"{foreign.name} has ON UPDATE, which there is not")
    return broken


def _lint_column(column: sa.Column[Any]) -> Iterable[str]:
    impl = column.type.dialect_impl(dialect("oracle"))
    bare = getattr(impl, "impl", impl)
    ddl = _ddl(column)
    if isinstance(bare, sa.String) and not isinstance(bare, sa.Text) and not bare.length:
        yield "is a String without a length"
    if isinstance(bare, sa.String) and (bare.length or 0) > 1000:
        yield "is longer than 1,000 characters, which may be over 4,000 bytes"
    if isinstance(bare, sa.Boolean) or " BOOLEAN" in ddl:
        yield "is a Boolean"
    if re.search(r" DATE\b", ddl):
        yield "is a DATE, which ends at seconds"
    if "TIME ZONE" in ddl:
        yield "has a time zone, which the driver drops"
    if column.name.lower() in RESERVED:
        yield "is a reserved word"
    if " DEFAULT ''" in ddl:
        yield "has the default '', which is NULL"
    if column.primary_key and isinstance(bare, sa.Integer) and column.autoincrement is True:
        yield "counts by itself, which needs an Identity"
