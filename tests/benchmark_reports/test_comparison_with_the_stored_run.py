"""A run beside the stored one: what counts as a regression, and when nothing can be compared."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from benchmarks import __main__ as command
from benchmarks import compare_runs, report
from benchmarks.compare_runs import (
    CannotCompare,
    Comparison,
    check_addition,
    check_workload,
    compare,
    other_kind,
    stored_run,
)
from benchmarks.measure import CpuTime, Finding, at_least, at_most
from benchmarks.report import Results

SMALL = Path(__file__).parents[1] / "data" / "threads.jsonl"
MESSAGES = 36


def less_is_better(value: float, name: str = "a save", cpu: float | None = None) -> Finding:
    times = None if cpu is None else CpuTime(cpu, 1.0, cpu)
    return Finding("save", name, value, "x", at_most(1.0), "1 ms", "2 ms", "", times)


def more_is_better(value: float, name: str = "bytes") -> Finding:
    return Finding("size", name, value, "x", at_least(1.0), "1 MB", "2 MB")


def run(*findings: Finding, **about: Any) -> Results:
    found = report.circumstances(MESSAGES, 5, ("growth", "turns"), (0.5,), 1.0)
    return Results(found | about, findings)


def compared(before: Sequence[Finding], after: Sequence[Finding]) -> Comparison:
    return compare(run(*before), run(*after))


def test_a_ratio_that_got_worse_by_fifteen_percent_is_a_regression() -> None:
    for case, before, after, is_regression in [
        ("up by 15 %", less_is_better(1.0), less_is_better(1.15), True),
        ("up by less", less_is_better(1.0), less_is_better(1.149), False),
        ("down", less_is_better(1.0), less_is_better(0.5), False),
        ("fell by 15 %", more_is_better(20.0), more_is_better(17.0), True),
        ("fell by less", more_is_better(20.0), more_is_better(17.1), False),
        ("rose", more_is_better(20.0), more_is_better(40.0), False),
    ]:
        found = compared([before], [after])

        assert found.exit_code == int(is_regression), case
        assert bool(found.regressions) is is_regression, case


def test_a_ratio_without_a_target_counts_if_one_way_is_better() -> None:
    def free(value: float, **better: Any) -> Finding:
        return Finding("save", "free", value, "x", None, "", "", **better)

    assert compared([free(1.0, better="at most")], [free(2.0, better="at most")]).exit_code == 1
    assert compared([free(1.0, better="at least")], [free(2.0, better="at least")]).exit_code == 0
    assert compared([free(1.0)], [free(2.0)]).changes == ()


def test_absolute_times_are_not_compared() -> None:
    def limit(value: float) -> Finding:
        return Finding("limits", "list_threads", value, "ms", at_most(5), "", "")

    assert compared([limit(1.0)], [limit(4.0)]).changes == ()


def test_cpu_time_decides_where_both_runs_have_it() -> None:
    # A neighbour held up one side of the saves; the work is the same.
    disturbed = compared([less_is_better(1.0, cpu=1.0)], [less_is_better(3.0, cpu=1.01)])
    slower = compared([less_is_better(1.0, cpu=1.0)], [less_is_better(1.0, cpu=1.3)])
    only_now = compared([less_is_better(1.0)], [less_is_better(3.0, cpu=1.0)])

    assert disturbed.exit_code == 0
    assert [one.measure for one in slower.regressions] == ["CPU"]
    assert [one.measure for one in only_now.regressions] == ["value"]


NOW = (1.2, 2.0, 0.9, 0.4, 1.01)


def test_the_worst_and_the_best_come_first() -> None:
    before = [less_is_better(1.0, name) for name in "abcde"]
    after = [less_is_better(now, name) for name, now in zip("abcde", NOW, strict=True)]
    found = compared(before, after)

    assert [one.name for one in found.slower] == ["b", "a"]
    assert [one.name for one in found.faster] == ["d", "c"]
    text = str(found)
    assert text.index("slower") < text.index("  b") < text.index("  a") < text.index("faster")
    assert re.search(r"b +1\.000x +2\.000x +100\.0% +REGRESSION", text)
    assert "1 of 5 ratios changed by less than 5%" in text
    assert "2 got slower by 15% or more." in text


def test_the_json_says_the_same_as_the_table() -> None:
    before, after = [less_is_better(1.0), more_is_better(2.0)], [less_is_better(1.5)]
    found = json.loads(compared(before, [*after, more_is_better(3.0)]).as_json())

    assert found["is_compared"] is True
    assert [(one["name"], one["is_regression"]) for one in found["slower"]] == [("a save", True)]
    assert [(one["name"], one["worse_by"]) for one in found["faster"]] == [("bytes", -0.5)]
    assert found["steady"] == found["new"] == found["gone"] == []


def test_what_only_one_run_has_is_named_and_a_group_that_was_left_out_is_not() -> None:
    before = [less_is_better(1.0, "old"), more_is_better(2.0)]
    found = compared(before, [less_is_better(1.0, "new")])

    assert (found.new, found.gone) == (("new",), ("old",))
    assert found.exit_code == 0


def test_another_kind_of_machine_is_named_and_a_patch_release_of_python_is_none() -> None:
    about = run().about
    others: list[dict[str, Any]] = [
        {"system": "Darwin arm64"},
        {"cpus": 999},
        {"python": "3.99.1"},
    ]
    for other in others:
        (there,) = other.values()
        found = other_kind(about | other, about)

        assert found is not None
        assert str(there)[:4] in found
    assert other_kind(about | {"python": about["python"] + "1"}, about) is None


def test_other_messages_and_missing_groups_cannot_be_compared() -> None:
    about = run().about

    check_workload(about, MESSAGES, ["turns"])
    with pytest.raises(CannotCompare, match="36 messages, and this one of 40"):
        check_workload(about, 40, ["turns"])
    with pytest.raises(CannotCompare, match="has no group limits; it has growth, turns"):
        check_workload(about, MESSAGES, ["turns", "limits"])


def test_a_group_is_added_to_a_run_of_the_same_machine_that_lacks_it() -> None:
    about = run().about

    check_addition(about, about, MESSAGES, ["limits"])
    with pytest.raises(CannotCompare, match="has turns already"):
        check_addition(about, about, MESSAGES, ["limits", "turns"])
    with pytest.raises(CannotCompare, match="36 messages, and this one of 40"):
        check_addition(about, about, 40, ["limits"])
    with pytest.raises(CannotCompare, match="nothing can be added"):
        check_addition(about | {"cpus": 999}, about, MESSAGES, ["limits"])


def test_a_stored_run_that_is_missing_or_cannot_be_read_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    with pytest.raises(CannotCompare, match="there is no stored run"):
        stored_run(path)
    for content in (
        "",
        "[]",
        "{}",
        '{"about": {}, "findings": []}',
        '{"about": {}, "findings": [{}]}',
    ):
        path.write_text(content)

        with pytest.raises(CannotCompare, match="cannot be read as a stored run"):
            stored_run(path)


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    path = tmp_path / "results.json"
    path.write_text(run(less_is_better(1.0, cpu=1.0)).as_json())
    return path


def checked(
    monkeypatch: pytest.MonkeyPatch, stored: Path, now: Finding | None, *options: str
) -> int:
    """The exit code of a check in which *now* is measured; nothing may be, if it is ``None``."""

    async def measured(*_: Any) -> Results:
        assert now is not None, "it was measured in vain"
        return run(now)

    monkeypatch.setattr(command, "_run", measured)
    arguments = ["--check", "--threads", str(SMALL), "--stored", str(stored), *options]
    return command.main([*arguments, "--only", "growth"])


def test_a_regression_is_exit_code_one(monkeypatch: pytest.MonkeyPatch, stored: Path) -> None:
    before = stored.read_text()

    assert checked(monkeypatch, stored, less_is_better(1.0, cpu=1.01)) == 0
    assert checked(monkeypatch, stored, less_is_better(1.0, cpu=1.5)) == 1
    assert stored.read_text() == before


def test_a_check_prints_json_alone_if_asked_to(
    monkeypatch: pytest.MonkeyPatch, stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert checked(monkeypatch, stored, less_is_better(1.0, cpu=1.5), "--json") == 1

    assert json.loads(capsys.readouterr().out)["slower"][0]["now"] == 1.5


def test_on_another_kind_of_machine_nothing_is_measured_and_nothing_fails(
    monkeypatch: pytest.MonkeyPatch, stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored.write_text(run(less_is_better(1.0), cpus=999).as_json())

    assert checked(monkeypatch, stored, None) == 0
    assert "999 CPUs" in capsys.readouterr().out
    assert checked(monkeypatch, stored, None, "--json") == 0
    assert json.loads(capsys.readouterr().out)["is_compared"] is False


def test_a_stored_run_that_will_not_do_is_exit_code_two(
    monkeypatch: pytest.MonkeyPatch, stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored.unlink()
    for broken in (None, "{", '{"about": 1, "findings": []}'):
        if broken:
            stored.write_text(broken)

        assert checked(monkeypatch, stored, None) == 2
        assert "stored run" in capsys.readouterr().err


def test_a_whole_run_says_how_it_differs_from_the_stored_one(stored: Path) -> None:
    given = command._parse(["--threads", str(SMALL), "--stored", str(stored)])
    now = run(less_is_better(1.0, cpu=2.0))

    assert "REGRESSION" in command._beside_the_stored(given, now)
    stored.unlink()
    assert "Nothing is compared" in command._beside_the_stored(given, now)


def test_the_allowed_share_is_the_documented_one() -> None:
    page = (report.ROOT / "benchmarks" / "README.md").read_text()

    assert f"worse by {compare_runs.ALLOWED * 100:.0f} % or more" in page
