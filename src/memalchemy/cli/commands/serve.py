"""The command serve."""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from memalchemy.cli.command import command
from memalchemy.cli.context import Context
from memalchemy.cli.exit_codes import OK
from memalchemy.cli.formatting import count
from memalchemy.cli.parsers import read_text_file
from memalchemy.cli.usage_errors import UsageError, usage_errors
from memalchemy.http import Tokens

SECONDS_TO_CLOSE = 1.0
"""Seconds after the grace in which the database is closed."""


@command("serve", example="memalchemy --db sqlite:///agent.db serve --port 8080")
async def serve(
    ctx: Context,
    host: Annotated[str, typer.Option(metavar="HOST", help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int,
        typer.Option(min=0, max=65535, metavar="N", help="0 is any free port."),
    ] = 8080,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=f"A token=tenant per line, reread if changed. [env: {Tokens.VARIABLE}, the lines]",
        ),
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Without tokens, serve everybody who reaches HOST."),
    ] = False,
    max_body: Annotated[
        int, typer.Option(min=1, metavar="BYTES", help="Largest body of a request.")
    ] = 32 * 1024 * 1024,
    rate: Annotated[
        float,
        typer.Option(min=0, metavar="N", help="Requests per second of a tenant; 0: any."),
    ] = 0,
    max_values: Annotated[
        int, typer.Option(min=1, metavar="N", help="Most JSON values in the body of a request.")
    ] = 1_000_000,
    max_results: Annotated[
        int,
        typer.Option(min=1, max=100_000, metavar="N", help="Largest limit of a list."),
    ] = 10_000,
    max_answer: Annotated[int, typer.Option(min=1, metavar="BYTES", help="Largest answer.")] = 64
    * 1024
    * 1024,
    max_requests: Annotated[
        int, typer.Option(min=1, metavar="N", help="Requests of a tenant at the same time.")
    ] = 100,
    max_running: Annotated[
        int, typer.Option(min=1, metavar="N", help="Requests that are worked on at the same time.")
    ] = 32,
    max_tenant_running: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="The same for one tenant; others wait."),
    ] = 16,
    max_heavy: Annotated[
        int,
        typer.Option(min=1, metavar="N", help="Searches at the same time, and large bodies."),
    ] = 4,
    max_tenant_heavy: Annotated[
        int, typer.Option(min=1, metavar="N", help="The same for one tenant.")
    ] = 2,
    max_unknown_tokens: Annotated[
        int, typer.Option(min=1, metavar="N", help="Unknown tokens of an address in a minute.")
    ] = 20,
    max_pending: Annotated[
        int,
        typer.Option(min=1, metavar="BYTES", help="Bodies of all requests at the same time."),
    ] = 256 * 1024 * 1024,
    origin: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ORIGIN", help="Origin whose web pages may write, such as https://a.example."
        ),
    ] = None,
    timeout: Annotated[  # noqa: ASYNC109 - of a request
        float, typer.Option(min=0.001, metavar="S", help="Longest time of a request, in seconds.")
    ] = 30,
    grace: Annotated[
        float,
        typer.Option(min=1, metavar="S", help="Time for requests to end at shutdown."),
    ] = 10,
    pool_size: Annotated[
        int | None,
        typer.Option(min=1, metavar="N", help="Connections that are kept. [default: 5]"),
    ] = None,
    max_overflow: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="More connections under load. [default: 10]"),
    ] = None,
    statement_timeout: Annotated[
        float | None,
        typer.Option(min=0.001, metavar="S", help="Longest time of a statement."),
    ] = None,
    inspector: Annotated[
        bool, typer.Option("--inspector", help="Also show the inspector, at /inspector/.")
    ] = False,
    otel: Annotated[
        bool,
        typer.Option("--otel", help="Report spans and metrics to OpenTelemetry's providers."),
    ] = False,
    require_conditions: Annotated[
        bool,
        typer.Option(
            "--require-conditions", help="Refuse writes that do not say what they replace (428)."
        ),
    ] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not log requests.")] = False,
) -> None:
    """Serve the database over HTTP until Ctrl-C or SIGTERM.

    Serves HTTPCheckpointer and any other client; /v1/openapi.json describes the endpoints. Each
    token gives access to one tenant. Without tokens the server accepts connections of this machine
    only, as --tenant. Logs each request on stderr with its route, status, time and tenant, without
    ids or content. Needs the extra `server`.
    """
    from memalchemy.http import Limits, serve

    limits = Limits(
        values=max_values,
        results=max_results,
        answer_bytes=max_answer,
        tenant_requests=max_requests,
        running=max_running,
        tenant_running=max_tenant_running,
        heavy=max_heavy,
        tenant_heavy=max_tenant_heavy,
        pending_bytes=max_pending,
        unknown_tokens=max_unknown_tokens,
    )
    tokens = _read_tokens(token_file)
    if tokens is not None and ctx.options.tenant is not None:
        raise UsageError("each token names its tenant: leave --tenant out")

    def started(url: str) -> None:
        _log_to_stderr(quiet=quiet)
        who = "no tokens: this machine only" if tokens is None else count(len(tokens), "token")
        if ctx.as_data:
            ctx.terminal.print_data({"url": url, "tokens": 0 if tokens is None else len(tokens)})
        else:
            ctx.terminal.print(f"serving on {url} ({who}); Ctrl-C ends it")
        sys.stdout.flush()

    if tokens is None and insecure:
        ctx.terminal.print_note(
            "insecure: everybody who reaches this address can read and erase everything"
        )
    pool = {"pool_size": pool_size, "max_overflow": max_overflow}
    given: dict[str, Any] = {name: value for name, value in pool.items() if value is not None}
    if given and ctx.has_no_pool:
        raise UsageError(
            "--pool-size and --max-overflow are for a server to which memalchemy keeps a pool of "
            "connections: a SQLite file has none, and PgBouncer keeps its own"
        )
    with _end_process_within(grace + SECONDS_TO_CLOSE) as stopping:
        async with ctx.database(statement_timeout=statement_timeout, **given) as db:
            try:
                with usage_errors(), _report_to_opentelemetry() if otel else nullcontext():
                    await serve(
                        db,
                        host=host,
                        port=port,
                        tokens=tokens,
                        insecure=insecure,
                        max_body=max_body,
                        limits=limits,
                        inspector=inspector,
                        requires_conditions=require_conditions,
                        origins=origin or (),
                        rate=rate or None,
                        timeout=timeout,
                        grace=grace,
                        started=started,
                        stopping=stopping,
                    )
            except OSError as error:
                raise UsageError(f"cannot listen on {host}:{port}: {error.strerror}") from error
        await asyncio.get_running_loop().shutdown_default_executor()


@contextmanager
def _end_process_within(seconds: float) -> Iterator[Callable[[], None]]:
    """Yield a function that gives the block so many seconds to end, and then ends the process.

    A thread of the block may be in a call that nothing interrupts, such as SQLite's that waits for
    a lock. What was acknowledged is committed; what was not is undone, as after a crash.
    """

    def end() -> None:
        logging.getLogger("memalchemy.http").warning(
            "the grace is over, and a call to the database has not ended: it is cut off"
        )
        logging.shutdown()
        os._exit(OK)

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    try:
        yield timer.start
    finally:
        timer.cancel()


@contextmanager
def _report_to_opentelemetry() -> Iterator[None]:
    """Report operations to OpenTelemetry's global providers during the block.

    Raises:
        UsageError: nobody has set them up.
    """
    from memalchemy.telemetry import instrument

    end = instrument()  # names the extra if OpenTelemetry's API is missing
    try:
        from opentelemetry import trace

        if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
            raise UsageError(
                "OpenTelemetry has no providers in this process: install opentelemetry-distro and "
                "an exporter, and start `opentelemetry-instrument memalchemy serve --otel`"
            )
        yield
    finally:
        end()


def _read_tokens(file: Path | None) -> Tokens | None:
    if file is not None:
        read_text_file(file)  # or say why not
        with usage_errors():
            return Tokens.from_file(file)
    text = os.environ.get(Tokens.VARIABLE, "")
    if not text.strip():
        return None
    with usage_errors():
        return Tokens.parse(text)


def _log_to_stderr(*, quiet: bool) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log = logging.getLogger("memalchemy")
    log.handlers[:] = [handler]
    log.setLevel(logging.WARNING if quiet else logging.INFO)
    log.propagate = False
