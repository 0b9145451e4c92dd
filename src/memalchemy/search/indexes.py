"""Build, list and drop vector indexes while others read and write.

No index is built by default, because with one the writing of many vectors takes a hundred times as
long. An index holds vectors in half precision: its results are as good at half the size, and no
other type can be indexed above 2,000 dimensions.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Executable

from memalchemy.contracts import Progress
from memalchemy.database import MAINTENANCE, READ, Database
from memalchemy.dialects import Dialect, vector_index_name
from memalchemy.errors import AuthenticationFailed, CapabilityMissing, Conflict, NotFound
from memalchemy.search._vector_statements import (
    INDEXED_DIMENSIONS,
    METRICS,
    has_native_vectors,
    vector_indexes,
)
from memalchemy.search.vectors import expire_indexes
from memalchemy.statements import Parameters, Program, statement

PROGRESS_SECONDS = 0.5
"""Seconds between two reports of a build's progress."""

_NAME = re.compile(rf"ix_embeddings_hnsw_([0-9]+)_({'|'.join(METRICS)})")


@dataclass(frozen=True, slots=True)
class VectorIndex:
    """Index of all vectors of one number of dimensions, for one metric.

    ``state`` is ``ready``, ``building`` or ``invalid``. An interrupted build leaves an invalid
    index, which takes space and is not used; building it again replaces it.
    """

    name: str
    dimensions: int
    metric: str
    state: str
    bytes: int


@statement()
def vector_index_progress(dialect: Dialect) -> Executable | None:
    """The progress of the build of a vector index."""
    return dialect.vectors.build_progress()


@statement(metric=METRICS, dimensions=INDEXED_DIMENSIONS)
def build_vector_index(dialect: Dialect, metric: str, dimensions: int) -> Executable | None:
    """Build a vector index."""
    return dialect.vectors.build_index(metric, dimensions)


@statement(metric=METRICS, dimensions=INDEXED_DIMENSIONS)
def drop_vector_index(dialect: Dialect, metric: str, dimensions: int) -> Executable | None:
    """Drop a vector index."""
    return dialect.vectors.drop_index(metric, dimensions)


async def list_indexes(db: Database) -> list[VectorIndex]:
    """Return the vector indexes, by name.

    Raises:
        CapabilityMissing: this database has no vector indexes, or an administrator has to see to
            them. The message says what to do.
    """
    await _check_capability(db)
    rows = await db.run(lambda: _run_one(vector_indexes(db.dialect), {"p_schema": db.schema}), READ)
    found = []
    for name, valid, building, size in rows:
        if (match := _NAME.fullmatch(name)) is not None:
            state = "building" if building else "ready" if valid else "invalid"
            found.append(VectorIndex(name, int(match[1]), match[2], state, int(size)))
    return found


async def build_index(
    db: Database,
    *,
    dimensions: int,
    metric: str = "cosine",
    progress: Callable[[Progress], object] | None = None,
) -> VectorIndex:
    """Build the index of all vectors of *dimensions*, while others read and write.

    An index that is ready is left as it is; an invalid one is replaced. *progress* is called with
    the number of pages of the table that have been read.

    Raises:
        ValueError: *metric* is none of cosine, dot, l2.
        CapabilityMissing: this database has no such index, or none of so many dimensions.
        AuthenticationFailed: the role does not own the tables; the message says what their owner
            has to run.
        Conflict: the index is being built already.
    """
    if metric not in METRICS:
        raise ValueError(f"metric is one of {', '.join(METRICS)}, not {metric!r}")
    if type(dimensions) is not int or dimensions < 1:
        raise ValueError(f"dimensions is a whole number of at least 1, not {dimensions!r}")
    await _check_capability(db, metric, dimensions)
    if dimensions not in INDEXED_DIMENSIONS:
        raise CapabilityMissing(
            f"an index holds vectors of up to {INDEXED_DIMENSIONS.high:,} dimensions, not "
            f"{dimensions:,}; without one a search compares all vectors"
        )
    there = await _find_index(db, vector_index_name(metric, dimensions))
    if there is not None and there.state == "building":
        raise Conflict(f"{there.name} is being built already", current=there)
    if there is not None and there.state == "ready":
        return there
    d = db.dialect
    with _explain_denied_permission(db, metric, dimensions, drop=False):
        if there is not None:
            await db.run(
                lambda: _run_one(drop_vector_index(d, metric=metric, dimensions=dimensions)),
                MAINTENANCE,
            )
        building = asyncio.ensure_future(
            db.run(
                lambda: _run_one(build_vector_index(d, metric=metric, dimensions=dimensions)),
                MAINTENANCE,
            )
        )
        try:
            await _report_progress(db, building, progress)
        except BaseException:
            building.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.gather(building, return_exceptions=True)
            raise
        await building
    expire_indexes(db)
    made = await _find_index(db, vector_index_name(metric, dimensions))
    if made is None:
        raise Conflict("the index was dropped while it was built")
    return made


async def drop_index(db: Database, name: str) -> None:
    """Drop a vector index by name, while others read and write.

    Raises:
        NotFound: there is no vector index of that name.
        AuthenticationFailed: the role does not own the tables; the message says what their owner
            has to run.
    """
    await _check_capability(db)
    there = await _find_index(db, name)
    if there is None:
        raise NotFound(f"there is no vector index {name!r}")
    metric, dimensions = there.metric, there.dimensions
    if dimensions not in INDEXED_DIMENSIONS:
        raise NotFound(f"{name!r} is no index of memalchemy's")
    with _explain_denied_permission(db, metric, dimensions, drop=True):
        await db.run(
            lambda: _run_one(drop_vector_index(db.dialect, metric=metric, dimensions=dimensions)),
            MAINTENANCE,
        )
    expire_indexes(db)


async def _report_progress(
    db: Database,
    building: asyncio.Future[Any],
    progress: Callable[[Progress], object] | None,
) -> None:
    """Report the progress of *building* until it is done."""
    look = vector_index_progress(db.dialect)
    while not building.done():
        if progress is not None:
            rows = await db.run(lambda: _run_one(look, {"p_schema": db.schema}), READ)
            if rows and rows[0].total:
                progress(Progress(int(rows[0].done), int(rows[0].total)))
        await asyncio.wait([building], timeout=PROGRESS_SECONDS)


async def _check_capability(db: Database, metric: str = "cosine", dimensions: int = 384) -> None:
    """Raise `CapabilityMissing` unless vector indexes can be built here."""
    d = db.dialect
    if not d.vectors.computes_distances:
        raise CapabilityMissing(
            f"vectors are compared exactly on {d}, by this process: that needs no index"
        )
    if d.vectors.list_indexes() is None:
        commands = d.vectors.index_commands(metric, dimensions, db.schema)
        if not commands:
            raise CapabilityMissing(
                f"there is no vector index on {d}; a search compares all vectors of its namespace"
            )
        raise CapabilityMissing(
            f"on {d} a vector index is the administrator's to build; as the owner of the tables "
            f"run: {' '.join(commands)}"
        )
    if not await db.run(lambda: has_native_vectors(db), READ):
        raise CapabilityMissing(
            "this database has no type for vectors, so they are stored as bytes and compared "
            f"exactly. Run, as a superuser: {'; '.join(d.vectors.install_commands)}; then: "
            "memalchemy --db URL upgrade"
        )


async def _find_index(db: Database, name: str) -> VectorIndex | None:
    return next((one for one in await list_indexes(db) if one.name == name), None)


@contextlib.contextmanager
def _explain_denied_permission(db: Database, metric: str, dimensions: int, *, drop: bool) -> Any:
    try:
        yield
    except AuthenticationFailed as error:
        commands = db.dialect.vectors.index_commands(metric, dimensions, db.schema, drop=drop)
        raise AuthenticationFailed(
            f"only the owner of the tables can do this; as that role run: {' '.join(commands)}"
        ) from error


def _run_one(statement: Executable, binds: Parameters = None) -> Program[Any]:
    return (yield statement, binds)
