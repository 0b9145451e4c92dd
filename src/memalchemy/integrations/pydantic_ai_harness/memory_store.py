"""`MemalchemyMemoryStore`: the files of agents' memories, with versions and receipts."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pydantic_ai_harness.memory import (
    MemoryConflictError,
    MemoryFile,
    MemoryMutation,
    MemoryOperation,
    MemoryOperationConflictError,
    MemorySearchResult,
)

# What every store of the harness checks and searches with, so that ours does exactly the same.
from pydantic_ai_harness.memory._store import (
    decode_metadata,
    encode_metadata,
    is_direct_child,
    lexical_search,
    validate_store_path,
    validate_store_prefix,
)

from memalchemy._retry import retry_on_conflict
from memalchemy.contracts import Seconds, StoreItem
from memalchemy.database import HostConnection
from memalchemy.integrations._base import Adapter, AnyDatabase
from memalchemy.integrations._declarations.pydantic_ai_harness import RECEIPTS, ROOT
from memalchemy.integrations._stored_forms import StoredForm
from memalchemy.integrations.pydantic_ai_harness._keys import key_of
from memalchemy.store import Store

_FILE = StoredForm("file of the Pydantic AI harness")
_RECEIPT = StoredForm("receipt of the Pydantic AI harness")

FILES = "files"
"""Last part of the namespaces."""


class MemalchemyMemoryStore(Adapter):
    """A `MemoryStore` of the Pydantic AI harness, with metadata of writes, and a search.

    A file has a version that no other write of any file has had. A write or a deletion is done only
    if the file is at the version that its caller has seen; of several in any processes one
    succeeds, and the others get a `MemoryConflictError`. An operation is done once: its receipt is
    stored in the same transaction as the file, and asked for again, it is returned. Receipts stay,
    unless *receipt_ttl* ends them.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        namespace: keeps several stores apart in one database.
        receipt_ttl: how long an operation is known, in seconds or as a timedelta; for ever, if not
            given. ``store.sweep()`` erases those that have ended.
        index_text: make the words of files searchable by an index, with ``store.search``.

    A path has up to 255 characters.

    Raises, from any method:
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        Corrupt, KeyMissing, NotEncrypted: what is stored cannot be read.
        ValueError: the path may not be one.
        TooLarge: the path or the content is too long; nothing was written.
    """

    root = ROOT

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        namespace: Iterable[str] = (),
        receipt_ttl: Seconds | None = None,
        index_text: bool = True,
    ) -> None:
        super().__init__(db, namespace=namespace)
        self.store: Store = Store(self.db, index_text=index_text, index_metadata=("operation_id",))
        """The store with the files, under their paths."""
        self._files = (*self.namespace, FILES)
        self._receipt_ttl = receipt_ttl

    async def read(self, path: str, *, max_chars: int) -> MemoryFile | None:
        """Return a file, its content cut off after *max_chars*; ``None`` if it does not exist."""
        validate_store_path(path)
        if max_chars <= 0:
            raise ValueError("max_chars must be positive")
        value = await self.store.get(self._files, path)
        if value is None:
            return None
        found = _fields_of(value)
        with _FILE:
            return MemoryFile(
                content=found["content"][:max_chars],
                version=found["version"],
                operation_id=found["operation_id"],
                truncated=len(found["content"]) > max_chars,
                metadata=decode_metadata(found["metadata"]),
            )

    async def get_operation(self, operation: MemoryOperation) -> MemoryMutation | None:
        """Return the result of an operation, if it was done.

        Raises:
            MemoryOperationConflictError: it was done with another fingerprint.
        """
        item = await self.store.get_item(*self._place_of_receipt(operation))
        return _replay_receipt(operation, item)

    async def write(
        self,
        path: str,
        content: str,
        *,
        expected_version: str | None,
        operation: MemoryOperation | None = None,
    ) -> MemoryMutation:
        """Write a file that is at *expected_version*, or with ``None`` does not exist.

        Raises:
            MemoryConflictError: it is not.
            MemoryOperationConflictError: as `get_operation`.
        """
        return await self.write_with_metadata(
            path, content, expected_version=expected_version, metadata=None, operation=operation
        )

    async def write_with_metadata(
        self,
        path: str,
        content: str,
        *,
        expected_version: str | None,
        metadata: Mapping[str, str] | None,
        operation: MemoryOperation | None = None,
    ) -> MemoryMutation:
        """Do as `write`, and record *metadata* with the version."""
        value = {
            "content": content,
            "version": uuid.uuid4().hex,
            "operation_id": None if operation is None else operation.id,
            "metadata": encode_metadata(metadata),
        }

        async def write(item: StoreItem | None, connection: HostConnection) -> None:
            await self.store.put(
                self._files, path, value, expected_version=item, connection=connection
            )

        return await self._mutate_with_receipt(
            "written", path, expected_version, operation, value, write
        )

    async def delete(
        self,
        path: str,
        *,
        expected_version: str | None,
        operation: MemoryOperation | None = None,
    ) -> MemoryMutation:
        """Delete a file that is at *expected_version*; with ``None``, one that does not exist.

        Raises:
            MemoryConflictError, MemoryOperationConflictError: as `write`.
        """

        async def delete(item: StoreItem | None, connection: HostConnection) -> None:
            if item is not None:
                await self.store.delete(
                    self._files, path, expected_version=item, connection=connection
                )

        return await self._mutate_with_receipt(
            "deleted", path, expected_version, operation, None, delete
        )

    async def list_paths(self, prefix: str = "", *, limit: int) -> list[str]:
        """Return the first *limit* paths that begin with *prefix*, sorted."""
        validate_store_prefix(prefix)
        if limit <= 0:
            raise ValueError("limit must be positive")
        return await self.store.list_keys(self._files, limit, prefix=prefix or None)

    async def search(
        self,
        prefix: str,
        query: str,
        *,
        limit: int,
        max_files: int,
        max_chars: int,
        max_file_chars: int,
    ) -> MemorySearchResult:
        """Search the files directly below *prefix* as the harness' own stores do.

        It reads the first *max_files* of them. ``store.search`` asks an index of words instead.
        """
        validate_store_prefix(prefix)
        if not query.split() or min(limit, max_files, max_chars, max_file_chars) <= 0:
            return MemorySearchResult(matches=[], scanned=0, truncated=False)
        paths: list[str] = []
        async for path in self.store.iter_keys(self._files, prefix=prefix or None):
            if is_direct_child(prefix, path):
                paths.append(path)
                if len(paths) > max_files:
                    break
        found = await self.store.get_batch((self._files, path) for path in paths[:max_files])
        contents = [(path, _fields_of(value)["content"]) for (_, path), value in found.items()]
        result = await lexical_search(
            [(path, content[:max_file_chars]) for path, content in contents],
            query,
            limit=limit,
            max_files=max_files,
            max_chars=max_chars,
            score_prefix=prefix,
        )
        cut = any(len(content) > max_file_chars for _, content in contents)
        return MemorySearchResult(
            matches=result.matches,
            scanned=result.scanned,
            truncated=result.truncated or cut or len(paths) > max_files,
        )

    async def _mutate_with_receipt(
        self,
        done: str,
        path: str,
        expected_version: str | None,
        operation: MemoryOperation | None,
        value: dict[str, Any] | None,
        write: Callable[[StoreItem | None, HostConnection], Any],
    ) -> MemoryMutation:
        """Change a file and store the receipt of the operation, in one transaction."""
        validate_store_path(path)
        file = (self._files, path)
        receipt = None if operation is None else self._place_of_receipt(operation)

        async def mutate() -> MemoryMutation:
            async with self.db.transaction() as tx:
                wanted = [file] if receipt is None else [file, receipt]
                found = await self.store.get_items(wanted, connection=tx)
                if operation is not None and receipt is not None:
                    replayed = _replay_receipt(operation, found.get(receipt))
                    if replayed is not None:
                        return replayed
                item = found.get(file)
                known = None if item is None else _fields_of(item.value)["version"]
                if known != expected_version:
                    raise MemoryConflictError(
                        f"memory path {path!r} changed before it could be {done}"
                    )
                await write(item, tx)
                mutation = MemoryMutation(
                    version=None if value is None else value["version"],
                    replayed=False,
                    existed=item is not None,
                )
                if operation is not None and receipt is not None:
                    await self.store.put(
                        *receipt,
                        {
                            "fingerprint": operation.fingerprint,
                            "version": mutation.version,
                            "existed": mutation.existed,
                        },
                        ttl=self._receipt_ttl,
                        expected_version=None,
                        connection=tx,
                    )
                return mutation

        return await retry_on_conflict(mutate, f"memory path {path!r}")

    def _place_of_receipt(self, operation: MemoryOperation) -> tuple[tuple[str, ...], str]:
        return (*self.namespace, RECEIPTS), key_of(operation.id)


def _fields_of(value: Any) -> dict[str, Any]:
    return _FILE.fields_of(value, content=str, version=str)


def _replay_receipt(operation: MemoryOperation, item: StoreItem | None) -> MemoryMutation | None:
    """Return the result of an operation, from its receipt."""
    if item is None:
        return None
    done = _RECEIPT.fields_of(item.value, fingerprint=str, version=str | None, existed=bool)
    if done["fingerprint"] != operation.fingerprint:
        raise MemoryOperationConflictError(
            f"operation id {operation.id!r} was reused with different arguments"
        )
    return MemoryMutation(version=done["version"], replayed=True, existed=done["existed"])
