"""The result of rebuilding words, and the namespaces that were left as they are."""

from __future__ import annotations

from dataclasses import dataclass

from memalchemy.maintenance.words.lost_words import Kind

NAMED = 1000
"""The number of namespaces that a report names."""


@dataclass(frozen=True, slots=True)
class WordlessNamespace:
    """A namespace with rows that have texts and no words.

    Attributes:
        namespace: as it is stored: ``/`` is the default one, ``/a/b/`` is ``("a", "b")``.
        kind: ``logs`` (of checkpoints and entries) or ``items`` (of a store).
        rows: the number of such rows.
    """

    tenant: str
    kind: Kind
    namespace: str
    rows: int


@dataclass(frozen=True, slots=True)
class WordsReport:
    """The result of `rebuild_words`; of a dry run what would be done.

    Attributes:
        states: the checkpoints that have words again, or words by the rules of this release.
        entries: the entries that have.
        items: the items that have, or have field terms again.
        left: rows that were not rebuilt: they cannot be read, or others changed them meanwhile.
        unnamed: namespaces that were left as they are, because nobody said that they should have
            words, the first `NAMED`.
        damaged: those of *left* that are damaged or not what was signed.
    """

    states: int = 0
    entries: int = 0
    items: int = 0
    left: int = 0
    unnamed: tuple[WordlessNamespace, ...] = ()
    seconds: float = 0.0
    damaged: int = 0

    @property
    def rebuilt(self) -> int:
        """The number of rows that have words again."""
        return self.states + self.entries + self.items
