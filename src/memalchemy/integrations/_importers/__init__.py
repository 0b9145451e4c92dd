"""Readers of the frameworks' own storage, for `memalchemy import`.

Each module has the functions that `memalchemy.importers.sources` describes. What a reader yields is
stored where the framework's adapter stores it.
"""
