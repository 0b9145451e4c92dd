"""Operations as OpenTelemetry's spans and metrics."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from httpserver import TOKEN
from memalchemy import Checkpointer, Conflict, Database, Store, events
from memalchemy.http import app
from memalchemy.telemetry import instrument

SECRET = "what nobody but the user may read"


class Seen:
    def __init__(self) -> None:
        self._spans, self._metrics = InMemorySpanExporter(), InMemoryMetricReader()
        self.tracers = TracerProvider()
        self.tracers.add_span_processor(SimpleSpanProcessor(self._spans))
        self.meters = MeterProvider([self._metrics])

    def spans(self) -> list[Any]:
        return list(self._spans.get_finished_spans())

    def points(self, name: str) -> dict[tuple[str, str | None], Any]:
        """The points of a metric, by operation and error."""
        data = self._metrics.get_metrics_data()
        assert data is not None
        return {
            (
                point.attributes["memalchemy.operation"],
                point.attributes.get("error.type"),
            ): point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        }


@pytest.fixture
def seen() -> Iterator[Seen]:
    seen = Seen()
    end = instrument(tracer_provider=seen.tracers, meter_provider=seen.meters)
    yield seen
    end()


async def test_an_operation_is_a_span_below_the_callers(seen: Seen) -> None:
    async with Database("sqlite://", tenant="acme") as db:
        with seen.tracers.get_tracer("host").start_as_current_span("turn") as turn:
            await Checkpointer(db).save({"text": SECRET}, "thread", "first")

    (span,) = [s for s in seen.spans() if s.name == "memalchemy.checkpoint.save"]
    assert span.parent.span_id == turn.get_span_context().span_id
    assert span.attributes["memalchemy.tenant"] == "acme"
    assert span.attributes["memalchemy.thread_id"] == "thread"
    assert span.attributes["memalchemy.checkpoint_id"] == "first"
    assert span.attributes["memalchemy.payload_bytes"] > 0
    assert span.end_time >= span.start_time
    assert span.status.status_code is StatusCode.UNSET


async def test_what_fails_is_a_span_with_the_errors_class_and_not_its_text(seen: Seen) -> None:
    async with Database("sqlite://") as db:
        await Store(db).put(("n",), "k", SECRET)
        with pytest.raises(Conflict):
            await Store(db).put(("n",), "k", SECRET, expected_version=7)

    span = seen.spans()[-1]
    assert (span.name, span.status.status_code) == ("memalchemy.store.put", StatusCode.ERROR)
    assert span.status.description == span.attributes["error.type"] == "Conflict"
    assert seen.points("memalchemy.operation.duration")["store.put", "Conflict"].count == 1


async def test_metrics_count_by_operation_and_name_no_tenant_and_no_thread(seen: Seen) -> None:
    async with Database("sqlite://", tenant="acme") as db:
        for n in range(3):
            await Checkpointer(db).save({"n": n}, f"thread-{n}")
        await Checkpointer(db).load("thread-1")

    took = seen.points("memalchemy.operation.duration")
    assert took["checkpoint.save", None].count == 3
    assert took["checkpoint.save", None].sum > 0
    assert took["checkpoint.load", None].count == 1
    assert seen.points("memalchemy.payload.size")["checkpoint.save", None].value > 0
    assert seen.points("memalchemy.round_trips")["checkpoint.save", None].value >= 3
    names = {name for point in took.values() for name in point.attributes}
    assert names == {"memalchemy.operation"}


async def test_no_payload_is_in_any_span_or_metric(seen: Seen) -> None:
    async with Database("sqlite://") as db:
        checkpointer, store = Checkpointer(db), Store(db)
        await checkpointer.save({"text": SECRET}, "thread", metadata={"note": SECRET})
        await checkpointer.load("thread")
        await checkpointer.search(SECRET)
        await store.put(("n",), "k", {"text": SECRET}, {"note": SECRET})
        await store.search(("n",), SECRET, filter={"note": SECRET})
        await store.get(("n",), "k")

    assert len(seen.spans()) >= 6
    for span in seen.spans():
        assert SECRET not in span.to_json()


class Starts(SpanProcessor):
    """The names of spans in the order in which they began."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        self.names.append(span.name)


async def test_the_span_of_an_operation_begins_before_its_work(seen: Seen) -> None:
    starts = Starts()
    seen.tracers.add_span_processor(starts)
    async with Database("sqlite://") as db:
        with events.operation("host.work"):
            assert starts.names[-1] == "memalchemy.host.work"
            await Checkpointer(db).save({}, "thread")

    finished = [span.name for span in seen.spans()]
    assert starts.names.index("memalchemy.checkpoint.save") > starts.names.index(
        "memalchemy.host.work"
    )
    assert finished.index("memalchemy.checkpoint.save") < finished.index("memalchemy.host.work")


async def test_a_request_to_the_server_is_the_parent_of_what_it_does(seen: Seen) -> None:
    starts = Starts()
    seen.tracers.add_span_processor(starts)
    trace, caller = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
    async with Database("sqlite://", tenant="acme") as db:
        transport = httpx.ASGITransport(app(db, tokens={TOKEN: "acme"}))
        async with httpx.AsyncClient(transport=transport, base_url="http://x") as client:
            headers = {
                "Authorization": f"Bearer {TOKEN}",
                "traceparent": f"00-{trace}-{caller}-01",
                "X-Request-Id": "r-1",
            }
            path = f"/v1/threads/{SECRET}/checkpoints"
            saved = await client.post(path, json={"state": {"a": SECRET}}, headers=headers)
            refused = await client.get("/v1/threads")

    assert (saved.status_code, refused.status_code) == (201, 401)
    of_save, of_refusal = [span for span in seen.spans() if span.kind is SpanKind.SERVER]
    save = next(span for span in seen.spans() if span.name == "memalchemy.checkpoint.save")
    assert starts.names.index("memalchemy.http.request") == 0
    assert save.parent.span_id == of_save.context.span_id
    assert of_save.start_time <= save.start_time <= save.end_time <= of_save.end_time
    assert (of_save.context.trace_id, of_save.parent.span_id) == (int(trace, 16), int(caller, 16))
    assert of_save.attributes["memalchemy.tenant"] == "acme"
    assert of_save.attributes["http.request.method"] == "POST"
    assert of_save.attributes["http.route"] == "/v1/threads/{thread_id}/checkpoints"
    assert of_save.attributes["http.response.status_code"] == 201
    assert of_save.attributes["memalchemy.request_id"] == "r-1"
    assert of_refusal.attributes["http.response.status_code"] == 401
    assert of_refusal.status.status_code is StatusCode.UNSET
    assert of_refusal.parent is None
    for span in (of_save, of_refusal):
        assert SECRET not in span.to_json()
        assert TOKEN not in span.to_json()


async def test_an_observer_that_raises_breaks_no_operation(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def begin(event: events.Event) -> Any:
        raise RuntimeError("of the observer")

    end = events.observe(begin)
    async with Database("sqlite://") as db:
        await Checkpointer(db).save({"n": 1}, "thread")
        assert await Checkpointer(db).load("thread") == {"n": 1}
    end()

    assert "an observer raised at the beginning of checkpoint.save" in caplog.text


async def test_what_was_ended_reports_nothing_more() -> None:
    seen = Seen()
    end = instrument(tracer_provider=seen.tracers, meter_provider=seen.meters)
    end()
    async with Database("sqlite://") as db:
        await Checkpointer(db).save({}, "thread")

    assert seen.spans() == []


def test_without_opentelemetry_the_error_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from memalchemy.telemetry import instrument\n"
        "try:\n    instrument()\n"
        "except ImportError as error:\n    print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert "memalchemy[otel]" in said.stdout
