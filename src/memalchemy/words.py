"""Rebuild the words and fields by which searches and filters find rows."""

from memalchemy.maintenance.words.rebuild import rebuild_words
from memalchemy.maintenance.words.report import WordlessNamespace, WordsReport

__all__ = ["WordlessNamespace", "WordsReport", "rebuild_words"]
