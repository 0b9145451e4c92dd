"""Checks for whoever implements memalchemy's contracts, or an adapter for a framework."""

from memalchemy.conformance.adapter import ADAPTER_CHECKS, check_adapter
from memalchemy.conformance.report import NotConforming, Report, Result
from memalchemy.conformance.subject import Subject

__all__ = ["ADAPTER_CHECKS", "NotConforming", "Report", "Result", "Subject", "check_adapter"]
