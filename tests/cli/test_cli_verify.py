"""The command verify."""

from __future__ import annotations

import asyncio
import shlex
import sqlite3
from dataclasses import fields
from pathlib import Path

import pytest
from commandline import Answer, Call, lines, thread

from memalchemy import Checkpointer, Database
from memalchemy.verify import Finding, Report
from rows import of_thread


def change(url: str, sql: str) -> None:
    with sqlite3.connect(url.removeprefix("sqlite:///")) as connection:
        assert connection.execute(sql).rowcount != 0
    connection.close()


def test_an_undamaged_database_ends_with_exit_code_zero(url: str, call: Call) -> None:
    assert call("--db", url, "upgrade").code == 0
    given = lines(thread("a", 8), thread("b", 4, customer=1))
    assert call("--db", url, "import", "-", stdin=given).code == 0

    answer = call("--db", url, "verify")
    document = call("--db", url, "verify", "--json").json

    assert answer.code == 0
    assert "12 states of 2 logs rebuilt" in answer.out
    assert "ok: nothing is wrong" in answer.out
    assert answer.err == ""
    assert document["ok"] is True
    assert (document["states"], document["findings"], document["repaired"]) == (12, [], [])


def test_damage_is_reported_with_a_remedy_and_exit_code_5(filled: str, call: Call) -> None:
    where = of_thread("airline-1")
    change(filled, f"UPDATE deltas SET payload = x'00' WHERE {where} AND seq = 8")

    answer = call("--db", filled, "verify")
    as_json = call("--db", filled, "verify", "--json")

    assert answer.code == as_json.code == 5
    assert "error [payload] thread 'airline-1' checkpoint '000008'" in answer.out
    assert "newest whole checkpoint: 000007" in answer.out
    (finding,) = as_json.json["findings"]
    assert finding["affected"] == ["000008"]
    assert f"what can be done: {finding['remedy']}" in answer.out
    assert _run(call, filled, finding["remedy"]).code == 0
    assert call("--db", filled, "show", "airline-1-restored").code == 0
    assert call("--db", filled, "verify", "--thread", "airline-1-restored").code == 0


def test_the_remedy_of_an_old_damaged_checkpoint_leaves_nothing_to_find(
    filled: str, call: Call
) -> None:
    where = of_thread("airline-1")
    change(filled, f"UPDATE deltas SET payload = x'00' WHERE {where} AND seq = 4")
    (finding,) = call("--db", filled, "verify", "--json").json["findings"]

    for command in finding["remedy"].split("; "):
        assert _run(call, filled, command).code == 0

    assert call("--db", filled, "verify").code == 0


def test_the_remedies_of_an_item_and_of_a_namespace_s_thread_are_commands(
    filled: str, call: Call
) -> None:
    db = ("--db", filled)
    assert call("store", "put", *db, "facts/ada", "--", "-k", '"v"').code == 0

    async def save() -> None:
        async with Database(filled) as database:
            checkpointer = Checkpointer(database, namespace=("graph",))
            for number in range(9):
                await checkpointer.save({"n": number, "text": str(number) * 50}, "t", f"c{number}")

    asyncio.run(save())
    change(filled, "UPDATE store_items SET checksum = 1 WHERE key = '-k'")
    change(filled, f"UPDATE deltas SET payload = x'00' WHERE {of_thread('t')} AND seq = 8")
    findings = call(*db, "verify", "--json").json["findings"]
    remedies = {f["namespace"]: f["remedy"].rpartition("remove it: ")[2] for f in findings}

    assert remedies["/facts/ada/"] == "memalchemy store rm -- /facts/ada/ -k"
    assert remedies["/graph/"] == "memalchemy fork --namespace /graph/ t c6 --to t-restored"
    for command in remedies.values():
        assert _run(call, filled, command).code == 0
    assert call(*db, "delete", "t").code == 0
    assert call(*db, "verify").code == 0


def test_repair_rebuilds_a_text_index(filled: str, call: Call) -> None:
    change(filled, "INSERT INTO deltas_search(deltas_search) VALUES ('delete-all')")
    assert call("--db", filled, "search", "flights", "--json").json == []
    looked = call("--db", filled, "verify")
    assert looked.code == 5
    assert "verify --repair" in looked.out

    answer = call("--db", filled, "verify", "--repair")

    assert answer.code == 0
    assert "repaired: the text index deltas_search was rebuilt" in answer.out
    assert len(call("--db", filled, "search", "flights", "--json").json) == 2


def test_a_sample_and_one_thread_read_less(filled: str, call: Call) -> None:
    def states(*options: str) -> int:
        answer = call("--db", filled, "verify", "--json", *options)
        assert answer.code == 0
        found = answer.json
        assert found["sampled"] is ("--sample" in options)
        return int(found["states"])

    assert states("--sample", "3") == 3
    assert states("--sample", "50%") == 6
    assert call("--db", filled, "verify", "--json", "--sample", "100%").json["sampled"] is False
    assert states("--thread", "retail-1") == 4
    assert states("--all-tenants") == 12
    assert states("--tenant", "nobody") == 0
    assert states("--tenant", "nobody", "--all-tenants") == 12


@pytest.mark.parametrize("sample", ["0", "-1", "0%", "100.1%", "5 %", "half", "1.5"])
def test_an_invalid_sample_is_a_usage_error(sample: str, filled: str, call: Call) -> None:
    answer = call("--db", filled, "verify", f"--sample={sample}")

    assert answer.code == 2
    assert answer.err.startswith("error [MA-USAGE]: ")


def test_a_thread_that_is_not_there_is_not_found(filled: str, call: Call) -> None:
    assert call("--db", filled, "verify", "--thread", "nobody").code == 1
    assert call("--db", filled, "verify", "--thread", "b", "--all-tenants").code == 2


def test_ids_cannot_control_the_terminal_or_the_shell(file_url: str, call: Call) -> None:
    name = "x'; rm -rf \x1b[31m $HOME"
    assert call("--db", file_url, "import", "-", stdin=lines(thread(name, 4))).code == 0
    change(file_url, "UPDATE deltas SET payload = x'00' WHERE seq = 4")

    answer = call("--db", file_url, "verify", "--no-color")
    (finding,) = call("--db", file_url, "verify", "--json").json["findings"]

    assert "\x1b" not in answer.out
    assert shlex.split(finding["remedy"])[2:] == [name, "000003", "--to", f"{name}-restored"]


def _run(call: Call, url: str, remedy: str) -> Answer:
    program, *arguments = shlex.split(remedy)
    assert program == "memalchemy"
    return call("--db", url, *arguments)


def test_the_page_names_every_field_of_the_json_and_of_a_finding() -> None:
    page = Path(__file__).parents[2].joinpath("docs", "reference", "cli.md").read_text("utf-8")
    said = page.partition("### `verify`")[2].partition("\n## ")[0].partition("JSON:")[2]

    for record in (Report, Finding):
        for field in fields(record):
            assert f'"{field.name}"' in said, field.name
