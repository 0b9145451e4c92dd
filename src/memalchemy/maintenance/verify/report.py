"""The report of `verify`: its findings, the meaning of their codes, and its counts."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from memalchemy.errors import Corrupt, KeyMissing, MemalchemyError, NotEncrypted, NotSigned
from memalchemy.maintenance.command_names import program

CODES = {
    "storage": "the database itself finds its file damaged",
    "unreadable": "rows cannot be read at all",
    "orphan": "rows of a log whose head is gone, or vectors of an item that is gone",
    "log-id": "the key of a log is not the one that its tenant, thread and namespace make",
    "tenant": "rows say another tenant than their log",
    "head": "a log's head does not name its newest checkpoint, or its last write",
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
    "signature": "a row is not what was signed with its key at its place, or is not signed",
    "signing-key": "a row is signed with a key that was not given",
    "anchor": "an anchor has a later state, or something that is not there or was removed",
    "kind": "a row is of a kind that this release does not know",
    "size": "a recorded size is not that of what is stored",
    "metadata": "metadata is no JSON object",
    "parent": "a checkpoint's parent cannot be its parent",
    "rests-on": "a checkpoint is incomplete: the one that it rests on is gone",
    "cycle": "the parents of a checkpoint lead back to it",
    "words": "the words by which an item is found are not those of its value and metadata",
    "lost-words": "rows have texts or fields, and no words by which searches and filters find them",
    "version": "an item is at a version that it cannot have",
    "vector": "a vector cannot be searched as it is",
    "counter": "a cache of vectors would not notice changes of them",
    "text-index": "a text index does not agree with the rows",
    "unused": "states that no checkpoint names and no state builds on; a sweep removes them",
    "unchecked": "rows were not opened, or their signatures not checked, as no keys were given",
}
"""Every code of a `Finding`."""

OPENING_ERRORS = (Corrupt, KeyMissing, NotEncrypted)
"""Errors that opening and decoding a payload may raise."""


def code_of(error: MemalchemyError) -> str:
    """Return the code of one of `OPENING_ERRORS`."""
    if isinstance(error, Corrupt):
        return "payload"
    return "key" if isinstance(error, KeyMissing) else "plaintext"


REMEDIES = {
    "log-id": "put the names back that it had, or delete its row of threads, with which its "
    "checkpoints and entries go",
    "key": "run verify with the key in MEMALCHEMY_KEYS, too",
    "signing-key": "run verify with the key in MEMALCHEMY_SIGNING_KEYS, too; if nobody has such a "
    "key, somebody else wrote these rows",
    "plaintext": "see who wrote it: {program} rotate-keys --dry-run lists all such rows; if it "
    "is genuine, {program} rotate-keys --encrypt-plaintext",
}
"""Remedies that depend on the code, and on the tenant whose ``program`` they name."""


def remedy_of(code: str, tenant: str) -> str | None:
    """Return one of `REMEDIES` for a tenant, or ``None``."""
    remedy = REMEDIES.get(code)
    return None if remedy is None else remedy.replace("{program}", program(tenant))


MAX_FINDINGS = 1000
"""The number of findings that a report lists; further ones are counted."""

MAX_AFFECTED = 20
"""The number of affected checkpoints that a finding lists; further ones are counted."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is wrong or, as a note, only worth knowing.

    Attributes:
        code: one of `CODES`.
        sentence: what is wrong, for people.
        severity: ``error``, or ``note`` for what is no damage.
        namespace: as it is stored: ``/`` is the default one, ``/a/b/`` is ``("a", "b")``.
        key: the key of an item of a store.
        seq: the position in the log.
        affected: the checkpoints (of a store: the keys) that cannot be loaded or found because of
            it, the first twenty.
        affected_count: the number of them all.
        intact: the newest checkpoint of the log that is whole.
        remedy: a command, or a sentence that says what can be done.
    """

    code: str
    sentence: str
    severity: Literal["error", "note"] = "error"
    tenant: str | None = None
    thread_id: str | None = None
    namespace: str | None = None
    key: str | None = None
    checkpoint_id: str | None = None
    seq: int | None = None
    affected: tuple[str, ...] = ()
    affected_count: int = 0
    intact: str | None = None
    remedy: str | None = None


@dataclass(frozen=True, slots=True)
class Report:
    """The result of `verify`.

    Attributes:
        tenant: ``None`` stands for all tenants.
        sampled: whether only a sample was read.
        rows: the rows of logs that were read.
        states: the states that were rebuilt and match their checksums.
        entries: the entries, such as messages, that match their checksums.
        items: the items of stores that were read.
        payload_bytes: the bytes of payloads that were read, each time they were.
        state_bytes: the bytes of the states that were rebuilt.
        text_indexes: the text indexes that were compared with the rows.
        errors: the number of findings that are no notes.
        findings: the findings, a thousand at most.
        repaired: the text indexes that were wrong and have been rebuilt.
    """

    tenant: str | None
    sampled: bool
    logs: int
    rows: int
    checkpoints: int
    states: int
    entries: int
    items: int
    payload_bytes: int
    state_bytes: int
    text_indexes: tuple[str, ...]
    errors: int
    findings: tuple[Finding, ...]
    repaired: tuple[str, ...]
    seconds: float

    @property
    def ok(self) -> bool:
        """True if there is no finding but notes."""
        return self.errors == 0

    def as_dict(self) -> dict[str, Any]:
        """Return the report as a mapping, with ``ok``."""
        return {"ok": self.ok} | asdict(self)


class Location(Protocol):
    """A log, or a namespace of a store: whatever has rows with keys of their own."""

    @property
    def tenant(self) -> str:
        """Return its tenant."""
        ...

    def binds(self) -> dict[str, Any]:
        """Return the binds of a statement on its rows."""
        ...

    def _asdict(self) -> dict[str, Any]:
        """Return its attributes of a `Finding`."""
        ...


class SharedCause(NamedTuple):
    """Reason that many rows of a tenant cannot be read or proven, reported as one finding.

    Attributes:
        code: ``key``, ``signing-key``, or ``signature`` for a tenant that was never signed, or
            ``plaintext`` for one that was never encrypted.
        key_id: the key that was not given.
    """

    code: str
    tenant: str
    key_id: str | None = None


@dataclass(slots=True)
class SharedFault:
    """The rows with a `SharedCause`: their number, the first, and the names of what is affected."""

    first: str
    rows: int = 0
    affected: list[str] = field(default_factory=list)
    affected_count: int = 0


@dataclass(slots=True)
class ReportBuilder:
    """The counts and findings of a report, while the checks add to them."""

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
    """States that no checkpoint names and no state builds on."""
    unopened: int = 0
    """Encrypted rows, where no keys were given."""
    never_signed: frozenset[str] = frozenset()
    """Tenants without a registered signing key, where signing keys were given."""
    never_encrypted: frozenset[str] = frozenset()
    """Tenants without a registered key, where keys were given that refuse plaintext."""
    findings: list[Finding] = field(default_factory=list)
    shared: dict[SharedCause, SharedFault] = field(default_factory=dict)

    def add(
        self, code: str, sentence: str, location: Location | None = None, **details: Any
    ) -> None:
        """Add a finding. *details* are further attributes of `Finding`."""
        assert code in CODES, code
        place = {} if location is None else location._asdict()
        finding = Finding(code, sentence, **place, **details)
        self.errors += finding.severity == "error"
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(finding)

    def add_signature_error(
        self, error: MemalchemyError, what: str, location: Location, remedy: str, **details: Any
    ) -> None:
        """Add that *what* is not proven: a finding of its own, unless many rows share the cause."""
        tenant = location.tenant
        if isinstance(error, KeyMissing):
            self.add_row(SharedCause("signing-key", tenant, error.key_id), what, location)
        elif isinstance(error, NotSigned) and tenant in self.never_signed:
            self.add_row(SharedCause("signature", tenant), what, location)
        else:
            self.add("signature", f"{what}: {error}", location, remedy=remedy, **details)

    def add_row(
        self, cause: SharedCause, what: str, location: Location, affected: str | None = None
    ) -> None:
        """Count a row that has a shared cause.

        Args:
            what: the row, for people.
            affected: the id of the checkpoint, or the key of the item, that it is of.
        """
        place = location._asdict()
        where = repr(place.get("thread_id") or place["namespace"])
        fault = self.shared.setdefault(cause, SharedFault(f"{what} of {where}"))
        fault.rows += 1
        if affected is not None:
            fault.affected_count += 1
            if len(fault.affected) < MAX_AFFECTED:
                fault.affected.append(affected)

    def add_shared_faults(self) -> None:
        """Add one finding for each shared cause."""
        for cause, fault in self.shared.items():
            rows = counted(fault.rows, "row", "rows")
            if cause.key_id is not None:
                how = "encrypted" if cause.code == "key" else "signed"
                what = f"{rows} {how} with the key {cause.key_id}, which was not given"
                remedy = remedy_of(cause.code, cause.tenant)
            elif cause.code == "plaintext":
                what = (
                    f"no key is registered for the tenant, and {rows} not encrypted: it was never "
                    "encrypted, or was written without the key"
                )
                remedy = f"{program(cause.tenant)} rotate-keys encrypts it"
            else:
                what = (
                    f"no signing key is registered for the tenant, and {rows} without a signature: "
                    "it was never signed, or somebody has removed the key and the signatures"
                )
                remedy = f"if it was never signed: {program(cause.tenant)} sign"
            self.add(
                cause.code,
                f"{what}; the first: {fault.first}",
                tenant=cause.tenant,
                affected=tuple(fault.affected),
                affected_count=fault.affected_count,
                remedy=remedy,
            )

    def add_notes(self) -> None:
        """Add the notes about rows that were counted."""
        if self.unused:
            self.add(
                "unused",
                counted(self.unused, "state has", "states have") + " no name, with nothing that "
                "builds on it; the next sweep of the thread removes it",
                severity="note",
            )
        if self.unopened:
            self.add(
                "unchecked",
                counted(self.unopened, "row is", "rows are") + " encrypted and no keys were given: "
                "the bytes were checked, and what they hold was not",
                severity="note",
            )

    def build(
        self,
        *,
        tenant: str | None,
        sampled: bool,
        text_indexes: tuple[str, ...],
        repaired: tuple[str, ...],
        seconds: float,
    ) -> Report:
        """Return the finished report."""
        return Report(
            tenant=tenant,
            sampled=sampled,
            logs=self.logs,
            rows=self.rows,
            checkpoints=self.checkpoints,
            states=self.states,
            entries=self.entries,
            items=self.items,
            payload_bytes=self.payload_bytes,
            state_bytes=self.state_bytes,
            text_indexes=text_indexes,
            errors=self.errors,
            findings=tuple(self.findings),
            repaired=repaired,
            seconds=seconds,
        )


def counted(number: int, one: str, many: str) -> str:
    """Return *number* with *one*, if it is 1, else with *many*."""
    return f"{number:,} {one if number == 1 else many}"
