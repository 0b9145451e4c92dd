"""The guard of a database: what every program passes through on its way there, and what it reads.

`Database.run` is the one door through which programs run, and the guard stands in it, so no feature
can forget it. In a database without keys it is `NoGuard`, which lets programs pass as they are.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypeVar
from uuid import UUID

from memalchemy.codec.encryption import Keyring
from memalchemy.dialects import Dialect
from memalchemy.protection.key_registry import refuse_payloads
from memalchemy.protection.known_heads import KnownHead
from memalchemy.protection.proven_reads import with_proven_rows
from memalchemy.protection.sealing import seal_payloads
from memalchemy.protection.signing import sign_rows
from memalchemy.statements import Program

T = TypeVar("T")
Make = Callable[[], Program[T]]
"""Makes a program, for each of its runs."""

Payloads = bool | Literal["stored"]
"""Permission to write payloads; ``"stored"`` is for those that are sealed already."""


class NoGuard:
    """The guard of a database without keys."""

    allots_first = False
    """True if rows are bound to their place, which is then allotted before they are sent."""
    leaves_known_heads = False
    """True if the head that a write leaves is known, so that the next needs no look at it."""
    seals_payloads = False
    """True if payloads are stored in another form than the one in which programs give them."""
    signs = False

    def read(self, program: Make[T], tenant: str) -> Make[T]:
        """Return *program*, which only reads, so that what it is given is proven."""
        return program

    def write(self, program: Make[T], tenant: str, payloads: Payloads) -> Make[T]:
        """Return *program* so that it writes no other payloads than it may, and seals those."""
        return program if payloads else refuse_payloads(program)

    def sign(
        self, program: Make[T], dialect: Dialect, tenant: str, heads: dict[UUID, KnownHead]
    ) -> Make[T]:
        """Return *program* so that it signs what it writes; *heads* get those that it leaves."""
        return program


class Guard(NoGuard):
    """The guard of a database with keys: it proves what is read, and seals and signs what is
    written.
    """

    def __init__(self, keyring: Keyring) -> None:
        self._keyring = keyring
        self.seals_payloads = keyring.encrypts
        self.signs = self.leaves_known_heads = keyring.signing.signs
        self.allots_first = self.seals_payloads or self.signs

    def read(self, program: Make[T], tenant: str) -> Make[T]:
        return with_proven_rows(program, tenant, self._keyring.signing) if self.signs else program

    def write(self, program: Make[T], tenant: str, payloads: Payloads) -> Make[T]:
        program = super().write(self.read(program, tenant), tenant, payloads)
        if payloads is True and self.seals_payloads:
            return seal_payloads(program, self._keyring)
        return program

    def sign(
        self, program: Make[T], dialect: Dialect, tenant: str, heads: dict[UUID, KnownHead]
    ) -> Make[T]:
        return sign_rows(program, dialect, self._keyring.signing, tenant, heads)


def guard_of(keyring: Keyring) -> NoGuard:
    """Return the guard for the keys of a database."""
    return Guard(keyring) if keyring.encrypts or keyring.signing.signs else NoGuard()
