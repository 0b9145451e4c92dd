"""A process that pauses a flow again and again, and says so: ``URL TENANT FLOW``."""

from __future__ import annotations

import sys
from itertools import count

from crewai.flow.async_feedback.types import PendingFeedbackContext

from memalchemy import Database
from memalchemy.integrations.crewai import MemalchemyFlowPersistence


def main(url: str, tenant: str, flow: str) -> None:
    flows = MemalchemyFlowPersistence(Database(url).for_tenant(tenant))
    for number in count():
        context = PendingFeedbackContext(flow, "app.Flow", f"m{number}", None, "Please look")
        flows.save_pending_feedback(flow, context, {"n": number, "seen": [*range(number)]})
        print(number, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
