"""The command distribute, which prints statements and never connects."""

from __future__ import annotations

import pytest
from commandline import Call

from memalchemy.dialects import DIALECTS

citus = DIALECTS["postgresql"].maintenance.distribution_commands
oracle_partitions = DIALECTS["oracle"].maintenance.distribution_commands


def test_it_prints_one_statement_a_line(call: Call) -> None:
    assert call("distribute", "--citus", "--sql").out.splitlines() == citus(None, None)
    answer = call("distribute", "--oracle-partitions", "--sql", "--parts", "32", "--schema", "ai")

    assert answer.out.splitlines() == oracle_partitions("ai", 32)


def test_json_has_the_statements_as_a_list(call: Call) -> None:
    answer = call("distribute", "--citus", "--sql", "--parts", "8", "--json")

    assert answer.json == {"statements": citus(None, 8)}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--citus",), "only prints"),
        (("--sql",), "one of --citus and --oracle-partitions"),
        (("--citus", "--oracle-partitions", "--sql"), "one of"),
        (("--oracle-partitions", "--sql", "--parts", "7"), "power of two"),
    ],
)
def test_contradicting_options_are_refused(
    call: Call, arguments: tuple[str, ...], said: str
) -> None:
    answer = call("distribute", *arguments)

    assert answer.code == 2
    assert answer.out == ""
    assert said in answer.err


def test_it_connects_to_nothing(call: Call) -> None:
    answer = call("--db", "postgresql://nobody@127.0.0.1:1/none", "distribute", "--citus", "--sql")

    assert answer.code == 0
