"""Conditions of a host's queries that an index answers: on metadata, and on fields of items.

They compile to the conditions of the library's own reads, which the dialect of the database builds:
`Statements.json_equals` and `json_may_equal` on metadata, `TextIndexes.has_fields` on items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from sqlalchemy import (
    JSON,
    BigInteger,
    BinaryExpression,
    BindParameter,
    Boolean,
    ClauseElement,
    ColumnClause,
    ColumnElement,
    Dialect,
    Float,
    Numeric,
    Text,
    TypeDecorator,
    and_,
    bindparam,
    case,
    cast,
    false,
    literal_column,
    not_,
    null,
    or_,
)
from sqlalchemy.exc import CompileError
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql import operators
from sqlalchemy.sql.functions import FunctionElement
from sqlalchemy.sql.visitors import replacement_traverse

from memalchemy._wiring import wired
from memalchemy.codec.field_terms import ORDERED_BYTES, FieldTerms
from memalchemy.errors import InvalidArgument
from memalchemy.filters import Filter
from memalchemy.metadata import MATCH_BINDS, check_metadata, kind_of

# --- Metadata ------------------------------------------------------------------------------------


class _MetadataOperand(TypeDecorator[Any]):
    """A key of metadata and its value, as one of the binds of the dialect's `json_equals`."""

    impl = Text
    cache_ok = True

    def __init__(self, kind: str, bind: str) -> None:
        super().__init__()
        self.kind = kind
        self.bind = bind

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        statements = _dialect_on(dialect.name).statements
        return statements.json_equals_binds(*value, self.kind).get(self.bind)


class _Condition(FunctionElement[bool]):
    """A condition that its database's dialect spells, in parentheses."""

    inherit_cache = True
    type = Boolean()

    def self_group(self, against: Any = None) -> Any:
        # Where there is no type of booleans, SQLAlchemy would compare it with 1, and then no index
        # answers.
        return self


class _MetadataCondition(_Condition):
    """The dialect's `json_equals` of a column of metadata, for one key, value and kind of value."""

    inherit_cache = True

    def __init__(self, meta: ColumnElement[Any], key: str, value: Any, kind: str) -> None:
        (pair,) = check_metadata({key: value}).items()
        kinds = (_MetadataOperand(kind, bind) for bind in MATCH_BINDS)
        super().__init__(meta, *(bindparam(None, pair, type_=kind, unique=True) for kind in kinds))


class MetadataEquals(_MetadataCondition):
    """The condition that metadata has a key with a value; numbers compare as numbers."""

    inherit_cache = True
    name = "metadata_equals"

    def __init__(self, meta: ColumnElement[Any], key: str, value: Any) -> None:
        super().__init__(meta, key, value, kind_of(value))


class MetadataHas(_MetadataCondition):
    """The condition that metadata has a key, whose value may be null."""

    inherit_cache = True
    name = "metadata_has"

    def __init__(self, meta: ColumnElement[Any], key: str) -> None:
        super().__init__(meta, key, None, "any")


@compiles(_MetadataCondition)
def _compile_metadata_condition(element: _MetadataCondition, compiler: Any, **kw: Any) -> str:
    meta: Any
    operands: Any
    meta, *operands = element.clauses
    statements = _dialect_on(compiler.dialect.name).statements
    kind = operands[0].type.kind
    condition: ColumnElement[bool] = statements.json_equals(meta.table, kind)
    if (indexed := statements.json_may_equal(meta.table, kind)) is not None:
        condition = and_(indexed, condition)
    given = {operand.type.bind: operand for operand in operands}

    def replace(element: Any, **_: Any) -> Any:
        return given.get(element.key) if isinstance(element, BindParameter) else None

    return f"({compiler.process(replacement_traverse(condition, {}, replace), **kw)})"


class _JsonIs(_Condition):
    """The condition that a value of JSON is of a kind: ``text``, ``number`` or ``boolean``."""

    inherit_cache = True
    name = "json_is"

    def __init__(self, value: ColumnElement[Any], kind: str) -> None:
        super().__init__(value, bindparam(None, kind, literal_execute=True))


@compiles(_JsonIs)
def _compile_json_is(element: _JsonIs, compiler: Any, **kw: Any) -> str:
    value, kind = element.clauses
    dialect = _dialect_on(compiler.dialect.name)
    if (condition := dialect.statements.json_is(value, kind.value)) is None:
        raise CompileError(f"{dialect.name} cannot tell the kind of a value of metadata")
    return f"({compiler.process(condition, **kw)})"


class MetadataComparator(TypeDecorator.Comparator[Any], JSON.Comparator[Any]):
    """The operators of metadata, which mean the same on every database; others are refused.

    - ``meta["key"] == value`` and ``.in_([…])`` compare as JSON does. ``None`` is the null of JSON,
      which metadata without the key does not have. Checkpoints have an index for them.
    - ``!=`` and ``.not_in([…])`` are true of metadata that has the key, with another value.
    - ``.is_(None)`` is true of metadata without the key, and ``.is_not(None)`` with it.
    - ``.as_string()``, ``.as_float()``, ``.as_integer()`` and ``.as_boolean()`` are SQL's text,
      numbers and boolean, and NULL where the value is of another kind; also within
      ``meta["key"]["inner"]``.
    """

    def operate(self, op: Callable[..., Any], *other: Any, **kwargs: Any) -> ColumnElement[Any]:
        if op in _SUBSCRIPTS or isinstance(op, operators.custom_op):
            return super().operate(op, *other, **kwargs)
        given = other[0] if other else None
        found = self._key_of_metadata()
        if op in (operators.is_, operators.is_not) and given is None:
            if isinstance(self.expr, ColumnClause):
                return super().operate(op, *other, **kwargs)
            if found is not None:
                has = MetadataHas(*found)
                return has if op is operators.is_not else not_(has)
        is_whole = isinstance(self.expr, ColumnClause) and op in (operators.eq, operators.ne)
        # So the library's own statements compare metadata as it is stored.
        if is_whole and (isinstance(given, BindParameter) or getattr(given, "is_literal", False)):
            return super().operate(op, *other, **kwargs)
        values: Any = [given]
        if op in (operators.in_op, operators.not_in_op):
            values = given
        is_equality = op in _EQUALITIES and isinstance(values, (list, tuple, set, frozenset))
        if found is not None and is_equality and all(map(_is_value, values)):
            return self._one_of(found, values, is_one=op in (operators.eq, operators.in_op))
        self._refuse(getattr(op, "__name__", str(op)))

    def reverse_operate(
        self, op: Callable[..., Any], other: Any, **kwargs: Any
    ) -> ColumnElement[Any]:
        if isinstance(op, operators.custom_op):
            return super().reverse_operate(op, other, **kwargs)
        self._refuse(getattr(op, "__name__", str(op)))

    def as_string(self) -> ColumnElement[Any]:
        """Return the value as SQL's text; NULL if it is no text."""
        return self._if_of_kind("text", super().as_string())  # type: ignore[no-untyped-call]

    def as_float(self) -> ColumnElement[Any]:
        """Return the value as a 64-bit float; NULL if it is no number."""
        return self._if_of_kind("number", cast(super().as_float(), Float))  # type: ignore[no-untyped-call]

    def as_boolean(self) -> ColumnElement[Any]:
        """Return the value as SQL's boolean; NULL if it is neither true nor false."""
        return self._if_of_kind("boolean", super().as_boolean())  # type: ignore[no-untyped-call]

    def as_integer(self) -> ColumnElement[Any]:
        """Return the value as a 64-bit integer; NULL if it is no whole number of that size."""
        number = cast(super().as_string(), Numeric)  # type: ignore[no-untyped-call]
        whole = cast(number, BigInteger)
        # PostgreSQL refuses to cast what is larger. The order is that of the cases.
        is_large = or_(
            number < literal_column(str(-(2**63))), number > literal_column(str(2**63 - 1))
        )
        return self._if_of_kind("number", case((is_large, null()), (number == whole, whole)))

    def as_numeric(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Refuse: JSON has one kind of number, which has no scale."""
        self._refuse("as_numeric")

    def as_json(self) -> NoReturn:
        """Refuse: SQLite compares and returns its text."""
        self._refuse("as_json")

    def _if_of_kind(self, kind: str, value: ColumnElement[Any]) -> ColumnElement[Any]:
        return case((_JsonIs(self.expr, kind), value))

    @staticmethod
    def _one_of(
        found: tuple[ColumnElement[Any], str], values: Iterable[Any], *, is_one: bool
    ) -> ColumnElement[bool]:
        equal = [MetadataEquals(*found, value) for value in values]
        any_equal = equal[0] if len(equal) == 1 else or_(false(), *equal)
        return any_equal if is_one else and_(MetadataHas(*found), not_(any_equal))

    def _refuse(self, name: str) -> NoReturn:
        raise InvalidArgument(
            f"{name} does not mean the same of metadata on every database: compare meta['key'] "
            "with a value of JSON by ==, !=, in_ or not_in, or with None by is_ or is_not, or use "
            "as_string(), as_float(), as_integer() or as_boolean() of it"
        )

    def _key_of_metadata(self) -> tuple[ColumnElement[Any], str] | None:
        """Return the column and the key of ``meta["key"]``; ``None`` of anything else."""
        expr: Any = self.expr
        if not isinstance(expr, BinaryExpression) or expr.operator is not operators.json_getitem_op:
            return None
        key = expr.right.value if isinstance(expr.right, BindParameter) else None
        is_column = isinstance(expr.left, ColumnClause) and expr.left.table is not None
        return (expr.left, key) if is_column and isinstance(key, str) else None


_EQUALITIES = (operators.eq, operators.ne, operators.in_op, operators.not_in_op)
_SUBSCRIPTS = (operators.getitem, operators.json_getitem_op, operators.json_path_getitem_op)


def _is_value(given: Any) -> bool:
    return not isinstance(given, ClauseElement) and not hasattr(given, "__clause_element__")


# --- Fields of items -----------------------------------------------------------------------------


class _FieldQuery(TypeDecorator[Any]):
    """`FieldTerms` as the query of the database's index of words."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: Any, dialect: Dialect) -> Any:
        return value if value is None else _dialect_on(dialect.name).text.field_query(value)


class HasFields(_Condition):
    """The condition that an item has words of fields; *column* is one of its table."""

    inherit_cache = True
    name = "has_fields"

    def __init__(self, column: Any, terms: FieldTerms) -> None:
        super().__init__(column, bindparam(None, terms, type_=_FieldQuery(), unique=True))


@compiles(HasFields)
def _compile_has_fields(element: HasFields, compiler: Any, **kw: Any) -> str:
    column: Any
    column, query = element.clauses
    text = _dialect_on(compiler.dialect.name).text
    if not text.indexes_fields:
        raise CompileError(
            f"no index of {compiler.dialect.name} answers for the fields of items: filter by "
            "Store.list_items(filter=…) or Store.search(filter=…)"
        )
    return f"({compiler.process(text.has_fields(column.table, query), **kw)})"


class ItemField:
    """A scalar field of an item, of its value or its metadata, to compare in a query.

    The name is as in the filters of `Store`: a key of the value or of the metadata, or a JSON
    pointer such as ``/author/name``. The comparisons are those of the words that the item's row has
    for its fields, and an index answers them:

    - Numbers compare as 64-bit floats. Texts are equal or not as a whole, and are ordered against a
      text of fewer than ten bytes. A short text ends with no U+0000: the words of ``"a\\x00"`` are
      those of ``"a"``, which finds both, and only the filters of `Store` tell them apart.
    - An item without the field is found by no comparison, ``!=`` included; ``== None`` finds one
      whose field is None.
    - An item that has no words for its fields is not found: it is encrypted without
      ``readable=["fields"]``, or has over 64 fields and `Store` was not told to index this one.
    """

    def __init__(self, column: Any, name: str) -> None:
        self._column = column
        self._name = name

    def __eq__(self, value: object) -> ColumnElement[bool]:  # type: ignore[override]
        return self.in_([value])

    def __ne__(self, value: object) -> ColumnElement[bool]:  # type: ignore[override]
        return self.not_in([value])

    __hash__ = None  # type: ignore[assignment]

    def __gt__(self, value: Any) -> ColumnElement[bool]:
        return self._in_range("$gt", value)

    def __ge__(self, value: Any) -> ColumnElement[bool]:
        return self._in_range("$gte", value)

    def __lt__(self, value: Any) -> ColumnElement[bool]:
        return self._in_range("$lt", value)

    def __le__(self, value: Any) -> ColumnElement[bool]:
        return self._in_range("$lte", value)

    def between(self, low: Any, high: Any) -> ColumnElement[bool]:
        """Return the condition that the field is in a range, its ends included."""
        return and_(self >= low, self <= high)

    def in_(self, values: Iterable[Any]) -> ColumnElement[bool]:
        """Return the condition that the field has one of the scalars in *values*."""
        wanted = list(values)
        for value in wanted:
            self._refuse_null_at_end(value)
        terms = FieldTerms.of(*self._read({"$in": wanted})).certain() if wanted else None
        return HasFields(self._column, terms) if terms and terms.words else false()

    def not_in(self, values: Iterable[Any]) -> ColumnElement[bool]:
        """Return the condition that the field is there, and has none of the scalars in *values*."""
        return and_(self.exists(), not_(self.in_(values)))

    def exists(self) -> ColumnElement[bool]:
        """Return the condition that the item has the field."""
        path, _ = self._read({"$eq": None})
        return HasFields(self._column, FieldTerms.any(path).certain())

    def _in_range(self, operator: str, value: Any) -> ColumnElement[bool]:
        path, low, high = self._read({operator: value})
        self._refuse_null_at_end(value)
        if isinstance(value, str) and len(value.encode("utf-8", "surrogatepass")) >= ORDERED_BYTES:
            raise InvalidArgument(
                f"the words of fields order texts by their first {ORDERED_BYTES} bytes: compare "
                f"{self._name!r} with a shorter text, or filter by Store.list_items(filter=…)"
            )
        terms = FieldTerms.between(path, low, high, ends=operator in ("$gte", "$lte")).certain()
        return HasFields(self._column, terms) if terms.prefixes else false()

    def _refuse_null_at_end(self, value: Any) -> None:
        # The word of a text is padded with zeros to the bytes that have an order.
        is_short = isinstance(value, str) and len(value) <= ORDERED_BYTES
        if is_short and value.endswith("\x00"):
            raise InvalidArgument(
                f"the words of fields do not tell a text that ends with U+0000 from one without: "
                f"compare {self._name!r} by Store.list_items(filter=…)"
            )

    def _read(self, comparison: dict[str, Any]) -> tuple[Any, ...]:
        """Return what the filter of one comparison tells an index: `Filter` checks its operand."""
        read = Filter.parse({self._name: comparison})
        assert read is not None  # there is a field
        for told in (*read.equalities(), *read.ranges()):
            return told
        raise InvalidArgument(
            f"no index answers this for the field {self._name!r}: compare it with a number, a "
            "text, a boolean or None, and name no place in an array"
        )


def _dialect_on(sqlalchemy_name: str) -> Any:
    """Return memalchemy's dialect for SQLAlchemy's dialect of that name."""
    found = wired("dialects").on(sqlalchemy_name)
    if not found:
        raise CompileError(f"memalchemy does not work on {sqlalchemy_name!r}")
    return found[0]
