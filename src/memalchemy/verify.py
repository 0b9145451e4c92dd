"""Check a database for damage."""

from memalchemy.maintenance.verify import CODES, Finding, Report, verify

__all__ = ["CODES", "Finding", "Report", "verify"]
