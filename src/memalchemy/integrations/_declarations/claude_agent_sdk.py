"""Claude Agent SDK: a transcript, below it those of subagents, and beside it the summary."""

from __future__ import annotations

from memalchemy.adapters import AdapterDeclaration, Namespace, ThreadParts


def _is_of_transcript(main: Namespace, other: Namespace) -> bool:
    at = main.index("transcripts") if "transcripts" in main else len(main)
    if len(main) == at + 2 and other == (*main[:at], "summaries", main[-1]):
        return True
    return len(main) >= at + 2 and other[: len(main)] == main


DECLARATION = AdapterDeclaration(
    root="claude_agent_sdk", title="Claude Agent SDK", parts=ThreadParts(_is_of_transcript)
)
