"""Where the bytes of a database are, and giving back those that nothing needs.

`measure` reads; `reclaim` gives back what deletions have left behind. Both work on what is stored
and know nothing of states.
"""

from memalchemy.space.measuring import Kind, Piece, Share, Space, measure
from memalchemy.space.reclaiming import Advice, Reclaimed, reclaim

__all__ = ["Advice", "Kind", "Piece", "Reclaimed", "Share", "Space", "measure", "reclaim"]
