"""`MemalchemyArtifactService`: versions of files, of a session or of a user."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any
from uuid import uuid4

from google.adk.artifacts import BaseArtifactService
from google.adk.artifacts.artifact_util import (
    is_artifact_ref,
    parse_artifact_uri,
    resolve_artifact_reference,
    validate_artifact_reference_scope,
    validate_path_segment,
)
from google.adk.artifacts.base_artifact_service import ArtifactVersion, ensure_part
from google.adk.errors.input_validation_error import InputValidationError
from google.adk.platform import time as platform_time
from google.genai import types

from memalchemy.contracts import MAX_LIMIT, StoreItem
from memalchemy.database import HostConnection
from memalchemy.integrations._base import AnyDatabase
from memalchemy.integrations._stored_forms import StoredForm
from memalchemy.integrations._values import dumped, storable
from memalchemy.integrations.google_adk._adapter import GoogleADKAdapter
from memalchemy.keys import check_namespace
from memalchemy.store import Store

USER_PREFIX = "user:"
MAX_REFERENCES = 5
"""References that are followed from one artifact, as many as ADK's own services follow."""

TOMBSTONE = types.Part(inline_data=types.Blob(mime_type="application/octet-stream", data=b""))
"""The version that ADK saves where a rewound session had no such artifact yet."""

_FORM = StoredForm("artifact of Google ADK")


class MemalchemyArtifactService(GoogleADKAdapter, BaseArtifactService):
    """Artifacts of sessions, and with the prefix ``user:`` of users.

    A version is saved whole or not at all. Versions count from 0; of several processes that save at
    once, each gets a number of its own. Listings read no contents.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        namespace: keeps the artifacts of several services apart in one database.
        index_text: make the words of texts findable with `Store.search`.

    Raises, from any method:
        InputValidationError: ADK's: an id that would not be part of a path, or a session's artifact
            without a session.
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        TooLarge: a file name is over 255 characters, or the ids over 400 bytes together.
    """

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        namespace: Iterable[str] = (),
        index_text: bool = True,
    ) -> None:
        super().__init__(db, namespace=namespace)
        self.store: Store = Store(self.db, index_text=False, index_metadata=("version",))
        """File names, and descriptions of their versions."""
        self.contents: Store = Store(self.db, index_text=index_text, index_metadata=("version",))
        """The contents of the versions."""

    async def save_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        artifact: types.Part | dict[str, Any],
        session_id: str | None = None,
        custom_metadata: dict[str, Any] | None = None,
    ) -> int:
        """Save the next version of an artifact, and return its number.

        Raises:
            InputValidationError: it is neither data, nor text, nor a file; or it refers to an
                artifact outside of the app, the user and the session.
            NotSerialisable, TooLarge: it cannot be stored; nothing was written.
        """
        scope = self._namespace_of_names(app_name, user_id, session_id, filename)
        part = ensure_part(artifact)
        mime_type = _mime_type(part, app_name, user_id, session_id)
        uri = f"memalchemy://apps/{app_name}/users/{user_id}"
        if not filename.startswith(USER_PREFIX):
            uri += f"/sessions/{session_id}"
        about: dict[str, Any] = {
            "create_time": platform_time.get_time(),
            "mime_type": mime_type,
            "custom_metadata": storable(custom_metadata or {}),
        }
        content = storable(dumped(part))

        def next_version(item: StoreItem | None) -> dict[str, Any]:
            # A file that is deleted and saved anew has another id: the old versions are not its.
            head: dict[str, Any] = {"id": uuid4().hex, "versions": 0}
            if item is not None:
                head = _head_of(item.value)
            return {"id": head["id"], "versions": head["versions"] + 1}

        async with self.db.transaction() as tx:
            head = await self.store.change(scope, filename, next_version, connection=tx)
            assert head is not None
            version: int = head["versions"] - 1
            about |= {"version": version}
            about["canonical_uri"] = f"{uri}/artifacts/{filename}/versions/{version}"
            versions, contents = _namespaces_of_file(scope, head)
            await self.store.put(versions, _key_of_version(version), about, connection=tx)
            await self.contents.put(contents, _key_of_version(version), content, connection=tx)
        return version

    async def load_artifact(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> types.Part | None:
        """Return a version of an artifact, the latest by default, or ``None``.

        A reference to another artifact is followed.

        Raises:
            InputValidationError: a reference leads outside of the app, the user and the session; or
                there are more than five, one after another.
        """
        for left in range(MAX_REFERENCES, -1, -1):
            scope = self._namespace_of_names(app_name, user_id, session_id, filename)
            found = await self._read_version(scope, filename, version, is_content=True)
            if found is None:
                return None
            with _FORM:
                part = types.Part.model_validate(found)
            if not is_artifact_ref(part):
                return None if part in (types.Part(), TOMBSTONE) else part
            assert part.file_data is not None
            target = resolve_artifact_reference(
                file_uri=str(part.file_data.file_uri),
                app_name=app_name,
                user_id=user_id,
                session_id=session_id,
                remaining_depth=left,
            )
            app_name, user_id, session_id, filename, version = target
        raise AssertionError("unreachable")

    async def list_artifact_keys(
        self, *, app_name: str, user_id: str, session_id: str | None = None
    ) -> list[str]:
        """Return the names of a user's artifacts, and those of a session, sorted."""
        names: list[str] = []
        scopes = [self._namespace_of_names(app_name, user_id, None, USER_PREFIX)]
        if session_id is not None:
            scopes.append(self._namespace_of_names(app_name, user_id, session_id, ""))
        for scope in scopes:
            names += await self.store.list_keys(scope, MAX_LIMIT)
        return sorted(names)

    async def delete_artifact(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> None:
        """Delete an artifact with all its versions, if it is there. The next one begins at 0."""
        scope = self._namespace_of_names(app_name, user_id, session_id, filename)
        async with self.db.transaction() as tx:
            head = await self._read_head(scope, filename, tx)
            if head is not None and await self.store.delete(scope, filename, connection=tx):
                for place in _namespaces_of_file(scope, head):
                    await self.store.clear_namespace(place, connection=tx)

    async def list_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[int]:
        """Return the numbers of an artifact's versions, in order."""
        scope = self._namespace_of_names(app_name, user_id, session_id, filename)
        head = await self._read_head(scope, filename)
        return [] if head is None else [*range(head["versions"])]

    async def list_artifact_versions(
        self, *, app_name: str, user_id: str, filename: str, session_id: str | None = None
    ) -> list[ArtifactVersion]:
        """Return the descriptions of an artifact's versions, in order."""
        scope = self._namespace_of_names(app_name, user_id, session_id, filename)
        head = await self._read_head(scope, filename)
        if head is None:
            return []
        versions, _ = _namespaces_of_file(scope, head)
        items = await self.store.list_items(versions, limit=MAX_LIMIT, order="key")
        with _FORM:
            return [ArtifactVersion(**item.value) for item in items]

    async def get_artifact_version(
        self,
        *,
        app_name: str,
        user_id: str,
        filename: str,
        session_id: str | None = None,
        version: int | None = None,
    ) -> ArtifactVersion | None:
        """Return the description of a version, the latest by default, or ``None``."""
        scope = self._namespace_of_names(app_name, user_id, session_id, filename)
        found = await self._read_version(scope, filename, version, is_content=False)
        with _FORM:
            return None if found is None else ArtifactVersion(**found)

    async def _read_head(
        self, scope: tuple[str, ...], filename: str, connection: HostConnection | None = None
    ) -> dict[str, Any] | None:
        found = await self.store.get(scope, filename, connection=connection)
        return None if found is None else _head_of(found)

    async def _read_version(
        self, scope: tuple[str, ...], filename: str, version: int | None, *, is_content: bool
    ) -> Any:
        head = await self._read_head(scope, filename)
        if head is None:
            return None
        number: int = head["versions"]
        wanted = number - 1 if version is None else version
        if not 0 <= wanted < number:
            return None
        return await self.store.get(
            _namespaces_of_file(scope, head)[is_content], _key_of_version(wanted)
        )

    def _namespace_of_names(
        self, app_name: str, user_id: str, session_id: str | None, filename: str
    ) -> tuple[str, ...]:
        """Return the namespace of the file names of a user, or of a session."""
        validate_path_segment(app_name, "app_name")
        validate_path_segment(user_id, "user_id")
        place = (*self.namespace, "artifacts", app_name, user_id)
        if filename.startswith(USER_PREFIX):
            return (*place, "user")
        if session_id is None:
            raise InputValidationError("Session ID must be provided for session-scoped artifacts.")
        validate_path_segment(session_id, "session_id")
        return (*place, "session", session_id)


def _mime_type(part: types.Part, app_name: str, user_id: str, session_id: str | None) -> str | None:
    """Return the type of a part's content; that of a reference is not known."""
    if part.inline_data is not None:
        return part.inline_data.mime_type
    if part.text is not None:
        return "text/plain"
    if part.file_data is None:
        raise InputValidationError("Not supported artifact type.")
    if not is_artifact_ref(part):
        return part.file_data.mime_type
    target = parse_artifact_uri(str(part.file_data.file_uri))
    if target is None:
        raise InputValidationError(f"Invalid artifact reference URI: {part.file_data.file_uri}")
    validate_artifact_reference_scope(
        app_name=app_name, user_id=user_id, session_id=session_id, parsed_uri=target
    )
    return None


def _head_of(value: Any) -> dict[str, Any]:
    """Return what is stored of a file: its ``id`` and the number of its ``versions``."""
    return _FORM.fields_of(value, id=str, versions=int)


def _namespaces_of_file(
    scope: tuple[str, ...], head: dict[str, Any]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the namespaces of a file's descriptions and of its contents."""
    with _FORM:
        file = check_namespace((*scope, head["id"]))
    return (*file, "versions"), (*file, "contents")


def _key_of_version(version: int) -> str:
    return f"{version:010d}"


__all__ = ["MemalchemyArtifactService"]
