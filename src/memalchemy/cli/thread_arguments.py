"""Arguments and options that name a thread, with completion of its id."""

from __future__ import annotations

from typing import Annotated

import typer

from memalchemy.cli.completion import complete_thread

ThreadArgument = Annotated[
    str,
    typer.Argument(metavar="THREAD", help="Id of the thread.", autocompletion=complete_thread),
]
OptionalThreadArgument = Annotated[
    str | None,
    typer.Argument(
        metavar="THREAD", help="One thread instead of all.", autocompletion=complete_thread
    ),
]
ThreadOption = Annotated[
    str | None,
    typer.Option(
        "--thread", metavar="THREAD", help="Only this thread.", autocompletion=complete_thread
    ),
]
