"""How well words are found: known messages in many languages, asked for in several ways.

``nox -s search-quality`` measures and writes docs/search-quality.md. The messages are those of
translated programs, read from their installed packages; none is kept.
"""
