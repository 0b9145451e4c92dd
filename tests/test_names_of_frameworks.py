"""The core names no framework: what is a framework's own stands in its adapter and its importer.

The names are those of the adapters, of the packages that their extras install, and of their
namespaces. Comments and docstrings may name a framework as an example.
"""

from __future__ import annotations

import pkgutil
import re
import tomllib
from pathlib import Path

import pytest

from memalchemy import integrations
from memalchemy.integrations._declarations import BY_ADAPTER
from pages import ROOT
from words_of_code import code_of

PACKAGE = ROOT / "src" / "memalchemy"
EXTRAS: dict[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
    "optional-dependencies"
]
MODULES = [one.name for one in pkgutil.iter_modules(integrations.__path__) if one.name[0] != "_"]
PLACES_OF_FRAMEWORKS = ("integrations", "importers")
SOURCES = [
    path.relative_to(PACKAGE).as_posix()
    for pattern in ("*.py", "*.pyi", "*.js", "*.html")
    for path in sorted(PACKAGE.rglob(pattern))
    if path.relative_to(PACKAGE).parts[0] not in PLACES_OF_FRAMEWORKS
]


def names() -> set[str]:
    """The names of all frameworks, in small letters, with a hyphen between words."""
    packages = [
        re.split(r"[<>=\[]", requirement)[0]
        for module in MODULES
        for requirement in EXTRAS[module.replace("_", "-")]
    ]
    roots = [one.root for one in BY_ADAPTER.values()]
    return {one.lower().replace("_", "-") for one in (*MODULES, *packages, *roots)}


NAME = re.compile(
    "(?<![a-z])(?:"
    + "|".join(one.replace("-", "[-_ .]?") for one in sorted(names(), key=len, reverse=True))
    + ")(?![a-z])"
)

_FORMAT = "messages come in this format, from whoever calls: it is no adapter's"
_IMPORTS = "the command imports from the storage of frameworks, each by its name"
_EXAMPLE = "a help text names a namespace as an example"
_ADVICE = "a database that holds the tables of its checkpointer is not empty: an error says the way"

ALLOWED: dict[str, dict[str, str]] = {
    "cli/commands/import_.py": dict.fromkeys(
        ("langgraph", "langgraph-checkpoint", "openai", "openai-agents"), _IMPORTS
    ),
    "cli/options.py": {"langgraph": _EXAMPLE},
    "codec/payloads.py": {
        "langchain-core": "the words of a compression dictionary, by which stored bytes are read"
    },
    "context/message_age.py": {"locus": _FORMAT},
    "errors.py": {"langgraph": _ADVICE},
    "http/server/_schemas.py": {"openai": _FORMAT},
    "messages.py": {"langchain": _FORMAT, "langchain-core": _FORMAT, "locus": _FORMAT},
    "migrate/chain.py": {"langgraph": _ADVICE},
    "state.py": {"openai": _FORMAT},
}
"""Names by file, each with the reason why it stays."""


def named_in(path: Path) -> set[str]:
    """The frameworks that a file's code names."""
    return {
        re.sub(r"[_ .]", "-", found)
        for words in code_of(path)
        for found in NAME.findall(words.lower())
    }


def test_code_outside_of_adapters_and_importers_names_no_framework() -> None:
    found = {source: named_in(PACKAGE / source) for source in SOURCES}

    assert {source: named for source, named in found.items() if named} == {
        source: set(reasons) for source, reasons in ALLOWED.items()
    }


def private_words() -> set[str]:
    """The keys, marks and parts of namespaces that the adapters declare to be their own.

    A plain word, such as ``pruned``, says other things elsewhere.
    """
    found: set[str] = set()
    for one in BY_ADAPTER.values():
        found |= {part for pattern in one.internal for part in pattern if isinstance(part, str)}
        found |= {*one.view.objects, *one.view.bookkeeping, *one.view.silent_channels}
        found |= {*one.agent_marks}
    return {word for word in found if re.search("[a-z]", word) and not word.isalpha()}


def test_code_outside_of_adapters_and_importers_has_no_words_of_their_own() -> None:
    own = re.compile("|".join(f"[\"']{re.escape(word)}[\"']" for word in private_words()))

    found = {source: own.findall(" ".join(code_of(PACKAGE / source))) for source in SOURCES}

    assert {source: words for source, words in found.items() if words} == {}


@pytest.mark.parametrize("name", sorted(names()))
def test_a_name_is_found_in_code_alone(name: str, tmp_path: Path) -> None:
    place = tmp_path / "module.py"
    written = name.replace("-", "_")

    place.write_text(f'"""{name}"""\n\nlimit = 1  # {name}\n"""As in {name}."""\n')
    assert named_in(place) == set()
    for code in (
        f"is_{written} = 1",
        f"x = 'of {name}'",
        f"x = f'{name} {{y}}'",
        f"import {written}",
    ):
        place.write_text(code)
        assert named_in(place)
