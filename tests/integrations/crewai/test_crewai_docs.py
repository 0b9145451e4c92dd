"""The page of CrewAI runs in CrewAI's environment."""

from __future__ import annotations

from pathlib import Path

import pytest

from pages import ROOT, run_page


@pytest.mark.filterwarnings("ignore:.*serializer warnings:UserWarning")
async def test_the_examples_of_the_page_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    await run_page(ROOT / "docs" / "integrations" / "crewai.md")
