"""The beginnings of commands that a message names."""

from __future__ import annotations

import shlex


def program(tenant: str) -> str:
    """Return the name of the command line, with a tenant."""
    return "memalchemy" + ("" if tenant == "default" else f" --tenant {shlex.quote(tenant)}")


def anchor_command(tenant: str | None) -> str:
    """Return the command that takes an anchor of a tenant, or for ``None`` of all tenants."""
    if tenant is None:
        return "memalchemy anchor FILE --all-tenants"
    return f"{program(tenant)} anchor FILE"
