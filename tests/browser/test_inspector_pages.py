"""The inspector's pages in a real Chromium, over a real server and a real database."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page
from sample import (
    ANALYSIS,
    BRANCHED,
    CONVERSATION,
    DESK,
    HOSTILE_IDS,
    HOSTILE_MARKDOWN,
    HOSTILE_THREAD,
    IMAGE,
    LANGGRAPH,
    LONG,
    LONG_STEPS,
    MARKDOWN_THREAD,
    OPENAI,
    OPENAI_THREAD,
    REFUND,
    SCRIPT,
)
from shown_commands import failures, words_of_bash

from conftest import NARROW, OTHER_TOKEN, Server, Visit, run_apart, until
from memalchemy import Checkpointer, Database, Store

Open = Callable[..., Visit]


def thread(name: str, namespace: tuple[str, ...] = (), **more: str) -> list[tuple[str, str]]:
    return [("thread", name), *(("ns", part) for part in namespace), *more.items()]


CALLS = """select name as tool, agent, count(*) as calls,
  count(*) filter (error) as errors, max(time)::date as last
from tool_calls where agent is not null
group by all order by calls desc"""
VIEWS: dict[str, tuple[str, Any, str]] = {
    "threads": ("threads", (), ".thread-row"),
    "waiting": ("threads", {"waiting": "1"}, ".thread-row"),
    "filtered": ("threads", [("metadata", "user_id=ada"), ("sort", "cost")], ".thread-row"),
    "markdown": ("thread", thread(ANALYSIS), ".code-block"),
    "branches": ("thread", thread(BRANCHED), ".branch"),
    "found": ("thread", thread(ANALYSIS, find="churn"), ".hit-message"),
    "use": ("use", (), ".days"),
    "person": ("person", {"name": "ada"}, ".erase"),
    "agent": ("scope", {"agent": "desk"}, ".erase"),
    "pair": ("scope", {"metadata": "agent=billing"}, ".erase"),
    "namespace": ("scope", [("ns", "documents")], ".erase"),
    "transcript": ("thread", thread(REFUND, LANGGRAPH), ".message"),
    "timeline": ("thread", thread(BRANCHED, tab="timeline"), ".step-side h2"),
    "state": ("thread", thread(REFUND, LANGGRAPH, tab="state"), ".tree-card .node"),
    "diff": ("thread", thread(BRANCHED, tab="diff", a="lisbon-a3", b="lisbon-a8"), ".change"),
    "writes": ("thread", thread(REFUND, LANGGRAPH, tab="writes"), ".interrupt"),
    "log": ("thread", thread(OPENAI_THREAD, OPENAI), ".message"),
    "entries": ("thread", thread(OPENAI_THREAD, OPENAI, tab="state"), ".entry"),
    "store": ("store", (), ".item-row"),
    "item": (
        "item",
        [("ns", "documents"), ("ns", "policies"), ("key", "refund-policy")],
        ".neighbour",
    ),
    "facts": ("memories", (), ".memory"),
    "episodes": ("memories", {"kind": "episodes"}, ".memory"),
    "conversations": ("memories", {"kind": "conversations"}, ".memory"),
    "long-term": ("memories", {"kind": "long-term"}, ".memory"),
    "search": ("search", {"q": "refund"}, ".hit"),
    "sql": ("sql", {"q": CALLS}, ".grid"),
    "questions": ("sql", (), ".question"),
    "storage": ("storage", (), ".stacked"),
}


OF_COLOURS = ["color-contrast", "link-in-text-block"]
"""The rules of axe-core that ask for colours."""


def axe(page: Page, rules: list[str] | None = None, within: str | None = None) -> list[Any]:
    """Return what axe-core finds wrong in a page or *within* a part, by all its rules or some."""
    options: dict[str, Any] = {"resultTypes": ["violations"]}
    if rules is not None:
        options["runOnly"] = rules
    if not page.evaluate("'axe' in window"):
        page.evaluate(Axe().axe_script)
    # What passes is most of the answer, and stays in the page.
    found: list[Any] = page.evaluate(
        """async ([within, options]) =>
          (await axe.run(within ?? document, options)).violations.map(({ id, nodes }) =>
            [id, nodes.slice(0, 3).map(({ html }) => html.slice(0, 200))])""",
        [within, options],
    )
    return found


def texts(page: Any, selector: str) -> list[str]:
    """Return the texts of all that match, also of what is not drawn yet (`content-visibility`)."""
    return [one.strip() for one in page.locator(selector).all_text_contents()]


# --- Every view: accessible, in both themes, and on a narrow screen -----------------------------


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_has_a_heading_and_landmarks_and_axe_finds_nothing_in_either_theme(
    visit: Open, name: str, pictures: Path | None
) -> None:
    view, parameters, ready = VIEWS[name]
    opened = visit(view, parameters, ready=ready)
    page = opened.page
    if pictures:
        page.screenshot(path=pictures / f"{name}-light.png")

    assert page.locator("h1").count() == 1
    assert page.locator("main").count() == 1
    assert page.get_by_role("navigation", name="Main").count() == 1
    assert page.title().endswith("memalchemy")
    assert axe(page) == []

    page.emulate_media(color_scheme="dark", reduced_motion="reduce")  # the themes differ in colours
    if pictures:
        page.screenshot(path=pictures / f"{name}-dark.png")
    assert page.evaluate("getComputedStyle(document.documentElement).colorScheme") == "dark"
    assert axe(page, OF_COLOURS) == []


@pytest.mark.parametrize("name", VIEWS)
def test_axe_finds_nothing_and_nothing_is_cut_off_on_a_screen_of_400_pixels(
    visit: Open, name: str, pictures: Path | None
) -> None:
    view, parameters, ready = VIEWS[name]
    opened = visit(view, parameters, ready=ready, size=NARROW)
    if pictures:
        opened.page.screenshot(path=pictures / f"{name}-narrow.png")
    wider = opened.page.evaluate(
        "[document.documentElement, document.querySelector('main')]"
        ".map((one) => one.scrollWidth - one.clientWidth)"
    )

    assert max(wider) <= 0
    assert axe(opened.page) == []


# --- Threads ------------------------------------------------------------------------------------


def test_threads_are_filtered_as_one_types_and_the_address_says_so(visit: Open) -> None:
    opened = visit()
    page = opened.page
    page.locator("[data-field]").press_sequentially("refund-88", delay=15)
    until(page, "document.querySelectorAll('.thread-row').length === 1")

    assert texts(page, ".thread-row .row-id") == [REFUND]
    assert "q=refund-88" in page.url

    page.locator("[data-field]").fill("nothing has this id")
    page.wait_for_selector(".empty-title:has-text('No thread matches')")


def test_the_list_of_threads_goes_on_when_its_end_comes_into_view(visit: Open) -> None:
    page = visit().page
    before = page.locator(".thread-row").count()
    page.locator(".list-end").scroll_into_view_if_needed()
    until(page, f"document.querySelectorAll('.thread-row').length > {before}")

    assert before < 120


def test_a_framework_is_chosen_with_its_chip(visit: Open) -> None:
    page = visit().page
    page.get_by_role("button", name="langgraph").click()
    until(page, "document.querySelectorAll('.thread-row').length === 1")

    assert texts(page, ".thread-row .row-id") == [REFUND]
    assert page.get_by_role("button", name="langgraph").get_attribute("aria-pressed") == "true"


def test_a_row_says_what_a_thread_is_about(visit: Open) -> None:
    opened = visit("threads", {"q": ANALYSIS}, ready=".thread-row")
    row = opened.page.locator(".thread-row")

    assert row.locator(".row-text").inner_text() == "Why churn fell in November"
    assert texts(opened.page, ".thread-row .row-who") == ["grace", "analyst"]
    assert row.locator(".col-tokens").inner_text() == "5.3k"
    assert row.locator(".col-cost").inner_text() == "$0.041"


def test_threads_are_found_by_metadata_and_only_those_that_wait(visit: Open) -> None:
    opened = visit()
    page = opened.page
    page.get_by_label("Metadata, as key=value").fill("user_id=bob")
    page.keyboard.press("Enter")
    page.wait_for_selector(".filter-chip")
    until(page, "document.querySelectorAll('.thread-row').length === 9")
    assert "metadata=user_id%3Dbob" in page.url
    assert texts(page, ".thread-row .row-who").count("bob") == 9

    page.get_by_role("button", name="Remove user_id=bob").click()
    page.get_by_label("waiting for a person").check()
    until(page, "document.querySelectorAll('.thread-row').length === 1")
    assert texts(page, ".thread-row .row-id") == [REFUND]
    page.reload()
    opened.settle()
    assert page.get_by_label("waiting for a person").is_checked()


def test_a_click_on_a_column_sorts_and_another_one_turns_it_round(visit: Open) -> None:
    opened = visit("threads", {"q": f"{DESK}/"}, ready=".thread-row")
    page = opened.page

    def costs() -> list[float]:
        return [float(text.lstrip("$")) for text in texts(page, ".thread-row .col-cost")]

    page.locator(".sort.col-cost").click()
    until(page, "location.hash.includes('sort=cost')")
    opened.settle()
    until(page, "document.querySelectorAll('.thread-row').length === 44")
    falling = costs()
    page.locator(".sort.col-cost").click()
    until(page, "location.hash.includes('up=1')")
    opened.settle()
    page.wait_for_selector(f".thread-row:first-child .col-cost:text-is('${min(falling):.2g}')")

    assert falling == sorted(falling, reverse=True)
    assert costs() == sorted(falling)


# --- One thread ---------------------------------------------------------------------------------


def test_a_transcript_shows_roles_thoughts_calls_and_results(visit: Open) -> None:
    opened = visit(*VIEWS["transcript"][:2], ready=".message")
    page = opened.page

    assert texts(page, ".role") == ["System", "User", "Assistant", "Tool", "Assistant", "Tool"]
    assert page.locator(".fold-thought").count() == 1
    assert page.locator(".fold-tool").count() == 2
    assert page.locator(".fold-result.failed .badge.bad").inner_text() == "error"
    page.locator(".fold-tool summary").first.click()
    page.wait_for_selector(".fold-tool[open] .fold-body:has-text('8841')")


def test_earlier_messages_of_a_long_log_come_on_demand(visit: Open) -> None:
    opened = visit(*VIEWS["log"][:2], ready=".message")
    page = opened.page
    assert page.locator(".message").count() == 100

    page.get_by_role("button", name="Show earlier messages").click()
    until(page, "document.querySelectorAll('.message').length === 200")
    page.get_by_role("button", name="Show earlier messages").click()
    until(page, "document.querySelectorAll('.message').length === 265")

    assert page.get_by_role("button", name="Show earlier messages").count() == 0


def test_a_timeline_draws_a_lane_for_each_branch(visit: Open) -> None:
    opened = visit(*VIEWS["timeline"][:2], ready=".step")
    page = opened.page
    places = page.locator(".lane-dot").evaluate_all(
        "(all) => all.map((one) => one.getAttribute('cx'))"
    )

    assert page.locator(".step").count() == 14
    assert len(set(places)) >= 3
    assert page.locator(".step .badge:has-text('branches')").count() == 3


def test_a_step_of_the_timeline_leads_to_its_state(visit: Open) -> None:
    opened = visit(*VIEWS["timeline"][:2], ready=".step")
    page = opened.page
    page.locator(".step").nth(5).click()
    until(page, "location.hash.includes('at=')")
    chosen = page.locator(".side-id").inner_text()
    page.locator(".side-actions").get_by_role("link", name="State", exact=True).click()
    page.wait_for_selector(".step-bar .badge:has-text('earlier step')")

    assert page.locator(".step-name .id").inner_text() == chosen
    page.get_by_role("button", name="Newest").click()
    page.wait_for_selector(".step-bar .badge.now")


def test_two_steps_of_the_timeline_are_compared(visit: Open) -> None:
    opened = visit(*VIEWS["timeline"][:2], ready=".step")
    page = opened.page
    page.locator(".compare-box input").nth(0).check()
    page.locator(".compare-box input").nth(10).check()
    page.get_by_role("link", name="Show the difference").click()
    page.wait_for_selector(".change")
    paths = texts(page, ".change-path")

    assert "hotel" in paths
    assert "plan" in paths
    assert page.locator(".change.op-added").count() > 2
    assert (
        "done: Find flights" in page.locator(".change:has-text('plan') .plus").first.text_content()
    )
    page.get_by_role("button", name="Swap the two steps").click()
    page.wait_for_selector(".change.op-removed")


def test_a_timeline_of_many_steps_is_read_in_pages(visit: Open) -> None:
    opened = visit("thread", thread(LONG, tab="timeline"), ready=".step")
    page = opened.page
    counts = [page.locator(".step").count()]
    while counts[-1] < LONG_STEPS:
        page.locator(".list-end").scroll_into_view_if_needed()
        until(page, f"document.querySelectorAll('.step').length > {counts[-1]}")
        counts.append(page.locator(".step").count())

    assert counts == [200, 400, 450]


def test_a_state_opens_level_by_level_and_asks_for_what_was_cut(visit: Open) -> None:
    opened = visit("thread", thread(HOSTILE_THREAD, tab="state"), ready=".node")
    page = opened.page
    for level in range(59, 55, -1):
        closed = page.locator(".node-row.toggle[aria-expanded=false]:has(.key:text-is('below'))")
        closed.first.click()
        page.wait_for_selector(f".node-row.leaf:has(.key:text-is('level')):has-text('{level}')")

    page.get_by_role("button", name="Show 100 of 4,900 more").click()
    page.wait_for_selector(".key.index:text-is('150')")


def test_pending_writes_and_an_interrupt_are_shown(visit: Open) -> None:
    opened = visit(*VIEWS["writes"][:2], ready=".interrupt")

    assert "Refund 129.90 EUR" in opened.page.locator(".interrupt").inner_text()
    assert len(texts(opened.page, ".write-channel")) == 2


def test_an_address_without_a_thread_says_what_to_do(visit: Open) -> None:
    opened = visit()
    opened.expect("404")
    opened.open("thread", thread("no such thread"))

    assert opened.page.get_by_role("alert").count() == 1
    assert opened.page.get_by_role("button", name="Try again").count() == 1


def test_a_thread_that_waits_says_what_is_asked_on_every_tab(visit: Open) -> None:
    opened = visit()
    for tab in ("transcript", "timeline", "state", "diff", "writes"):
        opened.open("thread", thread(REFUND, LANGGRAPH, tab=tab), ready=".banner.waits")

        assert texts(opened.page, ".asked-text") == ["Refund 129.90 EUR for order 8841?"]


def test_a_thread_of_several_branches_says_so_and_shows_the_others(visit: Open) -> None:
    opened = visit("thread", thread(BRANCHED), ready=".branch")
    page = opened.page
    assert "one of 4 branches" in page.locator(".banner.branches h2").inner_text()
    assert page.locator(".message:has-text('I would not take it.')").count() == 0
    page.locator(".branch:has-text('lisbon-c3')").click()
    page.wait_for_selector(".message:has-text('I would not take it.')")

    assert page.locator(".step-name .id").inner_text() == "lisbon-c3"
    assert page.locator(".branch[aria-current]").count() == 1


def test_markdown_code_and_tables_are_shown_as_what_they_are(visit: Open) -> None:
    opened = visit("thread", thread(ANALYSIS), ready=".code-block")
    page = opened.page
    answer = page.locator(".message").last

    assert answer.locator("strong").first.inner_text() == "November"
    assert texts(page, ".message:last-child table td")[:3] == ["August", "21", "5.1 %"]
    assert answer.locator(".code-head span").first.inner_text() == "python"
    assert "return lost / max(len(rows), 1)" in answer.locator("pre").inner_text()
    link = answer.locator("a[target=_blank]")
    assert link.get_attribute("rel") == "noopener noreferrer nofollow"
    rows = page.locator(".fold-result table tbody tr")
    assert rows.count() == 4
    assert rows.last.locator("td").all_inner_texts() == ["November", "521", "12", "0.031"]


def test_messages_have_times_gaps_tokens_and_cost(visit: Open) -> None:
    opened = visit("thread", thread(ANALYSIS), ready=".message-time time")
    page = opened.page

    assert texts(page, ".gap") == ["+3.0 s", "+2.0 s", "+7.0 s"]
    assert texts(page, ".took")[-1].split() == ["large-42.6k", "→", "412", "tokens$0.0276.9", "s"]
    page.locator(".message-step").nth(3).click()
    page.wait_for_selector(".step-bar .badge:has-text('earlier step')")
    until(page, "document.querySelectorAll('.message').length === 4")


def test_the_timeline_has_nodes_tools_and_times(visit: Open) -> None:
    opened = visit("thread", thread(f"{DESK}/8804", tab="timeline"), ready=".step")
    page = opened.page

    assert texts(page, ".step-node") == ["agent", "tools", "agent", "input"]
    assert texts(page, ".step-tool") == ["get_payments"]
    assert texts(page, ".step .gap") == ["+2.0 s", "+3.0 s", "+1.0 s"]
    assert page.locator(".step .badge.bad").inner_text() == "1 error"


COMMANDS = (
    *("threads", "history", "show", "diff", "tail", "store", "search", "stats"),
    *("sql", "usage", "messages", "tools"),
)


def test_the_menu_of_every_view_copies_commands_that_run_and_saves_files(visit: Open) -> None:
    opened = visit()
    page = opened.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    commands: set[str] = set()
    for view, parameters, ready in [
        *VIEWS.values(),
        *(("thread", thread(name), ".message") for name in HOSTILE_IDS),
    ]:
        opened.open(view, parameters, ready=ready)
        page.locator(".menu-button").click()
        for line in page.locator(".menu-row").all():
            line.get_by_role("button").click()
            copied = page.evaluate("navigator.clipboard.readText()")
            assert copied == line.locator(".menu-code").inner_text()
            assert shlex.split(copied)[:3] == ["memalchemy", "--db", opened.server.database]
            commands.add(copied)
        assert axe(page, within=".menu") == []  # the views are asked about as wholes above
        for button in page.locator(".menu-panel > .button").all():
            with page.expect_download() as saved:
                button.click()
            assert Path(saved.value.path()).stat().st_size > 20
        page.keyboard.press("Escape")
    words = {line: words_of_bash(line.replace(" --follow", "")) for line in commands}
    run = [line for line in commands if words[line][3] in COMMANDS]
    said = dict(zip(run, failures([words[line] for line in run]), strict=True))

    assert len(run) > 12
    assert {line: failure for line, failure in said.items() if failure} == {}


# --- Store, memories, search, storage -----------------------------------------------------------


def test_items_are_found_by_words_and_by_namespace(visit: Open) -> None:
    opened = visit("store", ready=".item-row")
    page = opened.page
    page.locator(".ns-link:has-text('documents')").click()
    until(page, "document.querySelectorAll('.item-row').length === 5")
    page.locator("[data-field]").fill("grinder")
    until(page, "document.querySelectorAll('.item-row').length === 1")

    page.locator(".item-row").click()
    page.wait_for_selector(".neighbour")
    assert page.locator("h1").inner_text().strip() == "warranty"
    assert page.locator(".neighbour").count() == 4


def test_internal_rows_of_the_store_are_out_of_sight_until_asked_for(visit: Open) -> None:
    opened = visit("store", {"ns": "episodes"}, ready=".item-row")
    page = opened.page
    assert page.locator(".item-row").count() == 4
    assert page.locator(".ns-link:has-text('by time')").count() == 0
    page.get_by_label("internal rows").check()
    page.wait_for_selector(".ns-link:has-text('by time')")
    until(page, "document.querySelectorAll('.item-row').length === 8")

    assert "internal=1" in page.url


def test_an_item_says_when_it_expires_and_its_version(visit: Open) -> None:
    opened = visit("store", {"ns": "users"}, ready=".item-row")

    assert "expires in" in opened.page.locator(".item-row:has-text('session')").text_content()
    assert "v4" in opened.page.locator(".item-row:has-text('preferences')").text_content()


def test_facts_are_filtered_by_user(visit: Open) -> None:
    opened = visit("memories", ready=".memory")
    opened.page.locator("[data-field]").fill("bob")
    until(opened.page, "document.querySelectorAll('.memory').length === 2")

    assert set(texts(opened.page, ".person")) == {"bob"}


def test_a_conversation_leads_to_its_transcript(visit: Open) -> None:
    opened = visit(*VIEWS["conversations"][:2], ready=".memory")
    opened.page.locator(".memory").click()
    opened.page.wait_for_selector(".message")

    assert opened.page.locator(".thread-id .id").inner_text().strip() == CONVERSATION


def test_one_search_finds_steps_entries_and_items_and_marks_the_words(visit: Open) -> None:
    opened = visit("search")
    page = opened.page
    page.locator("[data-field]").press_sequentially("refund", delay=15)
    page.wait_for_selector(".hit")
    until(
        page,
        "new Set([...document.querySelectorAll('.hit')].map((hit) => hit.dataset.kind)).size === 3",
    )

    assert {word.lower() for word in texts(page, ".hit mark")} >= {"refund"}
    page.get_by_role("button", name="Items").click()
    assert {
        hit
        for hit in page.locator(".hit").evaluate_all("(all) => all.map((one) => one.dataset.kind)")
    } == {"item"}
    page.locator("[data-field]").fill("zzzyyyxxx")
    page.wait_for_selector(".empty-title:has-text('No hits')")


def test_a_search_finds_all_of_the_words_if_that_is_ticked(visit: Open) -> None:
    opened = visit("search", {"q": "refund zzzyyyxxx"}, ready=".hit")
    page = opened.page
    page.get_by_label("all words").check()
    page.wait_for_selector(".empty-title:has-text('No hits')")
    assert "match=all" in page.url
    page.get_by_label("all words").uncheck()
    page.wait_for_selector(".hit")

    opened.open("store", {"q": "refund zzzyyyxxx", "match": "all"}, ready=".empty-title")
    assert page.get_by_label("all words").is_checked()
    page.get_by_label("all words").uncheck()
    page.wait_for_selector(".item-row")


def test_storage_draws_kinds_frameworks_and_tables(visit: Open) -> None:
    opened = visit("storage", ready=".stacked")

    assert opened.page.locator(".stacked rect").count() >= 4
    assert opened.page.locator(".tile").count() == 4
    assert opened.page.locator(".stored-row").count() >= 5
    (total,) = {
        opened.page.locator(".tile-value").first.inner_text(),
        opened.page.locator("#kinds-title ~ .muted").inner_text(),
    }
    assert total.endswith(("kB", "MB"))


def test_a_hit_opens_at_its_message_and_is_marked(visit: Open) -> None:
    opened = visit("search", {"q": "parcel monday"}, ready=".hit")
    page = opened.page
    page.locator(".hit[data-kind=entry]").first.click()
    page.wait_for_selector(".hit-message mark")
    assert {one.lower() for one in texts(page, ".hit-message mark")} == {"parcel", "monday"}
    assert page.locator(".hit-message").evaluate(
        "(one) => { const box = one.getBoundingClientRect();"
        " return box.top > 0 && box.bottom < innerHeight; }"
    )
    page.get_by_role("link", name="Done").click()
    page.wait_for_selector(".hit-message", state="detached")

    opened.open("thread", thread(LONG, find="example"), ready=".found-bar")
    assert "elsewhere in the state" in page.locator(".found-bar").inner_text()


def test_a_hit_far_up_in_a_log_is_shown_with_what_is_around_it(visit: Open) -> None:
    opened = visit(
        "thread", thread(OPENAI_THREAD, OPENAI, find="bm25", around="3"), ready=".hit-message"
    )
    page = opened.page
    assert page.locator(".message").first.get_attribute("data-index") == "1"
    before = page.locator(".message").count()
    page.get_by_role("button", name="Show later messages").click()
    until(page, f"document.querySelectorAll('.message').length > {before}")
    indexes = page.locator(".message").evaluate_all("(all) => all.map((one) => +one.dataset.index)")

    assert indexes == list(range(1, len(indexes) + 1))


def test_all_that_is_known_of_a_person_and_the_commands_that_erase_it(visit: Open) -> None:
    opened = visit("person", ready="[data-field]")
    page = opened.page
    page.locator("[data-field]").fill("ada")
    page.wait_for_selector(".erase")
    lines = page.locator(".erase-lines").inner_text().splitlines()

    assert [" ".join(shlex.split(line)[3:]) for line in lines] == [
        "forget --metadata user_id=ada",
        "forget --namespace facts/ada",
        "forget --namespace users/ada",
        "forget --thread ada/parcel",
    ]
    assert len(texts(page, ".known-row")) == 4
    assert "ada/parcel" in texts(page, ".thread-row .row-id")


def test_all_that_is_known_of_a_scope_and_the_command_that_erases_it(visit: Open) -> None:
    opened = visit()
    page = opened.page
    for parameters, commands in (
        ({"agent": "analyst"}, ["forget --metadata agent=analyst"]),
        ({"metadata": "user_id=grace"}, ["forget --metadata user_id=grace"]),
        ([("ns", "documents"), ("ns", "policies")], ["forget --namespace documents/policies"]),
        ({"ns": "langgraph"}, ["forget --namespace langgraph --threads"]),
    ):
        opened.open("scope", parameters, ready=".erase")
        lines = page.locator(".erase-lines").inner_text().splitlines()
        assert [" ".join(shlex.split(line)[3:]) for line in lines] == commands
        for line in lines:
            argv = [sys.executable, "-m", *shlex.split(line), "--dry-run"]
            ran = subprocess.run(argv, capture_output=True, text=True)
            assert (ran.returncode, ran.stderr) == (0, ""), line
            assert not ran.stdout.startswith("0 ")


def test_a_scope_is_typed_and_another_kind_is_chosen(visit: Open) -> None:
    opened = visit("person", {"name": "ada"}, ready=".erase")
    page = opened.page
    page.get_by_role("button", name="Namespace", exact=True).click()
    page.get_by_label("Namespace", exact=True).fill("documents/policies")
    page.wait_for_selector(".erase")
    assert page.url.endswith("#/scope?ns=documents&ns=policies")
    page.reload()
    page.wait_for_selector(".erase")
    page.get_by_role("button", name="Metadata", exact=True).click()
    page.get_by_label("Metadata, as key=value").fill("user_id=bob")
    page.wait_for_selector(".thread-row")
    opened.settle()

    assert len(texts(page, ".thread-row")) == 9


def test_use_is_drawn_by_day_model_and_tool_and_the_drawing_has_words(visit: Open) -> None:
    opened = visit("use", ready=".days")
    page = opened.page

    assert page.locator("svg.days .day").count() > 20
    assert "by day: " in str(page.locator("svg.days").get_attribute("aria-label"))
    assert texts(page, ".chart-legend li span") == ["large-4", "small-2"]
    page.get_by_role("button", name="Tokens").click()
    assert page.locator("#days-title").inner_text() == "Tokens by day and model"
    assert "get_order" in texts(page, ".bar-name")


# --- SQL ------------------------------------------------------------------------------------------


def cells(page: Page, column: int) -> list[str]:
    """Return the texts of a column of an answer."""
    return texts(page, f".grid tbody td:nth-child({column})")


def test_a_question_is_asked_by_a_click_and_its_answer_is_sorted(visit: Open) -> None:
    opened = visit("sql", ready=".question")
    page = opened.page
    assert len(texts(page, ".question")) == 10
    page.get_by_role("button", name="Which tools were called most").click()
    page.wait_for_selector(".grid")

    assert texts(page, ".grid thead th") == ["tool", "agent", "calls", "dollars"]
    assert cells(page, 3)[:3] == ["14", "8", "8"]
    assert page.locator("textarea").input_value().startswith("with costs as (")
    assert "q=with+costs" in page.url
    for name, expected in (("tool", sorted), ("calls", None)):
        page.locator(f".grid th button:text-is('{name}')").click()
        order = page.locator(f".grid th:has(button:text-is('{name}'))").get_attribute("aria-sort")
        assert order == ("ascending" if expected else "descending")
    assert cells(page, 3) == sorted(cells(page, 3), key=int, reverse=True)
    page.locator(".grid th button:text-is('calls')").click()
    assert cells(page, 3) == sorted(cells(page, 3), key=int)


def test_a_query_is_run_by_the_keyboard_and_narrowed_to_some_days(visit: Open) -> None:
    opened = visit("sql", ready=".question")
    page = opened.page
    page.locator("textarea").fill("select count(*) as steps from steps")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".grid")
    (everything,) = cells(page, 1)
    page.get_by_role("button", name="7 days", exact=True).click()
    until(page, f"document.querySelector('.grid td')?.textContent !== {everything!r}")
    opened.settle()

    assert 0 < int(cells(page, 1)[0]) < int(everything.replace(",", ""))
    assert "days=7" in page.url
    page.reload()
    page.wait_for_selector(".grid")


def test_an_answer_is_copied_as_csv_and_as_the_command_that_gives_it(visit: Open) -> None:
    opened = visit()
    page = opened.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    opened.open(
        "sql", {"q": "select thread,\n  'x,y' as pair\nfrom threads order by 1"}, ready=".grid"
    )
    page.get_by_role("button", name="Copy as CSV").click()
    page.wait_for_selector(".copy.done")
    lines = page.evaluate("navigator.clipboard.readText()").splitlines()
    page.get_by_role("button", name="Copy as command").click()
    until(page, "document.querySelectorAll('.copy.done').length === 2")
    command = page.evaluate("navigator.clipboard.readText()")
    ran = subprocess.run(
        [sys.executable, "-m", *shlex.split(command.replace(" sql ", " sql --csv "))],
        capture_output=True,
        text=True,
    )

    assert lines[0] == "thread,pair"
    assert f'{ANALYSIS},"x,y"' in lines
    assert ran.returncode == 0, ran.stderr
    assert f'{ANALYSIS},"x,y"' in ran.stdout.splitlines()


def test_a_query_that_is_refused_says_why_in_the_words_of_the_command(visit: Open) -> None:
    opened = visit()
    opened.expect("422")
    page = opened.page
    for query, said in (
        ("select rol from messages", "Binder Error"),
        ("from read_text('/etc/passwd')", "file system operations are disabled"),
        ("drop table messages", "only queries are run"),
    ):
        opened.open("sql", {"q": query}, ready=".sql-refusal")
        assert said in page.locator(".sql-refusal").inner_text()
        assert "root:" not in page.locator("#main").inner_text()
    assert axe(page) == []


def test_without_the_extra_the_box_is_hidden_and_a_sentence_says_how_to_install_it(
    visit: Open,
) -> None:
    opened = visit()
    page = opened.page
    missing = "the package 'duckdb' is not installed. Run: pip install duckdb"
    described = {"missing": missing, "tables": [], "questions": [], "rows": 1, "seconds": 1}
    page.route("**/api/tables*", lambda route: route.fulfill(json=described))
    opened.open("sql", {"q": "select 1"}, ready=".empty")

    assert missing in page.locator(".empty").inner_text()
    assert not page.locator("textarea").is_visible()
    assert axe(page) == []


# --- Attacks ------------------------------------------------------------------------------------


def test_hostile_content_is_shown_as_text_everywhere(visit: Open) -> None:
    opened = visit()
    opened.expect("422")
    page = opened.page
    for view, parameters in [
        ("threads", ()),
        *[
            ("thread", thread(HOSTILE_THREAD, tab=tab))
            for tab in ("transcript", "timeline", "state", "diff", "writes")
        ],
        ("thread", thread(HOSTILE_THREAD, ("openai-agents", SCRIPT))),
        *[("thread", thread(name)) for name in HOSTILE_IDS],
        ("store", ()),
        ("store", {"ns": "users"}),
        ("item", [("ns", "users"), ("ns", "eve"), ("key", SCRIPT)]),
        ("thread", thread(MARKDOWN_THREAD, ("log",))),
        ("threads", [("metadata", f"{SCRIPT}={IMAGE}"), ("q", SCRIPT)]),
        ("person", {"name": SCRIPT}),
        ("person", {"name": "eve"}),
        ("scope", {"agent": SCRIPT}),
        ("scope", {"metadata": f"{SCRIPT}={IMAGE}"}),
        ("scope", [("ns", "ids"), ("ns", SCRIPT)]),
        ("use", ()),
        ("memories", ()),
        ("memories", {"kind": "episodes"}),
        ("search", {"q": SCRIPT}),
        ("search", {"q": "alert"}),
        ("sql", {"q": f"select *, '{SCRIPT}' as \"{SCRIPT}\" from messages order by text"}),
        ("sql", {"q": f"select {IMAGE}", "days": SCRIPT}),
        ("storage", ()),
    ]:
        opened.open(view, parameters)
        for fold in page.locator("#main summary").all():
            fold.click()

        assert (
            page.locator("#main script, #main img, #main iframe, #main b[onmouseover]").count() == 0
        )
        assert page.locator("script").count() == 2, view
        opened.check()


def test_an_address_cannot_attack_either(visit: Open) -> None:
    opened = visit()
    for address in (
        f"{SCRIPT}?q={SCRIPT}",
        "threads?q=%3Cimg%20src%3Dx%20onerror%3Dalert(1)%3E",
        "__proto__",
        "javascript:alert(1)",
    ):
        opened.page.goto("about:blank")
        opened.page.goto(f"{opened.server.origin}/#/{address}")
        opened.settle()

        assert opened.page.locator("#main script, #main img").count() == 0


def test_control_and_bidirectional_characters_are_marks(visit: Open) -> None:
    opened = visit("thread", thread(HOSTILE_THREAD), ready=".message")
    marks = set(texts(opened.page, ".message-text .mark"))

    assert {"RLO", "PDF", "LRI", "PDI", "ESC", "NUL", "BEL"} <= marks
    assert any(mark.startswith("TAG i TAG g") for mark in marks)
    shown = opened.page.locator("#main").inner_text()
    assert not {"\u202e", "\u2066", "\x1b", "\x00", "\U000e0069"} & set(shown)


def test_a_text_of_ten_megabytes_is_folded_and_comes_in_parts(visit: Open) -> None:
    opened = visit("thread", thread(HOSTILE_THREAD), ready=".message")
    message = opened.page.locator(".message").last
    assert 0 < len(message.text_content()) < 25_000

    message.get_by_role("button", name="Show all").click()
    opened.page.wait_for_selector(".cut:has-text('The first 400,000 of 10,485,760 characters')")


def test_markdown_makes_no_element_that_acts_and_loses_no_text(visit: Open) -> None:
    opened = visit("thread", thread(MARKDOWN_THREAD, ("log",)), ready=".message")
    page = opened.page
    places = page.locator("#main .messages a[href]").evaluate_all(
        "(all) => all.map((one) => one.protocol)"
    )

    assert set(places) <= {"https:", "mailto:", "http:"}
    assert page.locator("#main img, #main iframe, #main form, #main script").count() == 0
    shown = texts(page, ".message-text")
    assert len(shown) == len(HOSTILE_MARKDOWN)
    for text, source in zip(shown, HOSTILE_MARKDOWN, strict=True):
        words = set(re.findall(r"[a-z]{4,}", re.sub(r"\]\([^)]*\)", "", source)))
        assert words - set(re.findall(r"[a-z]{4,}", text)) <= {"html"}, source[:60]


def test_the_tenant_is_switched_among_those_whose_tokens_were_given(
    visit: Open, served: Server
) -> None:
    opened = visit(signed_in=False, server=served)
    opened.expect("401")
    page = opened.page
    opened.open("threads", ready="#token")
    page.locator("#token").fill(OTHER_TOKEN)
    page.keyboard.press("Enter")
    page.wait_for_selector(".thread-row:has-text('of another tenant')")
    page.get_by_label("Tenant").select_option("Another token…")
    page.locator("#token").fill(served.token)
    page.keyboard.press("Enter")
    page.wait_for_selector(f".thread-row:has-text('{REFUND}')")
    assert axe(page) == []
    page.get_by_label("Tenant").select_option("tenant other")
    page.wait_for_selector(".thread-row:has-text('of another tenant')")

    assert texts(page, ".thread-row .row-id") == ["of another tenant"]


def test_every_view_of_the_inspector_keeps_the_chosen_tenant_in_its_address(visit: Open) -> None:
    opened = visit("threads", ready=".thread-row")
    page = opened.page
    page.get_by_label("Tenant").select_option("tenant other")
    page.wait_for_selector(".thread-row:has-text('of another tenant')")
    assert texts(page, ".thread-row .row-id") == ["of another tenant"]
    asked: list[str] = []
    page.on("request", lambda sent: asked.append(sent.url))
    for name in ("Store", "Memories", "Usage", "SQL", "Search", "Storage", "Threads"):
        page.locator(f".rail-link:has-text('{name}')").click()
        opened.settle()
        assert "tenant=other" in page.url, name
    page.locator(".thread-row").click()
    page.get_by_role("tab", name="State").click()
    page.wait_for_selector(".tree-card")
    assert "tenant=other" in page.url
    assert "tenant=other" in page.locator(".crumbs a").first.get_attribute("href")
    page.locator(".menu-button").click()
    assert all("--tenant other" in line for line in texts(page, ".menu-code"))

    page.goto("about:blank")
    page.goto(f"{opened.server.origin}/#/sql?q=from+threads&tenant=other")
    page.wait_for_selector(".grid")
    assert cells(page, 2) == ["of another tenant"]
    assert all("tenant=other" in url for url in asked if "/api/" in url)


def test_an_address_of_another_tenant_is_refused_and_leads_back(
    visit: Open, served: Server
) -> None:
    opened = visit(signed_in=False, server=served)
    opened.expect("401")
    opened.expect("403")
    page = opened.page
    opened.open("threads", ready="#token")
    page.locator("#token").fill(served.token)
    page.keyboard.press("Enter")
    page.wait_for_selector(".thread-row")
    opened.open("threads", {"tenant": "other"}, ready=".failure")
    assert "this token is for tenant 'default' alone" in page.locator(".failure").inner_text()
    page.get_by_role("button", name="To the token’s own tenant").click()
    page.wait_for_selector(f".thread-row:has-text('{REFUND}')")

    assert "tenant" not in page.url


# --- Token, keyboard, theme, live refresh --------------------------------------------------------


def test_the_token_is_taken_out_of_the_address(visit: Open) -> None:
    opened = visit()

    assert opened.server.token not in opened.page.url
    assert opened.page.evaluate("sessionStorage.getItem('memalchemy.token')") == opened.server.token


def test_without_a_token_the_page_asks_for_it_and_goes_on_where_one_was(visit: Open) -> None:
    opened = visit(signed_in=False)
    opened.expect("401")
    page = opened.page
    opened.open("thread", thread(REFUND, LANGGRAPH), ready="#token")
    page.locator("#token").fill("wrong, and long enough to be one")
    page.keyboard.press("Enter")
    page.wait_for_selector(".signin .error")
    assert axe(page) == []
    page.locator("#token").fill(opened.server.token)
    page.keyboard.press("Enter")

    page.wait_for_selector(".message")


def test_below_a_server_the_page_asks_for_a_token_of_the_server(
    visit: Open, served: Server
) -> None:
    opened = visit(signed_in=False, server=served)
    opened.expect("401")
    page = opened.page
    opened.open("thread", thread(REFUND, LANGGRAPH), ready="#token")
    assert axe(page) == []
    page.locator("#token").fill("wrong, and long enough to be one")
    page.keyboard.press("Enter")
    page.wait_for_selector(".signin .error")
    page.locator("#token").fill(served.token)
    page.keyboard.press("Enter")
    page.wait_for_selector(".message")

    assert page.url.startswith(f"{served.origin}/#/thread")
    assert served.token not in page.url
    assert page.evaluate("sessionStorage.getItem('memalchemy.token')") == served.token
    opened.open("threads", ready=".thread-row")
    assert page.locator("#token").count() == 0


def test_below_a_server_a_token_shows_its_tenant_alone(visit: Open, served: Server) -> None:
    opened = visit(signed_in=False, server=served)
    opened.expect("401")
    opened.open("threads", ready="#token")
    opened.page.locator("#token").fill(OTHER_TOKEN)
    opened.page.keyboard.press("Enter")
    opened.page.wait_for_selector(".thread-row")

    assert texts(opened.page, ".thread-row .row-id") == ["of another tenant"]
    assert "tenant other" in opened.page.locator(".database").inner_text()


def test_the_whole_way_to_a_difference_goes_by_keyboard(visit: Open) -> None:
    opened = visit()
    page, press = opened.page, opened.page.keyboard.press
    press("/")
    assert page.evaluate("document.activeElement.type") == "search"
    page.keyboard.type(BRANCHED)
    until(page, "document.querySelectorAll('.thread-row').length === 1")
    press("Escape")
    press("j")
    press("Enter")
    page.wait_for_selector(".message")
    press("2")
    page.wait_for_selector(".step")
    press("j")
    press("c")
    for _ in range(3):
        press("j")
    press("c")
    page.wait_for_selector(".compare-bar a")
    press("4")
    page.wait_for_selector(".change, .empty")
    press("Escape")
    page.wait_for_selector(".thread-row")
    for second, view in (
        ("s", "store"),
        ("m", "memories"),
        ("u", "use"),
        ("q", "sql"),
        ("f", "search"),
        ("b", "storage"),
        ("t", "threads"),
    ):
        if view in ("search", "storage"):
            press("Escape")  # out of the field of the view before
        press("g")
        press(second)
        page.wait_for_selector(f".view-{view}")
    opened.settle()


def test_the_help_opens_and_closes_and_the_focus_is_seen(visit: Open) -> None:
    opened = visit()
    page = opened.page
    page.keyboard.press("?")
    page.wait_for_selector("dialog[open]")
    assert axe(page) == []
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="hidden")
    page.keyboard.press("j")

    assert page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"


def test_the_first_tab_leads_to_the_content(visit: Open) -> None:
    page = visit().page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to content"
    page.keyboard.press("Enter")

    assert page.evaluate("document.activeElement.id") == "main"


def test_the_chosen_theme_stays(visit: Open) -> None:
    opened = visit()
    page = opened.page
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.get_by_role("button", name="Dark theme").click()
    dark = page.evaluate(background)
    opened.open("threads", ready=".thread-row")

    assert light != dark
    assert page.evaluate(background) == dark


def test_nothing_moves_for_who_wants_no_motion(visit: Open) -> None:
    opened = visit(reduced_motion="reduce")
    moving = (
        "[...document.querySelectorAll('*')]"
        ".filter((one) => getComputedStyle(one).animationName !== 'none').length"
    )

    assert opened.page.evaluate(moving) == 0


def wait_until_it_asks(page: Page) -> None:
    """Return when the page has asked what is new once more."""
    with page.expect_response(lambda answer: "changes" in answer.url):
        pass


def test_what_is_saved_while_one_looks_appears(visit: Open, sample_url: str) -> None:
    async def save(count: int) -> None:
        async with Database(sample_url) as db:
            said = [{"role": "user", "content": f"message {number}"} for number in range(count)]
            await Checkpointer(db).save({"messages": said}, "written-while-looking")

    opened = visit()
    wait_until_it_asks(opened.page)
    run_apart(save(1))
    opened.page.wait_for_selector(".thread-row:has-text('written-while-looking')")
    opened.open("thread", thread("written-while-looking"), ready=".message")
    wait_until_it_asks(opened.page)
    run_apart(save(2))

    opened.page.wait_for_selector(".message:has-text('message 1')")
    assert texts(opened.page, ".message-text") == ["message 0", "message 1"]


def test_items_that_are_put_and_deleted_while_one_looks_come_and_go(
    visit: Open, sample_url: str
) -> None:
    async def change(delete: bool) -> None:
        async with Database(sample_url) as db:
            if delete:
                await Store(db).delete(("seen", "live"), "key")
            else:
                await Store(db).put(("seen", "live"), "key", {"text": "put while looking"})

    opened = visit("store", ready=".item-row")
    wait_until_it_asks(opened.page)
    run_apart(change(False))
    opened.page.wait_for_selector(".item-row:has-text('put while looking')")
    opened.page.wait_for_selector(".ns-link:has-text('seen')")
    run_apart(change(True))
    opened.page.wait_for_selector(".item-row:has-text('put while looking')", state="detached")


def test_live_refresh_is_paused_on_demand(visit: Open) -> None:
    opened = visit()
    page = opened.page
    page.keyboard.press("l")
    page.wait_for_selector(".live[data-state=paused]")
    asked: list[str] = []
    page.on("request", lambda sent: asked.append(sent.url))
    page.wait_for_timeout(2600)  # timed: longer than it takes to ask, if it did

    assert [url for url in asked if "changes" in url] == []


def test_a_server_that_is_gone_is_named_calmly(visit: Open) -> None:
    opened = visit()
    opened.expect("ERR_FAILED")
    opened.expect("ERR_INTERNET_DISCONNECTED")
    opened.page.route("**/api/**", lambda route: route.abort())
    opened.page.wait_for_selector(".live[data-state=lost]")
    opened.page.locator(".rail-link:has-text('Storage')").click()
    opened.page.wait_for_selector(".failure:has-text('does not answer')")
    opened.page.unroute("**/api/**")
    opened.page.get_by_role("button", name="Try again").click()

    opened.page.wait_for_selector(".stacked")
    opened.page.wait_for_selector(".live[data-state=live]")


@pytest.mark.parametrize("name", HOSTILE_IDS, ids=range(len(HOSTILE_IDS)))
def test_every_id_can_be_opened_from_the_lists_and_by_its_address(visit: Open, name: str) -> None:
    opened = visit()
    for parameters, ready in (
        (thread(name), ".message"),
        (thread(name, at=name), ".message"),
        (thread(name, tab="state", at=name), ".node"),
        (thread(name, tab="timeline"), ".step-side h2"),
    ):
        opened.open("thread", parameters, ready=ready)
    opened.open("item", [("ns", "ids"), ("ns", name), ("key", name)], ready=".node")

    opened.open("store", [("ns", "ids"), ("ns", name)], ready=".item-row")
    opened.page.locator(".item-row").click()
    opened.page.wait_for_selector(".node")
