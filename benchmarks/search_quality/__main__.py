"""Measure the search in many languages, and write docs/search-quality.md and its table."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import tempfile
from collections import defaultdict
from pathlib import Path

import memalchemy
from benchmarks.report import date_and_commit
from benchmarks.search_quality.catalogues import catalogues, messages
from benchmarks.search_quality.page import languages_page, page
from benchmarks.search_quality.questions import MESSAGES, chosen, questions
from memalchemy import Database, Store
from memalchemy.search.ranking import OTHER_FORMS

NAMESPACE = ("messages",)


async def measure(language: str, texts: list[str], url: str) -> dict[str, list[float]]:
    """Return recall at ten and mean reciprocal rank by the kind of question.

    Of words that occur nowhere it is the share that found something, and the share that found it
    as it is written, and not only other forms of it.
    """
    stored, left = chosen(texts, language)
    found: dict[str, list[tuple[float, float]]] = defaultdict(list)
    async with Database(url) as db:
        await db.migrate()
        store = Store(db)
        await store.put_batch([(NAMESPACE, str(at), text) for at, text in enumerate(stored)])
        for kind, query, answer in questions(stored, left, language):
            hits = await store.search(NAMESPACE, query, 10)
            if answer is None:
                score = hits[0].score if hits else None
                found[kind].append((float(bool(hits)), float((score or 0) > OTHER_FORMS)))
            else:
                keys = [hit.key for hit in hits]
                rank = keys.index(str(answer)) + 1 if str(answer) in keys else 0
                found[kind].append((float(rank > 0), 1 / rank if rank else 0.0))
    return {
        kind: [sum(column) / len(column) for column in zip(*pairs, strict=True)]
        for kind, pairs in found.items()
    }


async def main(languages: list[str]) -> dict[str, dict[str, list[float]]]:
    results: dict[str, dict[str, list[float]]] = {}
    for language, paths in catalogues().items():
        texts = messages(language, paths)
        if (languages and language not in languages) or len(texts) < MESSAGES:
            continue
        with tempfile.TemporaryDirectory() as directory:
            results[language] = await measure(language, texts, f"sqlite:///{directory}/words.db")
        shown = "  ".join(f"{k} {a:.2f}/{b:.2f}" for k, (a, b) in results[language].items())
        print(f"{language:10} {shown}", file=sys.stderr, flush=True)
    return results


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("languages", nargs="*", help="languages to measure; all without any")
    parser.add_argument("--json", type=Path, help="write the results to a file")
    parser.add_argument("--page", type=Path, help="write the page to a file")
    parser.add_argument("--table", type=Path, help="write the table of languages to a file")
    given = parser.parse_args()
    about = date_and_commit()
    results = asyncio.run(main(given.languages))
    if given.json is not None:
        given.json.write_text(json.dumps(results, indent=1))
    if given.page is not None:
        text = page(results, version=memalchemy.__version__, about=about)
        given.page.write_text(text)
    if given.table is not None:
        given.table.write_text(languages_page(results, about=about))
