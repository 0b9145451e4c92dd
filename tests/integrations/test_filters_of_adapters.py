"""Each adapter that takes a filter is compared with a store of the framework's own."""

from __future__ import annotations

import ast
import inspect
import typing
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from subjects import INSTALLED

HERE = Path(__file__).parent
PAGES = HERE.parents[1] / "docs" / "integrations"


class Beside(NamedTuple):
    """A test with random filters, the store that it compares ours with, and the page of both."""

    test: str
    own: str
    page: str


BESIDE = {
    "crewai.MemalchemyMemoryStorage": Beside(
        "crewai/test_crewai_filters.py::test_filters_find_what_they_find_in_lancedb",
        "LanceDB",
        "crewai.md",
    ),
    "haystack.MemalchemyDocumentStore": Beside(
        "test_haystack_filters.py::test_filters_find_what_they_find_in_haystacks_own_store",
        "InMemoryDocumentStore",
        "haystack.md",
    ),
    "langchain.MemalchemyVectorStore": Beside(
        "test_langchain_filters.py::test_filters_find_what_they_find_in_langchains_store_in_memory",
        "InMemoryVectorStore",
        "langchain.md",
    ),
    "langgraph.MemalchemySaver": Beside(
        "test_langgraph_filters.py::"
        "test_checkpoints_are_listed_by_their_metadata_as_in_langgraphs_saver_in_memory",
        "InMemorySaver",
        "langgraph.md",
    ),
    "langgraph.MemalchemyStore": Beside(
        "test_langgraph_filters.py::test_filters_find_what_they_find_in_langgraphs_store_in_memory",
        "InMemoryStore",
        "langgraph-store.md",
    ),
    "lauren_ai.MemalchemyVectorStore": Beside(
        "test_lauren_ai_filters.py::test_filters_find_what_they_find_in_lauren_ais_store_in_memory",
        "InMemoryVectorStore",
        "lauren-ai.md",
    ),
    "llama_index.MemalchemyVectorStore": Beside(
        "test_llama_index_filters.py::test_filters_find_what_they_find_in_llama_indexs_own_store",
        "SimpleVectorStore",
        "llama-index.md",
    ),
    "locus.MemalchemyStore": Beside(
        "test_locus_filters.py::test_metadata_finds_what_it_finds_in_locus_store_of_documents",
        "InMemoryVectorStore",
        "locus.md",
    ),
    "mem0.MemalchemyVectorStore": Beside(
        "test_mem0_filters.py::test_filters_find_what_they_find_in_qdrant", "Qdrant", "mem0.md"
    ),
}
NOTHING_BESIDE = {
    "openai_agents.MemalchemySessions": "No session of the SDK has a description to select by.",
    "haystack.MemalchemyEmbeddingRetriever": "It passes filters on to the document store.",
    "haystack.MemalchemyKeywordRetriever": "It passes filters on to the document store.",
}


def takes_a_filter(cls: type) -> bool:
    """Return whether a method has a parameter for a filter, or of a class with one.

    A private one takes what public ones pass on in ``**kwargs``.
    """
    for name, method in inspect.getmembers(cls, callable):
        if name.startswith("_") and name not in vars(cls):
            continue
        try:
            parameters = inspect.signature(method).parameters
        except (TypeError, ValueError):
            continue
        if any("filter" in one for one in parameters):
            return True
        try:
            hints = typing.get_type_hints(method)
        except (NameError, TypeError, AttributeError):
            continue
        fields = [one for hint in hints.values() for one in getattr(hint, "__annotations__", ())]
        if any("filter" in field for field in fields):
            return True
    return False


def with_filters() -> list[str]:
    classes: set[Any] = set()
    for module in INSTALLED.values():
        classes |= {*module.ADAPTERS, *getattr(module, "PARTS", ())}
    return sorted(
        f"{cls.__module__.split('.')[2]}.{cls.__name__}" for cls in classes if takes_a_filter(cls)
    )


def test_every_adapter_with_a_filter_is_compared_with_a_store_of_the_frameworks_own() -> None:
    known = {name for name in {**BESIDE, **NOTHING_BESIDE} if name.partition(".")[0] in INSTALLED}
    assert with_filters() == sorted(known)


@pytest.mark.parametrize("name", BESIDE)
def test_the_comparison_draws_filters_on_each_database_and_its_page_names_the_store(
    name: str,
) -> None:
    file, _, function = BESIDE[name].test.partition("::")
    tests = {
        one.name: one
        for one in ast.parse((HERE / file).read_text(encoding="utf-8")).body
        if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert "given(" in "".join(ast.unparse(one) for one in tests[function].decorator_list)
    assert "db" in [one.arg for one in tests[function].args.args]
    page = (PAGES / BESIDE[name].page).read_text(encoding="utf-8")
    assert any("ilter" in part and BESIDE[name].own in part for part in page.split("\n\n"))
