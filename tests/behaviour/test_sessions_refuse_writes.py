"""A host's session reads memalchemy's rows, and writes none of them but for deleting a thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import create_engine, delete, event, func, insert, inspect, select, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, make_transient, mapped_column
from sqlalchemy.orm.attributes import flag_modified

from memalchemy import Checkpointer, Database, ReadOnly, Store
from memalchemy.schema import Base, CheckpointRow, DeltaRow, StoreItemRow, ThreadRow

CLASSES: list[Any] = sorted(
    (mapper.class_ for mapper in Base.registry.mappers), key=lambda one: str(one.__name__)
)
Operation = Callable[[Session, Any], Any]


def row_of(session: Session, db: Database, class_: Any) -> Any:
    return session.scalars(select(class_).where(class_.tenant == db.tenant)).first()


def copy_of(row: Any) -> Any:
    """Return a new object of a row's class, with its columns and another key."""
    mapper = inspect(row).mapper
    values = {attribute.key: getattr(row, attribute.key) for attribute in mapper.column_attrs}
    return type(row)(**values | {"tenant": f"{row.tenant}-other"})


def changed_columns(row: Any) -> list[str]:
    return [attribute.key for attribute in inspect(row).mapper.column_attrs]


def another(value: Any) -> Any:
    """Return a value unlike *value*."""
    return "another" if value is None or isinstance(value, (str, bytes, dict, list)) else None


def set_attribute(session: Session, row: Any) -> None:
    for name in changed_columns(row):
        before = getattr(row, name)
        with pytest.raises(ReadOnly):
            setattr(row, name, another(before))
        assert getattr(row, name) == before
    if hasattr(row, "namespace"):
        with pytest.raises(ReadOnly):
            row.namespace = ("another",)
        with pytest.raises(ReadOnly):
            type(row)(namespace=("another",))
    setattr(row, name, another(before))


def set_relationship(session: Session, row: Any) -> None:
    for relation in inspect(row).mapper.relationships:
        if not relation.uselist:
            with pytest.raises(ReadOnly):
                setattr(row, relation.key, None)
        else:
            with pytest.raises(ReadOnly):
                getattr(row, relation.key).append(copy_of(row))
            with pytest.raises(ReadOnly):
                setattr(row, relation.key, [])
    row.tenant = "another"


def delete_attribute(session: Session, row: Any) -> None:
    names = [one.key for one in inspect(row).mapper.attrs]
    names += ["namespace"] if hasattr(row, "namespace") else []
    for loaded in (False, True):
        for name in names:
            if loaded:
                getattr(row, name)
            with pytest.raises(ReadOnly, match="Call "):
                delattr(row, name)
        session.expire(row)
    del row.tenant


def flag(session: Session, row: Any) -> None:
    row.tenant  # noqa: B018 - it is loaded
    flag_modified(row, "tenant")
    session.flush()


def merge_changed(session: Session, row: Any) -> None:
    session.expunge(row)
    key = {
        one.key: getattr(row, one.key) for one in inspect(row).mapper.column_attrs if is_key(one)
    }
    session.merge(type(row)(**key, signature=b"another"))


def is_key(attribute: Any) -> bool:
    return bool(attribute.columns[0].primary_key)


def add_copy(session: Session, row: Any) -> None:
    session.add(copy_of(row))


def add_transient(session: Session, row: Any) -> None:
    session.expunge(row)
    make_transient(row)
    session.add(row)


def delete_row(session: Session, row: Any) -> None:
    session.delete(row)
    session.flush()


REFUSED: dict[str, Operation] = {
    "add": add_copy,
    "add_all": lambda session, row: session.add_all([copy_of(row)]),
    "add a transient": add_transient,
    "merge a new one": lambda session, row: session.merge(copy_of(row)),
    "merge a changed one": merge_changed,
    "set an attribute": set_attribute,
    "set a relationship": set_relationship,
    "delete an attribute": delete_attribute,
    "flag_modified": flag,
    "insert": lambda s, row: s.execute(insert(type(row)).values(tenant="t")),
    "insert many": lambda s, row: s.execute(insert(type(row)), [{"tenant": "a"}, {"tenant": "b"}]),
    "insert into the table": lambda s, row: s.execute(insert(type(row).__table__)),
    "update": lambda s, row: s.execute(update(type(row)).values(tenant="t")),
    "update many": lambda s, row: s.execute(update(type(row)), [{"tenant": "t"}]),
    "update of a query": lambda s, row: s.query(type(row)).update({"tenant": "t"}),
    "update the table": lambda s, row: s.execute(update(type(row).__table__).values(tenant="t")),
    "delete": delete_row,
    "delete rows": lambda s, row: s.execute(delete(type(row)).where(type(row).tenant == "t")),
    "delete of a query": lambda s, row: s.query(type(row)).filter_by(tenant="t").delete(),
    "delete from the table": lambda s, row: s.execute(delete(type(row).__table__)),
}


def is_allowed(class_: Any, operation: str) -> bool:
    is_delete = operation.startswith("delete") and operation != "delete an attribute"
    return class_ is ThreadRow and is_delete


CASES = [
    (class_, operation)
    for class_ in CLASSES
    for operation in REFUSED
    if not is_allowed(class_, operation)
]


@pytest.fixture
async def filled(db: Database) -> Database:
    store = Store(db, embedder=lambda texts: [[1.0, 2.0] for _ in texts])
    await store.put(("users", "ada"), "drink", {"text": "tea"}, index=["text"])
    for n in range(2):
        await Checkpointer(db).save({"n": n}, "trip", f"c{n}")
    return db


def writes_of(session: Session) -> list[str]:
    """Return a list that fills with the statements that change rows."""
    sent: list[str] = []
    event.listen(
        session.connection(),
        "before_cursor_execute",
        lambda _c, _k, sql, *_: None if sql.lstrip().startswith("SELECT") else sent.append(sql),
    )
    return sent


def check_refused(session: Session, db: Database, class_: Any, operation: str) -> None:
    row = row_of(session, db, class_)
    sent = writes_of(session)
    with pytest.raises(ReadOnly, match="connection=session") as raised:
        REFUSED[operation](session, row)
    assert raised.value.code == "MA-READ-ONLY"
    assert class_.__tablename__ in str(raised.value)
    assert sent == []


@pytest.mark.parametrize(
    ("class_", "operation"), CASES, ids=lambda one: str(getattr(one, "__name__", one))
)
async def test_a_session_refuses_to_write_before_it_sends_anything(
    filled: Database, class_: Any, operation: str
) -> None:
    await filled.run_sync(
        lambda connection: check_refused(Session(connection), filled, class_, operation)
    )

    assert await Checkpointer(filled).load("trip") == {"n": 1}
    assert await Store(filled).get(("users", "ada"), "drink") == {"text": "tea"}


@pytest.mark.asyncio_only("an AsyncSession needs an asynchronous connection")
@pytest.mark.parametrize("class_", CLASSES)
async def test_an_async_session_refuses_the_same(filled: Database, class_: Any) -> None:
    for operation in (one for one in REFUSED if not is_allowed(class_, one)):
        async with filled.transaction() as tx, AsyncSession(tx) as session:
            await session.run_sync(check_refused, filled, class_, operation)


def delete_by_statement(session: Session, row: Any) -> None:
    session.execute(delete(ThreadRow).where(ThreadRow.log_id == row.log_id))


DELETIONS: dict[str, Operation] = {
    "delete": delete_row,
    "delete rows": delete_by_statement,
    "delete of a query": lambda s, row: s.query(ThreadRow).filter_by(log_id=row.log_id).delete(),
}


@pytest.mark.parametrize("operation", DELETIONS)
async def test_a_session_deletes_a_thread(filled: Database, operation: str) -> None:
    def work(session: Session) -> list[int | None]:
        DELETIONS[operation](session, row_of(session, filled, ThreadRow))
        return [
            session.scalar(select(func.count()).select_from(one).where(one.tenant == filled.tenant))
            for one in (ThreadRow, CheckpointRow, DeltaRow)
        ]

    assert await filled.run_sync(lambda c: work(Session(c))) == [0, 0, 0]


@pytest.mark.parametrize("class_", CLASSES)
async def test_a_row_that_was_not_changed_goes_between_sessions(
    filled: Database, class_: Any
) -> None:
    def work(session: Session) -> None:
        row = row_of(session, filled, class_)
        session.expunge(row)
        session.add(row)
        session.refresh(row)
        session.expire(row)
        assert row.tenant == filled.tenant
        row.tenant = filled.tenant
        session.flush()
        session.expunge(row)
        merged = session.merge(row)
        assert merged.tenant == filled.tenant
        session.expunge_all()
        assert session.merge(row, load=False) is not row
        session.flush()

    await filled.run_sync(lambda connection: work(Session(connection)))


async def test_a_refusal_leaves_the_session_as_it_was(filled: Database) -> None:
    def work(session: Session) -> None:
        row = row_of(session, filled, StoreItemRow)
        with pytest.raises(ReadOnly):
            session.add(copy_of(row))
        with pytest.raises(ReadOnly):
            row.version = 7
        assert not session.new
        assert not session.dirty
        session.flush()
        assert row.namespace == ("users", "ada")

    await filled.run_sync(lambda connection: work(Session(connection)))


@pytest.mark.parametrize("class_", CLASSES)
async def test_loading_a_row_fires_the_events_of_sqlalchemy(filled: Database, class_: Any) -> None:
    fired: list[str] = []

    def note(name: str) -> Callable[..., None]:
        return lambda *_: fired.append(name)

    listeners = {name: note(name) for name in ("load", "refresh", "expire")}
    for name, listener in listeners.items():
        event.listen(class_, name, listener)

    def work(session: Session) -> None:
        event.listen(session, "loaded_as_persistent", note("loaded_as_persistent"))
        row = row_of(session, filled, class_)
        assert {*fired} == {"load", "loaded_as_persistent"}
        fired.clear()
        session.expire(row)
        session.refresh(row)
        assert {*fired} == {"expire", "refresh"}

    try:
        await filled.run_sync(lambda connection: work(Session(connection)))
    finally:
        for name, listener in listeners.items():
            event.remove(class_, name, listener)


def test_the_hosts_own_classes_are_left_alone() -> None:
    class HostBase(DeclarativeBase):
        pass

    class Note(HostBase):
        __tablename__ = "threads"  # a name of memalchemy's
        id: Mapped[int] = mapped_column(primary_key=True)
        tenant: Mapped[str]

    engine = create_engine("sqlite://")
    HostBase.metadata.create_all(engine)
    with Session(engine) as session:
        session.add(Note(id=1, tenant="a"))
        session.flush()
        session.execute(insert(Note).values(id=2, tenant="b"))
        session.execute(update(Note).values(tenant="c"))
        note = session.get(Note, 1)
        assert note is not None
        note.tenant = "d"
        session.delete(note)
        session.commit()
        assert session.scalars(select(Note.tenant)).all() == ["c"]
