"""Vectors that this process has read, kept as matrices: the least recently used go first.

A matrix is of one scope, model and size, and never trusted: each search compares its counters with
the database's (see `search.counting`), and reads what has changed. It is never filled from a
transaction that may still roll back.

Rows of a matrix are only ever added. What is replaced or removed is listed as gone, so that whoever
computes on a `View` may go on while another thread brings the matrix up to date.
"""

from __future__ import annotations

import itertools
import os
import sys
import threading
import weakref
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from memalchemy.database import Database
from memalchemy.dialects import Dialect
from memalchemy.errors import Corrupt
from memalchemy.search.counting import Count, counts
from memalchemy.search.embeddings import (
    count_vectors,
    page_after,
    read_changes,
    read_positions,
    read_vectors,
)
from memalchemy.search.nearness import Floats, Item
from memalchemy.search.scope import scope_binds
from memalchemy.statements import Program

MAX_BYTES = 256 * 1024 * 1024
BYTES_PER_NAME = 200
PAGE = 500
"""Rows that are read at once: of most models what stays in a processor's cache."""
ROUNDS = 4
"""How often to look again for what was written while it was read."""
FEW = 64
"""Removed rows that are looked for one by one, by halving; more are compared as a whole."""

Part = tuple[str, str, str, int]
"""Namespace, key and field as they are stored, and the number of the part."""
Positions = npt.NDArray[np.int64]


class Scope(NamedTuple):
    """What a matrix is of; *unit* says that its rows have been made to have the length 1."""

    tenant: str
    path: str
    below: bool
    model: str
    dimensions: int
    unit: bool

    def binds(self, path: str | None = None) -> dict[str, Any]:
        """Of the scope, or of one namespace in it."""
        where = scope_binds(self.tenant, path or self.path, self.below and path is None)
        return where | {"p_model": self.model, "p_dimensions": self.dimensions}


@dataclass(frozen=True, slots=True)
class View:
    """A matrix as it was at one moment: the first *rows* rows of it but those that are gone."""

    matrix: Floats
    rows: int
    gone: Positions
    keys: Sequence[str]
    fields: Sequence[str]
    parts: Sequence[int]
    spaces: npt.NDArray[np.int32]
    paths: Sequence[str]

    @property
    def vectors(self) -> Floats:
        return self.matrix[: self.rows]

    def part(self, row: int) -> Part:
        return self.paths[self.spaces[row]], self.keys[row], self.fields[row], self.parts[row]

    @property
    def living(self) -> int:
        return self.rows - len(self.gone)


def vectors_of(
    stored: Sequence[bytes], dimensions: int, *, unit: bool, out: Floats | None = None
) -> Floats:
    """The vectors of a page as a matrix: *out*, if it is given."""
    try:
        raw = b"".join(stored)
    except TypeError:
        raise Corrupt("a stored vector is not bytes; `memalchemy verify` says whose") from None
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
    """The vectors of one scope; its program runs in one thread at a time, which holds ``lock``."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope
        self.lock = threading.Lock()
        self.read = 0
        """Vectors that were read at the last look."""
        self._counts: dict[str, Count] | None = None
        self._matrix: Floats
        self._positions: Positions
        self._hashes: Positions
        """Of the keys: to find the rows of an item without a dict of a hundred thousand."""
        self._spaces: npt.NDArray[np.int32]
        self._gone: Positions
        self._rows = 0
        # A list of each, not of tuples: those the garbage collector would look at again and again.
        self._keys: list[str]
        self._fields: list[str]
        self._parts: list[int]
        self._paths: list[str]
        self._space_of: dict[str, int]
        self._clear(0)

    @property
    def bytes(self) -> int:
        """What it takes, about."""
        return int(self._matrix.nbytes) + len(self._keys) * BYTES_PER_NAME

    def view(self) -> View:
        return View(
            self._matrix,
            self._rows,
            self._gone,
            self._keys,
            self._fields,
            self._parts,
            self._spaces,
            self._paths,
        )

    def up_to_date(self, d: Dialect, most: int) -> Program[View | None]:
        """The vectors as they are; ``None`` if nobody counts their changes, or if they take more
        than *most* bytes.
        """
        self.read = 0
        for _ in range(ROUNDS):
            now = yield from counts(d, self.scope.tenant, self.scope.path, self.scope.below)
            if not now:
                return None
            if now == self._counts:
                break
            if self._counts is None or not self._follows(now):
                self._counts = None
                if not (yield from self._load(d, most)):
                    return None
            else:
                yield from self._catch_up(d, self._counts, now)
            # What was read may be newer than the counters, never older.
            self._counts = now
        return self.view() if self.bytes <= most else None

    def _follows(self, now: dict[str, Count]) -> bool:
        """Whether *now* may be a later state of what was read, and not of another history."""
        assert self._counts is not None
        if len(self._gone) > max(1000, self._rows // 4):
            return False
        for path, old in self._counts.items():
            new = now.get(path)
            if new is None or new.born != old.born or new.version < old.version:
                return False
            if new.version == old.version and new != old:
                return False
        return True

    def _load(self, d: Dialect, most: int) -> Program[bool]:
        binds = self.scope.binds()
        limit = most // (self.scope.dimensions * 4 + BYTES_PER_NAME) + 1
        ((number,),) = yield count_vectors(d, below=self.scope.below), binds | {"p_limit": limit}
        if number >= limit:
            return False
        self._clear(number + number // 16 + 64)
        statement = read_vectors(d, below=self.scope.below)
        last: Any = None
        while True:
            after = page_after(d, last, self.scope.path)
            rows = yield statement, binds | after | {"p_limit": PAGE}
            self._add(rows)
            if len(rows) < PAGE:
                return True
            last = rows[-1]

    def _catch_up(self, d: Dialect, old: dict[str, Count], now: dict[str, Count]) -> Program[None]:
        for path, count in now.items():
            seen = old[path].version if path in old else 0
            if count.version == seen:
                continue
            binds = self.scope.binds(path) | {"p_limit": PAGE, "p_change": seen + 1, "p_row_at": -1}
            before = self._rows
            while rows := (yield read_changes(d), binds):
                # Of an item that was written all rows were, so that those known before are gone. A
                # position may have been another item's.
                known = self._rows_of({(row.namespace, row.key) for row in rows}, before)
                self._lose(np.union1d(known, self._rows_at([row.row_at for row in rows])))
                self._add(rows)
                if len(rows) < PAGE:
                    break
                binds |= {"p_change": rows[-1].change, "p_row_at": rows[-1].row_at}
            if count.removed > seen and path in old:
                yield from self._forget_removed(d, path)

    def _forget_removed(self, d: Dialect, path: str) -> Program[None]:
        """Find which rows of a namespace are not there any more: by their number in ever smaller
        ranges of positions, which an index has, or by all positions if they are many.
        """
        if path not in self._paths:
            return
        here = self._spaces[: self._rows] == self._paths.index(path)
        here[self._gone] = False
        known = np.sort(self._positions[: self._rows][here])
        number, all_of = read_positions(d, which="number"), read_positions(d, which="positions")
        # Each range with how many of its rows are missing, if that follows from what was counted.
        ranges: list[tuple[Positions, int | None]] = [(known, None)] if len(known) else []
        removed: list[Positions] = []
        looked = 0
        while ranges:
            part, missing = ranges.pop()
            if missing == 0:
                continue
            binds = self.scope.binds(path) | {"p_low": int(part[0]), "p_high": int(part[-1])}
            if len(part) <= PAGE or looked >= FEW:
                rows = yield all_of, binds
                found = np.fromiter((row[0] for row in rows), dtype=np.int64, count=len(rows))
                removed.append(np.setdiff1d(part, found, assume_unique=True))
                continue
            if missing is None:
                ((there,),) = yield number, binds
                missing = len(part) - int(there)
            left, right = part[: len(part) // 2], part[len(part) // 2 :]
            if missing:
                looked += 1
                ((there,),) = yield number, binds | {"p_high": int(left[-1])}
                here_missing = len(left) - int(there)
                ranges += [(left, here_missing), (right, missing - here_missing)]
        if removed:
            self._lose(self._rows_at(np.concatenate(removed)))

    def _rows_at(self, positions: Any) -> Positions:
        return np.flatnonzero(np.isin(self._positions[: self._rows], positions))

    def _rows_of(self, items: set[Item], end: int) -> Positions:
        perhaps = np.isin(self._hashes[:end], [hash(key) for _, key in items])
        return np.array(
            [
                row
                for row in np.flatnonzero(perhaps).tolist()
                if (self._paths[self._spaces[row]], self._keys[row]) in items
            ],
            dtype=np.int64,
        )

    def _lose(self, rows: Positions) -> None:
        if len(rows):
            self._gone = np.union1d(self._gone, rows)

    def _add(self, rows: Sequence[Any]) -> None:
        if not rows:
            return
        end = self._rows + len(rows)
        if end > len(self._matrix):
            self._grow(end + end // 8)
        columns = zip(*rows, strict=True)
        paths, keys, fields, parts, stored, positions = itertools.islice(columns, 6)
        texts = {*map(type, paths), *map(type, keys), *map(type, fields)}
        if texts != {str} or set(map(type, parts)) != {int}:
            raise Corrupt("the key of a stored vector is none; `memalchemy verify` says whose")
        here = slice(self._rows, end)
        scope = self.scope
        vectors_of(stored, scope.dimensions, unit=scope.unit, out=self._matrix[here])
        self._positions[here] = positions
        self._hashes[here] = list(map(hash, keys))
        spaces = {path: self._space(path) for path in set(paths)}
        several = len(spaces) > 1
        self._spaces[here] = list(map(spaces.__getitem__, paths)) if several else spaces[paths[0]]
        self._keys += keys
        self._fields += map(sys.intern, fields)
        self._parts += parts
        self._rows = end
        self.read += len(rows)

    def _space(self, path: str) -> int:
        if path not in self._space_of:
            self._space_of[path] = len(self._paths)
            self._paths.append(path)
        return self._space_of[path]

    def _grow(self, capacity: int) -> None:
        # Never in place: others compute on what was there.
        for name in ("_matrix", "_positions", "_hashes", "_spaces"):
            old = getattr(self, name)
            new = np.empty((capacity, *old.shape[1:]), dtype=old.dtype)
            new[: self._rows] = old[: self._rows]
            setattr(self, name, new)

    def _clear(self, capacity: int) -> None:
        self._rows = 0
        self._matrix = np.empty((capacity, self.scope.dimensions), dtype=np.float32)
        self._positions = np.empty(capacity, dtype=np.int64)
        self._hashes = np.empty(capacity, dtype=np.int64)
        self._spaces = np.empty(capacity, dtype=np.int32)
        self._gone = np.empty(0, dtype=np.int64)
        self._keys, self._fields, self._parts = [], [], []
        self._paths = []
        self._space_of = {}


class Matrices:
    """The matrices of all databases of this process; safe from several threads."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self.max_bytes = max_bytes
        self._lock = threading.Lock()
        self._matrices: OrderedDict[tuple[int, Scope], Matrix] = OrderedDict()
        self._sizes: dict[tuple[int, Scope], int] = {}
        self._numbers: weakref.WeakKeyDictionary[object, int] = weakref.WeakKeyDictionary()
        self._next = itertools.count()

    @property
    def bytes(self) -> int:
        return sum(self._sizes.values())

    def of(self, db: Database, scope: Scope) -> Matrix:
        """The matrix of a scope; empty, if it is new."""
        with self._lock:
            identity = db.identity
            if identity not in self._numbers:
                number = self._numbers[identity] = next(self._next)
                weakref.finalize(identity, self._drop_all, number).atexit = False
            key = (self._numbers[identity], scope)
            found = self._matrices.get(key)
            if found is None:
                found = self._matrices[key] = Matrix(scope)
                self._sizes[key] = 0
            self._matrices.move_to_end(key)
            return found

    def weigh(self, db: Database, matrix: Matrix, *, keep: bool) -> None:
        """Count what *matrix* takes now, and let others go for it; or it, if not *keep*."""
        with self._lock:
            key = (self._numbers[db.identity], matrix.scope)
            if self._matrices.get(key) is not matrix:
                return
            self._sizes[key] = matrix.bytes
            if not keep:
                self._drop(key)
            while self.bytes > self.max_bytes and len(self._matrices) > 1:
                self._drop(next(iter(self._matrices)))

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._matrices.clear()
            self._sizes.clear()

    def _drop(self, key: tuple[int, Scope]) -> None:
        del self._matrices[key], self._sizes[key]

    def _drop_all(self, number: int) -> None:
        # Called when a database is collected, which may be while this thread holds the lock.
        for key in [key for key in list(self._matrices) if key[0] == number]:
            self._matrices.pop(key, None)
            self._sizes.pop(key, None)


MATRICES = Matrices()


def _after_fork() -> None:
    # Locks may be held by threads that the child does not have.
    MATRICES._lock = threading.Lock()
    MATRICES._matrices, MATRICES._sizes = OrderedDict(), {}


os.register_at_fork(after_in_child=_after_fork)
