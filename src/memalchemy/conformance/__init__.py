"""Checks for whoever implements memalchemy's contracts, or an adapter for a framework.

`check_checkpointer`, `check_store`, `check_log` and `check_adapter` run a list of checks and return
a `Report`. The lists are public, for tests that are parametrised over them, and nothing here needs
pytest. ``python -m memalchemy.conformance MODULE:OBJECT`` does the same.
"""

from memalchemy.conformance._checks import Check
from memalchemy.conformance.adapter import ADAPTER_CHECKS, check_adapter
from memalchemy.conformance.checkpointer import CHECKPOINTER_CHECKS, check_checkpointer
from memalchemy.conformance.log import LOG_CHECKS, check_log
from memalchemy.conformance.report import NotConforming, Report, Result
from memalchemy.conformance.store import STORE_CHECKS, check_store
from memalchemy.conformance.subject import Subject

__all__ = [
    "ADAPTER_CHECKS",
    "CHECKPOINTER_CHECKS",
    "LOG_CHECKS",
    "STORE_CHECKS",
    "Check",
    "NotConforming",
    "Report",
    "Result",
    "Subject",
    "check_adapter",
    "check_checkpointer",
    "check_log",
    "check_store",
]
