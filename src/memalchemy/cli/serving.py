"""The command that offers a database over HTTP: serve."""

from __future__ import annotations

import logging
import os
import sys
from pathlib import Path
from typing import Annotated

import typer

from memalchemy.cli.command import Invocation, asking_for_sense, command
from memalchemy.cli.exits import UsageProblem
from memalchemy.http import Tokens


def register(app: typer.Typer) -> None:
    """Add this file's command to *app*."""
    db = "memalchemy --db sqlite:///agent.db"
    command(app, "serve", example=f"{db} serve --port 8080")(serve)


async def serve(
    at: Invocation,
    host: Annotated[str, typer.Option(metavar="HOST", help="Where to listen.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, metavar="N", help="0 is any that is free.")
    ] = 8080,
    token_file: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help=f"Lines of token=tenant. [env: {Tokens.VARIABLE}, the lines]"
        ),
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Let everybody in who reaches HOST, without a token."),
    ] = False,
    max_body: Annotated[
        int, typer.Option(min=1, metavar="BYTES", help="The most that a request may bring.")
    ] = 32 * 1024 * 1024,
    rate: Annotated[
        float, typer.Option(min=0, metavar="N", help="Requests a second of a tenant; 0 is any.")
    ] = 0,
    max_values: Annotated[
        int, typer.Option(min=1, metavar="N", help="JSON values in the body of a request.")
    ] = 1_000_000,
    max_results: Annotated[
        int, typer.Option(min=1, max=100_000, metavar="N", help="The largest limit of a list.")
    ] = 10_000,
    max_answer: Annotated[
        int, typer.Option(min=1, metavar="BYTES", help="The most that an answer may have.")
    ] = 64 * 1024 * 1024,
    max_requests: Annotated[
        int, typer.Option(min=1, metavar="N", help="Requests of a tenant at once.")
    ] = 100,
    max_pending: Annotated[
        int, typer.Option(min=1, metavar="BYTES", help="Bodies of all requests at once.")
    ] = 256 * 1024 * 1024,
    origin: Annotated[
        list[str] | None,
        typer.Option(metavar="ORIGIN", help="Web pages that may write here, as https://a.example."),
    ] = None,
    timeout: Annotated[  # noqa: ASYNC109 - of a request
        float, typer.Option(min=0.001, metavar="S", help="Seconds that a request may take.")
    ] = 30,
    grace: Annotated[
        float, typer.Option(min=1, metavar="S", help="Seconds for running requests at the end.")
    ] = 10,
    quiet: Annotated[bool, typer.Option("--quiet", help="No line for each request.")] = False,
) -> None:
    """Offer the database over HTTP, until Ctrl-C or SIGTERM.

    For HTTPCheckpointer and any other client: /openapi.json describes it. Each token is of a
    tenant; without tokens only this machine may come, as --tenant. Each request is a line on
    stderr: its route, status, time and tenant, no id and no content.
    """
    from memalchemy.http import Limits, serve

    limits = Limits(
        values=max_values,
        results=max_results,
        answer_bytes=max_answer,
        tenant_requests=max_requests,
        pending_bytes=max_pending,
    )
    tokens = _tokens(token_file)
    if tokens is not None and at.common.tenant is not None:
        raise UsageProblem("with tokens it is they who say which tenant; leave --tenant away")

    def started(url: str) -> None:
        _log_to_stderr(quiet=quiet)
        who = "no tokens: this machine only" if tokens is None else f"{len(tokens)} tokens"
        if at.as_json:
            at.terminal.document({"url": url, "tokens": 0 if tokens is None else len(tokens)})
        else:
            at.terminal.say(f"serving on {url} ({who}); Ctrl-C ends it")
        sys.stdout.flush()

    if tokens is None and insecure:
        at.terminal.note("insecure: whoever reaches this address can read and erase everything")
    async with at.database() as db:
        try:
            with asking_for_sense():
                await serve(
                    db,
                    host=host,
                    port=port,
                    tokens=tokens,
                    insecure=insecure,
                    max_body=max_body,
                    limits=limits,
                    origins=origin or (),
                    rate=rate or None,
                    timeout=timeout,
                    grace=grace,
                    started=started,
                )
        except OSError as error:
            raise UsageProblem(f"cannot listen on {host}:{port}: {error.strerror}") from error


def _tokens(file: Path | None) -> Tokens | None:
    if file is not None:
        try:
            text = file.read_text(encoding="utf-8")
        except OSError as error:
            raise UsageProblem(f"cannot read {file}: {error.strerror}") from error
        except UnicodeDecodeError:
            raise UsageProblem(f"{file} is not UTF-8") from None
    else:
        text = os.environ.get(Tokens.VARIABLE, "")
        if not text.strip():
            return None
    with asking_for_sense():
        return Tokens.parse(text)


def _log_to_stderr(*, quiet: bool) -> None:
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(message)s"))
    log = logging.getLogger("memalchemy")
    log.handlers[:] = [handler]
    log.setLevel(logging.WARNING if quiet else logging.INFO)
    log.propagate = False
