"""Answers that the HTTP server keeps for repeated requests, and their erasure.

An answer may hold what a request removed, and names threads. Only its payload says which, so an
erasure takes all answers of the tenant. That a request was done is kept elsewhere, without content.
"""

from __future__ import annotations

from sqlalchemy import Executable, bindparam, delete

from memalchemy.dialects import Dialect
from memalchemy.keys import InternalNamespace, encode_namespace
from memalchemy.search.scope import ITEMS
from memalchemy.statements import Program, statement

ANSWERS = InternalNamespace(("answers",))
"""Namespace of the kept answers, in the store of the tenant, who does not see them there."""


@statement()
def delete_kept_answers(dialect: Dialect) -> Executable:
    """Delete all kept answers of a tenant; binds ``k_tenant`` and ``k_namespace``."""
    places = (ITEMS.c.tenant, ITEMS.c.namespace)
    return delete(ITEMS).where(
        *(column == bindparam(f"k_{column.key}", type_=column.type) for column in places)
    )


def forget_kept_answers(dialect: Dialect, tenant: str) -> Program[None]:
    """Erase the kept answers of a tenant.

    Call it after the erasure of threads and items: a write that waited for that has stored its
    answer by then.
    """
    yield (
        delete_kept_answers(dialect),
        {"k_tenant": tenant, "k_namespace": encode_namespace(ANSWERS)},
    )
