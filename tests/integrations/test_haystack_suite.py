"""Haystack's own tests of document stores, which are in its wheel, on `MemalchemyDocumentStore`.

All classes of both modules run, on every database. Two tests skip themselves in each of the classes
of ``delete_all_documents``, because there is no ``recreate_index``. Lists of documents are compared
without their order, which Haystack leaves to the store: ours is by id, theirs by time of writing.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import pytest
from haystack.dataclasses import Document
from haystack.document_stores.errors import DuplicateDocumentError
from haystack.document_stores.types import DuplicatePolicy
from haystack.testing import document_store, document_store_async
from haystack.testing.document_store import (
    CountDocumentsByFilterTest,
    CountUniqueMetadataByFilterTest,
    DocumentStoreBaseExtendedTests,
    FilterableDocsFixtureMixin,
    GetMetadataFieldMinMaxTest,
    GetMetadataFieldsInfoTest,
    GetMetadataFieldUniqueValuesTest,
)
from haystack.testing.document_store_async import (
    CountDocumentsAsyncTest,
    CountDocumentsByFilterAsyncTest,
    CountUniqueMetadataByFilterAsyncTest,
    DeleteAllAsyncTest,
    DeleteByFilterAsyncTest,
    DeleteDocumentsAsyncTest,
    FilterDocumentsAsyncTest,
    GetMetadataFieldMinMaxAsyncTest,
    GetMetadataFieldsInfoAsyncTest,
    GetMetadataFieldUniqueValuesAsyncTest,
    UpdateByFilterAsyncTest,
    WriteDocumentsAsyncTest,
)

from memalchemy import Database
from memalchemy.integrations.haystack import MemalchemyDocumentStore

SUITE = "haystack-ai"
"""The package of the tests that the classes below inherit."""


class Ours:
    """The store under test, and the comparison of documents that Haystack lets a store override."""

    @pytest.fixture
    def document_store(self, db: Database) -> Iterator[MemalchemyDocumentStore]:
        with MemalchemyDocumentStore(db) as store:
            yield store

    @staticmethod
    def assert_documents_are_equal(received: list[Document], expected: list[Document]) -> None:
        def by_id(documents: list[Document]) -> list[Document]:
            return sorted(documents, key=lambda one: one.id)

        assert by_id(received) == by_id(expected)

    def test_write_documents(self, document_store: Any) -> None:
        """What ``NONE`` means is left to the store, and so is this test: it means ``FAIL``."""
        documents = [Document(content="test doc")]
        assert document_store.write_documents(documents) == 1
        with pytest.raises(DuplicateDocumentError):
            document_store.write_documents(documents, DuplicatePolicy.NONE)


class TestSync(
    Ours,
    DocumentStoreBaseExtendedTests,
    CountDocumentsByFilterTest,
    CountUniqueMetadataByFilterTest,
    FilterableDocsFixtureMixin,
    GetMetadataFieldMinMaxTest,
    GetMetadataFieldUniqueValuesTest,
    GetMetadataFieldsInfoTest,
):
    pass


class TestAsync(
    Ours,
    CountDocumentsAsyncTest,
    CountDocumentsByFilterAsyncTest,
    CountUniqueMetadataByFilterAsyncTest,
    DeleteAllAsyncTest,
    DeleteByFilterAsyncTest,
    DeleteDocumentsAsyncTest,
    FilterDocumentsAsyncTest,
    GetMetadataFieldMinMaxAsyncTest,
    GetMetadataFieldUniqueValuesAsyncTest,
    GetMetadataFieldsInfoAsyncTest,
    UpdateByFilterAsyncTest,
    WriteDocumentsAsyncTest,
):
    async def test_write_documents_async(self, document_store: Any) -> None:
        """As `test_write_documents`."""
        documents = [Document(content="test doc")]
        assert await document_store.write_documents_async(documents) == 1
        with pytest.raises(DuplicateDocumentError):
            await document_store.write_documents_async(documents, DuplicatePolicy.NONE)


@pytest.mark.parametrize(
    ("module", "ours"), [(document_store, TestSync), (document_store_async, TestAsync)]
)
def test_every_class_of_haystacks_tests_is_among_them(module: Any, ours: type) -> None:
    theirs = {
        one
        for name, one in inspect.getmembers(module, inspect.isclass)
        if name.endswith(("Test", "Tests"))
    }
    assert {one.__name__ for one in theirs} <= {one.__name__ for one in ours.__mro__}
