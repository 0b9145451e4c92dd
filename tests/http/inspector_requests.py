"""Requests to the routes of the inspector, in this process."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import quote

import httpx

TOKEN = "a-token-of-the-inspector-0123456789"


@asynccontextmanager
async def asking(
    application: Any, token: str | None = TOKEN, *, prefix: str = ""
) -> AsyncIterator[Any]:
    """Yield a function that sends a GET to *application* and returns its JSON, or the response."""
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    transport = httpx.ASGITransport(application)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://localhost", headers=headers
    ) as client:

        async def ask(route: str, /, *, status: int = 200, **parameters: Any) -> Any:
            pairs = []
            for name, value in parameters.items():
                for one in value if isinstance(value, (list, tuple)) else [value]:
                    encoded = quote(str(one).encode("utf-8", "surrogatepass"), safe="")
                    pairs.append(f"{name}={encoded}")
            response = await client.get(f"{prefix}/api/{route}?{'&'.join(pairs)}")
            assert response.status_code == status, response.text
            found = json.loads(response.content)
            if status != 200:
                assert response.headers["content-type"] == "application/problem+json"
            return found

        ask.client = client  # type: ignore[attr-defined]
        yield ask
