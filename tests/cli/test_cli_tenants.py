"""The commands of `memalchemy tenants`, and the warnings of `check`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from commandline import Call, lines, thread
from sqlalchemy import create_engine

from memalchemy import migrate
from memalchemy.dialects import DIALECTS
from memalchemy.errors import DowngradeRefused
from memalchemy.migrate import TABLES, VERSION_TABLE
from servers import Postgres, migrated_database

OWNER, APP = "cli_owner", "cli_app"


@pytest.fixture
def owned(postgres: Postgres) -> Iterator[str]:
    """A database whose owner is no superuser, with a role for the application."""
    for role in (OWNER, APP):
        if not postgres.execute(f"SELECT 1 FROM pg_roles WHERE rolname = '{role}'"):
            postgres.execute(f"CREATE ROLE {role} LOGIN")
    with migrated_database(postgres) as name:
        postgres.execute(f"GRANT CREATE ON SCHEMA public TO {OWNER}", name)
        tables = (*TABLES, VERSION_TABLE)
        for table in tables:
            postgres.execute(f"ALTER TABLE {table} OWNER TO {OWNER}", name)
        for grant in DIALECTS["postgresql"].maintenance.grants(APP, None, tables):
            postgres.execute(grant, name)
        yield name


def test_tenants_are_listed_and_an_empty_one_says_so(call: Call, file_url: str) -> None:
    assert call("--db", file_url, "upgrade").code == 0
    assert call("--db", file_url, "tenants", "list", "--json").json == []
    for tenant in ("zoo", "acme"):
        put = call("--db", file_url, "--tenant", tenant, "store", "put", "n", "k", '"mine"')
        assert put.code == 0, put.err

    listed = call("--db", file_url, "tenants", "list", "--json")
    assert listed.json == [{"tenant": "acme"}, {"tenant": "zoo"}]
    assert "2 tenants" in call("--db", file_url, "tenants", "list").err
    empty = call("--db", file_url, "threads").err
    assert "tenant 'default' has no threads; `memalchemy tenants list` names the others" in empty
    assert "names the others" not in call("--db", file_url, "threads", "--pattern", "x*").err


def test_an_owner_builds_the_wall_and_takes_it_down(
    call: Call, postgres: Postgres, owned: str
) -> None:
    owner, app = (postgres.url(owned, user=role) for role in (OWNER, APP))
    superuser = postgres.url(owned)
    assert call("--db", app, "tenants", "status").out == "the tenants are not walled\n"
    assert call("--db", superuser, "check", "--json").json["warnings"] == []

    built = call("--db", owner, "tenants", "enforce")
    assert built.code == 0
    assert f"5 of 5 tables are walled; the role {OWNER} reaches one tenant" in built.out
    assert "a superuser has to mark 7 functions leakproof" in built.out
    seen = call("--db", app, "tenants", "status", "--json").json
    assert (seen["role"], seen["enforced"], seen["is_active"]) == (APP, 5, True)
    assert call("--db", superuser, "tenants", "enforce").code == 0
    assert call("--db", app, "check").out.count("warning") == 0
    checked = call("--db", superuser, "check")
    assert checked.code == 0
    assert "passes row-level security and reaches all tenants" in checked.out

    for tenant in ("acme", "globex"):
        put = call("--db", app, "--tenant", tenant, "store", "put", "n", "k", '"mine"')
        assert put.code == 0, put.err
    refused = call("--db", owner, "verify", "--all-tenants")
    assert refused.code == 4
    assert "MA-CAPABILITY-MISSING" in refused.err
    assert call("--db", owner, "tenants", "enforce", "--admin", OWNER).code == 0
    assert call("--db", owner, "verify", "--all-tenants").code == 0

    assert call("--db", owner, "tenants", "release").out == "the tenants are not walled\n"
    assert call("--db", app, "--tenant", "acme", "store", "get", "n", "k").code == 0


def test_a_downgrade_sees_the_rows_of_every_tenant(
    call: Call, postgres: Postgres, owned: str
) -> None:
    owner = postgres.url(owned, user=OWNER)
    assert call("--db", owner, "--tenant", "zeta", "store", "put", "n", "k", "1").code == 0
    assert call("--db", owner, "tenants", "enforce").code == 0

    refused = call("--db", owner, "downgrade", "base")
    assert refused.code == 4
    assert "'store_items' holds rows" in refused.err
    # A host that catches the error and commits has the wall as it was.
    engine = create_engine(postgres.url(owned, driver="psycopg", user=OWNER))
    with engine.begin() as connection, pytest.raises(DowngradeRefused):
        migrate.downgrade(connection, "base")
    engine.dispose()
    state = call("--db", owner, "tenants", "status", "--json").json
    assert (state["enforced"], state["is_active"], state["sees_all"]) == (5, True, False)

    assert call("--db", owner, "--tenant", "zeta", "store", "rm", "n", "k").code == 0
    assert call("--db", owner, "downgrade", "base").code == 0


ALL_TENANTS = (
    ("prune", "--all", "--keep-last", "1", "--all-tenants"),
    ("store", "sweep", "--all-tenants"),
    ("vacuum", "--all-tenants"),
)


@pytest.mark.parametrize("command", ALL_TENANTS, ids=lambda command: command[0])
def test_a_job_for_all_tenants_reaches_all_or_is_refused(
    call: Call, postgres: Postgres, owned: str, command: tuple[str, ...]
) -> None:
    owner, app = (postgres.url(owned, user=role) for role in (OWNER, APP))
    assert call("--db", owner, "tenants", "enforce", "--admin", APP).code == 0
    for tenant in ("acme", "globex"):
        steps = lines(thread("t", 4))
        assert call("--db", app, "--tenant", tenant, "import", "-", stdin=steps).code == 0
        put = ("store", "put", "n", "k", "1", "--ttl", "1s")
        assert call("--db", app, "--tenant", tenant, *put).code == 0
    expiring = "threads" if command[0] == "vacuum" else "store_items"
    postgres.execute(f"UPDATE {expiring} SET expires_at = now() - interval '1 day'", owned)

    refused = call("--db", owner, *command)
    done = call("--db", app, *command, "--json")

    assert refused.code == 4
    assert "MA-CAPABILITY-MISSING" in refused.err
    assert done.code == 0
    removed = done.json.get("removed", done.json.get("pruned"))
    assert removed == {"prune": 6, "store": 2, "vacuum": 8}[command[0]]


def test_a_member_of_the_owner_that_is_an_admin_does_all_of_a_vacuum(
    call: Call, postgres: Postgres, owned: str
) -> None:
    if not postgres.execute("SELECT 1 FROM pg_roles WHERE rolname = 'cli_admin'"):
        postgres.execute(f"CREATE ROLE cli_admin LOGIN IN ROLE {OWNER}")
    enforce = ("tenants", "enforce", "--admin", "cli_admin")
    assert call("--db", postgres.url(owned, user=OWNER), *enforce).code == 0

    admin = postgres.url(owned, user="cli_admin")
    done = call("--db", admin, "vacuum", "--all-tenants", "--json")

    assert (done.code, done.json["advice"]) == (0, [])


def test_an_application_cannot_take_it_down(call: Call, postgres: Postgres, owned: str) -> None:
    assert call("--db", postgres.url(owned), "tenants", "enforce").code == 0

    assert call("--db", postgres.url(owned, user=APP), "tenants", "release").code == 3
    assert call("--db", postgres.url(owned, user=APP), "tenants", "status", "--json").json[
        "enforced"
    ]


def test_policies_of_somebody_elses_stay_in_force(
    call: Call, postgres: Postgres, owned: str
) -> None:
    postgres.execute("CREATE POLICY theirs ON threads USING (tenant = 'public')", owned)
    assert "other policies" in call("--db", postgres.url(owned), "tenants", "enforce").out

    assert call("--db", postgres.url(owned), "tenants", "release").code == 0

    security = "SELECT relrowsecurity FROM pg_class WHERE relname = 'threads'"
    assert postgres.execute(security, owned) == [(True,)]


@pytest.mark.parametrize("admins", [(), ("--admin", OWNER)], ids=["no admins", "admins"])
def test_row_level_security_without_its_policy_is_told_and_healed(
    call: Call, postgres: Postgres, owned: str, admins: tuple[str, ...]
) -> None:
    owner, app, superuser = (postgres.url(owned, user=role) for role in (OWNER, APP, None))
    assert call("--db", owner, "tenants", "enforce", *admins).code == 0
    put = ("--db", app, "store", "put", "n", "k", '"mine"')
    assert call(*put).code == 0
    for table in TABLES:
        postgres.execute(f"DROP POLICY memalchemy_tenant ON {table}", owned)
    postgres.execute("DROP FUNCTION memalchemy_no_tenant()", owned)

    for url in (app, owner, superuser):
        checked = call("--db", url, "check")
        assert (checked.code, checked.out) == (1, "")
        assert "MA-WALL-INCOMPLETE" in checked.err
        assert "memalchemy tenants enforce" in checked.err
    for command in (("threads",), ("store", "get", "n", "k"), ("stats",), ("verify",), put[2:]):
        refused = call("--db", app, *command)
        assert (refused.code, refused.out) == (1, ""), command
        assert "MA-WALL-INCOMPLETE" in refused.err
    assert call("--db", superuser, "store", "get", "n", "k").code == 0
    status = call("--db", app, "tenants", "status").out
    assert f"0 of 5 tables are walled; the role {APP} reaches no tenant\n" in status
    assert "warning: row-level security is on for 5 of 5 tables, and there the policy" in status
    seen = call("--db", app, "tenants", "status", "--json").json
    assert (seen["closed"], seen["is_shut_out"], seen["sees_all"]) == (5, True, False)

    assert call("--db", owner, "tenants", "enforce", *admins).code == 0
    checked = call("--db", app, "check")
    assert (checked.code, "MA-WALL" in checked.out) == (0, False)
    assert call("--db", app, "store", "get", "n", "k").json == "mine"


def test_one_table_without_its_policy_is_told(call: Call, postgres: Postgres, owned: str) -> None:
    owner, app = (postgres.url(owned, user=role) for role in (OWNER, APP))
    assert call("--db", owner, "tenants", "enforce").code == 0
    postgres.execute("DROP POLICY memalchemy_tenant ON embeddings", owned)

    assert "is on for 1 of 5 tables" in call("--db", app, "check").err
    status = call("--db", app, "tenants", "status").out
    assert f"4 of 5 tables are walled; the role {APP} reaches no tenant\n" in status
    assert call("--db", owner, "tenants", "release").out == "the tenants are not walled\n"
    assert call("--db", app, "check").code == 0


def test_row_level_security_that_keeps_others_out_is_left_alone(
    call: Call, postgres: Postgres, owned: str
) -> None:
    """Some hosts switch it on without policies, for an application that owns its tables."""
    owner, app = (postgres.url(owned, user=role) for role in (OWNER, APP))
    for table in TABLES:
        postgres.execute(f"ALTER TABLE {table} ENABLE ROW LEVEL SECURITY", owned)

    assert call("--db", owner, "check", "--json").json["warnings"] == []
    assert call("--db", owner, "tenants", "status").out == "the tenants are not walled\n"
    assert call("--db", owner, "store", "put", "n", "k", "1").code == 0
    assert call("--db", app, "check").code == 1

    for table in TABLES:
        postgres.execute(f"CREATE POLICY theirs ON {table} USING (true)", owned)
    assert call("--db", app, "check", "--json").json["warnings"] == []
    assert call("--db", app, "store", "get", "n", "k").code == 0


def test_a_script_does_what_the_command_does(call: Call, postgres: Postgres, owned: str) -> None:
    options = ("--db", "postgresql://nobody@127.0.0.1:1/none", "tenants")
    script = call(*options, "enforce", "--sql", "--admin", OWNER)
    assert script.code == 0
    postgres.execute(script.out, owned)
    state = call("--db", postgres.url(owned, user=OWNER), "tenants", "status", "--json").json
    assert (state["enforced"], state["sees_all"], state["leaky"]) == (5, True, 0)

    postgres.execute(call(*options, "release", "--sql").out, owned)

    state = call("--db", postgres.url(owned, user=OWNER), "tenants", "status", "--json").json
    assert state["enforced"] == 0


def test_a_schema_and_awkward_roles_are_quoted(call: Call) -> None:
    options = ("--db", "postgresql://nobody@127.0.0.1:1/none", "--schema", "Ai")

    script = call(*options, "tenants", "enforce", "--sql", "--admin", 'a"b', "--json").json

    assert 'ALTER TABLE "Ai".threads FORCE ROW LEVEL SECURITY;' in script["statements"]
    assert any('ON "Ai".threads TO "a""b" USING' in one for one in script["statements"])


@pytest.mark.parametrize("name", ["enforce", "release", "status"])
def test_sqlite_has_no_wall(call: Call, file_url: str, name: str) -> None:
    assert call("--db", file_url, "upgrade").code == 0

    refused = call("--db", file_url, "tenants", name)

    assert refused.code == 4
    assert "no row-level security" in refused.err


def test_oracle_has_no_script(call: Call) -> None:
    refused = call("--db", "oracle://me@host/?service_name=x", "tenants", "enforce", "--sql")

    assert refused.code == 4
