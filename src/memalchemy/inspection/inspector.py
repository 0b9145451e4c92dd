"""`Inspector`: reads what a database holds, as pages of plain JSON for people to look at.

It sends no statement that writes. Every listing is paged, and every value is a bounded tree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import datetime

from memalchemy._version import __version__
from memalchemy.contracts import Match
from memalchemy.database import Database, check_database
from memalchemy.inspection._log_heads import log_of
from memalchemy.inspection._records import Record
from memalchemy.inspection.changed_since import ItemScope, list_changes
from memalchemy.inspection.diff import read_diff
from memalchemy.inspection.entries import list_entries, read_entry
from memalchemy.inspection.known import read_person, read_scope
from memalchemy.inspection.memories import list_memories
from memalchemy.inspection.search import KINDS, search
from memalchemy.inspection.states import States, read_state_tree
from memalchemy.inspection.step_digests import StepDigests
from memalchemy.inspection.storage import StorageMeter
from memalchemy.inspection.store import (
    count_items_up_to,
    list_child_namespaces,
    list_item_records,
    list_neighbours,
    read_item_tree,
)
from memalchemy.inspection.thread_details import read_details
from memalchemy.inspection.thread_list import ThreadFilter, list_threads
from memalchemy.inspection.thread_summaries import ThreadSummaries
from memalchemy.inspection.timeline import read_timeline
from memalchemy.inspection.transcript import read_added_messages, read_text, read_transcript
from memalchemy.inspection.use import sum_use
from memalchemy.inspection.writes import read_interrupts, read_pending_writes
from memalchemy.keys import check_namespace
from memalchemy.store import Store

COUNTED = 20_000
"""Items that are counted, at most."""
CACHE_BYTES = 64 * 1024 * 1024


class Inspector:
    """Pages of what a database holds, as plain JSON.

        inspector = Inspector(db)
        page = await inspector.threads(query="support", limit=50)

    It reads the tenant of *db* and no other, and writes nothing. Times are texts in ISO 8601, sizes
    are bytes, and a ``next`` or ``previous`` is an opaque cursor, or ``None`` at the end. States
    that were read are kept in memory.

    Args:
        db: the database.
        cache_bytes: the encoded size of the states that are kept, at most.

    Raises, from any method:
        NotFound: there is no such thread, checkpoint, item or path.
        InvalidArgument: an argument or a cursor is malformed.
        KeyMissing, NotEncrypted, Corrupt: what is stored cannot be read.
        DatabaseUnreachable, SchemaOutdated, SchemaTooNew.
    """

    def __init__(self, db: Database, *, cache_bytes: int = CACHE_BYTES) -> None:
        self.db: Database = check_database(db, self)
        self._store = Store(db, refresh_ttl=False)
        self._states = States(db, cache_bytes)
        self._digests = StepDigests(self._states)
        self._summaries = ThreadSummaries(self._states, self._digests)
        self._storage = StorageMeter(db)

    # --- The database -----------------------------------------------------------------------------

    async def overview(self) -> Record:
        """Describe the database, and count what is in it.

        In a large database, where ``estimated`` is true, sizes are projected from a random sample.
        """
        sums = await self._storage.sums()
        items = await count_items_up_to(self.db, (), below=True, most=COUNTED)
        return {
            "database": str(getattr(self.db.identity, "display", self.db.dialect.name)),
            "dialect": self.db.dialect.name,
            "tenant": self.db.tenant,
            "revision": await self.db.current(),
            "version": __version__,
            "encrypted": self.db.keyring.encrypts,
            "threads": sums["threads"],
            "checkpoints": sums["checkpoints"],
            "items": items,
            "estimated": sums["estimated"] or items >= COUNTED,
            "frameworks": [
                {"name": one["name"], "threads": one["threads"]} for one in sums["frameworks"]
            ],
        }

    async def space(self) -> Record:
        """Return the space that is taken, by framework, thread, kind of row and table.

        A large database is measured in the background: until that has ended, ``largest``,
        ``kinds`` and ``tables`` are empty, sizes are those of states, and ``measuring`` is true.
        """
        return await self._storage.read()

    async def changes(
        self,
        since: str | None = None,
        namespace: Iterable[str] = (),
        *,
        items: bool = False,
        below: bool = True,
    ) -> Record:
        """Return the threads that were written since a token, and a new token.

        Without *since*, only the token of now. It is one look into an index. With *items*, a
        namespace, ``items`` are those written in it, with *below* also in all below it, and
        ``count`` is the number of its items, up to 5,000, which shows deletions. Of a larger tree
        of namespaces no items are named: no index has them by time.
        """
        scope = ItemScope(check_namespace(namespace), below) if items else None
        return await list_changes(self.db, since, scope)

    # --- Threads ----------------------------------------------------------------------------------

    async def threads(
        self,
        query: str = "",
        *,
        framework: str = "",
        about: str = "",
        metadata: Mapping[str, str] | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        waiting: bool = False,
        sort: str | None = None,
        descending: bool | None = None,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Record:
        """Return a page of threads, the last written first, with what each is about.

        A thread has its ``title``, which is that of its metadata or what the user said first, its
        ``agent`` and ``user``, ``messages``, ``errors``, tokens and cost, ``waiting`` with what is
        ``asked``, and ``happened_at``, the time of its newest step or entry, which an import keeps.
        They come from its newest state of up to 1 MiB, or its newest 300 entries: ``problem`` says
        why there are none, and ``partial`` that there are more. What the metadata of its newest 300
        steps states of tokens and cost takes precedence over what messages state; if that of the
        newest 20 states nothing, no others are looked at.

        No index has what threads hold. With *sort* or a filter a page looks through at most 500
        threads, in the order of their last writes, and sorts those: ``looked`` is their number, and
        ``window`` is 500 if there are more. A page may be empty while ``next`` is not. A thread
        whose content lacks a key or is damaged is not hidden by *about* and *waiting*.

        Args:
            query: a part of the threads' ids, in any case of ASCII letters.
            framework: the first part of the namespace; ``/`` stands for the root.
            about: a text in the id, the title, the agent, the user, a question or the metadata.
                Of many threads, those with it in their ids come first.
            metadata: pairs in the metadata of the thread, or of its newest step, as texts.
            since, until: the times from and before which the newest step or entry happened.
            waiting: only threads that wait for an answer.
            sort: ``happened``, ``written``, ``thread``, ``steps``, ``stored``, ``title``,
                ``agent``, ``user``, ``messages``, ``errors``, ``tokens`` or ``cost``.
            descending: by default true for numbers and times.
        """
        return await list_threads(
            self._summaries,
            query,
            framework=framework,
            wanted=ThreadFilter(about, metadata or {}, since, until, waiting),
            sort=sort,
            descending=descending,
            cursor=cursor,
            limit=limit,
        )

    async def thread(self, thread_id: str, namespace: Iterable[str] = ()) -> Record:
        """Describe a log and its content, and name the thread's logs in other namespaces.

        It has what `threads` says of a thread, the ``interrupts`` that the newest step waits with,
        and as ``branches`` the ends of the lines beside that of the newest step.
        """
        return await read_details(
            self._states, self._summaries, self._digests, thread_id, namespace
        )

    async def use(self, framework: str = "", *, cursor: str | None = None) -> Record:
        """Return tokens, cost and calls of tools by day, for 500 threads at a time.

        The first page is that of the threads written last. Messages without a time count on the day
        of their thread's newest step. ``unread`` says how many threads were not read, and why;
        ``partial``, of how many only the newest entries or steps were summed up.
        """
        return await sum_use(self._summaries, framework=framework, cursor=cursor)

    async def person(self, name: str) -> Record:
        """Return what is known of a person: what is named so, or has the name in its metadata.

        That is namespaces of the store, of up to 5,000; items with a ``user_id`` or ``user``; and
        threads, of the 500 written last and of all whose ids have the name in them.
        """
        return await read_person(self._store, self._summaries, name)

    async def scope(
        self,
        namespace: Iterable[str] = (),
        *,
        agent: str = "",
        metadata: Mapping[str, str] | None = None,
    ) -> Record:
        """Return what is known of a namespace, an agent or a pair of metadata, as `person` does.

        Of a namespace that is the items and threads in it and below it; of an agent, what is named
        so or has the name in its metadata; of a pair, what has it in its metadata. Give one.
        """
        return await read_scope(
            self._store,
            self._summaries,
            namespace=tuple(namespace),
            agent=agent,
            metadata=metadata or {},
        )

    async def transcript(
        self,
        thread_id: str,
        namespace: Iterable[str] = (),
        *,
        at: str | None = None,
        before: int | None = None,
        after: int | None = None,
        around: int | None = None,
        find: str = "",
        limit: int = 100,
        whole: bool = False,
    ) -> Record:
        """Return a state's messages, or a log's entries as messages: the newest, or some others.

        Those *before* an index, *after* one, or *around* it. With *find*, words, the page is the
        one of the last message that holds the most of them: ``found`` has the indexes of such
        messages, and ``words`` what was found, as it is written.

        The messages of a state are looked for in whatever form a framework keeps it. A log of
        entries, or a thread whose newest state has no messages, is shown entry by entry; the index
        of an entry is its position. With *whole* no text is cut, and arguments and values are JSON
        in the place of trees: dates and decimals are texts, bytes base64, sets sorted lists.
        """
        return await read_transcript(
            self._states,
            thread_id,
            namespace,
            at=at,
            before=before,
            after=after,
            around=around,
            find=find,
            limit=limit,
            whole=whole,
        )

    async def origins(
        self, thread_id: str, namespace: Iterable[str] = (), *, at: str | None = None
    ) -> Record:
        """Return for each message of a state the step with which it came, if that is known.

        Steps are looked at as far as they are among the newest 200 of the thread.
        """
        log = log_of(self.db, thread_id, namespace)
        info = await self._states.checkpoint(log, at)
        if info is None:
            return {"at": None, "messages": [], "problem": None}
        found, problem = await self._digests.list_origins(log, info)
        return {"at": info.checkpoint_id, "messages": found, "problem": problem}

    async def added_messages(
        self,
        thread_id: str,
        namespace: Iterable[str] = (),
        *,
        at: str,
        limit: int = 100,
        whole: bool = False,
    ) -> Record:
        """Return the messages that a step added: those after the common beginning with its parent.

        Of more than *limit* they are the newest. For a step whose parent was deleted it is the last
        message alone. ``total`` counts all messages of the state, and ``waiting`` has the
        interrupts that the state itself holds; those of LangGraph are pending writes.
        """
        return await read_added_messages(
            self._states, thread_id, namespace, at=at, limit=limit, whole=whole
        )

    async def text(
        self,
        thread_id: str,
        namespace: Iterable[str] = (),
        *,
        index: int,
        at: str | None = None,
    ) -> Record:
        """Return the uncut texts of one message of a transcript."""
        return await read_text(self._states, thread_id, namespace, index=index, at=at)

    async def timeline(
        self,
        thread_id: str,
        namespace: Iterable[str] = (),
        *,
        cursor: str | None = None,
        limit: int = 200,
    ) -> Record:
        """Return a page of the steps of a thread, the newest first, with the lanes of branches.

        ``is_branch`` is true of steps outside of lane 0, the line of the newest step, and of steps
        that several steps follow: where a line forks. ``digest`` says what a step did: the ``node``
        of a graph, the messages that it added, the tools that it called, and what it took.
        """
        return await read_timeline(
            self.db, self._digests, thread_id, namespace, cursor=cursor, limit=limit
        )

    async def entries(
        self,
        thread_id: str,
        namespace: Iterable[str] = (),
        *,
        before: int | None = None,
        limit: int = 100,
    ) -> Record:
        """Return the newest entries of a log below position *before*, the oldest of them first."""
        return await list_entries(self.db, thread_id, namespace, before=before, limit=limit)

    async def entry(
        self,
        thread_id: str,
        namespace: Iterable[str] = (),
        *,
        position: int,
        path: str = "",
        offset: int = 0,
    ) -> Record:
        """Return a value within an entry, as a tree."""
        return await read_entry(
            self.db, thread_id, namespace, position=position, path=path, offset=offset
        )

    # --- States -----------------------------------------------------------------------------------

    async def state(
        self,
        thread_id: str,
        namespace: Iterable[str] = (),
        *,
        at: str | None = None,
        path: str = "",
        offset: int = 0,
    ) -> Record:
        """Return a value within a state, as a tree: everything of it, in pages of 100 children."""
        return await read_state_tree(
            self._states, thread_id, namespace, at=at, path=path, offset=offset
        )

    async def diff(
        self,
        thread_id: str,
        namespace: Iterable[str] = (),
        *,
        a: str,
        b: str,
        raw: bool = False,
    ) -> Record:
        """Return what changed from the state of checkpoint *a* to that of *b*.

        LangGraph's bookkeeping, such as its versions, is left out and counted as ``hidden``, unless
        *raw*.
        """
        return await read_diff(self._states, thread_id, namespace, a=a, b=b, raw=raw)

    async def writes(
        self, thread_id: str, namespace: Iterable[str] = (), *, at: str | None = None
    ) -> Record:
        """Return the pending writes of a checkpoint, and the interrupts that it waits with."""
        return await read_pending_writes(self._states, thread_id, namespace, at=at)

    async def interrupts(
        self, thread_id: str, namespace: Iterable[str] = (), *, at: str | None = None
    ) -> list[Record]:
        """Return the interrupts that a checkpoint waits with: their ids and whole values."""
        return await read_interrupts(self._states, thread_id, namespace, at=at)

    # --- The store --------------------------------------------------------------------------------

    async def namespaces(
        self,
        namespace: Iterable[str] = (),
        *,
        internal: bool = False,
        cursor: str | None = None,
        limit: int = 100,
    ) -> Record:
        """Return a page of the namespaces right below one, with the number of items in each.

        At most 1,000 items of each are counted: ``more`` says that there are others. Internal
        items, such as the index of episodes by time, are left out unless *internal* is set or
        *namespace* is one of theirs.
        """
        return await list_child_namespaces(
            self._store, namespace, internal=internal, cursor=cursor, limit=limit
        )

    async def items(
        self,
        namespace: Iterable[str] = (),
        query: str = "",
        *,
        match: Match = "any",
        below: bool = True,
        internal: bool = False,
        cursor: str | None = None,
        limit: int = 50,
    ) -> Record:
        """Return a page of items, the last written first; with *below* also of lower namespaces.

        Items of a large tree of namespaces are in the order of namespaces and keys: see ``order``.
        With a *query* they are those that hold its words, ``any`` of them or ``all`` as *match*
        says, the best first. Internal items are left
        out as `namespaces` does it.
        """
        return await list_item_records(
            self._store,
            namespace,
            query,
            match=match,
            below=below,
            internal=internal,
            cursor=cursor,
            limit=limit,
        )

    async def item(
        self, namespace: Iterable[str], key: str, *, path: str = "", offset: int = 0
    ) -> Record:
        """Return an item with its value, or what is under *path* in it, as a tree."""
        return await read_item_tree(self._store, namespace, key, path=path, offset=offset)

    async def neighbours(self, namespace: Iterable[str], key: str, *, limit: int = 10) -> Record:
        """Return the items of the namespace whose vectors are nearest to the item's first one."""
        return await list_neighbours(self._store, namespace, key, limit=limit)

    async def memories(
        self,
        kind: str,
        *,
        user: str = "",
        cursor: str | None = None,
        limit: int = 50,
    ) -> Record:
        """Return a page of facts, episodes, conversations or long-term memories.

        Args:
            kind: ``facts``, ``episodes``, ``conversations`` or ``long-term``.
            user: of facts, only those of this user.
        """
        return await list_memories(self._store, kind, user=user, cursor=cursor, limit=limit)

    # --- Search -----------------------------------------------------------------------------------

    async def search(
        self,
        query: str,
        *,
        limit: int = 30,
        match: Match = "any",
        kinds: Iterable[str] = KINDS,
        namespace: Iterable[str] = (),
        below: bool = True,
        thread_id: str | None = None,
    ) -> Record:
        """Return the steps, entries and items that hold words of *query*, the best first.

        They are ``hits``. Each has ``kind``, ``framework``, ``namespace``, ``thread_id``,
        ``checkpoint_id``, ``position``, ``key``, ``score`` and ``occurred_at``; what a kind does
        not have is ``None``. Their ``snippet`` is pieces of ``text``, with ``hit`` for found words.

        A score is the share of the query that the best of its kind holds, rare words counting more;
        equal scores are ordered by time, the latest first. Internal items are left out as
        `namespaces` does it.

        Args:
            match: ``any``: what holds one of the words is found. ``all``: only what holds all.
            kinds: the kinds to look for: ``step``, ``entry``, ``item``.
            namespace: the namespace to look in, with *below* also those under it.
            thread_id: only steps and entries of this thread; no items, which have none.

        Raises:
            CapabilityMissing: the database is encrypted, and holds no readable words.
        """
        return await search(
            self._store,
            query,
            limit=limit,
            match=match,
            kinds=kinds,
            namespace=namespace,
            below=below,
            thread_id=thread_id,
        )
