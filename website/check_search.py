"""Asks the search of the built site what readers ask: `python -m website.check_search`.

The order of the pages is made by their titles, and by the weights and words in website/hooks.py.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
SITE = ROOT / "build" / "site"
FIRST = 3
"""A reader looks at so many pages of the answer."""

QUESTIONS = {
    "prune": {"retention"},
    "delete old checkpoints": {"retention"},
    "time travel": {"tutorial/travel-and-branch"},
    "save state": {"tutorial/save-and-load", "checkpoints"},
    "rotate keys": {"encryption"},
    "langgraph": {"integrations/langgraph"},
    "openai agents": {"integrations/openai-agents"},
    "restore a backup": {"backup"},
    "erase a person": {"erasure"},
    "alembic": {"migrations"},
    "pgbouncer": {"operations/run"},
    "vector search": {"vector-store", "search", "embeddings"},
    "token budget": {"managers"},
    "without asyncio": {"sync"},
    "error codes": {"errors"},
    "command line options": {"command-line"},
    "exit codes": {"command-line"},
    "fork a conversation": {"conversations"},
    "opentelemetry": {"telemetry"},
    "read replica": {"growing"},
    "filter items": {"search"},
    "long-term memory": {"memory"},
    "import sessions": {"importing"},
    "pandas": {"ask-your-data"},
    "sqlalchemy session": {"sqlalchemy"},
    "limits": {"reference/limits"},
    "inspector": {"inspector"},
    "signed": {"signatures"},
    "row-level security": {"tenants"},
    "gdpr": {"erasure"},
    "delete a user": {"erasure"},
    "ttl": {"retention"},
    "embedding model": {"embeddings"},
    "openai embeddings": {"embeddings"},
    "full-text search": {"search"},
    "create tables": {"migrations"},
    "crontab": {"operations/run"},
    "two requests": {"concurrency"},
    "lost update": {"concurrency"},
    "it does not work": {"help"},
    "was never awaited": {"help", "sync"},
}
"""What a reader types, with the pages of which one has to be among the first."""


def main() -> int:
    """Print the questions whose pages are not among the first; return 1 if there are any."""
    node = shutil.which("node")
    if node is None:
        print("the search was not asked: it runs in Node, which is not installed")
        return 0
    asked = subprocess.run(  # noqa: S603 - this program's own script
        [node, str(ROOT / "website" / "ask_search.js"), str(SITE)],
        input=json.dumps([*QUESTIONS]),
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    answers = dict(zip(QUESTIONS, json.loads(asked.stdout), strict=True))
    wrong = misplaced(answers)
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{len(QUESTIONS)} questions, {len(wrong)} without their page among the first {FIRST}")
    return 1 if wrong else 0


def misplaced(answers: dict[str, list[str]]) -> list[str]:
    """Return a sentence for each question without one of its pages among the first."""
    return [
        f"{question!r} finds {', '.join(pages[:FIRST]) or 'nothing'}"
        for question, pages in answers.items()
        if not {page.removesuffix(".html") for page in pages[:FIRST]} & QUESTIONS[question]
    ]


if __name__ == "__main__":
    sys.exit(main())
