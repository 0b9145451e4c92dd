"""Progress of the commands that delete checkpoints in many short transactions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from memalchemy.cli.context import Context
from memalchemy.cli.formatting import count
from memalchemy.cli.terminal import ProgressDisplay

if TYPE_CHECKING:
    from memalchemy.contracts import Progress


class DeletionProgress:
    """Callback of a deletion: shows its progress and keeps the latest figures."""

    def __init__(self, display: ProgressDisplay) -> None:
        self._display = display
        self.removed: int = 0
        self.busy: int = 0
        """Threads that are passed over because somebody is writing to them."""

    def __call__(self, progress: Progress) -> None:
        self.removed, self.busy = progress.removed, progress.busy
        self._display.update(progress.done, progress.total)


@contextmanager
def deletion_progress(ctx: Context, description: str) -> Iterator[DeletionProgress]:
    """Show the progress of a deletion, and on stderr what an interrupted one has left to do."""
    with ctx.terminal.progress(description) as display:
        progress = DeletionProgress(display)
        try:
            yield progress
        except BaseException:
            if progress.removed:
                done = count(progress.removed, "checkpoint")
                ctx.terminal.print_note(f"{done} deleted so far; run the command again to continue")
            raise
    if progress.busy:
        threads = count(progress.busy, "thread")
        ctx.terminal.print_note(
            f"{threads} left unchanged because of other writers; run the command again for them"
        )
