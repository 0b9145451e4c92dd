"""The operations on the server itself: capabilities, liveness and readiness."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from memalchemy._version import __version__
from memalchemy.errors import MemalchemyError
from memalchemy.http import operations
from memalchemy.http._gzip import GZIP
from memalchemy.http.server._context import RequestContext
from memalchemy.http.server._endpoints import Endpoints
from memalchemy.http.server._problems import not_ready

endpoints = Endpoints()


@endpoints.add(operations.capabilities)
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


@endpoints.add(operations.health)
async def health(context: RequestContext) -> Any:
    """Check readiness, as /health/ready does."""
    return await health_ready(context)


@endpoints.add(operations.health_below_version)
async def health_below_version(context: RequestContext) -> Any:
    """Check readiness, as /health/ready does, for clients whose base address ends with /v1."""
    return await health_ready(context)


@endpoints.add(operations.health_live)
async def health_live(context: RequestContext) -> Any:
    """Check that the process answers."""
    return {"status": "live"}


@endpoints.add(operations.health_ready)
async def health_ready(context: RequestContext) -> Any:
    """Check that the database answers and has the schema with all its tables.

    Whatever is wrong with it is a 503: a load balancer sends no requests here.
    """
    try:
        await context.server.readiness()
    except MemalchemyError as error:
        raise not_ready(error) from error
    return {"status": "ready"}
