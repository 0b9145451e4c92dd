"""The service's own tables. A ticket belongs to a thread of memalchemy's."""

from __future__ import annotations

from uuid import UUID

from sqlalchemy import ForeignKey, String
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column, relationship

from memalchemy.schema import ThreadRow


class Base(DeclarativeBase):
    pass


class Ticket(Base):
    __tablename__ = "tickets"

    id: Mapped[int] = mapped_column(primary_key=True)
    customer: Mapped[str] = mapped_column(String(200))
    subject: Mapped[str] = mapped_column(String(500))
    log_id: Mapped[UUID] = mapped_column(
        ThreadRow.log_id.type, ForeignKey(ThreadRow.log_id, ondelete="CASCADE")
    )
    thread: Mapped[ThreadRow] = relationship(ThreadRow)
