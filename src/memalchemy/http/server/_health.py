"""The operations on the server itself: capabilities, liveness and readiness."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from memalchemy._version import __version__
from memalchemy.errors import MemalchemyError
from memalchemy.http import wire
from memalchemy.http._gzip import GZIP
from memalchemy.http.server import _schemas as schemas
from memalchemy.http.server._context import RequestContext
from memalchemy.http.server._operations import Operations
from memalchemy.http.server._problems import not_ready

operations = Operations("server")


@operations.add("GET", "/capabilities", answer=schemas.Capabilities, any_token=True)
async def capabilities(context: RequestContext) -> Any:
    """Describe what this server can do."""
    return {
        "server": "memalchemy",
        "version": __version__,
        "checkpointer": asdict(context.checkpointer.capabilities),
        "calls": context.server.calls,
        "max_body_bytes": context.server.max_body,
        "encodings": [GZIP],
    }


@operations.add("GET", "/health", answer=schemas.Health, public=True)
async def health(context: RequestContext) -> Any:
    """Check readiness, as /health/ready does."""
    return await health_ready(context)


@operations.add("GET", f"{wire.VERSION_PATH}/health", answer=schemas.Health, public=True)
async def health_below_version(context: RequestContext) -> Any:
    """Check readiness, as /health/ready does, for clients whose base address ends with /v1."""
    return await health_ready(context)


@operations.add("GET", "/health/live", answer=schemas.Health, public=True)
async def health_live(context: RequestContext) -> Any:
    """Check that the process answers."""
    return {"status": "live"}


@operations.add("GET", "/health/ready", answer=schemas.Health, public=True)
async def health_ready(context: RequestContext) -> Any:
    """Check that the database answers and has the schema with all its tables.

    Whatever is wrong with it is a 503: a load balancer sends no requests here.
    """
    try:
        await context.server.readiness()
    except MemalchemyError as error:
        raise not_ready(error) from error
    return {"status": "ready"}
