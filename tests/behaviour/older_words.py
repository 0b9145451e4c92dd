"""Rows whose words an older release has made: by version 1 of the tokens, and without a mark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import pytest

from memalchemy import Database
from memalchemy.checkpoints import save
from memalchemy.codec import search_text
from memalchemy.codec.first_tokens import first_tokens


@contextmanager
def an_older_release() -> Iterator[None]:
    """Let writes make words as an older release does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search_text, "tokens", first_tokens)
        for module in (search_text, save):
            patch.setattr(module, "search_text", _without_mark)
        yield


_NOW = search_text.search_text


def _without_mark(texts: Iterable[str]) -> str | None:
    words = _NOW(texts)
    return None if words is None else " ".join(search_text.count_words(words).elements())


async def forget_the_words_version(db: Database) -> None:
    """Leave no note about the version of the words, as an older release leaves none."""
    await db.forget_words_note()
