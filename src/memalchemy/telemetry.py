"""Report events as OpenTelemetry spans and metrics (extra ``otel``).

    from memalchemy.telemetry import instrument

    instrument()

Spans carry ids and sizes, metrics neither tenant nor thread: their values would be too many. No
payload is in any of them, because none is in an event.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from memalchemy import events
from memalchemy._version import __version__
from memalchemy.errors import DriverMissing
from memalchemy.events import Event

if TYPE_CHECKING:
    from opentelemetry.metrics import MeterProvider
    from opentelemetry.trace import TracerProvider

NAME = "memalchemy"
REQUEST = "http.request"
REQUEST_ATTRIBUTES = {
    "method": "http.request.method",
    "route": "http.route",
    "status": "http.response.status_code",
}
"""OpenTelemetry's names of the details of a request."""
SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
"""The bounds of the histogram: a save takes a millisecond or two."""


def instrument(
    *,
    tracer_provider: TracerProvider | None = None,
    meter_provider: MeterProvider | None = None,
) -> Callable[[], None]:
    """Report every operation of this process from now on; return a function that ends this.

    Each operation is a span such as ``memalchemy.checkpoint.save``, a child of the caller's, which
    begins and ends with the operation, with an error's class as its status. A request to the HTTP
    server is the span ``memalchemy.http.request``, a child of the one that its headers name, and
    the parent of the operations that it leads to. The metrics are
    ``memalchemy.operation.duration`` in seconds, ``memalchemy.payload.size`` in bytes and
    ``memalchemy.round_trips``, each by ``memalchemy.operation`` and, of failures, ``error.type``.
    Without arguments the providers are the global ones.

    Raises:
        DriverMissing: OpenTelemetry's API is not installed.
    """
    try:
        from opentelemetry import context, metrics, propagate, trace
    except ImportError:
        raise DriverMissing("opentelemetry", "otel", what="package") from None
    tracer = trace.get_tracer(NAME, __version__, tracer_provider)
    meter = metrics.get_meter(NAME, __version__, meter_provider)
    durations = meter.create_histogram(
        "memalchemy.operation.duration",
        unit="s",
        description="How long operations took",
        explicit_bucket_boundaries_advisory=SECONDS,
    )
    sizes = meter.create_counter(
        "memalchemy.payload.size", unit="By", description="Bytes of payloads stored and read"
    )
    trips = meter.create_counter(
        "memalchemy.round_trips",
        unit="{round_trip}",
        description="How often the database was asked",
    )

    def begin(event: Event) -> Callable[[Event], None]:
        is_request = event.name == REQUEST
        span = tracer.start_span(
            f"{NAME}.{event.name}",
            propagate.extract(event.carrier) if event.carrier else None,
            kind=trace.SpanKind.SERVER if is_request else trace.SpanKind.CLIENT,
            attributes=_attributes(event),
            start_time=time.time_ns() - round(event.seconds * 1e9),
        )
        # Only a request is the parent of what happens in it. Other operations may last over the
        # yields of a generator, whose caller would get the span as the current one.
        token = context.attach(trace.set_span_in_context(span)) if is_request else None

        def end(event: Event) -> None:
            if token is not None:
                context.detach(token)
            span.set_attributes(_attributes(event))
            labels = {"memalchemy.operation": event.name}
            if event.error is not None:
                span.set_status(trace.Status(trace.StatusCode.ERROR, event.error))
                labels["error.type"] = event.error
            span.end()
            durations.record(event.seconds, labels)
            if event.payload_bytes:
                sizes.add(event.payload_bytes, labels)
            if event.round_trips:
                trips.add(event.round_trips, labels)

        return end

    return events.observe(begin)


def _attributes(event: Event) -> dict[str, str | int | float | bool]:
    known = {
        "memalchemy.operation": event.name,
        "memalchemy.tenant": event.tenant,
        "memalchemy.thread_id": event.thread_id,
        "memalchemy.checkpoint_id": event.checkpoint_id,
        "memalchemy.payload_bytes": event.payload_bytes or None,
        "memalchemy.state_bytes": event.state_bytes or None,
        "memalchemy.round_trips": event.round_trips,
        "memalchemy.cache_hit": event.cache_hit,
        "error.type": event.error,
    }
    names = REQUEST_ATTRIBUTES if event.name == REQUEST else {}
    details = {
        names.get(name, f"memalchemy.{name}"): value for name, value in event.details.items()
    }
    return {
        name: value if isinstance(value, (str, int, float, bool)) else str(value)
        for name, value in (known | details).items()
        if value is not None
    }
