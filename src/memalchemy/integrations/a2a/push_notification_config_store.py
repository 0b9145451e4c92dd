"""`MemalchemyPushNotificationConfigStore`: where an A2A server sends notifications of tasks."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from a2a.server.context import ServerCallContext
from a2a.server.owner_resolver import OwnerResolver, resolve_user_scope
from a2a.server.tasks import PushNotificationConfigStore
from a2a.server.tasks.push_notification_config_store import normalize_push_notification_config
from a2a.types import TaskPushNotificationConfig

from memalchemy.contracts import MAX_LIMIT, NewItem, Seconds, to_lifetime
from memalchemy.integrations._base import Adapter, AnyDatabase
from memalchemy.integrations.a2a._protobuf import read_into
from memalchemy.integrations.a2a._webhooks import UNTIL, earlier, webhooks_of
from memalchemy.store import Store
from memalchemy.threads import ThreadLog


class MemalchemyPushNotificationConfigStore(Adapter, PushNotificationConfigStore):
    """Stores the webhooks of tasks, with their tokens and credentials.

    They belong to the user of the call that set them; `get_info_for_dispatch` returns those of all
    users. Nothing of them is searchable. Give it a `Database` with keys to encrypt them.

    Args:
        db: a URL, the path of a SQLite file, a `Database`, a `memalchemy.sync.Database` or an
            `AsyncEngine`. Without it, the URL in ``MEMALCHEMY_URL``, or else a database in memory
            for this object alone.
        namespace: keeps several servers' configurations apart in one database.
        owner_resolver: the function that names the owner of a call: the user's name, by default.
        ttl: how long a configuration lives after it was set, in seconds or as a timedelta; but no
            longer than its task, if the store of tasks has a ttl.

    Raises, from any method:
        TooLarge: the id of a configuration is over 255 characters, or the task's id and the owner's
            name take over about 450 bytes together.
        DatabaseUnreachable, AuthenticationFailed, SchemaOutdated, SchemaTooNew.
        Corrupt, KeyMissing, NotEncrypted: a stored configuration cannot be read.
    """

    root = "a2a"

    def __init__(
        self,
        db: AnyDatabase | None = None,
        *,
        namespace: Iterable[str] = (),
        owner_resolver: OwnerResolver = resolve_user_scope,
        ttl: Seconds | None = None,
    ) -> None:
        super().__init__(db, namespace=namespace)
        self.owner_resolver = owner_resolver
        # The webhooks of a task are a list of items: a replica may not have them yet.
        self.store: Store = Store(self.db.primary(), index_text=False)
        self._ttl = None if ttl is None else to_lifetime(ttl)

    async def set_info(
        self,
        task_id: str,
        notification_config: TaskPushNotificationConfig,
        context: ServerCallContext,
    ) -> TaskPushNotificationConfig:
        """Set a configuration of a task, and return it with the ids that it got.

        One of the same id is replaced. Without an id it gets the task's.
        """
        config = normalize_push_notification_config(task_id, notification_config)
        value = config.SerializeToString(deterministic=True)
        namespace = self._of_owner(task_id, context)
        own = None if self._ttl is None else datetime.now(UTC) + self._ttl
        metadata = {} if own is None else {UNTIL: own.isoformat()}
        tasks = ThreadLog(self.db, namespace=(*self.namespace, "tasks", namespace[-1]))
        async with self.db.transaction() as tx:
            head = await tasks.hold(task_id, tx)
            end = earlier(None if head is None else head.expires_at, own)
            item = NewItem(namespace, config.id, value, metadata, expires_at=end)
            await self.store.put_batch([item], connection=tx)
        return config

    async def get_info(
        self, task_id: str, context: ServerCallContext
    ) -> list[TaskPushNotificationConfig]:
        """Return the caller's configurations of a task, the one set last at the end."""
        return await self._read(self._of_owner(task_id, context))

    async def get_info_for_dispatch(self, task_id: str) -> list[TaskPushNotificationConfig]:
        """Return the configurations of a task that any user has set, the last one at the end."""
        return await self._read(self._of_task(task_id))

    async def delete_info(
        self, task_id: str, context: ServerCallContext, config_id: str | None = None
    ) -> None:
        """Delete a configuration of the caller's, or without an id all that a task has."""
        namespace = self._of_owner(task_id, context)
        if config_id is None:
            await self.store.clear_namespace(namespace)
        else:
            await self.store.delete(namespace, config_id)

    async def close(self) -> None:
        """Close the database if this store owns it; a later use opens it again."""
        await self.aclose()

    async def _read(self, namespace: tuple[str, ...]) -> list[TaskPushNotificationConfig]:
        items = await self.store.list_items(namespace, prefix=True, limit=MAX_LIMIT)
        return [read_into(TaskPushNotificationConfig(), item.value) for item in reversed(items)]

    def _of_task(self, task_id: str) -> tuple[str, ...]:
        return webhooks_of(self.namespace, task_id)

    def _of_owner(self, task_id: str, context: ServerCallContext) -> tuple[str, ...]:
        return webhooks_of(self.namespace, task_id, self.owner_resolver(context))
