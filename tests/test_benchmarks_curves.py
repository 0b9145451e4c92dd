"""Curves of growth: which of them are superlinear, and that the page shows the committed ones."""

from __future__ import annotations

from xml.etree import ElementTree

import pytest
from benchmarks import curves_report
from benchmarks.curves_report import Curve, Curves, draw, section, summary
from benchmarks.report import with_section


def curve(*values: float, name: str = "save", along: str = "threads") -> Curve:
    counts = (10, 1_000, 100_000)
    return Curve(along, name, "ms", tuple(zip(counts, values, strict=True)))


@pytest.mark.parametrize(
    ("values", "exponent"),
    [
        ((1.0, 1.0, 1.0), 0.0),
        ((1.0, 100.0, 10_000.0), 1.0),
        ((1.0, 1.0, 10_000.0), 2.0),
    ],
    ids=["constant", "linear", "quadratic in the end"],
)
def test_the_exponent_is_that_of_the_steepest_part(
    values: tuple[float, ...], exponent: float
) -> None:
    assert curve(*values).exponent == pytest.approx(exponent)


def test_only_what_grows_faster_than_what_it_works_on_is_superlinear() -> None:
    assert not curve(1.0, 100.0, 10_000.0).is_superlinear
    assert curve(1.0, 100.0, 20_000.0).is_superlinear


def test_what_is_superlinear_is_named() -> None:
    found = Curves({}, (curve(1, 1, 1), curve(1, 1, 9e4, name="list")))

    assert summary(found) == "Superlinear: list (threads, exponent 2.48)."
    assert summary(Curves({}, (curve(1, 1, 1),))) == "Superlinear: none."


def test_curves_come_back_from_their_json() -> None:
    found = Curves({"date": "2026-01-01"}, (curve(1, 2, 3), curve(3, 2, 1, along="bytes")))

    assert Curves.from_json(found.as_json()) == found


def test_the_picture_has_a_panel_for_each_thing_that_grows_and_a_line_for_each_operation() -> None:
    found = Curves(
        {}, (curve(1, 2, 3), curve(1, 1, 9e4, name="list"), curve(1, 1, 1, along="bytes"))
    )
    picture = ElementTree.fromstring(draw(found))
    texts = ["".join(one.itertext()) for one in picture.iter() if one.tag.endswith("text")]
    drawn = [one for one in picture.iter() if one.tag.endswith("polyline")]

    assert {"threads", "bytes"} <= {*texts}
    assert len(drawn) == 3
    assert [one.get("class") for one in drawn].count("curve steep") == 1
    assert sum("superlinear" in one for one in texts) == 1


def test_the_page_and_the_picture_show_the_committed_curves() -> None:
    found = curves_report.committed()
    text = curves_report.PAGE.read_text()

    assert with_section(text, section(found), curves_report.MARKS) == text, (
        "python -m benchmarks --render writes it"
    )
    assert curves_report.SVG.read_text() == draw(found)
