"""Checkpointers, stores and logs that are broken on purpose, each by the check that finds it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any, TypeVar

from memalchemy import Checkpointer, CheckpointInfo, Diff, NotSerialisable, Store, ThreadLog

T = TypeVar("T", bound=type)

CHECKPOINTERS: dict[str, type[Checkpointer]] = {}
STORES: dict[str, type[Store]] = {}
LOGS: dict[str, type[ThreadLog]] = {}


def found_by(check: str, broken: dict[str, Any]) -> Callable[[T], T]:
    """Register a class that the check of this name has to find."""

    def register(cls: T) -> T:
        assert check not in broken
        broken[check] = cls
        return cls

    return register


def untyped(value: Any) -> Any:
    """Return a value as JSON would have it."""
    if isinstance(value, dict):
        return {key: untyped(one) for key, one in value.items()}
    return [*map(untyped, value)] if isinstance(value, list | tuple) else value


# --- Checkpointers -------------------------------------------------------------------------------


@found_by("has_the_methods_of_the_protocol", CHECKPOINTERS)
class RenamedArguments(Checkpointer):
    async def load(self, thread: str, id_: str | None = None) -> Any:  # type: ignore[override]
        return await super().load(thread, id_)


@found_by("loads_every_type_as_it_was_saved", CHECKPOINTERS)
class UntypedStates(Checkpointer):
    async def load(self, *args: Any, **options: Any) -> Any:
        return untyped(await super().load(*args, **options))


@found_by("an_unknown_thread_is_empty", CHECKPOINTERS)
class EmptyState(Checkpointer):
    async def load(self, *args: Any, **options: Any) -> Any:
        return await super().load(*args, **options) or {}


@found_by("save_returns_the_id_of_its_checkpoint", CHECKPOINTERS)
class AnotherId(Checkpointer):
    async def save(self, *args: Any, **options: Any) -> str:
        return (await super().save(*args, **options)).upper()


@found_by("the_last_saved_is_the_newest", CHECKPOINTERS)
class SortedIds(Checkpointer):
    async def list_checkpoints(self, *args: Any, **options: Any) -> list[str]:
        return sorted(await super().list_checkpoints(*args, **options))


@found_by("saving_an_id_again_replaces_it", CHECKPOINTERS)
class KeepsTheFirst(Checkpointer):
    async def save(self, state: Any, thread_id: str, *args: Any, **options: Any) -> str:
        if args and await self.exists(thread_id, args[0]):
            return str(args[0])
        return await super().save(state, thread_id, *args, **options)


@found_by("every_version_of_a_long_thread_loads", CHECKPOINTERS)
class OnlyTheNewest(Checkpointer):
    async def load(self, thread_id: str, *args: Any, **options: Any) -> Any:
        return await super().load(thread_id)


@found_by("states_are_the_callers_own", CHECKPOINTERS)
class AliasedStates(Checkpointer):
    async def save(self, state: Any, *args: Any, **options: Any) -> str:
        self.newest = state
        return await super().save(state, *args, **options)

    async def load(self, *args: Any, **options: Any) -> Any:
        return self.newest


@found_by("what_cannot_be_stored_is_refused", CHECKPOINTERS)
class StoresWhatItCan(Checkpointer):
    async def save(self, state: Any, *args: Any, **options: Any) -> str:
        try:
            return await super().save(state, *args, **options)
        except NotSerialisable:
            return await super().save({"text": str(state)}, *args, **options)


@found_by("ids_that_look_alike_are_separate", CHECKPOINTERS)
class FoldedThreads(Checkpointer):
    async def save(self, state: Any, thread_id: str, *args: Any, **options: Any) -> str:
        return await super().save(state, thread_id.strip(), *args, **options)

    async def load(self, thread_id: str, *args: Any, **options: Any) -> Any:
        return await super().load(thread_id.strip(), *args, **options)


@found_by("a_limit_is_kept", CHECKPOINTERS)
class Unlimited(Checkpointer):
    async def list_checkpoints(self, thread_id: str, *args: Any, **options: Any) -> list[str]:
        return await super().list_checkpoints(thread_id, 1_000)


@found_by("history_describes_every_checkpoint", CHECKPOINTERS)
class WithoutMetadata(Checkpointer):
    async def history(self, *args: Any, **options: Any) -> AsyncIterator[CheckpointInfo]:
        async for info in super().history(*args, **options):
            yield replace(info, metadata={})


@found_by("history_goes_on_before_a_checkpoint", CHECKPOINTERS)
class FromTheStart(Checkpointer):
    async def history(
        self, *args: Any, before: str | None = None, **options: Any
    ) -> AsyncIterator[CheckpointInfo]:
        async for info in super().history(*args, **options):
            yield info


@found_by("metadata_and_existence_are_told", CHECKPOINTERS)
class EverythingExists(Checkpointer):
    async def exists(self, *args: Any, **options: Any) -> bool:
        return True


@found_by("threads_are_listed_by_their_last_save", CHECKPOINTERS)
class SortedThreads(Checkpointer):
    async def list_threads(self, *args: Any, **options: Any) -> list[str]:
        return sorted(await super().list_threads(*args, **options))


@found_by("the_newest_of_all_threads_are_listed", CHECKPOINTERS)
class OldestFirst(Checkpointer):
    async def list_with_metadata(self, *args: Any, **options: Any) -> list[dict[str, Any]]:
        return (await super().list_with_metadata(*args, **options))[::-1]


@found_by("metadata_is_found_by_its_value_and_type", CHECKPOINTERS)
class ComparesTexts(Checkpointer):
    async def query_by_metadata(
        self, key: str, value: Any, *args: Any, **options: Any
    ) -> list[dict[str, Any]]:
        found = await super().query_by_metadata(key, value)
        return found + await super().query_by_metadata(key, str(value))


@found_by("search_finds_the_words_of_a_step", CHECKPOINTERS)
class KnowsOperators(Checkpointer):
    async def search(self, query: str, *args: Any, **options: Any) -> list[dict[str, Any]]:
        if "AND -" in query:
            return []
        return await super().search(query, *args, **options)


@found_by("a_parent_makes_a_branch", CHECKPOINTERS)
class WithoutBranches(Checkpointer):
    async def save(self, *args: Any, parent_id: Any = None, **options: Any) -> str:
        return await super().save(*args, **options)


@found_by("an_unexpected_parent_is_a_conflict", CHECKPOINTERS)
class ChecksTooEarly(Checkpointer):
    async def save(
        self, state: Any, thread_id: str, *args: Any, expected_parent: Any = ..., **options: Any
    ) -> str:
        if expected_parent is not ... and expected_parent is not None:
            assert expected_parent in await self.list_checkpoints(thread_id)
        elif expected_parent is None:
            return await super().save(state, thread_id, *args, expected_parent=None, **options)
        return await super().save(state, thread_id, *args, **options)


@found_by("changes_at_once_lose_nothing", CHECKPOINTERS)
class LoadsThenSaves(Checkpointer):
    async def change(self, thread_id: str, function: Any, *args: Any, **options: Any) -> str:
        state = await self.load(thread_id)
        return await self.save(function(state), thread_id, *args, **options)


@found_by("a_fork_shares_nothing_with_its_source", CHECKPOINTERS)
class ForksWhole(Checkpointer):
    async def fork(self, thread_id: str, *args: Any, **options: Any) -> str:
        return await super().fork(thread_id, **options)


@found_by("a_difference_is_told_by_json_pointers", CHECKPOINTERS)
class Backwards(Checkpointer):
    async def diff(self, thread_id: str, a: str, b: str, **options: Any) -> Diff:
        return await super().diff(thread_id, b, a, **options)


@found_by("a_deletion_removes_what_it_names", CHECKPOINTERS)
class DeletesTheThread(Checkpointer):
    async def delete(self, thread_id: str, *args: Any, **options: Any) -> bool:
        return await super().delete(thread_id, **options)


@found_by("prune_keeps_what_a_rule_keeps", CHECKPOINTERS)
class KeepsOneLess(Checkpointer):
    async def prune(self, *args: Any, keep_last: int | None = None, **options: Any) -> int:
        fewer = None if keep_last is None else keep_last - 1
        return await super().prune(*args, keep_last=fewer, **options)


@found_by("vacuum_removes_stale_threads_alone", CHECKPOINTERS)
class RemovesEverything(Checkpointer):
    async def vacuum(self, *args: Any, **options: Any) -> int:
        return await super().vacuum(0)


@found_by("a_thread_expires", CHECKPOINTERS)
class LastingThreads(Checkpointer):
    async def save(self, *args: Any, ttl: Any = None, **options: Any) -> str:
        return await super().save(*args, **options)


@found_by("saves_at_once_form_one_line", CHECKPOINTERS)
class LooksThenSaves(Checkpointer):
    async def save(self, state: Any, thread_id: str, *args: Any, **options: Any) -> str:
        newest = await self.list_checkpoints(thread_id, 1)
        await asyncio.sleep(0.01)  # timed: others come in between
        options |= {"parent_id": newest[0]} if newest else {}
        return await super().save(state, thread_id, *args, **options)


@found_by("a_cancelled_save_is_whole_or_absent", CHECKPOINTERS)
class SavesInTwoSteps(Checkpointer):
    async def save(self, state: Any, thread_id: str, *args: Any, **options: Any) -> str:
        made = await super().save({}, thread_id, *args, **options)
        await asyncio.sleep(0)
        return await super().save(state, thread_id, made, *args[1:], **options)


# --- Stores --------------------------------------------------------------------------------------


@found_by("gets_every_type_as_it_was_put", STORES)
class UntypedValues(Store):
    async def get(self, *args: Any, **options: Any) -> Any:
        return untyped(await super().get(*args, **options))


@found_by("an_absent_item_is_none", STORES)
class NoneIsAbsent(Store):
    async def exists(self, namespace: Any, key: str, **options: Any) -> bool:
        return await self.get(namespace, key, **options) is not None


@found_by("a_put_replaces_and_counts_versions", STORES)
class OneVersion(Store):
    async def put(self, *args: Any, **options: Any) -> int:
        await super().put(*args, **options)
        return 1


@found_by("an_item_has_its_metadata_version_and_times", STORES)
class OneTime(Store):
    async def get_item(self, *args: Any, **options: Any) -> Any:
        item = await super().get_item(*args, **options)
        return None if item is None else replace(item, updated_at=item.created_at)


@found_by("names_that_look_alike_are_separate", STORES)
class JoinedNamespaces(Store):
    async def put(self, namespace: Any, *args: Any, **options: Any) -> int:
        return await super().put(("/".join(namespace),), *args, **options)

    async def get(self, namespace: Any, *args: Any, **options: Any) -> Any:
        return await super().get(("/".join(namespace),), *args, **options)

    async def delete(self, namespace: Any, *args: Any, **options: Any) -> bool:
        return await super().delete(("/".join(namespace),), *args, **options)


@found_by("values_are_the_callers_own", STORES)
class AliasedValues(Store):
    async def get(self, *args: Any, **options: Any) -> Any:
        if not hasattr(self, "cached"):
            self.cached = await super().get(*args, **options)
        return self.cached


@found_by("what_cannot_be_stored_is_refused", STORES)
class StoresTexts(Store):
    async def put(self, namespace: Any, key: str, value: Any, *args: Any, **options: Any) -> int:
        try:
            return await super().put(namespace, key, value, *args, **options)
        except NotSerialisable:
            return await super().put(namespace, key, str(value), *args, **options)


@found_by("a_deleted_item_begins_anew", STORES)
class Tombstones(Store):
    async def delete(self, namespace: Any, key: str, **options: Any) -> bool:
        was_there = await self.get(namespace, key) is not None
        await super().put(namespace, key, None)
        return was_there


@found_by("an_unexpected_version_is_a_conflict", STORES)
class LooksThenPuts(Store):
    async def put(self, *args: Any, expected_version: Any = ..., **options: Any) -> int:
        if expected_version is None:
            return await super().put(*args, expected_version=None, **options)
        if expected_version is not ...:
            item = await self.get_item(*args[:2])
            if item is None or item.version != expected_version:
                return await super().put(*args, expected_version=expected_version, **options)
            await asyncio.sleep(0.01)  # timed: others come in between
        return await super().put(*args, **options)


@found_by("changes_at_once_lose_nothing", STORES)
class ChangesWithoutLooking(Store):
    async def change(self, namespace: Any, key: str, function: Any, **options: Any) -> Any:
        value = function(await self.get_item(namespace, key))
        await asyncio.sleep(0.01)  # timed: others come in between
        await self.put(namespace, key, value)
        return value


@found_by("puts_at_once_are_all_there", STORES)
class CountsBeforehand(Store):
    async def put(self, namespace: Any, key: str, *args: Any, **options: Any) -> int:
        item = await self.get_item(namespace, key)
        await super().put(namespace, key, *args, **options)
        return 1 if item is None else item.version + 1


@found_by("a_cancelled_put_is_whole_or_absent", STORES)
class PutsInTwoSteps(Store):
    async def put(self, namespace: Any, key: str, *args: Any, **options: Any) -> int:
        await super().put(namespace, key, {})
        await asyncio.sleep(0)
        return await super().put(namespace, key, *args, **options)


@found_by("a_batch_is_whole_or_absent", STORES)
class PutsOneByOne(Store):
    async def put_batch(self, items: Any, **options: Any) -> list[int]:
        return [await self.put(*item) for item in items]


@found_by("a_namespace_is_cleared_alone_or_with_those_below", STORES)
class ClearsAllBelow(Store):
    async def clear_namespace(self, namespace: Any, **options: Any) -> int:
        return await super().clear_namespace(namespace, prefix=True)


@found_by("keys_are_listed_in_order_of_code_points", STORES)
class FoldedOrder(Store):
    async def list_keys(self, *args: Any, **options: Any) -> list[str]:
        return sorted(await super().list_keys(*args, **options), key=str.casefold)


@found_by("items_are_listed_page_by_page", STORES)
class OnePage(Store):
    async def list_items(self, *args: Any, after: Any = None, **options: Any) -> Any:
        return await super().list_items(*args, **options)


@found_by("namespaces_are_listed", STORES)
class BeginsAlike(Store):
    async def list_namespaces(self, prefix: Any = None, *args: Any, **options: Any) -> Any:
        found = await super().list_namespaces(None, *args, **options)
        return [one for one in found if prefix is None or one[0].startswith(prefix[0])]


@found_by("an_item_expires", STORES)
class LastingItems(Store):
    async def put(self, *args: Any, ttl: Any = None, **options: Any) -> int:
        return await super().put(*args, **options)


@found_by("search_finds_words", STORES)
class WorstFirst(Store):
    async def search(self, *args: Any, **options: Any) -> Any:
        return (await super().search(*args, **options))[::-1]


@found_by("filters_compare_by_type", STORES)
class FiltersByText(Store):
    async def search(self, *args: Any, filter: Any = None, **options: Any) -> Any:
        found = await super().search(*args, **options)
        return [one for one in found if str(one.value["n"]) == str(filter["n"])]


@found_by("search_finds_the_nearest", STORES)
class FarthestFirst(Store):
    async def search_by_embedding(self, *args: Any, **options: Any) -> Any:
        return (await super().search_by_embedding(*args, **options))[::-1]


# --- Logs ----------------------------------------------------------------------------------------


@found_by("reads_every_type_as_it_was_appended", LOGS)
class UntypedEntries(ThreadLog):
    async def tail(self, *args: Any, **options: Any) -> Any:
        found = await super().tail(*args, **options)
        return [replace(one, value=untyped(one.value)) for one in found]


@found_by("entries_are_in_the_order_of_appends", LOGS)
class SortedEntries(ThreadLog):
    async def tail(self, *args: Any, **options: Any) -> Any:
        return sorted(await super().tail(*args, **options), key=lambda one: str(one.value))


@found_by("an_unknown_log_is_empty", LOGS)
class BeginsAtOne(ThreadLog):
    async def version(self, *args: Any, **options: Any) -> int:
        return await super().version(*args, **options) or 1


@found_by("an_entry_has_its_key_and_both_times", LOGS)
class HasOneTime(ThreadLog):
    async def tail(self, *args: Any, **options: Any) -> Any:
        found = await super().tail(*args, **options)
        return [replace(one, occurred_at=one.stored_at) for one in found]


@found_by("a_key_is_appended_once", LOGS)
class IgnoresKeys(ThreadLog):
    async def append(self, *args: Any, keys: Any = None, **options: Any) -> list[int]:
        return await super().append(*args, **options)


async def append_each(log: ThreadLog, thread_id: str, entries: Any, options: Any) -> list[int]:
    positions = []
    for one in entries if isinstance(entries, list) else [entries]:
        positions += await ThreadLog.append(log, thread_id, [one], **options)
        await asyncio.sleep(0)
    return positions


@found_by("what_cannot_be_stored_is_refused_whole", LOGS)
@found_by("appends_at_once_stay_together", LOGS)
@found_by("a_cancelled_append_is_whole_or_absent", LOGS)
class AppendsOneByOne(ThreadLog):
    async def append(self, thread_id: str, entries: Any, **options: Any) -> list[int]:
        return await append_each(self, thread_id, entries, options)


@found_by("threads_that_look_alike_are_separate", LOGS)
class FoldedLogs(ThreadLog):
    async def append(self, thread_id: str, *args: Any, **options: Any) -> list[int]:
        return await super().append(thread_id.casefold(), *args, **options)

    async def tail(self, thread_id: str, *args: Any, **options: Any) -> Any:
        return await super().tail(thread_id.casefold(), *args, **options)


@found_by("values_are_the_callers_own", LOGS)
class AliasedEntries(ThreadLog):
    async def tail(self, *args: Any, **options: Any) -> Any:
        if not hasattr(self, "cached"):
            self.cached = await super().tail(*args, **options)
        return self.cached


@found_by("an_unexpected_version_is_a_conflict", LOGS)
class IgnoresVersions(ThreadLog):
    async def append(self, *args: Any, expected_version: Any = 0, **options: Any) -> list[int]:
        return await super().append(*args, **options)


@found_by("the_tail_is_the_newest", LOGS)
class NewestFirst(ThreadLog):
    async def tail(self, *args: Any, **options: Any) -> Any:
        return (await super().tail(*args, **options))[::-1]


@found_by("a_range_is_within_its_bounds", LOGS)
class Unbounded(ThreadLog):
    async def range(self, *args: Any, before: Any = None, **options: Any) -> Any:
        return await super().range(*args, **options)


@found_by("a_reader_reads_what_is_new", LOGS)
class MissesEdits(ThreadLog):
    async def read(self, thread_id: str, seen: Any = None, **options: Any) -> Any:
        found = await super().read(thread_id, seen, **options)
        return found if seen is None else replace(found, entries=found.entries[2:], complete=False)


@found_by("every_entry_is_popped_once", LOGS)
class LooksThenPops(ThreadLog):
    async def pop(self, thread_id: str, **options: Any) -> Any:
        found = await self.tail(thread_id, 1)
        await asyncio.sleep(0.01)  # timed: others come in between
        await self.remove(thread_id, [one.position for one in found])
        return found[0] if found else None


@found_by("a_suffix_is_replaced_whole", LOGS)
class CutsThenAppends(ThreadLog):
    async def replace_suffix(
        self, thread_id: str, after: int, entries: Any, **options: Any
    ) -> list[int]:
        await super().replace_suffix(thread_id, after, [])
        return await self.append(thread_id, entries)


@found_by("an_edit_changes_the_value_alone", LOGS)
class AppendsEdits(ThreadLog):
    async def edit(self, thread_id: str, position: int, value: Any, **options: Any) -> bool:
        if not await self.remove(thread_id, [position]):
            return False
        await self.append(thread_id, value)
        return True


@found_by("what_is_removed_is_gone_alone", LOGS)
class CountsWhatItIsGiven(ThreadLog):
    async def remove(self, thread_id: str, positions: Any, **options: Any) -> int:
        await super().remove(thread_id, positions, **options)
        return len(positions)


@found_by("a_deleted_log_refuses_late_writers", LOGS)
class OnlyClears(ThreadLog):
    async def delete(self, thread_id: str, **options: Any) -> bool:
        return bool(await self.clear(thread_id))


@found_by("a_fork_shares_nothing_with_its_source", LOGS)
class ForksAll(ThreadLog):
    async def fork(self, thread_id: str, position: Any = None, **options: Any) -> str:
        return await super().fork(thread_id, **options)


@found_by("a_log_expires", LOGS)
class LastingLogs(ThreadLog):
    async def append(self, *args: Any, ttl: Any = None, **options: Any) -> list[int]:
        return await super().append(*args, **options)


@found_by("threads_are_listed_by_their_last_write", LOGS)
class ListedByName(ThreadLog):
    async def list_threads(self, *args: Any, **options: Any) -> list[str]:
        return sorted(await super().list_threads(*args, **options))


@found_by("search_finds_the_words_of_entries", LOGS)
class SearchesAllThreads(ThreadLog):
    async def search(self, *args: Any, thread_id: Any = None, **options: Any) -> Any:
        return await super().search(*args, **options)
