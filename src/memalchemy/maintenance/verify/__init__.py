"""The check of a database for damage: `verify`.

`database` goes through a whole database, tenant by tenant: `logs` checks a log (`log_rows` one row
of it), `items` the items of a store, `text_indexes` the indexes. All add to a `report`.
"""

from memalchemy.maintenance.verify.database import verify
from memalchemy.maintenance.verify.report import CODES, Finding, Report

__all__ = ["CODES", "Finding", "Report", "verify"]
