"""The benchmarks' rules, and that the pages show what the committed run found, losses included."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

import pytest
from benchmarks import report
from benchmarks.__main__ import ALONE, GROUPS, INTEGRATIONS
from benchmarks.measure import (
    CpuTime,
    Finding,
    Rule,
    Run,
    Seconds,
    Stopwatch,
    Target,
    at_least,
    at_most,
    cpu_ratio,
    cpu_speed,
    ratio,
    take_turns,
    under,
)
from benchmarks.picture import draw, draw_pairs, measure
from benchmarks.report import Results, with_section
from benchmarks.workload import FEWEST, FULL, BadThreads, prose, read_messages, read_threads

ROOT = Path(__file__).parents[1]
SMALL = ROOT / "tests" / "data" / "threads.jsonl"


def finding(value: float, target: Target | None, name: str = "a & b", note: str = "") -> Finding:
    return Finding("save", name, value, "x", target, "1 ms", "2 ms", note)


def results(*findings: Finding) -> Results:
    about = report.circumstances(FULL, 5, GROUPS, (0.5,), 1.0)
    return Results(about, findings)


RUNS = {"results": (GROUPS, report.TITLES), "integrations": (INTEGRATIONS, report.FRAMEWORKS)}


@pytest.mark.parametrize(
    ("name", "page"), [(name, page) for name, pages in report.PAGES.items() for page in pages]
)
def test_a_page_shows_the_committed_run(name: str, page: str) -> None:
    text = (ROOT / page).read_text()

    assert report.rendered(page, text, report.committed(name)) == text, (
        "python -m benchmarks --render writes it"
    )


def test_the_page_says_where_the_win_is_small_and_where_short_threads_lose() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    _, _, rest = page.partition(report.SHORT_BEGIN)
    rows = rest.partition(report.SHORT_END)[0].strip().splitlines()[2:]

    assert len(rows) == len(report.SHORT_THREADS)
    assert [row for row in rows if "slower**" in row], "a loss"
    assert [row for row in rows if "larger**" in row], "an empty database"


@pytest.mark.parametrize("name", RUNS)
def test_the_picture_is_that_of_the_committed_run(name: str) -> None:
    drawn = draw(report.committed(name).grouped())

    assert (report.COMMITTED / f"{name}.svg").read_text() == drawn


@pytest.mark.parametrize("name", RUNS)
def test_the_committed_run_is_a_whole_one(name: str) -> None:
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


def test_the_picture_of_readme_is_that_of_the_committed_run() -> None:
    stored = report.committed("results")

    assert (report.COMMITTED / report.OVERVIEW).read_text() == report.overview(stored)


def test_readme_shows_wins_and_losses_and_how_many_targets_are_met() -> None:
    stored = report.committed("results")
    section = report.readme_section(stored)
    rows = [row for row in section.splitlines() if row.startswith("| ")][1:]

    assert len(rows) == 6
    assert [row for row in rows if "as threads of 30" in row], "not one long thread alone"
    assert [row for row in rows if "**" in row], "a loss"
    assert [row for row in rows if "**" not in row], "a win"
    assert report.summary(stored) in section


def test_a_page_of_the_documentation_shows_every_target_that_is_missed() -> None:
    section = report.docs_section(
        Results(
            {**report.circumstances(FULL, 5, GROUPS, (0.5,), 1.0)},
            (finding(9.0, at_most(1.0)), finding(0.5, at_most(1.0))),
        )
    )

    assert "1 of 2 targets met" in section
    assert section.count("**missed**") == 1


@pytest.mark.parametrize(
    ("better", "value", "words"),
    [
        ("at least", 200.4, "200 times smaller"),
        ("at least", 0.5, "**2 times larger**"),
        ("at most", 0.2, "5 times faster"),
        ("at most", 1.8, "**1.8 times slower**"),
    ],
)
def test_a_loss_is_said_as_plainly_as_a_win(better: Rule, value: float, words: str) -> None:
    one = Finding("save", "a", value, "x", None, "1 ms", "2 ms", "", better=better)

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


def test_a_time_may_miss_by_a_tenth_and_bytes_by_nothing() -> None:
    assert at_most(2.0).met_by(2.19)
    assert not at_most(2.0).met_by(2.21)
    assert at_least(2.0).met_by(1.81)
    assert not at_least(2.0).met_by(1.79)
    assert not at_most(2.0, timed=False).met_by(2.01)
    assert not at_least(2.0, timed=False).met_by(1.99)


def test_one_missed_target_is_exit_code_one() -> None:
    met, missed = finding(1.0, at_most(1.0)), finding(2.0, at_most(1.0))

    assert results(met, finding(99.0, None)).exit_code == 0
    assert results(met, missed).exit_code == 1
    assert results(met, missed).missed == [missed]


def test_a_score_is_a_share_of_the_promise_under_both_rules() -> None:
    assert finding(3.0, at_most(2.0)).score == 1.5
    assert finding(3.0, at_least(6.0)).score == 2.0


async def test_subjects_take_turns_in_an_order_that_rotates() -> None:
    order: list[str] = []

    def run(name: str) -> Run:
        async def once() -> float:
            order.append(name)
            return float(len(order))

        return once

    found = await take_turns({name: run(name) for name in "abc"}, rounds=3)

    assert "".join(order) == "abcbcacab"
    assert found["a"] == [1.0, 6.0, 8.0]


def test_a_ratio_is_the_median_of_the_rounds() -> None:
    # The third round was disturbed on both sides.
    assert ratio([1.0, 2.0, 90.0], [2.0, 4.0, 30.0]) == 0.5


def test_a_target_for_long_threads_is_left_out_of_a_short_run_which_says_so() -> None:
    target, note = under(FULL, 36, at_most(1.0))
    run = results(finding(5.0, target, note=note))

    assert target is None
    assert "36" in note
    assert "1,222" in note
    assert run.exit_code == 0
    assert "1 left out" in report.summary(run)
    assert under(FULL, FULL, at_most(1.0)) == (at_most(1.0), "")


def test_a_run_comes_back_from_its_json() -> None:
    run = results(finding(1.0, at_most(1.0)), finding(2.0, None, note="why"))

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

    (_, _, row) = report.markdown([one])
    assert "| floor 1.4x by hand | **missed** |" in row
    assert "at most 1" not in row
    assert run.exit_code == 1


async def test_a_turn_knows_its_cpu_time_as_well_as_the_wall_s() -> None:
    async def waiting() -> float:
        watch = Stopwatch()
        await asyncio.sleep(0.02)  # timed: it uses no processor meanwhile
        return watch.read()

    async def working() -> float:
        watch = Stopwatch()
        began = time.process_time()
        while time.process_time() - began < 0.02:  # timed: it uses so much
            pass
        return watch.read()

    found = await take_turns({"waiting": waiting, "working": working}, rounds=3)
    cpu = cpu_ratio(found["working"], found["waiting"])

    assert cpu is not None
    assert cpu.ratio > 2
    assert cpu.ours >= 0.02


def test_cpu_time_is_left_out_where_a_turn_has_none() -> None:
    assert cpu_ratio([1.0, 2.0], [Seconds(1.0, 0.5), Seconds(2.0, 0.5)]) is None
    assert cpu_speed([Seconds(1.0, 1.0)], [Seconds(1.0, 3.0)]) == CpuTime(1.0, 3.0, 3.0)


def test_a_finding_with_cpu_time_and_a_floor_comes_back_from_its_json() -> None:
    one = Finding(
        "save", "a", 1.5, "x", None, "1 ms", "2 ms", "", CpuTime(1.0, 2.0, 0.5), "at most", "floor"
    )

    assert Results.from_json(results(one).as_json()).findings == (one,)


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
    section = report.docs_section(whole)
    assert "`short_threads`, on 2026-11-30, load average 9.5 before" in section
    assert "with orjson 4." in section
    assert "### Short threads" in section


def test_benchmarks_md_lists_the_groups_that_only_knows() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    _, _, rest = page.partition("### The groups\n")
    listed = re.findall(r"^\| `(\w+)` \|", rest.partition("\n### ")[0], re.MULTILINE)

    assert listed == [*GROUPS, *INTEGRATIONS, *ALONE]


def test_a_page_without_the_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="benchmarks:begin"):
        with_section("# A page", "| table |")


def test_the_small_file_of_the_repository_will_do() -> None:
    messages = read_messages(SMALL)

    assert FEWEST <= len(messages) < FULL
    assert len(prose(messages, 20_000, 3)) == 20_000


def test_threads_of_a_file_are_joined_only_where_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "threads.jsonl"
    path.write_text('{"messages": [{"a": 1}, {"a": 2}]}\n{"messages": []}\n' * 50)

    threads = read_threads(path)

    assert threads == [[{"a": 1}, {"a": 2}]] * 50, "more than are joined"
    assert read_messages(path) == [{"a": 1}, {"a": 2}] * 20
    with pytest.raises(BadThreads, match="line 1 is not a thread"):
        read_threads(ROOT / "README.md")
    path.write_text('{"messages": []}\n')
    with pytest.raises(BadThreads, match="holds no messages"):
        read_threads(path)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ('{"messages": [{"role": "user", "content": "Hi"}]}\n', f"at least {FEWEST}"),
        ("Hello!\n", "line 1 is not a thread"),
        ('{"thread_id": "a"}\n', "one JSON object per line"),
        ('{"messages": ["Hi"]}\n', "no list of objects"),
        ("", "holds 0 messages"),
    ],
)
def test_a_file_that_will_not_do_is_refused_with_what_it_should_be(
    tmp_path: Path, content: str, complaint: str
) -> None:
    path = tmp_path / "threads.jsonl"
    path.write_text(content)

    with pytest.raises(BadThreads, match=complaint):
        read_messages(path)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], 'one JSON object per line with "messages"'),
        (["--threads", "nowhere.jsonl"], "nowhere.jsonl: No such file"),
        (["--threads", str(SMALL), "--only", "speed"], "--only knows growth"),
        (["--threads", str(SMALL), "--rounds", "2"], "at least 5"),
        (["--threads", str(SMALL), "--separately", "--only", "growth"], "leave the other options"),
        (["--threads", "nowhere.jsonl", "--separately"], "nowhere.jsonl: No such file"),
        (["--threads", str(SMALL), "--add"], "--add needs --only"),
        (["--threads", str(SMALL), "--add", "--only", "tenant_wall"], "no part of that stored run"),
        (["--threads", str(SMALL), "--add", "--only", "growth"], "the stored run is of"),
    ],
)
def test_arguments_that_will_not_do_are_exit_code_two_and_one_sentence(
    arguments: list[str], complaint: str
) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "benchmarks", *arguments], cwd=ROOT, capture_output=True, text=True
    )

    assert ran.returncode == 2
    assert complaint in ran.stderr.replace("\n", " ")
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    ("value", "said"), [(1.0, "met"), (1.05, "met (within 10 %)"), (1.2, "MISSED")]
)
def test_a_target_that_only_the_tolerance_meets_says_so(value: float, said: str) -> None:
    assert report.verdict(finding(value, at_most(1.0))) == said
    assert report.verdict(finding(1 / value, at_least(1.0))) == said
    shown = "**missed**" if said == "MISSED" else said
    assert report.markdown([finding(value, at_most(1.0))])[-1].endswith(f"| {shown} |")
