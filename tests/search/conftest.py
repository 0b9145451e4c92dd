"""The tests of the read side also prove the registry: see `golden.watch`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from golden.watch import Watch
from memalchemy.search._vector_cache import MATRICES


@pytest.fixture(autouse=True)
def every_statement_is_registered() -> Iterator[None]:
    with Watch() as watch:
        yield
    assert not watch.complaints, "\n".join(watch.complaints)


@pytest.fixture(autouse=True)
def no_matrix_is_cached() -> Iterator[None]:
    MATRICES.clear()
    yield
    MATRICES.clear()
