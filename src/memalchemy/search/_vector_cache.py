"""Cache of vectors as matrices, for searches that compare all vectors in Python.

A matrix holds the vectors of one namespace (or of it and all below it), model and size. It is never
trusted: each search compares its versions with the database's (see `search.cache_versions`) and
reads what has changed. It is never filled from a transaction that may still roll back.

Rows are only ever added to a matrix. Rows that were replaced or removed are listed, so that a
search can compute on a `MatrixView` while another thread brings the matrix up to date.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import sys
import threading
import weakref
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from memalchemy import _fork_safe_locks
from memalchemy._cache import BoundedCache
from memalchemy.database import Database
from memalchemy.dialects import Dialect
from memalchemy.errors import Corrupt
from memalchemy.search._vector_statements import (
    count_vectors,
    page_after,
    read_changed_vectors,
    read_positions,
    read_vectors,
)
from memalchemy.search.cache_versions import VectorsVersion, read_versions
from memalchemy.search.scope import scope_binds
from memalchemy.statements import Program

MAX_BYTES = 256 * 1024 * 1024
"""Size of all matrices of a process."""
BYTES_PER_NAME = 200
"""Size of a row's namespace, key and field in memory, about."""
PAGE = 500
"""Rows that are read at once: of most models as many as fit into a processor's cache."""
MAX_ROUNDS = 4
"""The most times that changes are read which were written while earlier ones were read."""
MAX_BISECTIONS = 64
"""Bisections to find removed rows; after that all positions are read and compared."""

Floats = npt.NDArray[np.float32]
Positions = npt.NDArray[np.int64]

Item = tuple[str, str]
"""An item's encoded namespace and its key."""
Part = tuple[str, str, str, int]
"""Namespace, key and field as they are stored, and the number of the part."""


class MatrixScope(NamedTuple):
    """The vectors that a matrix holds. With *unit* its rows are normalised to the length 1."""

    tenant: str
    path: str
    below: bool
    model: str
    dimensions: int
    unit: bool

    def binds(self, path: str | None = None) -> dict[str, Any]:
        """Return the binds of statements about the scope, or about one namespace in it."""
        where = scope_binds(self.tenant, path or self.path, self.below and path is None)
        return where | {"p_model": self.model, "p_dimensions": self.dimensions}


@dataclass(frozen=True, slots=True)
class MatrixView:
    """A matrix as it was at one moment: its first *rows* rows, without those in *removed*.

    The namespace of a row is ``paths[path_numbers[row]]``.
    """

    matrix: Floats
    rows: int
    removed: Positions
    keys: Sequence[str]
    fields: Sequence[str]
    parts: Sequence[int]
    path_numbers: npt.NDArray[np.int32]
    paths: Sequence[str]

    @property
    def vectors(self) -> Floats:
        """The rows, removed ones included."""
        return self.matrix[: self.rows]

    @property
    def number(self) -> int:
        """Number of rows that are not removed."""
        return self.rows - len(self.removed)

    def part(self, row: int) -> Part:
        """Return the part of an item whose vector is in a row."""
        path = self.paths[self.path_numbers[row]]
        return path, self.keys[row], self.fields[row], self.parts[row]


def to_matrix(
    stored: Sequence[bytes], dimensions: int, *, unit: bool, out: Floats | None = None
) -> Floats:
    """Return the vectors of a page as a matrix: *out*, if it is given."""
    try:
        raw = b"".join(stored)
    except TypeError:
        raise Corrupt("a stored vector is not bytes; `memalchemy verify` says which") from None
    if len(raw) != len(stored) * dimensions * 4:
        raise Corrupt(f"a stored vector does not have the {dimensions} dimensions its row says")
    found = np.frombuffer(raw, dtype="<f4").reshape(len(stored), dimensions)
    norms = np.ones(len(stored), dtype=np.float32)
    if unit:
        norms = np.sqrt(np.vecdot(found, found))
        norms[norms == 0] = 1
    made: Floats = np.divide(found, norms[:, None], out=out, dtype=np.float32)
    return made


class Matrix:
    """The vectors of one scope. A thread holds ``lock`` while it runs `up_to_date`."""

    def __init__(self, scope: MatrixScope) -> None:
        self.scope = scope
        self.lock = threading.Lock()
        self.read = 0
        """Vectors that the last `up_to_date` has read."""
        self._versions: dict[str, VectorsVersion] | None = None
        self._matrix: Floats
        self._positions: Positions
        self._hashes: Positions
        """Hashes of the keys: by them the rows of an item are found without a dict."""
        self._path_numbers: npt.NDArray[np.int32]
        self._removed: Positions
        self._rows = 0
        # Three lists and not one of tuples, which the garbage collector would visit at each pass.
        self._keys: list[str]
        self._fields: list[str]
        self._parts: list[int]
        self._paths: list[str]
        self._number_of: dict[str, int]
        self._clear_arrays(0)

    @property
    def bytes(self) -> int:
        """Size in memory, about."""
        return int(self._matrix.nbytes) + len(self._keys) * BYTES_PER_NAME

    def view(self) -> MatrixView:
        """Return the matrix as it is now."""
        return MatrixView(
            self._matrix,
            self._rows,
            self._removed,
            self._keys,
            self._fields,
            self._parts,
            self._path_numbers,
            self._paths,
        )

    def up_to_date(self, dialect: Dialect, max_bytes: int) -> Program[MatrixView | None]:
        """Read what has changed, and return the matrix.

        ``None`` if changes are not counted here, or if it would take more than *max_bytes*.
        """
        self.read = 0
        scope = self.scope
        for _ in range(MAX_ROUNDS):
            now = yield from read_versions(dialect, scope.tenant, scope.path, scope.below)
            if not now:
                return None
            if now == self._versions:
                break
            if self._versions is None or not self._can_follow(now):
                self._versions = None
                if not (yield from self._load_vectors(dialect, max_bytes)):
                    return None
            else:
                yield from self._read_changes(dialect, self._versions, now)
            # Rows may be newer than the versions, which were read before them, and never older.
            self._versions = now
        return self.view() if self.bytes <= max_bytes else None

    def _can_follow(self, now: dict[str, VectorsVersion]) -> bool:
        """Return whether the changes since the last reading can be read, and are worth it."""
        assert self._versions is not None
        if len(self._removed) > max(1000, self._rows // 4):
            return False
        for path, old in self._versions.items():
            new = now.get(path)
            # A restored file, or a counter that was removed and begun anew, has another history.
            if new is None or new.born != old.born or new.version < old.version:
                return False
            if new.version == old.version and new != old:
                return False
        return True

    def _load_vectors(self, dialect: Dialect, max_bytes: int) -> Program[bool]:
        """Read all vectors; return false if they would take more than *max_bytes*."""
        binds = self.scope.binds()
        limit = max_bytes // (self.scope.dimensions * 4 + BYTES_PER_NAME) + 1
        ((number,),) = yield (
            count_vectors(dialect, below=self.scope.below),
            binds | {"p_limit": limit},
        )
        if number >= limit:
            return False
        self._clear_arrays(number + number // 16 + 64)
        statement = read_vectors(dialect, below=self.scope.below)
        last: Any = None
        while True:
            after = page_after(dialect, last, self.scope.path)
            rows = yield statement, binds | after | {"p_limit": PAGE}
            self._add_rows(rows)
            if len(rows) < PAGE:
                return True
            last = rows[-1]

    def _read_changes(
        self, dialect: Dialect, old: dict[str, VectorsVersion], now: dict[str, VectorsVersion]
    ) -> Program[None]:
        """Read the vectors that were written after the versions *old*."""
        for path, new in now.items():
            seen = old[path].version if path in old else 0
            if new.version == seen:
                continue
            binds = self.scope.binds(path) | {"p_limit": PAGE, "p_change": seen + 1, "p_row_at": -1}
            before = self._rows
            while rows := (yield read_changed_vectors(dialect), binds):
                # All rows of an item are written together, which replaces those read before. A row
                # may be at a position that was another item's.
                known = self._rows_of({(row.namespace, row.key) for row in rows}, before)
                self._drop_rows(np.union1d(known, self._rows_at([row.row_at for row in rows])))
                self._add_rows(rows)
                if len(rows) < PAGE:
                    break
                binds |= {"p_change": rows[-1].change, "p_row_at": rows[-1].row_at}
            if new.removed > seen and path in old:
                yield from self._find_removed(dialect, path)

    def _find_removed(self, dialect: Dialect, path: str) -> Program[None]:
        """Find which rows of a namespace the database does not have any more.

        Ranges of positions are bisected by the number of rows in them, which an index knows; after
        `MAX_BISECTIONS` all positions of a range are read.
        """
        if path not in self._number_of:
            return
        here = self._path_numbers[: self._rows] == self._number_of[path]
        here[self._removed] = False
        known = np.sort(self._positions[: self._rows][here])
        number, all_of = (
            read_positions(dialect, which="number"),
            read_positions(dialect, which="positions"),
        )
        # Each range with the number of its rows that are missing, if that is known already.
        ranges: list[tuple[Positions, int | None]] = [(known, None)] if len(known) else []
        removed: list[Positions] = []
        bisections = 0
        while ranges:
            part, missing = ranges.pop()
            if missing == 0:
                continue
            binds = self.scope.binds(path) | {"p_low": int(part[0]), "p_high": int(part[-1])}
            if len(part) <= PAGE or bisections >= MAX_BISECTIONS:
                rows = yield all_of, binds
                found = np.fromiter((row[0] for row in rows), dtype=np.int64, count=len(rows))
                removed.append(np.setdiff1d(part, found, assume_unique=True))
                continue
            if missing is None:
                ((there,),) = yield number, binds
                missing = len(part) - int(there)
            left, right = part[: len(part) // 2], part[len(part) // 2 :]
            if missing:
                bisections += 1
                ((there,),) = yield number, binds | {"p_high": int(left[-1])}
                here_missing = len(left) - int(there)
                ranges += [(left, here_missing), (right, missing - here_missing)]
        if removed:
            self._drop_rows(self._rows_at(np.concatenate(removed)))

    def _rows_at(self, positions: Any) -> Positions:
        return np.flatnonzero(np.isin(self._positions[: self._rows], positions))

    def _rows_of(self, items: set[Item], end: int) -> Positions:
        candidates = np.isin(self._hashes[:end], [hash(key) for _, key in items])
        return np.array(
            [
                row
                for row in np.flatnonzero(candidates).tolist()
                if (self._paths[self._path_numbers[row]], self._keys[row]) in items
            ],
            dtype=np.int64,
        )

    def _drop_rows(self, rows: Positions) -> None:
        if len(rows):
            self._removed = np.union1d(self._removed, rows)

    def _add_rows(self, rows: Sequence[Any]) -> None:
        if not rows:
            return
        end = self._rows + len(rows)
        if end > len(self._matrix):
            self._grow_arrays(end + end // 8)
        columns = zip(*rows, strict=True)
        paths, keys, fields, parts, stored, positions = itertools.islice(columns, 6)
        texts = {*map(type, paths), *map(type, keys), *map(type, fields)}
        if texts != {str} or set(map(type, parts)) != {int}:
            raise Corrupt("a stored vector has an invalid key; `memalchemy verify` says which")
        here = slice(self._rows, end)
        scope = self.scope
        to_matrix(stored, scope.dimensions, unit=scope.unit, out=self._matrix[here])
        self._positions[here] = positions
        self._hashes[here] = np.fromiter(map(hash, keys), dtype=np.int64, count=len(keys))
        numbers = {path: self._number_of_path(path) for path in set(paths)}
        several = len(numbers) > 1
        self._path_numbers[here] = (
            list(map(numbers.__getitem__, paths)) if several else numbers[paths[0]]
        )
        self._keys += keys
        self._fields += map(sys.intern, fields)
        self._parts += parts
        self._rows = end
        self.read += len(rows)

    def _number_of_path(self, path: str) -> int:
        if path not in self._number_of:
            self._number_of[path] = len(self._paths)
            self._paths.append(path)
        return self._number_of[path]

    def _grow_arrays(self, capacity: int) -> None:
        # Not in place: other threads compute on views of the old arrays.
        for name in ("_matrix", "_positions", "_hashes", "_path_numbers"):
            old = getattr(self, name)
            new = np.empty((capacity, *old.shape[1:]), dtype=old.dtype)
            new[: self._rows] = old[: self._rows]
            setattr(self, name, new)

    def _clear_arrays(self, capacity: int) -> None:
        self._rows = 0
        self._matrix = np.empty((capacity, self.scope.dimensions), dtype=np.float32)
        self._positions = np.empty(capacity, dtype=np.int64)
        self._hashes = np.empty(capacity, dtype=np.int64)
        self._path_numbers = np.empty(capacity, dtype=np.int32)
        self._removed = np.empty(0, dtype=np.int64)
        self._keys, self._fields, self._parts = [], [], []
        self._paths = []
        self._number_of = {}


class MatrixCache:
    """Least-recently-used cache of the matrices of all databases, bounded in bytes."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self._matrices: BoundedCache[tuple[int, MatrixScope], Matrix] = BoundedCache(
            max_bytes, lambda matrix: matrix.bytes
        )
        self._lock = _fork_safe_locks.create_lock()
        self._numbers: weakref.WeakKeyDictionary[object, int] = weakref.WeakKeyDictionary()
        """Numbers of databases, which stand for them in keys."""
        self._next_number = itertools.count()
        self._collected: deque[int] = deque()
        """Numbers of databases that were garbage-collected, whose matrices are to be dropped."""

    @property
    def bytes(self) -> int:
        """Size of all matrices."""
        return self._matrices.size

    def matrix_of(self, db: Database, scope: MatrixScope) -> Matrix:
        """Return the matrix of a scope; an empty one if none is cached."""
        self._drop_collected()
        return self._matrices.get_or_put(self._key_of_matrix(db, scope), lambda: Matrix(scope))

    def update(self, db: Database, matrix: Matrix, *, keep: bool) -> None:
        """Take the size of a matrix that was read anew, or drop it unless *keep*."""
        key = self._key_of_matrix(db, matrix.scope)
        if keep:
            self._matrices.put(key, matrix)
        else:
            self._matrices.drop(key)

    def clear(self) -> None:
        """Drop all matrices."""
        self._matrices.clear()

    def _key_of_matrix(self, db: Database, scope: MatrixScope) -> tuple[int, MatrixScope]:
        with self._lock:
            number = self._numbers.get(db.identity)
            if number is None:
                number = self._numbers[db.identity] = next(self._next_number)
                weakref.finalize(db.identity, self._note_collected, number).atexit = False
        return number, scope

    def _note_collected(self, number: int) -> None:
        self._collected.append(number)
        self._drop_collected()

    def _drop_collected(self) -> None:
        # Without waiting for the lock of the cache: the garbage collector may run a finaliser in
        # the thread that holds it. The next search drops what was not dropped here.
        with contextlib.suppress(IndexError):
            while True:
                number = self._collected.popleft()
                if not self._drop_database(number):
                    self._collected.append(number)
                    return

    def _drop_database(self, number: int) -> bool:
        return self._matrices.drop_where(lambda key, _: key[0] == number, wait=False)


MATRICES = MatrixCache()

# A thread that the child does not have may hold the lock of a matrix.
os.register_at_fork(after_in_child=lambda: MATRICES.clear())
