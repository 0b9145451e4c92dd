"""Tasks and push notifications of the A2A SDK.

from memalchemy.integrations.a2a import MemalchemyTaskStore

handler = DefaultRequestHandler(agent, MemalchemyTaskStore("sqlite:///agent.db"), agent_card)
"""

from memalchemy.integrations._base import requires

with requires("a2a-sdk", extra="a2a", module="a2a"):
    from memalchemy.integrations.a2a.push_notification_config_store import (
        MemalchemyPushNotificationConfigStore,
    )
    from memalchemy.integrations.a2a.task_event_stream import MemalchemyTaskEventStream
    from memalchemy.integrations.a2a.task_store import MemalchemyTaskStore
    from memalchemy.integrations.a2a.versioned_task_store import MemalchemyVersionedTaskStore

__all__ = [
    "MemalchemyPushNotificationConfigStore",
    "MemalchemyTaskEventStream",
    "MemalchemyTaskStore",
    "MemalchemyVersionedTaskStore",
]
