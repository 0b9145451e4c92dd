"""The beginnings of commands that a message names."""

from __future__ import annotations

import shlex


def program(tenant: str) -> str:
    """Return the name of the command line, with a tenant."""
    return "memalchemy" + ("" if tenant == "default" else f" --tenant {shlex.quote(tenant)}")


def anchor_command(tenant: str | None) -> str:
    """Return the command that takes an anchor of a tenant, or for ``None`` of all tenants."""
    return _command_for_tenants(tenant, "anchor FILE")


def verify_anchor_command(tenant: str | None) -> str:
    """Return the command that checks a tenant, or for ``None`` all tenants, against an anchor."""
    return _command_for_tenants(tenant, "verify --anchor FILE")


def _command_for_tenants(tenant: str | None, command: str) -> str:
    if tenant is None:
        return f"memalchemy {command} --all-tenants"
    return f"{program(tenant)} {command}"
