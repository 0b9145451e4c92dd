"""The command distribute, without a cluster: tests/citus has the tests with one."""

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
        (("--oracle-partitions",), "only prints"),
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


def test_a_script_connects_to_nothing(call: Call) -> None:
    answer = call("--db", "postgresql://nobody@127.0.0.1:1/none", "distribute", "--citus", "--sql")

    assert answer.code == 0


def test_a_database_without_citus_is_refused(call: Call, url: str) -> None:
    assert call("--db", url, "upgrade").code == 0
    before = call("--db", url, "check").out

    answer = call("--db", url, "distribute", "--citus")

    assert answer.code == 4
    assert "MA-CAPABILITY-MISSING" in answer.err
    assert "extension" in answer.err
    assert answer.out == ""
    assert call("--db", url, "check").out == before


def test_check_says_nothing_of_a_cluster_where_there_is_none(call: Call, url: str) -> None:
    assert call("--db", url, "upgrade").code == 0

    assert "distribution" not in call("--db", url, "check", "--json").json
    assert "itus" not in call("--db", url, "check").out
