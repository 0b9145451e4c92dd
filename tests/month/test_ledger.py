"""The model of the month sees what is lost, doubled, out of order, or back after a deletion."""

from __future__ import annotations

from pathlib import Path

import pytest

from month.ledger import Ledger, Moments, Page, Where, now

WHERE = Where("acme", "a kind / of things", "ada-1")


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path)


def note(ledger: Ledger, *steps: str) -> Page:
    """Note steps such as ``write one``, ``written`` or ``delete``; return the page."""
    with ledger.held(WHERE) as entry:
        assert entry is not None
        for step in steps:
            what, _, text = step.partition(" ")
            entry.note(step=what, **({"text": text} if text else {}))
    return ledger.read(WHERE)


SURE = ("write one", "written", "write two", "written")
UNCERTAIN = (*SURE, "write three")
REFUSED = (*UNCERTAIN, "refused")


@pytest.mark.parametrize(
    ("steps", "appends", "found"),
    [
        (SURE, True, ["one", "two"]),
        (SURE, False, ["two"]),
        (UNCERTAIN, True, ["one", "two"]),
        (UNCERTAIN, True, ["one", "two", "three"]),
        ((*UNCERTAIN, "write four", "written"), True, ["one", "two", "three", "four"]),
        (UNCERTAIN, False, ["two"]),
        (UNCERTAIN, False, ["three"]),
        (("write one",), False, []),
        ((*SURE, "delete"), True, ["one", "two"]),
        ((*SURE, "delete"), True, []),
        ((*SURE, "delete", "deleted"), True, []),
    ],
)
def test_what_may_be_there_is_right(
    ledger: Ledger, steps: tuple[str, ...], appends: bool, found: list[str]
) -> None:
    assert note(ledger, *steps).complaint(found, appends=appends) is None


@pytest.mark.parametrize(
    ("steps", "appends", "found"),
    [
        (SURE, True, ["one"]),
        (SURE, True, ["two", "one"]),
        (SURE, True, ["one", "two", "two"]),
        (SURE, True, ["one", "two", "another"]),
        (SURE, True, []),
        (SURE, False, ["one"]),
        (SURE, False, []),
        (UNCERTAIN, True, ["one", "three"]),
        (UNCERTAIN, True, ["one", "two", "three", "three"]),
        (REFUSED, True, ["one", "two", "three"]),
        (REFUSED, False, ["three"]),
        ((*UNCERTAIN, "write four", "written"), False, ["three"]),
        ((*SURE, "delete"), True, ["one"]),
        ((*SURE, "delete", "deleted"), True, ["one", "two"]),
    ],
)
def test_what_must_not_be_there_is_wrong(
    ledger: Ledger, steps: tuple[str, ...], appends: bool, found: list[str]
) -> None:
    assert note(ledger, *steps).complaint(found, appends=appends) is not None


def test_a_backup_has_what_was_acknowledged_before_it_and_nothing_that_began_after_it(
    ledger: Ledger,
) -> None:
    note(ledger, "write one", "written", "write two")
    begin = now()
    note(ledger, "written", "write three", "written")
    backup = Moments(begin, now())
    note(ledger, "write four", "written", "delete", "deleted")
    ledger.roll_back(["acme"], backup)
    page = ledger.read(WHERE)

    assert page.is_open
    for found in (["one"], ["one", "two"], ["one", "two", "three"]):
        assert page.complaint(found, appends=True) is None
    for found in ([], ["two"], ["one", "two", "three", "four"]):
        assert page.complaint(found, appends=True) is not None


def test_a_page_has_one_owner(ledger: Ledger) -> None:
    with ledger.held(WHERE) as first:
        assert first is not None
        with ledger.held(WHERE) as second:
            assert second is None
    with ledger.held(WHERE) as third:
        assert third is not None
    assert ledger.wheres("acme") == ledger.wheres("acme", WHERE.kind) == [WHERE]
