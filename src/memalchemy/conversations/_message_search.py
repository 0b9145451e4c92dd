"""Search of messages by the words that were said in them."""

from __future__ import annotations

from typing import Any

from memalchemy._foreign_rows import warn_of_foreign_entries
from memalchemy.codec.search_text import search_text, texts_in
from memalchemy.contracts import EntryHit, Match, check_limit, check_match, check_query
from memalchemy.conversations._message_hit import MessageHit
from memalchemy.conversations.records import to_own_messages
from memalchemy.database import HostConnection
from memalchemy.search.ranking import holds_term
from memalchemy.search.word_query import WordQuery
from memalchemy.state import Message
from memalchemy.threads import ThreadLog

MOST_LOOKED_AT = 10_000
"""Hits of the log that are looked at: those for the name of a role are left out."""


async def search_messages(
    log: ThreadLog,
    query: str,
    limit: int,
    thread_id: str | None,
    match: Match,
    connection: HostConnection | None,
) -> list[MessageHit]:
    """Return messages that hold words of *query*, of one thread or of all, the best first.

    The words of a log's entry are also the names of roles, which nobody said: a message that holds
    the words only so is none. Entries that are no messages are left out with a warning.
    """
    size = limit = check_limit(limit)
    first_words = log.db.has_first_words
    wanted = WordQuery.of(check_query(query), check_match(match), first_words=first_words)
    while True:
        hits = await log.search(
            query, size, thread_id=thread_id, match=match, connection=connection
        )
        messages = to_own_messages(hit.value for hit in hits)
        said = [
            _to_message_hit(hit, message)
            for hit, message in zip(hits, messages, strict=True)
            # Words by the rules of an older release are not compared with those of this one.
            if message is not None and (first_words or _was_said(hit.value, wanted))
        ]
        if len(said) >= limit or len(hits) < size or size >= MOST_LOOKED_AT:
            warn_of_foreign_entries(sum(message is None for message in messages))
            return said[:limit]
        size = min(4 * size, MOST_LOOKED_AT)


def _was_said(record: Any, wanted: WordQuery) -> bool:
    """Return whether the record of a message holds what is wanted, but for its role."""
    said = {name: value for name, value in record.items() if name != "role"}
    words = search_text(texts_in(said))
    if wanted.match == "all":
        return all(holds_term(words, (term,)) for term in wanted.terms)
    return holds_term(words, wanted.shown_terms())


def _to_message_hit(hit: EntryHit, message: Message) -> MessageHit:
    return MessageHit(
        message, hit.thread_id, hit.position, hit.key, hit.occurred_at, hit.score, hit.snippet
    )
