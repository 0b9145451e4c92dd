"""Bearer tokens: the tenant that each stands for, what it may do, and until when."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import os
import re
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from os import PathLike
from pathlib import Path
from typing import ClassVar, get_args

from memalchemy.http.operations import Scope
from memalchemy.keys import check_namespace, check_tenant, parse_namespace

MIN_TOKEN_CHARACTERS = 16
RELOAD_SECONDS = 1.0
"""Seconds between two looks at a token file, and those for which a file that is read again has not
been written to: it may be half-written before.
"""

SCOPES: frozenset[Scope] = frozenset(get_args(Scope))

_HASHED = re.compile("sha256:([0-9a-fA-F]{64})")

log = logging.getLogger("memalchemy.http")


@dataclass(frozen=True, slots=True)
class Grant:
    """Rights of the holder of a token.

    Args:
        tenant: the tenant whose data it is about.
        scopes: ``"read"``, ``"write"`` (save, change and delete what is named), ``"admin"`` (prune,
            vacuum, forget, rewrite). None of them includes another.
        namespaces: if given, only the operations that name a namespace, and only in these and
            those below them: items of the store, logs, conversations.
        expires_at: an aware datetime, from which on the token is unknown.

    Raises:
        ValueError, TypeError: one of them is invalid.
    """

    tenant: str
    scopes: frozenset[Scope] = SCOPES
    namespaces: tuple[tuple[str, ...], ...] | None = None
    expires_at: datetime | None = None

    def __post_init__(self) -> None:
        check_tenant(self.tenant)
        scopes = frozenset(self.scopes)
        if not scopes or not scopes <= SCOPES:
            raise ValueError(f"scopes are some of read, write and admin, not {sorted(scopes)}")
        object.__setattr__(self, "scopes", scopes)
        if self.namespaces is not None:
            namespaces = tuple(check_namespace(namespace) for namespace in self.namespaces)
            object.__setattr__(self, "namespaces", namespaces)
        if self.expires_at is not None and self.expires_at.tzinfo is None:
            raise ValueError("expires_at has a time zone")

    def has_expired(self) -> bool:
        """Return whether the token is no longer valid."""
        return self.expires_at is not None and self.expires_at <= datetime.now(UTC)

    def covers_namespace(self, namespace: tuple[str, ...] | None) -> bool:
        """Return whether it is good for a namespace, or for operations without any (``None``)."""
        if self.namespaces is None:
            return True
        return namespace is not None and any(
            namespace[: len(parts)] == parts for parts in self.namespaces
        )


class Tokens:
    """Bearer tokens and what the holder of each may do.

    Only hashes are kept. A token is compared with every one of them, each in constant time, so the
    time of an answer tells nothing about them.

    Args:
        grants: token to `Grant`, or to a tenant, for everything that it has. A token is 16
            characters or more, or ``sha256:`` and the hex digest of one.

    Raises:
        ValueError: a token is too short or stands for two tenants, or a tenant's name is invalid.
    """

    VARIABLE: ClassVar[str] = "MEMALCHEMY_TOKENS"
    """The environment variable that ``memalchemy serve`` reads them from."""

    def __init__(self, grants: Mapping[str, str | Grant]) -> None:
        self._grants: dict[bytes, Grant] = {}
        for token, given in grants.items():
            grant = given if isinstance(given, Grant) else Grant(given)
            digest = _digest_of(token)
            if self._grants.get(digest, grant) != grant:
                raise ValueError("a token stands for one tenant, and one is given for two")
            self._grants[digest] = grant

    @classmethod
    def parse(cls, text: str) -> Tokens:
        """Read ``token=tenant`` entries, separated by line ends or commas; ``#`` begins a comment.

        Behind the tenant may stand, separated by blanks: ``read``, ``write`` and ``admin``, if it
        has not all of them; ``namespace=users/ada``, once or more; and
        ``expires=2027-01-31T12:00Z``, ISO 8601, in UTC if it names no zone.

        Raises:
            ValueError: an entry is malformed, or there is none.
        """
        grants: dict[str, Grant] = {}
        for number, line in enumerate(re.split("[\n,]", text), start=1):
            entry = line.split("#", 1)[0].strip()
            if not entry:
                continue
            first, *options = re.sub(r"\s*=\s*", "=", entry).split()
            # Split at the last equals sign: Base64 ends in some.
            token, equals, tenant = first.rpartition("=")
            if not equals or not token or not tenant:
                raise ValueError(f"entry {number} of the tokens is not token=tenant")
            try:
                grant = _parse_options(Grant(tenant), options)
            except ValueError as error:
                raise ValueError(f"entry {number} of the tokens: {error}") from error
            if grants.get(token, grant) != grant:
                raise ValueError(f"entry {number} of the tokens gives a token a second tenant")
            grants[token] = grant
        if not grants:
            raise ValueError("there are no tokens in it; write token=tenant, one a line")
        return cls(grants)

    @classmethod
    def from_file(cls, file: str | PathLike[str]) -> Tokens:
        """Read a file of entries, and read it again when it has changed.

        From two seconds after a change on, no token is decided by what the file said before: a
        token that is asked for makes the object look at the file first. If the file is gone or
        malformed, that is logged, and the tokens stay as they were.

        Raises:
            OSError, ValueError: the file cannot be read, or is malformed.
        """
        return TokenFile(Path(file))

    def __len__(self) -> int:
        return len(self._grants)

    def __repr__(self) -> str:
        tenants = {grant.tenant for grant in self._grants.values()}
        return f"Tokens({len(self)} of {len(tenants)} tenants)"

    def grant_of(self, token: str) -> Grant | None:
        """Return the grant of *token*, or ``None`` if it is unknown. It may have expired."""
        given = hashlib.sha256(token.encode("utf-8", "surrogatepass")).digest()
        found = None
        for digest, grant in self._grants.items():
            if hmac.compare_digest(digest, given):
                found = grant
        return found


class TokenFile(Tokens):
    """The tokens of a file, which is looked at before a token is decided."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._read = self._seen = _stamp_of_file(file)
        self._looked_at = time.monotonic()
        self._logged = ""
        self._grants = Tokens.parse(file.read_text(encoding="utf-8"))._grants

    def grant_of(self, token: str) -> Grant | None:
        if time.monotonic() - self._looked_at >= RELOAD_SECONDS:
            self._reload_if_changed()
        return super().grant_of(token)

    async def watch(self) -> None:
        """Look at the file every second, so that its faults are logged without a request, too."""
        while True:
            await asyncio.sleep(RELOAD_SECONDS)
            self._reload_if_changed()

    def _reload_if_changed(self) -> None:
        self._looked_at = time.monotonic()
        try:
            stamp = _stamp_of_file(self._file)
            if stamp == self._read:
                return
            # A clock other than this machine's may have written the time of a file. Then two looks
            # that find the same tell that nobody writes to it.
            if stamp != self._seen and not _is_settled(stamp):
                self._seen = stamp
                return
            text = self._file.read_text(encoding="utf-8")
            self._read = stamp  # a malformed file is not read again until it changes
            self._grants = Tokens.parse(text)._grants
        except (OSError, ValueError) as error:
            told = _reason_without_secrets(error)
            # A missing file is met at every look, a malformed one once for each change.
            if isinstance(error, ValueError) or told != self._logged:
                log.error("the token file was not read again (%s)", told)
            self._logged = told
        else:
            self._logged = ""
            noun = "token" if len(self) == 1 else "tokens"
            log.info("the token file was read again: %d %s", len(self), noun)


def _stamp_of_file(file: Path) -> tuple[int, int, int]:
    status = os.stat(file)
    return status.st_ino, status.st_size, status.st_mtime_ns


def _is_settled(stamp: tuple[int, int, int]) -> bool:
    return time.time() - stamp[2] / 1e9 >= RELOAD_SECONDS


def _reason_without_secrets(error: OSError | ValueError) -> str:
    """Return the reason of an error without any text of the file, which holds secrets."""
    return error.strerror or "OSError" if isinstance(error, OSError) else str(error)


def _parse_options(grant: Grant, options: Iterable[str]) -> Grant:
    scopes: set[Scope] = set()
    namespaces: list[tuple[str, ...]] = []
    for option in options:
        name, _, value = option.partition("=")
        if option in SCOPES:
            scopes |= SCOPES & {option}
        elif name == "namespace" and value:
            namespaces.append(parse_namespace(value))
        elif name == "expires" and value:
            grant = replace(grant, expires_at=_parse_time(value))
        else:
            raise ValueError("behind the tenant stand read, write, admin, namespace=… or expires=…")
    if scopes:
        grant = replace(grant, scopes=frozenset(scopes))
    return replace(grant, namespaces=tuple(namespaces)) if namespaces else grant


def _parse_time(text: str) -> datetime:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("expires is a time such as 2027-01-31 or 2027-01-31T12:00Z") from None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)


def _digest_of(token: str) -> bytes:
    hashed = _HASHED.fullmatch(token)
    if hashed:
        return bytes.fromhex(hashed[1])
    if len(token) < MIN_TOKEN_CHARACTERS:
        raise ValueError(
            f"a token is {MIN_TOKEN_CHARACTERS} characters or more; make one with: "
            'python -c "import secrets; print(secrets.token_urlsafe())"'
        )
    return hashlib.sha256(token.encode()).digest()
