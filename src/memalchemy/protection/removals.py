"""Note what is removed from a database of which anchors are taken, so that it is not missed.

An anchor tells what must be there. What somebody with a key has removed since is noted in the
registry, in the transaction that removes it: a signed row below `/~signing/` for each log or item,
under the keyed hash by which anchors name it, with its last state. It tells no names. The next
anchors take it in, and `memalchemy.anchors.anchor` deletes it a month later.

Nothing is noted before the first anchor of a tenant, nor of what has begun since the last.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    Executable,
    Table,
    and_,
    bindparam,
    delete,
    literal_column,
    select,
    tuple_,
)

from memalchemy.codec.anchors import (
    TOLERANCE,
    Identity,
    Life,
    Record,
    Section,
    is_born_after,
    is_superseded,
    item_identity,
    life_of_item,
    life_of_log,
    log_identity,
    microseconds,
    moment_of,
    refused_by_anchor,
    tenant_identity,
)
from memalchemy.codec.signatures import SigningKeys
from memalchemy.codec.signed_rows import check_item
from memalchemy.dialects import Dialect
from memalchemy.errors import Corrupt, KeyMissing, about
from memalchemy.keys import encode_id, is_internal
from memalchemy.proofs import REGISTRY
from memalchemy.protection.work import Work
from memalchemy.rows import ITEM, MANY_ITEMS, OWN_ITEM
from memalchemy.schema import StoreItemRow
from memalchemy.statements import Answer, Program, statement
from memalchemy.variants import varies

ITEMS: Table = StoreItemRow.__table__  # type: ignore[assignment]

ANCHORS_NAMESPACE = "/~signing/anchors/"
"""The namespace of one item of a tenant: its id for anchors, and the time of the last anchor."""

REMOVALS_NAMESPACE = "/~signing/removals/"
"""The namespace of what was removed; an item's key is a hash by which anchors name something."""

_LATEST = "latest"
AT_ONCE = 1_000
"""The number of notes that are written by one statement."""


class Anchoring(NamedTuple):
    """Entry of the registry about the anchors of a tenant.

    Whoever changes it makes an anchor refuse correct data, and never accept wrong data. In a backup
    it is older than the anchor, so that the next run refuses the backup before it reads a row.
    """

    database_id: bytes
    """Random; the anchors of this tenant of this database have it."""
    latest: datetime
    """The time of the last anchor, from before it began to read."""


class Removal(NamedTuple):
    """Proof that somebody with a key has removed a log or item, or all of a tenant."""

    life: Life
    """Its last state: that and all before are gone."""
    removed_at: datetime


def is_excused(code: bytes, record: Record, section: Section, removals: Removals) -> bool:
    """Return whether something that a section of an anchor has may be gone."""
    if record.is_gone:
        return True
    for proof in (removals.get(code), removals.get(section.tenant)):
        # A removal from before the anchor was taken is no excuse: it is known to the anchor.
        if proof is None or proof.removed_at < section.taken_at - TOLERANCE:
            continue
        if is_superseded(record.life, proof.life):
            return True
    return False


Removals = Mapping[bytes, Removal]
"""Removals by the hash of what was removed."""


def hold_missing(
    dialect: Dialect, tenant: str, identity: Identity, keys: SigningKeys
) -> Program[None]:
    """Check that something which is not there may be missing, if *keys* have an anchor.

    One statement, if the anchor has it.

    Raises:
        Corrupt: the anchor has it, and nobody with a key has removed it.
    """
    section = None if keys.anchor is None else keys.anchor.section(tenant)
    if keys.anchor is None or section is None:
        return
    code = keys.anchor.code(identity)
    record = section.find(code)
    if record is None or record.is_gone:
        return
    found = yield from read_removals(dialect, tenant, [code, section.tenant], keys)
    if not is_excused(code, record, section, found):
        when = f"the anchor of {section.taken_at:%Y-%m-%d %H:%M:%S} UTC"
        raise refused_by_anchor(f"{when} has it, it is not there, and no key has removed it")


def prove_item(row: Any, tenant: str, keys: SigningKeys) -> None:
    """Hold an item that is removed for what it says to its signature.

    What memalchemy keeps for itself has none.

    Raises:
        Corrupt, NotSigned, KeyMissing: see `check_item`.
    """
    if row.signature is None and is_internal(row.namespace):
        return
    try:
        check_item(row, tenant, keys)
    except (Corrupt, KeyMissing) as error:
        raise about(error, f"the item {row.key!r} in {row.namespace}") from error


# --- Around the statements of a program ----------------------------------------------------------


class RemovalSigner:
    """Writer of notes about what one run of a program removes."""

    tables = frozenset({"threads", "store_items"})

    def __init__(self, dialect: Dialect, keys: SigningKeys, tenant: str) -> None:
        self._dialect = dialect
        self._keys = keys
        self._tenant = tenant
        self._anchorings: dict[str, Anchoring | None] = {}
        self._gone: dict[str, dict[Identity, Life]] = {}
        """Last states of the logs and items that are removed, by tenant."""

    def before(self, work: Work, binds: Mapping[str, Any]) -> Program[None]:
        """Look at what a statement will remove, in a tenant of which anchors are taken."""
        tenant = binds.get("k_tenant", self._tenant)
        if work.removes_tenant:
            if (yield from self._is_anchored(tenant)):
                life = Life(microseconds(datetime.now(UTC)), 1)
                self._note(tenant, tenant_identity(tenant), life)
        elif work.removed is not None:
            if (yield from self._is_anchored(tenant)):
                for row in (yield work.removed, binds):
                    self._note_row(work.table, row)
        elif work.binds_whole(ITEM, MANY_ITEMS):  # which may begin anew where one has expired
            expired = yield from self._find_expired(tenant, work, binds)
            for row in expired:
                prove_item(row, tenant, self._keys)
            if expired and (yield from self._is_anchored(tenant)):
                for row in expired:
                    self._note_row("store_items", row)

    def after(self, work: Work, binds: Mapping[str, Any], answer: Answer) -> Program[None]:
        """Do nothing: the notes are written when the program ends."""
        return
        yield

    def finish(self) -> Program[None]:
        """Write a note of each removed log and item that an anchor may hold."""
        for tenant, gone in self._gone.items():
            anchoring = self._anchorings[tenant]
            assert anchoring is not None
            whole = tenant_identity(tenant)
            if whole in gone:  # the registry was removed with the tenant
                yield from write_anchoring(self._dialect, tenant, anchoring)
                yield from self._write(tenant, {whole: gone[whole]})
                continue
            # Another anchor may have been begun since.
            latest = ((yield from read_anchoring(self._dialect, tenant)) or anchoring).latest
            lives = {
                identity: life for identity, life in gone.items() if not is_born_after(life, latest)
            }
            yield from self._write(tenant, lives)

    def _is_anchored(self, tenant: str) -> Program[bool]:
        """Return whether anchors are taken of a tenant."""
        if tenant not in self._anchorings:
            self._anchorings[tenant] = yield from read_anchoring(self._dialect, tenant)
        return self._anchorings[tenant] is not None

    def _note_row(self, table: str, row: Any) -> None:
        if table == "threads":
            self._note(row.tenant, log_identity(row.tenant, row.log_id), life_of_log(row))
        elif not is_internal(row.namespace):
            identity = item_identity(row.tenant, row.namespace, row.key)
            self._note(row.tenant, identity, life_of_item(row))

    def _note(self, tenant: str, identity: Identity, life: Life) -> None:
        gone = self._gone.setdefault(tenant, {})
        gone[identity] = max(life, gone.get(identity, life))

    def _find_expired(
        self, tenant: str, work: Work, binds: Mapping[str, Any]
    ) -> Program[list[Any]]:
        """Return the items that have expired and are about to be begun anew in the same place."""
        each = MANY_ITEMS.each(binds) if work.row is MANY_ITEMS else [binds]
        new = [one for one in each if one["p_version"] == 1]
        listed = [(one["k_namespace"], encode_id(one["k_key"])) for one in new]
        found: list[Any] = []
        for keys in self._dialect.statements.list_batches("p_keys", listed):
            found += yield read_lives(self._dialect), {"k_tenant": tenant} | keys
        return found

    def _write(self, tenant: str, lives: Mapping[Identity, Life]) -> Program[None]:
        """Write a note for each of *lives*, under each key with which anchors may be made."""
        dialect, keys, now = self._dialect, self._keys, datetime.now(UTC)
        by_code = {
            keys.identity_code(key_id, identity): life
            for key_id in keys.ids
            for identity, life in lives.items()
        }
        if not by_code:
            return
        before = yield from read_removals(dialect, tenant, by_code, keys)
        notes = []
        for code, life in by_code.items():
            last = max(life, before[code].life) if code in before else life
            notes.append(_note(tenant, code, last, now, keys))
        yield from write_notes(dialect, notes)


# --- The registry --------------------------------------------------------------------------------


def read_anchoring(dialect: Dialect, tenant: str) -> Program[Anchoring | None]:
    """Return what the registry tells of the anchors of a tenant; ``None`` if there are none."""
    rows = yield find_anchoring(dialect), {"k_tenant": tenant}
    return Anchoring(bytes(rows[0].value), rows[0].updated_at) if rows else None


def write_anchoring(dialect: Dialect, tenant: str, anchoring: Anchoring) -> Program[None]:
    """Note that an anchor is being taken: from now on it is noted what is removed."""
    note = _registry_row(tenant, ANCHORS_NAMESPACE, _LATEST, anchoring.latest, anchoring.latest)
    yield from write_notes(dialect, [note | {"p_content": anchoring.database_id}])


def read_removals(
    dialect: Dialect, tenant: str, codes: Iterable[bytes], keys: SigningKeys
) -> Program[dict[bytes, Removal]]:
    """Return the removals of a tenant that are noted under some hashes; not those of forgers."""
    found: dict[bytes, Removal] = {}
    listed = [(code.hex(),) for code in codes]
    for some in dialect.statements.list_batches("p_keys", listed):
        for row in (yield find_removals(dialect), {"k_tenant": tenant} | some):
            found |= genuine_removal(tenant, row, keys)
    return found


def genuine_removal(tenant: str, row: Any, keys: SigningKeys) -> dict[bytes, Removal]:
    """Return the removal that a row of the registry notes, if it was signed, by its hash."""
    try:
        code = bytes.fromhex(row.key)
        life = Life(microseconds(row.created_at), row.version)
        keys.check(row.signature, _content(tenant, code, life, row.updated_at))
    except (ValueError, Corrupt, KeyMissing):
        return {}
    return {code: Removal(life, row.updated_at)} if row.signature is not None else {}


def _content(tenant: str, code: bytes, life: Life, removed_at: datetime) -> tuple[Any, ...]:
    return "removal", tenant, *life, removed_at, code


def _note(tenant: str, code: bytes, life: Life, now: datetime, keys: SigningKeys) -> dict[str, Any]:
    began = moment_of(life.created_at)
    note = _registry_row(tenant, REMOVALS_NAMESPACE, code.hex(), began, now)
    signature = keys.sign(_content(tenant, code, life, now))
    return note | {"p_version": life.position, "p_signature": signature}


def _registry_row(
    tenant: str, namespace: str, key: str, created_at: datetime, updated_at: datetime
) -> dict[str, Any]:
    """Return the binds of `put_note`."""
    return {
        "k_tenant": tenant,
        "k_namespace": namespace,
        "k_key": key,
        "p_version": 1,
        "p_created_at": created_at,
        "p_updated_at": updated_at,
        "p_signature": None,
        "p_content": b"\x01",
    }


@varies
def write_notes(dialect: Dialect, notes: list[dict[str, Any]]) -> Program[None]:
    """Write rows of the registry, or replace them."""
    for start in range(0, len(notes), AT_ONCE):
        yield put_note(dialect), notes[start : start + AT_ONCE]


# --- Statements ----------------------------------------------------------------------------------

_KEY = ("tenant", "namespace", "key")
_CHANGING = ("version", "created_at", "updated_at", "signature")


def _bind(name: str, prefix: str = "p") -> Any:
    return bindparam(f"{prefix}_{name}", type_=ITEMS.c[name].type)


def changed_note_values() -> dict[str, Any]:
    """Return the columns of a note that replaces another."""
    content = bindparam("p_content", type_=ITEMS.c.value.type)
    return {name: _bind(name) for name in _CHANGING} | {"value": content}


def new_note_values() -> dict[str, Any]:
    """Return the columns of a new note."""
    fixed = {"meta": {}, "codec": "none", "checksum": 0}
    return {name: _bind(name, "k") for name in _KEY} | fixed | changed_note_values()


@statement(writes=OWN_ITEM)
def put_note(dialect: Dialect) -> Executable:
    """Write a row of the registry, or replace it."""
    return dialect.statements.upsert(ITEMS, new_note_values(), _KEY, changed_note_values())


def of_note() -> Any:
    """Return the condition on the note of one key."""
    return and_(*(ITEMS.c[name] == _bind(name, "k") for name in _KEY))


def _in_registry(namespace: str) -> list[Any]:
    path: Any = literal_column(f"'{namespace}'")
    return [ITEMS.c.tenant == _bind("tenant", "k"), ITEMS.c.namespace == path]


_NOTED = ("key", "created_at", "version", "updated_at", "signature")


@statement(unproven=REGISTRY)
def find_anchoring(dialect: Dialect) -> Executable:
    """Select what the registry tells of the anchors of a tenant."""
    return select(ITEMS.c.value, ITEMS.c.updated_at).where(*_in_registry(ANCHORS_NAMESPACE))


@statement(proves="note")
def find_removals(dialect: Dialect) -> Executable:
    """Select the removals of a tenant that are noted under the keys which ``p_keys`` lists."""
    listed = dialect.statements.rows_from_list("p_keys", ("key",))
    keys = ITEMS.c.key.in_(select(listed.c.key))
    columns = (ITEMS.c[name] for name in _NOTED)
    return select(*columns).where(*_in_registry(REMOVALS_NAMESPACE), keys)


@statement(proves="note", after=(True, False))
def list_removals(dialect: Dialect, after: bool) -> Executable:
    """Select a page of the removals of a tenant, in the order of their keys."""
    query = select(*(ITEMS.c[name] for name in _NOTED)).where(*_in_registry(REMOVALS_NAMESPACE))
    if after:
        query = query.where(ITEMS.c.key > _bind("key"))
    return query.order_by(ITEMS.c.key).limit(bindparam("p_limit"))


@statement()
def delete_old_removals(dialect: Dialect) -> Executable:
    """Delete the notes of what a tenant has removed before ``p_before``."""
    old = ITEMS.c.updated_at < bindparam("p_before", type_=ITEMS.c.updated_at.type)
    return delete(ITEMS).where(*_in_registry(REMOVALS_NAMESPACE), old)


@statement()
def delete_removals(dialect: Dialect) -> Executable:
    """Delete the notes of removals under the keys which ``p_keys`` lists."""
    listed = dialect.statements.rows_from_list("p_keys", ("key",))
    keys = ITEMS.c.key.in_(select(listed.c.key))
    return delete(ITEMS).where(*_in_registry(REMOVALS_NAMESPACE), keys)


@statement(proves="item")
def read_lives(dialect: Dialect) -> Executable:
    """Select what is signed of the items that ``p_keys`` lists, expired ones too."""
    listed = dialect.statements.rows_from_list("p_keys", ("namespace", "key"))
    names: Any = select(listed.c.namespace, listed.c.key)
    columns = (*_KEY, *ITEM.signed, "signature")
    of_tenant = ITEMS.c.tenant == _bind("tenant", "k")
    here = tuple_(ITEMS.c.namespace, ITEMS.c.key).in_(names)
    return select(*(ITEMS.c[name] for name in columns)).where(of_tenant, here)
