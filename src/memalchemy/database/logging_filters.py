"""Keep payloads and values out of the logs of the drivers, whatever their levels are."""

from __future__ import annotations

import logging

ENGINE_NAME = "memalchemy"
"""The ``logging_name`` of engines: the end of their logger's name, after SQLAlchemy's own."""


class _WithoutArguments(logging.Filter):
    """Hide the arguments of messages of the level DEBUG: rows, and calls with their values."""

    def filter(self, record: logging.LogRecord) -> bool:
        if record.levelno <= logging.DEBUG and record.args:
            record.msg = f"{record.msg} (not shown: it may hold payloads)"
            record.args = tuple("…" for _ in record.args)
        return True


def hide_payloads(*, engine: str = ENGINE_NAME) -> None:
    """Hide rows and values in what SQLAlchemy logs of the engines of that name."""
    hide_arguments(f"sqlalchemy.engine.Engine.{engine}")


def hide_arguments(logger_name: str) -> None:
    """Hide the arguments of what a logger tells of its work, such as a driver's."""
    logger = logging.getLogger(logger_name)
    if not any(isinstance(one, _WithoutArguments) for one in logger.filters):
        logger.addFilter(_WithoutArguments())


hide_payloads()
