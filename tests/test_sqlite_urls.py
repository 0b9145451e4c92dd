"""A URL of a SQLite file means one path, whatever SQLAlchemy's version; or it is refused."""

from __future__ import annotations

import os
from pathlib import Path
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from memalchemy import Database, Store
from memalchemy.dialects import parse_url
from memalchemy.errors import UnknownURL

NAMES = st.text(
    st.one_of(
        st.sampled_from("%?#&=+ :;@~'\"\\äé漢.-c0"),
        st.characters(exclude_categories=("Cs",), exclude_characters="\0"),
    ),
    min_size=1,
    max_size=30,
).filter(lambda name: name != ":memory:")


@given(NAMES)
def test_an_encoded_path_is_read_as_the_path(name: str) -> None:
    for written in (quote(name), quote(name, safe="/#&=+ :;@~'\"\\äé漢")):
        assert parse_url(f"sqlite:///{written}").path == name
        assert parse_url(f"sqlite+aiosqlite:////{written}?mode=ro").path == f"/{name}"


@given(NAMES)
def test_what_is_shown_of_a_file_leads_to_it(name: str) -> None:
    target = parse_url(f"sqlite:///{quote(name)}")

    assert parse_url(target.display).path == name


@given(NAMES)
def test_an_unencoded_path_is_itself_or_decoded_or_refused(name: str) -> None:
    try:
        path = parse_url(f"sqlite:///{name}").path
    except UnknownURL:
        assert "%" in name or "?" in name
    else:
        assert path == name or ("%" in name and quote(str(path), safe="") != name)


@given(NAMES)
def test_a_path_without_a_scheme_is_itself_or_refused(name: str) -> None:
    try:
        path = parse_url(f"./{name}").path
    except UnknownURL:
        return
    assert path == f"./{name}"


@pytest.mark.parametrize(
    "url",
    [
        "sqlite:///per%cent.db",
        "sqlite:///q?mark.db",
        "sqlite:///ends%",
        "sqlite:///%zz",
        "sqlite:///%ff.db",
        "sqlite:///a%00b",
        "sqlite:///a.db?",
        "sqlite:///a.db?other=1",
        "sqlite:///a.db?mode=ro&mark.db",
    ],
)
def test_what_can_mean_another_file_is_refused(url: str) -> None:
    with pytest.raises(UnknownURL):
        parse_url(url)


def test_a_file_that_an_earlier_sqlalchemy_made_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("pct%20enc.db").touch()

    with pytest.raises(UnknownURL, match="%25"):
        parse_url("sqlite:///pct%20enc.db")
    assert parse_url("sqlite:///pct%2520enc.db").path == "pct%20enc.db"


@pytest.mark.parametrize("name", ["pct enc.db", "per%cent.db", "q?mark.db", "h#x.db", "ünï é+.db"])
async def test_the_file_of_that_name_is_made(tmp_path: Path, name: str) -> None:
    url = f"sqlite:///{quote(str(tmp_path / name))}"
    for read_only in (False, True):
        async with Database(url, read_only=read_only) as db:
            if not read_only:
                await Store(db).put(("a",), "k", 1)
            assert await Store(db).get(("a",), "k") == 1

    assert os.listdir(tmp_path) == [name]
