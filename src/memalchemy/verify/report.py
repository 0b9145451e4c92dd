"""What `verify` found: records, and the meaning of their codes. Knows neither SQL nor a codec."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Protocol

from memalchemy.errors import Corrupt, KeyMissing, MemalchemyError, NotEncrypted


def counted(number: int, one: str, many: str) -> str:
    """How many, with what is said of *one* or of *many*."""
    return f"{number:,} {one if number == 1 else many}"


class Place(Protocol):
    """A log, or a store's namespace: rows that have a key of their own within it."""

    def binds(self) -> dict[str, Any]: ...

    def _asdict(self) -> dict[str, Any]: ...


CODES = {
    "storage": "the database itself finds its file damaged",
    "unreadable": "rows cannot be read at all",
    "orphan": "rows of a log whose head is gone, or vectors of an item that is",
    "log-id": "the key of a log is not the one that its tenant, thread and namespace make",
    "tenant": "rows say another tenant than their log",
    "head": "a log's head does not name its newest checkpoint",
    "position": "a log would allot a position that is taken",
    "tombstone": "a deleted thread still has rows",
    "state-missing": "a state is gone that a checkpoint names or others build on",
    "payload": "a payload does not match its checksum, or cannot be decoded",
    "state": "a payload is what was stored, but rebuilds another state",
    "base": "a state builds on one that it cannot have been built on",
    "depth": "a state's place in its chain is wrong; it can be rebuilt all the same",
    "codec": "a payload has an encoding that this release does not know",
    "key": "a payload is encrypted with a key that was not given",
    "plaintext": "a payload is not encrypted, in a database that was opened with keys",
    "kind": "a row is of a kind that this release does not know",
    "size": "a recorded size is not that of what is stored",
    "metadata": "metadata is no JSON object",
    "parent": "a checkpoint's parent cannot be its parent",
    "rests-on": "a checkpoint is incomplete: the one that it rests on is gone",
    "cycle": "the parents of a checkpoint lead back to it",
    "words": "what an item is found by is not what it holds",
    "version": "an item is at a version that it cannot have",
    "vector": "a vector that no search can use as it is",
    "counter": "changes of vectors that a cache of them would not notice",
    "text-index": "a text index does not agree with the rows",
    "unused": "states that nothing names and nothing builds on; swept later",
    "unchecked": "rows that this release does not check",
}
"""Every code of a `Finding`."""

UNREADABLE = (Corrupt, KeyMissing, NotEncrypted)
"""What opening and decoding a payload may raise."""


def unreadable(error: MemalchemyError) -> str:
    """The code of one of `UNREADABLE`."""
    if isinstance(error, Corrupt):
        return "payload"
    return "key" if isinstance(error, KeyMissing) else "plaintext"


REMEDIES = {
    "log-id": "put the names back that it had, or delete its row of threads, with which its "
    "checkpoints and entries go",
    "key": "run verify with the key in MEMALCHEMY_KEYS",
    "plaintext": "see who wrote it: memalchemy rotate-keys --dry-run lists what is like it; if it "
    "is genuine, memalchemy rotate-keys --encrypt-plaintext",
}
"""What helps where nothing is damaged."""

MAX_FINDINGS = 1000
"""What a report lists; the rest is counted."""

MAX_AFFECTED = 20
"""What a finding lists of the checkpoints it affects; the rest is counted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong, or (a note) only worth knowing.

    ``code`` is one of `CODES`. ``affected`` names the checkpoints (of a store: the keys) that
    cannot be loaded, or found, because of it: the first twenty, of ``affected_count``. ``intact``
    is the newest checkpoint of the log that is whole. ``remedy`` is a command, or says what can be
    done.
    """

    code: str
    sentence: str
    severity: Literal["error", "note"] = "error"
    tenant: str | None = None
    thread_id: str | None = None
    namespace: str | None = None
    """As it is stored: ``/`` is the default one, ``/a/b/`` is ``("a", "b")``."""
    key: str | None = None
    """Of an item of a store."""
    checkpoint_id: str | None = None
    seq: int | None = None
    affected: tuple[str, ...] = ()
    affected_count: int = 0
    intact: str | None = None
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """What was read, and what was found. `ok` says whether nothing is wrong (any more)."""

    tenant: str | None
    """``None``: all tenants."""
    sampled: bool
    logs: int
    rows: int
    """Rows of logs that were looked at."""
    checkpoints: int
    states: int
    """States that were rebuilt and held to their checksum."""
    entries: int
    """Entries, such as messages, that were held to their checksum."""
    items: int
    """Items of stores that were read."""
    payload_bytes: int
    """Bytes of payloads that were read; what several states build on counts each time."""
    state_bytes: int
    text_indexes: tuple[str, ...]
    """Those that were compared with the rows."""
    errors: int
    """Findings that are no notes; `findings` lists a thousand at most."""
    findings: tuple[Finding, ...]
    repaired: tuple[str, ...]
    """Text indexes that were wrong and have been built anew."""
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether there is no finding but notes."""
        return self.errors == 0

    def as_dict(self) -> dict[str, Any]:
        """The same as a mapping, with ``ok``."""
        return {"ok": self.ok} | asdict(self)


@dataclass(slots=True)
class Tally:
    """A report in the making."""

    logs: int = 0
    rows: int = 0
    checkpoints: int = 0
    states: int = 0
    entries: int = 0
    items: int = 0
    payload_bytes: int = 0
    state_bytes: int = 0
    errors: int = 0
    unused: int = 0
    closed: int = 0
    """Sealed rows that no key was given for."""
    findings: list[Finding] = field(default_factory=list)

    def add(self, code: str, sentence: str, of: Place | None = None, **more: Any) -> None:
        """Note a finding, of a log or a store's namespace if it is of one."""
        assert code in CODES, code
        place = {} if of is None else of._asdict()
        finding = Finding(code, sentence, **place, **more)
        self.errors += finding.severity == "error"
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(finding)

    def add_notes(self) -> None:
        """The notes about what was only counted."""
        if self.unused:
            self.add(
                "unused",
                counted(self.unused, "state has", "states have") + " no name, with nothing that "
                "builds on it; the next sweep of the thread removes it",
                severity="note",
            )
        if self.closed:
            self.add(
                "unchecked",
                counted(self.closed, "row is", "rows are") + " encrypted and no keys were given: "
                "it was checked that the bytes are those that were written, and not what they hold",
                severity="note",
            )
