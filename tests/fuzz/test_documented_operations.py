"""Random requests to every operation: each answer is one that the OpenAPI document has.

`MEMALCHEMY_EXAMPLES` multiplies the number of requests; ``nox -s fuzz`` makes some 5,000.
"""

from __future__ import annotations

from pathlib import Path

from documented_operations import check_operations
from drawn_examples import examples
from httpserver import TOKEN, running
from memalchemy import Database
from memalchemy.http import Limits

EXAMPLES = examples(1)


def test_every_operation_answers_random_requests_as_documented(tmp_path: Path) -> None:
    db = Database(f"sqlite:///{tmp_path}/agent.db")
    limits = Limits(unknown_tokens=100_000)  # schemathesis tries some
    with running(db, tokens={TOKEN: "acme"}, limits=limits) as url:
        check_operations(url, tmp_path, phase="fuzzing", examples=EXAMPLES)
