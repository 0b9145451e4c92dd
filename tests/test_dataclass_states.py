"""A dataclass as the state_type: it comes back equal, or is refused before anything is stored."""

from __future__ import annotations

import enum
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from memalchemy import Checkpointer, Database, NotSerialisable, RetainedCheckpointer


class Colour(enum.Enum):
    RED = "red"


@dataclass(frozen=True)
class Line:
    name: str
    price: Decimal = Decimal("1.50")


@dataclass
class Order:
    number: int
    colour: Colour = Colour.RED
    lines: list[Line] = field(default_factory=list)
    file: Path | None = None
    at: datetime | None = None
    lasts: timedelta = timedelta(hours=1)
    weight: float = 0.0
    other: Any = None


@dataclass(eq=False)
class Unequal:
    number: int = 1


@dataclass
class Unreadable:
    thing: Missing  # type: ignore[name-defined]  # noqa: F821


@dataclass
class Embedded:
    vector: np.ndarray


ORDER = Order(
    1, Colour.RED, [Line("a"), Line("b")], Path("/tmp/a"), datetime(2026, 1, 1, tzinfo=UTC)
)


@pytest.fixture
async def db() -> AsyncIterator[Database]:
    async with Database("sqlite://") as database:
        yield database


@pytest.mark.parametrize("kind", [Checkpointer, RetainedCheckpointer])
async def test_it_comes_back_equal_with_its_dataclasses_enums_and_paths(
    db: Database, kind: type[Checkpointer[Any]]
) -> None:
    checkpointer = kind(db, state_type=Order)
    await checkpointer.save(ORDER, "t")

    loaded = await checkpointer.load("t")

    assert loaded == ORDER
    assert type(loaded.file) is type(ORDER.file)
    assert (await Checkpointer(db).load("t"))["lines"][0] == asdict(Line("a"))


async def test_nan_and_a_class_without_equality_come_back(db: Database) -> None:
    await Checkpointer(db, state_type=Order).save(Order(1, weight=float("nan")), "nan")
    await Checkpointer(db, state_type=Unequal).save(Unequal(7), "unequal")

    nan = await Checkpointer(db, state_type=Order).load("nan")
    unequal = await Checkpointer(db, state_type=Unequal).load("unequal")

    assert nan is not None
    assert nan.weight != nan.weight
    assert unequal is not None
    assert unequal.number == 7


@pytest.mark.parametrize(
    ("order", "path"),
    [
        (Order("one"), "/number"),  # type: ignore[arg-type]
        (Order("1"), "/number"),  # type: ignore[arg-type]
        (Order(1, lines=[{"name": "a"}]), "/lines"),  # type: ignore[list-item]
        (Order(1, other=Colour.RED), "/other"),
        (Order(1, other=Line("a")), "/other"),
        (Order(1, other=object()), "/other"),
    ],
    ids=["unreadable", "coerced", "built", "enum of Any", "dataclass of Any", "stranger"],
)
async def test_a_field_that_would_come_back_otherwise_is_refused(
    db: Database, order: Order, path: str
) -> None:
    checkpointer = Checkpointer(db, state_type=Order)

    with pytest.raises(NotSerialisable) as refused:
        await checkpointer.save(order, "t")

    assert refused.value.path == path
    assert not await checkpointer.exists("t")


async def test_without_its_class_it_is_refused_with_what_to_write(db: Database) -> None:
    with pytest.raises(NotSerialisable, match=r"give state_type=Order.*dataclasses\.asdict"):
        await Checkpointer(db).save(ORDER, "t")
    with pytest.raises(NotSerialisable, match="give state_type=Line"):
        await Checkpointer(db, state_type=Order).save(Line("a"), "t")
    with pytest.raises(NotSerialisable, match=r"dataclasses\.asdict\(x\)") as inner:
        await Checkpointer(db).save({"line": Line("a")}, "t")
    with pytest.raises(NotSerialisable, match=r"x\.value"):
        await Checkpointer(db).save({"colour": Colour.RED}, "t")

    assert inner.value.path == "/line"


async def test_a_class_whose_annotations_cannot_be_read_is_refused_at_once(db: Database) -> None:
    with pytest.raises(TypeError, match="the fields of Unreadable cannot be read back"):
        Checkpointer(db, state_type=Unreadable)


async def test_the_field_is_named_and_what_to_store_in_its_place(db: Database) -> None:
    with pytest.raises(TypeError) as refused:
        Checkpointer(db, state_type=Embedded)
    told = str(refused.value)
    assert "vector: ndarray. Annotate the field with what is stored, such as list[float]" in told
    assert "arbitrary_types_allowed" not in told
