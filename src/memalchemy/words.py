"""Rebuild the words and fields by which searches and filters find rows."""

from memalchemy.maintenance.words import WordlessNamespace, WordsReport, rebuild_words

__all__ = ["WordlessNamespace", "WordsReport", "rebuild_words"]
