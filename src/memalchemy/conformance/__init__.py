"""Checks for whoever implements memalchemy's contracts, or an adapter for a framework."""

from memalchemy.conformance.subject import Subject

__all__ = ["Subject"]
