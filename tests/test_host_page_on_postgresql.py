"""The page about hosts with SQLAlchemy, whose blocks are one application, on PostgreSQL."""

from __future__ import annotations

from pathlib import Path

import pytest

from host_urls import async_url, sync_url
from pages import BLOCK, ROOT, run_page
from servers import Postgres

PAGE = ROOT / "docs" / "sqlalchemy.md"

pytestmark = pytest.mark.own_keys


async def test_the_page_runs_on_postgresql(postgres: Postgres, tmp_path: Path) -> None:
    name = postgres.create_database()
    url = postgres.url(name)
    blocks = [block for block in BLOCK.findall(PAGE.read_text()) if "PRAGMA" not in block]
    text = "".join(f"```python\n{block}```\n" for block in blocks)
    for written, meant in {
        'create_engine("sqlite:///app.db")': f'create_engine("{sync_url(url)}")',
        "sqlite+aiosqlite:///app.db": async_url(url),
        "sqlite:///app.db": url,
    }.items():
        assert written in text
        text = text.replace(written, meant)
    page = tmp_path / "page.md"
    page.write_text(text)

    await run_page(page)

    assert postgres.execute("SELECT key FROM store_items WHERE namespace LIKE '/users/%'", name)
    postgres.drop_database(name)
