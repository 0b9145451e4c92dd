"""`Transport`: requests to one server, with retries, and failures as memalchemy's errors.

It knows nothing of checkpoints. An answer that was not understood is an error, never an absence.
"""

from __future__ import annotations

import asyncio
import ssl
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from memalchemy._per_loop import PerLoop
from memalchemy._retry import REQUESTS
from memalchemy.errors import (
    AuthenticationFailed,
    CapabilityMissing,
    DatabaseUnreachable,
    MemalchemyError,
    NotFound,
    StatementFailed,
    TooLarge,
    UnknownURL,
)
from memalchemy.events import Event, publish
from memalchemy.http import wire
from memalchemy.http._gzip import GZIP, gzip_document
from memalchemy.http._offload import offload
from memalchemy.http.client._connections import Connections, abandon, close_without_loop

COMPRESSED_FROM = 64 * 1024
"""Bytes of a body from which it is compressed, if the server takes that."""

_TRANSIENT = frozenset({429, 502, 503, 504})
"""Statuses after which a request is repeated that is safe to repeat."""

_MAYBE_APPLIED = "; the write may or may not have happened, look before repeating it"


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: its status, and the JSON in it, or ``None`` without any."""

    status: int
    tree: Any
    headers: Mapping[str, str]
    maybe_applied: bool = False
    """True if an earlier attempt at the same write may have been done."""

    @property
    def error(self) -> Exception | None:
        """The error that a problem document of memalchemy's describes."""
        return wire.decode_error(self.tree) if isinstance(self.tree, dict) else None


class Transport:
    """Requests to one server. Each event loop has a connection pool of its own.

    What is open is closed when this object is dropped, and when another loop uses it.
    """

    def __init__(
        self,
        base_url: str,
        headers: Mapping[str, str] | None,
        auth: tuple[str, str] | None,
        timeout: float,
        token: str | None,
    ) -> None:
        parts = urlsplit(base_url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UnknownURL("base_url is http://host:port/path or https://…")
        if parts.query or parts.fragment:
            raise UnknownURL("base_url has no ? and no #")
        if not timeout > 0:
            raise ValueError(f"timeout is seconds above zero, not {timeout!r}")
        if token is not None and auth is not None:
            raise TypeError("give token= or auth=, not both")
        self._base = base_url.rstrip("/")
        netloc = parts.netloc.rpartition("@")[2]
        self.display: str = urlunsplit((parts.scheme, netloc, parts.path.rstrip("/"), "", ""))
        self._headers = dict(headers or {})
        if token is not None:
            self._headers["Authorization"] = f"Bearer {token}"
        self.compresses: bool = False
        """Whether the server takes bodies that are compressed with gzip."""
        self._auth = auth
        self._timeout = timeout
        client_options = {
            "headers": self._headers,
            "auth": auth,
            "timeout": timeout,
            # Reading the certificates takes a moment, and plain HTTP verifies nothing.
            "verify": parts.scheme == "https",
        }
        self._connections = PerLoop(
            partial(Connections, client_options), abandon, close_without_loop
        )
        weakref.finalize(self, self._connections.end_all)

    async def close(self, *, in_thread: bool = True) -> None:
        """Close the connections of the running loop and of those that have ended.

        Requests that are on their way end first. A later request opens new ones. *in_thread* is for
        the synchronous face, which passes it to every object that it closes.
        """
        await self._connections.close()

    async def send(
        self,
        method: str,
        path: str,
        query: Mapping[str, Any] | None = None,
        body: Mapping[str, Any] | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        writes: bool = False,
        repeats: bool = True,
    ) -> Reply:
        """Send a request, as often as `REQUESTS` says if it *repeats*.

        One that *writes* repeats only if its *headers* make sure that it is done once.
        """
        attempts, headers = REQUESTS.tries if repeats else 1, headers or {}
        url = self._base + path + _query_string(query)
        content = None if body is None else await offload(body, lambda: wire.dumps(body))
        if content is not None and self.compresses and len(content) >= COMPRESSED_FROM:
            content, headers = await gzip_document(content), {**headers, "Content-Encoding": GZIP}
        maybe_applied = False  # by an attempt before the last one
        try:
            async with asyncio.timeout(self._timeout):
                for attempt in range(1, attempts + 1):
                    is_last = attempt == attempts
                    try:
                        reply = await self._send_once(method, url, content, headers, writes)
                    except DatabaseUnreachable as error:
                        if is_last:
                            error.maybe_applied |= maybe_applied
                            raise
                        maybe_applied |= error.maybe_applied
                        wait = 0.0
                    else:
                        reply = replace(reply, maybe_applied=maybe_applied)
                        if reply.status not in _TRANSIENT or is_last:
                            return reply
                        wait = _retry_after(reply)
                        if wait > self._timeout:
                            return reply
                        maybe_applied |= writes and reply.status >= 500
                    publish(Event("http.retry", details={"attempt": attempt}))
                    await asyncio.sleep(max(wait, REQUESTS.random_wait(attempt)))
        except TimeoutError as error:
            raise DatabaseUnreachable(
                f"{self.display} did not answer within {self._timeout:g} s"
                + (_MAYBE_APPLIED if writes else ""),
                maybe_applied=writes,
                busy=True,
            ) from error
        raise AssertionError("unreachable")

    async def _send_once(
        self,
        method: str,
        url: str,
        content: bytes | None,
        headers: Mapping[str, str],
        writes: bool,
    ) -> Reply:
        connections = self._connections.enter()
        import httpx

        try:
            kind = {} if content is None else {"Content-Type": wire.JSON}
            response = await connections.client.request(
                method, url, content=content, headers={**headers, **kind}
            )
        except asyncio.CancelledError as error:
            # AnyIO's frames refer to the task, and a cancelled task to the frames: such a cycle
            # would keep this object, and its connections, until garbage is collected.
            raise error.with_traceback(None) from None
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.UnsupportedProtocol) as error:
            if refused := _refusal_of_certificate(error):
                raise DatabaseUnreachable(
                    f"the certificate of {self.display} is not trusted here ({refused}). If "
                    "a private authority signed it, name the file of that authority's certificate "
                    "in the environment variable SSL_CERT_FILE."
                ) from error
            raise DatabaseUnreachable(
                f"cannot reach {self.display} ({type(error).__name__}). Check that the server runs "
                "and that the address is right."
            ) from error
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise DatabaseUnreachable(
                f"the connection to {self.display} broke off ({type(error).__name__})"
                + (_MAYBE_APPLIED if writes else ""),
                maybe_applied=writes,
            ) from error
        finally:
            await connections.give_back()
        try:
            document = response.content
            tree = await offload(document, lambda: wire.loads(document)) if document else None
        except ValueError as error:
            if response.is_success:
                raise DatabaseUnreachable(
                    f"{self.display} answered with something that is not JSON; is the address that "
                    "of a checkpoint server?" + (_MAYBE_APPLIED if writes else ""),
                    maybe_applied=writes,
                ) from error
            tree = None
        return Reply(response.status_code, tree, response.headers)

    def error_of(self, reply: Reply, *, writes: bool) -> Exception:
        """Return the error for an answer that is neither a success nor an absence."""
        status = reply.status
        error = reply.error
        if error is not None and (status == 404 or not isinstance(error, NotFound)):
            if isinstance(error, DatabaseUnreachable):
                error.maybe_applied |= reply.maybe_applied
            return error
        if status == 401 and not self._has_credentials:
            return AuthenticationFailed(
                f"{self.display} wants a token, and no token was given: "
                "HTTPCheckpointer(url, token=…)"
            )
        if status in (401, 403):
            return AuthenticationFailed(f"{self.display} refused the token ({status})")
        if status == 404:
            return DatabaseUnreachable(
                f"{self.display} does not know this operation (404); is the address that of a "
                "checkpoint server?"
            )
        if status == 413:
            return TooLarge("the request", 0, 0)
        if status in (405, 501):
            return CapabilityMissing(f"{self.display} cannot do that ({status})")
        if status == 429:
            return DatabaseUnreachable(
                f"{self.display} is asked too often (429)"
                + (_MAYBE_APPLIED if reply.maybe_applied else "; nothing was done"),
                maybe_applied=reply.maybe_applied,
                busy=True,
            )
        if status >= 500 or status == 408 or status < 400:
            maybe_applied = reply.maybe_applied or (writes and status >= 500)
            return DatabaseUnreachable(
                f"{self.display} answered with status {status}"
                + (_MAYBE_APPLIED if maybe_applied else ""),
                maybe_applied=maybe_applied,
            )
        return StatementFailed(f"{self.display} refused the request ({status})")

    @property
    def _has_credentials(self) -> bool:
        named = any(name.lower() == "authorization" for name in self._headers)
        return named or self._auth is not None or "@" in urlsplit(self._base).netloc


def _refusal_of_certificate(error: BaseException) -> str | None:
    """Return why a server's certificate was refused, if that is what *error* came from."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, ssl.SSLCertVerificationError):
        cause = cause.__cause__ or cause.__context__
    return None if cause is None else cause.verify_message


def _query_string(query: Mapping[str, Any] | None) -> str:
    pairs = [
        f"{name}={'true' if value is True else wire.quote_id(str(value))}"
        for name, value in (query or {}).items()
        if value is not None and value is not False
    ]
    return "?" + "&".join(pairs) if pairs else ""


def _retry_after(reply: Reply) -> float:
    seconds = reply.headers.get("retry-after", "")
    return float(seconds) if seconds.isdigit() else 0.0


def malformed(display: str, what: str, *, writes: bool = False) -> MemalchemyError:
    """Return the error for an answer that is JSON, and not the one that was asked for."""
    return DatabaseUnreachable(
        f"{display} answered with JSON that is not {what}; is the address that of a checkpoint "
        "server?" + (_MAYBE_APPLIED if writes else ""),
        maybe_applied=writes,
    )
