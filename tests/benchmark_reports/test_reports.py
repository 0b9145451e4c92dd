"""The benchmarks' reports: pages and pictures show what committed runs found, losses included."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from html import escape
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from benchmarks import __main__ as command
from benchmarks import curves_report, report
from benchmarks.__main__ import ALONE, GROUPS, INTEGRATIONS
from benchmarks.curves_report import Curve, Curves
from benchmarks.measure import (
    CpuTime,
    Finding,
    Rule,
    Target,
    at_most,
    under,
)
from benchmarks.picture import draw, draw_pairs, measure
from benchmarks.report import Results, with_section
from benchmarks.workload import FULL

ROOT = Path(__file__).parents[2]
SMALL = ROOT / "tests" / "data" / "threads.jsonl"


def finding(value: float, target: Target | None, name: str = "a & b", note: str = "") -> Finding:
    return Finding("save", name, value, "x", target, "1 ms", "2 ms", note)


def results(*findings: Finding) -> Results:
    about = report.circumstances(FULL, 5, GROUPS, (0.5,), 1.0)
    return Results(about, findings)


RENDER = "python -m benchmarks --render writes it"
RUNS = {"results": (GROUPS, report.TITLES), "integrations": (INTEGRATIONS, report.FRAMEWORKS)}


def test_the_pages_and_pictures_show_the_committed_runs() -> None:
    for name, pages in report.PAGES.items():
        committed = report.committed(name)
        for page in pages:
            text = (ROOT / page).read_text()
            assert report.rendered(page, text, committed) == text, f"{page}: {RENDER}"
        assert (report.COMMITTED / f"{name}.svg").read_text() == draw(committed.grouped())
        everything = (report.COMMITTED / f"{name}.html").read_text()
        assert report.results_page(name, committed) == everything, RENDER
    overview = report.overview(report.committed("results"))
    assert (report.COMMITTED / report.OVERVIEW).read_text() == overview
    curves, page = curves_report.committed(), curves_report.PAGE.read_text()
    shown = with_section(page, curves_report.section(curves), curves_report.MARKS)
    assert shown == page, RENDER
    assert curves_report.SVG.read_text() == curves_report.draw(curves)
    assert curves_report.HTML.read_text() == curves_report.page(curves), RENDER


def test_the_page_says_where_the_win_is_small_and_where_short_threads_lose() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    _, _, rest = page.partition(report.SHORT_BEGIN)
    rows = rest.partition(report.SHORT_END)[0].strip().splitlines()[2:]

    assert len(rows) == len(report.SHORT_THREADS)
    assert [row for row in rows if "slower**" in row], "a loss"
    assert [row for row in rows if "larger**" in row], "an empty database"


@pytest.mark.parametrize("name", RUNS)
def test_a_committed_run_is_a_whole_one(name: str) -> None:
    groups, titles = RUNS[name]
    committed = report.committed(name)
    newer = titles.keys() - {one.group for one in committed.findings}

    assert report.is_whole(committed, [group for group in groups if group not in newer])
    assert {one.group for one in committed.findings} <= set(titles)
    pages = [(ROOT / page).read_text() for page in report.PAGES[name]]
    for group in newer:
        assert any(f"- {titles[group]}\n" in page for page in pages), (
            "a page says which benchmarks are newer than the run"
        )
    assert committed.about["rounds"] >= 5
    assert not any(one.note for one in committed.findings), "a target was left out"


def _stored_runs() -> list[tuple[str, dict[str, Any]]]:
    runs = {name: report.committed(name).about for name in RUNS} | {
        "curves": curves_report.committed().about
    }
    return [
        (f"{name} {one['date']}", one)
        for name, about in runs.items()
        for one in (about, *about.get("added", []))
    ]


@pytest.mark.parametrize("about", [pytest.param(one, id=id_) for id_, one in _stored_runs()])
def test_a_committed_run_names_the_commit_that_it_measured(about: dict[str, Any]) -> None:
    """One of this history, without changes beside it."""
    if about.get("commit") is None:
        pytest.skip("runs did not name their commit then")
    whole = ("git", "rev-parse", "--is-shallow-repository")
    told = subprocess.run(whole, cwd=ROOT, check=False, capture_output=True, text=True)
    if told.stdout.strip() != "false":
        pytest.skip("there is no history here, or not all of it")
    found = ("git", "merge-base", "--is-ancestor", about["commit"], "HEAD")
    assert subprocess.run(found, cwd=ROOT, check=False).returncode == 0


def test_ours_is_promised_to_be_no_slower_than_any_other_sql_from_200_messages_on() -> None:
    timed = [
        one for one in report.committed("integrations").findings if "at 1,000 mess" in one.name
    ]
    promised = [one.name for one in timed if one.target is not None]
    free = [one.name for one in timed if one.target is None]

    compared = {name.removesuffix(" to ours").rpartition(", ")[2] for name in promised}
    # Google ADK's lines count events, mem0's memories; locus' files are no SQL.
    assert compared == {
        "AsyncPostgresSaver",
        "AsyncSqliteSaver",
        "DatabaseTaskStore",
        "PgCheckpointer",
        "SQLAlchemyChatStore",
        "SQLAlchemySession",
        "SQLChatMessageHistory",
        "SQLiteConversationStore",
        "Store",
        "the harness' store",
    }
    assert free == [one for one in free if "FileCheckpointer" in one]
    assert len(free) == 3


def test_readme_shows_wins_and_losses() -> None:
    stored = report.committed("results")
    section = report.readme_section(stored)
    rows = [row for row in section.splitlines() if row.startswith("| ")][1:]

    assert len(rows) == 6
    assert [row for row in rows if "as threads of 30" in row], "not one long thread alone"
    assert [row for row in rows if "**" in row], "a loss"
    assert [row for row in rows if "**" not in row], "a win"
    assert str(stored.about["date"]) in section


@pytest.mark.parametrize("name", RUNS)
def test_the_page_of_all_results_has_every_finding_and_every_target_that_is_missed(
    name: str,
) -> None:
    stored = report.committed(name)
    everything = report.results_page(name, stored)

    assert report.summary(stored) in everything
    assert everything.count('<tr class="missed">') == len(stored.missed) > 0
    assert [one for one in stored.findings if escape(one.name) not in everything] == []


def test_the_guide_shows_fifteen_findings_of_both_kinds_and_links_to_all_of_them() -> None:
    stored = report.committed("results")
    rows = report.docs_section(stored).splitlines()[4:]

    assert len(rows) == len(report.SHOWN) == 15
    assert [row for row in rows if "**missed**" in row], "a loss"
    assert [row for row in rows if "| met" in row], "a win"
    for name, pages in report.PAGES.items():
        assert f"benchmarks/{name}.html)" in (ROOT / pages[-1]).read_text()


def test_the_guide_has_a_row_for_each_framework_that_was_measured() -> None:
    stored = report.committed("integrations")
    rows = report.integrations_section(stored).splitlines()[4:]
    measured = {one.group for one in stored.findings}

    assert report.ADAPTERS.keys() == report.FRAMEWORKS.keys()
    assert len(rows) == len(measured)
    for group, row in zip(report.ADAPTERS, rows, strict=True):
        found = [one for one in stored.findings if one.group == group]
        ratios = [cell for cell in row.split(" | ")[2:5] if cell != "– / –"]
        assert ratios, f"{row}: no finding begins as its Adapter says"
        assert f" {sum(one.target is not None for one in found)} |" in row


def test_a_loss_is_said_as_plainly_as_a_win() -> None:
    said: list[tuple[Rule, float, str, str]] = [
        ("at least", 200.4, "1 MB", "200 times smaller"),
        ("at least", 0.5, "1 MB", "**2 times larger**"),
        ("at least", 0.5, "10/s", "**2 times slower**"),
        ("at most", 0.2, "1 ms", "5 times faster"),
        ("at most", 1.8, "1 ms", "**1.8 times slower**"),
        ("at most", 1.01, "1 ms", "about equal"),
    ]
    for better, value, ours, words in said:
        one = Finding("save", "a", value, "x", None, ours, "2 ms", "", better=better)

        assert report.compared(one) == words


def test_bars_from_zero_are_as_long_as_what_they_stand_for() -> None:
    one = Finding("save", "a", 0.5, "x", None, "1.5 ms", "AsyncSaver 3.00 ms", "")
    picture = ElementTree.fromstring(draw_pairs({"Time": [("a & b", one)]}, ("ours", "theirs")))
    bars = {
        bar.get("class"): float(bar.get("width", 0))
        for bar in picture.iter()
        if bar.get("width") and bar.get("x") == "210"
    }

    assert bars["theirs"] == pytest.approx(2 * bars["ours"])
    with pytest.raises(ValueError, match="no number"):
        measure("nothing")


def test_one_missed_target_is_exit_code_one() -> None:
    met, missed = finding(1.0, at_most(1.0)), finding(2.0, at_most(1.0))

    assert results(met, finding(99.0, None)).exit_code == 0
    assert results(met, missed).exit_code == 1
    assert results(met, missed).missed == [missed]


def test_a_run_says_how_many_targets_were_left_out() -> None:
    target, note = under(FULL, 36, at_most(1.0))
    run = results(finding(5.0, target, note=note))

    assert run.exit_code == 0
    assert "1 left out" in report.summary(run)


def test_a_run_comes_back_from_its_json() -> None:
    whole = Finding(
        "save", "a", 1.5, "x", None, "1 ms", "2 ms", "", CpuTime(1.0, 2.0, 0.5), "at most", "floor"
    )
    run = results(finding(1.0, at_most(1.0)), finding(2.0, None, note="why"), whole)

    assert Results.from_json(run.as_json()) == run
    assert json.loads(run.as_json())["findings"][0]["is_met"] is True


def test_the_picture_tells_met_from_missed_without_colour() -> None:
    run = results(finding(0.5, at_most(1.0)), finding(4.0, at_most(1.0)), finding(1.0, None, "no"))
    picture = ElementTree.fromstring(draw(run.grouped()))
    texts = ["".join(one.itertext()) for one in picture.iter() if one.tag.endswith("text")]
    bars = [one for one in picture.iter() if one.get("class") in ("met", "missed")]

    assert texts.count("met") == texts.count("missed") == 1
    assert "a & b" in texts
    assert "no" not in texts, "a finding without a target has no place on the axis"
    met, missed = bars
    assert float(met.get("x", 0)) < float(missed.get("x", 0)), "bars go two ways from the target"
    assert ".missed { fill: url(#hatch)" in draw(run.grouped())
    assert "prefers-color-scheme: dark" in draw(run.grouped())


def test_a_floor_stands_in_the_place_of_the_target_and_a_miss_stays_a_miss() -> None:
    one = Finding("save", "a", 1.5, "x", at_most(1.0), "1 ms", "2 ms", floor="floor 1.4x by hand")
    run = results(one)

    row = report.cells(one)
    assert row[-2:] == ["floor 1.4x by hand", "MISSED"]
    assert "at most 1" not in row
    assert run.exit_code == 1


def test_groups_that_were_measured_later_are_part_of_the_run_and_the_page_says_when() -> None:
    stored = results(finding(1.0, at_most(1.0)))
    stored.about["groups"] = [name for name in GROUPS if name != "short_threads"]
    stored.about["versions"] = {"orjson": "3"}
    about = report.circumstances(FULL, 5, ["short_threads"], (9.5,), 42.0)
    about |= {"date": "2026-11-30", "versions": {"orjson": "4"}}
    later = Finding("short_threads", "b", 0.5, "x", None, "1 MB", "2 MB", better="at least")

    whole = stored.with_addition(Results(about, (later,)), GROUPS)

    assert report.is_whole(whole, GROUPS)
    assert not report.is_whole(stored, GROUPS)
    assert Results.from_json(whole.as_json()) == whole
    everything = report.results_page("results", whole)
    assert "short_threads, on 2026-11-30, load average 9.5 before" in everything
    assert "with orjson 4." in everything
    assert "<summary>Short threads" in everything


def test_help_describes_each_group_that_only_knows(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        command._parse(["--help"])
    listed = re.findall(r"^  (\w+) +\S.*$", capsys.readouterr().out, re.MULTILINE)

    assert listed == [*GROUPS, *INTEGRATIONS, *ALONE] == [*command.DESCRIPTIONS]


def test_a_page_without_the_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="benchmarks:begin"):
        with_section("# A page", "| table |")


def test_arguments_that_will_not_do_are_exit_code_two_and_one_sentence() -> None:
    table: list[tuple[list[str], str]] = [
        ([], 'one JSON object per line with "messages"'),
        (["--threads", "nowhere.jsonl"], "nowhere.jsonl: No such file"),
        (["--threads", str(SMALL), "--only", "speed"], "--only knows growth"),
        (["--threads", str(SMALL), "--rounds", "2"], "at least 5"),
        (["--threads", str(SMALL), "--separately", "--only", "growth"], "leave the other options"),
        (["--threads", "nowhere.jsonl", "--separately"], "nowhere.jsonl: No such file"),
        (["--threads", str(SMALL), "--add"], "--add needs --only"),
        (["--threads", str(SMALL), "--add", "--only", "tenant_wall"], "no part of that stored run"),
        (["--threads", str(SMALL), "--add", "--only", "growth"], "the stored run is of"),
    ]
    for arguments, complaint in table:
        ran = subprocess.run(
            [sys.executable, "-m", "benchmarks", *arguments],
            cwd=ROOT,
            capture_output=True,
            text=True,
        )

        assert ran.returncode == 2, arguments
        assert complaint in ran.stderr.replace("\n", " ")
        assert "Traceback" not in ran.stderr, arguments


# --- Curves --------------------------------------------------------------------------------------


def curve(*values: float, name: str = "save", along: str = "threads") -> Curve:
    counts = (10, 1_000, 100_000)
    return Curve(along, name, "ms", tuple(zip(counts, values, strict=True)))


def test_what_is_superlinear_is_named() -> None:
    found = Curves({}, (curve(1, 1, 1), curve(1, 1, 9e4, name="list")))

    assert curves_report.summary(found) == "Superlinear: list (threads, exponent 2.48)."
    assert curves_report.summary(Curves({}, (curve(1, 1, 1),))) == "Superlinear: none."


def test_curves_come_back_from_their_json() -> None:
    found = Curves({"date": "2026-01-01"}, (curve(1, 2, 3), curve(3, 2, 1, along="bytes")))

    assert Curves.from_json(found.as_json()) == found


def test_the_picture_has_a_panel_for_each_thing_that_grows_and_a_line_for_each_operation() -> None:
    found = Curves(
        {}, (curve(1, 2, 3), curve(1, 1, 9e4, name="list"), curve(1, 1, 1, along="bytes"))
    )
    picture = ElementTree.fromstring(curves_report.draw(found))
    texts = ["".join(one.itertext()) for one in picture.iter() if one.tag.endswith("text")]
    drawn = [one for one in picture.iter() if one.tag.endswith("polyline")]

    assert {"threads", "bytes"} <= {*texts}
    assert len(drawn) == 3
    assert [one.get("class") for one in drawn].count("curve steep") == 1
    assert sum("superlinear" in one for one in texts) == 1
