"""Tenant of the current task or thread: named once, and used further down."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from memalchemy.keys import check_tenant

_tenant: ContextVar[str] = ContextVar("memalchemy_tenant")


@contextmanager
def tenant_scope(tenant: str) -> Iterator[str]:
    """Set the tenant of `Database.for_scope` in a block: ``with tenant_scope("acme"):``.

    It holds in this task and those it starts, or in this thread; the innermost block counts.

    Raises:
        TypeError, ValueError, TooLarge: it is no tenant.
    """
    token = _tenant.set(check_tenant(tenant))
    try:
        yield tenant
    finally:
        _tenant.reset(token)


def tenant_of_scope() -> str:
    """Return the tenant of the innermost `tenant_scope`.

    Raises:
        LookupError: there is no such block. There is no default tenant here.
    """
    try:
        return _tenant.get()
    except LookupError:
        raise LookupError(
            "no tenant: this is outside of `with memalchemy.tenant_scope(tenant):`, or in a thread "
            "or task that was started outside of it"
        ) from None
