"""Messages of translated programs, by language, from the catalogues inside installed packages."""

from __future__ import annotations

import gettext
import html
import re
from collections import defaultdict
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

PACKAGES = (
    "django",
    "django-allauth",
    "djangorestframework",
    "plone.app.locales",
    "pretix",
    "sphinx",
    "wagtail",
    "weblate",
)

SPACELESS = frozenset({"ja", "km", "lo", "my", "th", "zh_Hans", "zh_Hant"})
"""Languages whose words have no spaces between them."""

_ALIASES = {"zh_CN": "zh_Hans", "zh_TW": "zh_Hant", "nb_NO": "nb", "is_IS": "is", "he_IL": "he"}

_MARKUP = re.compile(r"<[^>]+>|%\([^)]*\)[a-z]|%[a-z]|\{[^}]*\}|\$\{[^}]*\}|&[a-z]+;")
"""Tags, and what a program puts in."""


def catalogues() -> dict[str, list[Path]]:
    """Return the compiled catalogues of the installed packages, by language."""
    found: dict[str, list[Path]] = defaultdict(list)
    for package in PACKAGES:
        for path in _catalogues_of(package):
            language = path.parts[-3]
            found[_ALIASES.get(language, language)].append(path)
    return {language: sorted(paths) for language, paths in sorted(found.items())}


def _catalogues_of(package: str) -> Iterator[Path]:
    try:
        files = distribution(package).files or ()
    except PackageNotFoundError:
        return
    for file in files:
        if file.suffix == ".mo" and file.parts[-2:-1] == ("LC_MESSAGES",):
            yield Path(str(file.locate()))


def messages(language: str, paths: list[Path]) -> list[str]:
    """Return the distinct messages of a language that are sentences, without markup, in order."""
    least = 12 if language in SPACELESS else 25
    found: dict[str, None] = {}
    for path in paths:
        with path.open("rb") as file:
            try:
                catalogue = gettext.GNUTranslations(file)
            except (OSError, ValueError):  # a catalogue that nobody could read
                continue
        for source, translated in catalogue._catalog.items():  # type: ignore[attr-defined]
            if not source or translated == source or not isinstance(translated, str):
                continue
            text = " ".join(_MARKUP.sub(" ", html.unescape(translated)).split())
            if len(text) >= least:
                found[text] = None
    return list(found)
