"""The whole route table: what the server answers to, and what its OpenAPI document says."""

from __future__ import annotations

from typing import Any

from memalchemy._version import __version__
from memalchemy.http import checkpoint_calls, shapes, store_calls
from memalchemy.http.calls import Call, Route


async def live(call: Call) -> Any:
    return {"status": "live"}


async def ready(call: Call) -> Any:
    await call.readiness()
    return {"status": "ready"}


async def capabilities(call: Call) -> Any:
    able = call.checkpointer.capabilities
    return {
        "server": "memalchemy",
        "version": __version__,
        "checkpointer": {name: getattr(able, name) for name in able.__dataclass_fields__},
        "calls": [route.name for route in ROUTES],
        "max_body_bytes": call.max_body,
    }


ROUTES: list[Route] = [
    *checkpoint_calls.ROUTES,
    *store_calls.ROUTES,
    Route(
        "GET", "/capabilities", "capabilities", "What this server can do.", capabilities,
        shapes.Capabilities,
    ),
    Route("GET", "/health", "health", "As /health/ready.", ready, shapes.Health),
    Route("GET", "/health/live", "health_live", "The process answers.", live, shapes.Health),
    Route(
        "GET", "/health/ready", "health_ready", "The database answers and has the schema.", ready,
        shapes.Health,
    ),
]  # fmt: skip
