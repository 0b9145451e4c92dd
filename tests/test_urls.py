"""Database URLs: as people type them, as providers hand them out, and never with their secrets."""

from __future__ import annotations

import importlib.util
import inspect
import shlex
import string
import tomllib
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, quote

import asyncpg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from psycopg import pq
from sqlalchemy.engine import URL

from memalchemy import Database, DriverMissing, MemalchemyError, UnknownURL
from memalchemy.dialects import Target, parse_url

Without = Callable[..., None]

MARK = "hush"
"""At both ends of every secret below, so that a part of it that leaks is seen too."""


def connect_arguments(target: Target) -> dict[str, Any]:
    """What the driver's ``connect`` is called with."""
    dialect = target.url.get_dialect()
    _, keywords = dialect(dbapi=dialect.import_dbapi()).create_connect_args(target.url)
    return keywords | target.connect_args


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Without:
    """Make drivers look as if they were not installed."""

    def hide(*modules: str) -> None:
        find = importlib.util.find_spec
        monkeypatch.setattr(
            importlib.util,
            "find_spec",
            lambda name, package=None: None if name in modules else find(name, package),
        )

    return hide


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite:///agent.db", "agent.db"),
        ("sqlite:///dir/agent.db", "dir/agent.db"),
        ("sqlite:////var/lib/agent.db", "/var/lib/agent.db"),
        ("sqlite+aiosqlite:///agent.db", "agent.db"),
        ("sqlite+pysqlite:///agent.db", "agent.db"),
    ],
)
def test_a_sqlite_url_names_a_file(url: str, path: str) -> None:
    target = parse_url(url)

    assert (target.dialect, target.path) == ("sqlite", path)


@pytest.mark.parametrize("url", ["sqlite://", "sqlite:///", "sqlite:///:memory:"])
def test_a_sqlite_url_without_a_file_is_a_database_in_memory(url: str) -> None:
    target = parse_url(url)

    assert (target.dialect, target.path) == ("sqlite", None)


@pytest.mark.parametrize("scheme", ["postgres", "postgresql", "postgresql+asyncpg"])
def test_a_postgresql_url_uses_asyncpg(scheme: str) -> None:
    target = parse_url(f"{scheme}://ada:secret@db.example.com:6543/agents")

    assert target.dialect == "postgresql"
    assert target.url.drivername == "postgresql+asyncpg"
    assert connect_arguments(target) == {
        "host": "db.example.com",
        "port": 6543,
        "user": "ada",
        "password": "secret",
        "database": "agents",
    }


def test_a_postgresql_url_may_ask_for_psycopg() -> None:
    target = parse_url("postgresql+psycopg://ada@db.example.com/agents?sslmode=require")

    assert target.url.drivername == "postgresql+psycopg"
    assert connect_arguments(target)["sslmode"] == "require"


@pytest.mark.parametrize("driver", ["asyncpg", "psycopg"])
def test_a_postgresql_url_may_say_that_it_leads_to_pgbouncer(driver: str) -> None:
    target = parse_url(f"postgresql+{driver}://ada@db.example.com/agents?pgbouncer=true")

    assert target.pgbouncer
    assert "pgbouncer" not in connect_arguments(target)
    assert "pgbouncer" not in target.display
    assert not parse_url(f"postgresql+{driver}://db.example.com/a?pgbouncer=false").pgbouncer
    with pytest.raises(UnknownURL, match="pgbouncer in the URL must be true or false"):
        parse_url(f"postgresql+{driver}://ada@db.example.com/agents?pgbouncer=perhaps")


def test_psycopg_serves_where_asyncpg_is_not_installed(without: Without) -> None:
    without("asyncpg")

    assert parse_url("postgres://ada@db.example.com/agents").url.drivername == "postgresql+psycopg"


@pytest.mark.parametrize("mode", ["disable", "allow", "prefer", "require", "verify-full"])
def test_sslmode_is_understood_for_asyncpg_too(mode: str) -> None:
    arguments = connect_arguments(
        parse_url(f"postgresql://ada@db.example.com/agents?sslmode={mode}")
    )

    assert arguments["ssl"] == mode
    assert "sslmode" not in arguments


def test_an_unknown_sslmode_is_refused_with_the_ones_there_are() -> None:
    with pytest.raises(UnknownURL, match="verify-full"):
        parse_url("postgresql://ada@db.example.com/agents?sslmode=yes-please")


def test_a_host_in_the_query_is_a_socket_directory() -> None:
    arguments = connect_arguments(parse_url("postgresql://ada@/agents?host=/var/run/postgresql"))

    assert arguments["host"] == "/var/run/postgresql"


def test_what_neon_appends_to_its_urls_is_understood(caplog: pytest.LogCaptureFixture) -> None:
    arguments = connect_arguments(
        parse_url("postgres://ada:pw@ep-x.neon.tech/db?sslmode=require&channel_binding=require")
    )

    assert arguments["ssl"] == "require"
    assert "channel_binding" not in arguments
    assert "channel_binding=require is not enforced" in caplog.text


def test_psycopg_is_given_the_channel_binding(caplog: pytest.LogCaptureFixture) -> None:
    arguments = connect_arguments(
        parse_url("postgresql+psycopg://ada:pw@db/agents?channel_binding=require")
    )

    assert arguments["channel_binding"] == "require"
    assert not caplog.records


def test_connect_timeout_and_application_name_of_libpq_are_understood_by_asyncpg() -> None:
    arguments = connect_arguments(
        parse_url("postgresql://ada@db/agents?connect_timeout=3&application_name=planner")
    )

    assert arguments["timeout"] == 3
    assert arguments["server_settings"] == {"application_name": "planner"}


@pytest.mark.parametrize("parameter", ["connect_timeout=soon", "nonsense=1"])
def test_a_parameter_that_the_driver_would_choke_on_is_an_unknown_url(parameter: str) -> None:
    with pytest.raises(UnknownURL, match=parameter.split("=")[0]):
        parse_url(f"postgresql://ada@db.example.com/agents?{parameter}")


SCHEMES = ("postgresql", "postgresql+psycopg", "postgresql+psycopg_async")


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("said", ["true", "on", "1", "yes"])
def test_ssl_as_jdbc_says_it_is_sslmode(scheme: str, said: str) -> None:
    arguments = connect_arguments(parse_url(f"{scheme}://ada@db/agents?ssl={said}"))

    assert {arguments.get("ssl"), arguments.get("sslmode")} == {"require", None}


@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("end", ["\n", " ", "\r\n", "\t"])
def test_a_line_end_behind_a_url_is_left_out(scheme: str, end: str) -> None:
    target = parse_url(f"{end}{scheme}://ada@db.example.com/agents{end}")

    assert (target.url.host, target.url.database) == ("db.example.com", "agents")


@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_directory_of_a_socket_may_be_the_host(scheme: str) -> None:
    arguments = connect_arguments(parse_url(f"{scheme}://ada@%2Frun%2Fpg:6432/agents"))

    assert arguments["host"] == "/run/pg"
    assert str(arguments["port"]) == "6432"


HOSTS = st.lists(
    st.tuples(
        st.sampled_from(["a", "db-1.example.com", "10.0.0.7", "[::1]", "[fe80::7]"]),
        st.none() | st.integers(1, 65_535),
    ),
    min_size=2,
    max_size=4,
)


@pytest.mark.parametrize("scheme", SCHEMES)
@given(hosts=HOSTS)
def test_several_hosts_reach_the_driver_with_their_ports(
    scheme: str, hosts: list[tuple[str, int | None]]
) -> None:
    written = ",".join(host if port is None else f"{host}:{port}" for host, port in hosts)
    target = parse_url(f"{scheme}://ada:p%2Cw@{written}/agents?target_session_attrs=read-write")
    arguments = connect_arguments(target)

    def listed(value: Any) -> list[str]:
        return value.split(",") if isinstance(value, str) else [str(one) for one in value]

    assert listed(arguments["host"]) == [host.strip("[]") for host, _ in hosts]
    assert listed(arguments["port"]) == [str(port or 5432) for _, port in hosts]
    assert (arguments["user"], arguments["password"]) == ("ada", "p,w")
    assert arguments["target_session_attrs"] == "read-write"


@pytest.mark.parametrize("hosts", ["a,", ",b", "a:x,b", "a,:5432", "[::1,b"])
def test_a_list_of_hosts_that_is_none_is_refused(hosts: str) -> None:
    with pytest.raises(UnknownURL):
        parse_url(f"postgresql://ada@{hosts}/agents")


@pytest.mark.parametrize("name", ["sslrootcert", "sslcert", "sslkey", "sslcrl"])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_a_file_of_tls_is_the_drivers_or_refused_by_name(
    scheme: str, name: str, tmp_path: Path
) -> None:
    file = tmp_path / "a file & more.pem"
    url = f"{scheme}://ada@db/agents?sslmode=verify-full&{name}={quote(str(file))}"
    with pytest.raises(UnknownURL, match=name):
        parse_url(url)
    file.touch()

    arguments = connect_arguments(parse_url(url))

    in_dsn = parse_qs(str(arguments.get("dsn", "")).partition("?")[2]).get(name)
    assert (in_dsn or [arguments.get(name)]) == [str(file)]


def test_what_the_system_trusts_may_be_the_root_certificate() -> None:
    asyncpg = connect_arguments(parse_url("postgresql://ada@db/agents?sslrootcert=system"))
    psycopg = connect_arguments(parse_url("postgresql+psycopg://ada@db/a?sslrootcert=system"))

    assert asyncpg["ssl"].check_hostname
    assert psycopg["sslrootcert"] == "system"


def parameters_of_libpq() -> list[str]:
    """Those that a URL may have; ``host`` and the like stand in front of the question mark."""
    debug, apart = "D", ("user", "password", "dbname", "host", "port", "service", "servicefile")
    return [
        option.keyword.decode()
        for option in pq.Conninfo.get_defaults()
        if option.dispchar.decode() != debug and option.keyword.decode() not in apart
    ]


@pytest.mark.parametrize("name", parameters_of_libpq())
def test_a_parameter_of_libpq_is_understood_or_refused_with_the_way_out(name: str) -> None:
    given = {"sslmode": "require", "connect_timeout": "7", "options": "-c statement_timeout=5"}
    value = __file__ if name in ("sslrootcert", "sslcert", "sslkey", "sslcrl") else "1"
    url = f"://ada@db/agents?{name}={quote(given.get(name, value))}"

    assert parse_url(f"postgresql+psycopg{url}")
    try:
        arguments = connect_arguments(parse_url(f"postgresql{url}"))
    except UnknownURL as refused:
        assert "postgresql+psycopg://" in str(refused)  # noqa: PT017
        assert name in str(refused)  # noqa: PT017
        return
    known = {*inspect.signature(asyncpg.connect).parameters, "prepared_statement_cache_size"}
    assert arguments.keys() <= known


def arguments_of_asyncpg() -> list[str]:
    """The arguments of its ``connect`` that are numbers."""
    parameters = inspect.signature(asyncpg.connect).parameters
    return [
        name
        for name, parameter in parameters.items()
        if type(parameter.default) in (int, float) or name == "command_timeout"
    ]


@pytest.mark.parametrize("name", arguments_of_asyncpg())
def test_a_number_of_asyncpg_reaches_it_as_one(name: str) -> None:
    arguments = connect_arguments(parse_url(f"postgresql://ada@db/agents?{name}=3"))

    assert isinstance(arguments[name], (int, float))
    assert arguments[name] == 3
    with pytest.raises(UnknownURL, match=name):
        parse_url(f"postgresql://ada@db/agents?{name}=none")


@pytest.mark.parametrize("scheme", ["postgresql+psycopg", "postgresql+psycopg_async"])
@pytest.mark.parametrize("name", ["statement_cache_size", "nonsense", "prepare_threshold"])
def test_a_parameter_that_libpq_does_not_know_is_an_unknown_url(scheme: str, name: str) -> None:
    with pytest.raises(UnknownURL, match=name):
        parse_url(f"{scheme}://ada@db/agents?{name}=0")


def test_a_path_object_is_a_sqlite_file(tmp_path: Path) -> None:
    file = tmp_path / "100% ?.db"

    assert parse_url(file).path == str(file)


@pytest.mark.parametrize("scheme", ["oracle", "oracle+oracledb", "oracle+oracledb_async"])
def test_the_last_part_of_an_oracle_url_is_a_service(scheme: str) -> None:
    target = parse_url(f"{scheme}://ada:secret@db.example.com:1521/FREEPDB1")

    assert target.url.drivername == "oracle+oracledb_async"
    arguments = connect_arguments(target)
    assert (arguments["user"], arguments["password"]) == ("ada", "secret")
    assert "SERVICE_NAME=FREEPDB1" in str(arguments["dsn"]).upper()
    assert "SID=" not in str(arguments["dsn"]).upper()


def test_an_oracle_url_may_name_the_service_itself() -> None:
    target = parse_url("oracle://ada@db.example.com:1521/?service_name=agents")

    assert target.url.query["service_name"] == "agents"


def test_a_url_object_of_sqlalchemy_is_as_good_as_its_text() -> None:
    url = URL.create("postgresql", "ada", "p@ss:w/rd", "db.example.com", database="agents")

    assert connect_arguments(parse_url(url))["password"] == "p@ss:w/rd"


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("agent.db", "agent.db"),
        ("agent.sqlite", "agent.sqlite"),
        ("Agent.SQLITE3", "Agent.SQLITE3"),
        ("./agent", "./agent"),
        ("../state/agent", "../state/agent"),
        ("state/agent.db", "state/agent.db"),
        ("/var/lib/agent.db", "/var/lib/agent.db"),
        ("a file of mine.db", "a file of mine.db"),
        ("C:\\agents\\agent.db", "C:\\agents\\agent.db"),
        ("C:/agents/agent", "C:/agents/agent"),
        ("state\\agent", "state\\agent"),
        ("sqlite:agent.db", "agent.db"),
        ("sqlite:agent", "agent"),
        ("sqlite:dir/agent.db", "dir/agent.db"),
        ("sqlite:/var/agent.db", "/var/agent.db"),
        ("sqlite:C:\\agents\\agent.db", "C:\\agents\\agent.db"),
        ("sqlite::memory:", None),
    ],
)
def test_a_path_names_a_sqlite_file(text: str, path: str | None) -> None:
    target = parse_url(text)

    assert (target.dialect, target.path) == ("sqlite", path)
    assert not target.read_only
    if path is not None:
        assert parse_url(f"{text}?mode=ro") == parse_url(
            URL.create("sqlite", database=path, query={"mode": "ro"})
        )


def test_a_file_that_is_there_needs_no_ending(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UnknownURL, match=r"'agents' is not a database URL.*\./agents"):
        parse_url("agents")
    tmp_path.joinpath("agents").touch()

    assert parse_url("agents").path == "agents"


@pytest.mark.parametrize(
    "nonsense",
    [
        "", " ", "://", "sqlite:", "//host/agents", "postgresql:ada@db", "ada@host/agents",
        "ada:hush@host/agents.db", "localhost:5432/agents", "a.db?cache=shared", "a\n.db", 7, None,
        b"x",
    ],
)  # fmt: skip
def test_what_is_not_a_url_is_refused_with_examples_of_those_that_are(nonsense: Any) -> None:
    with pytest.raises(UnknownURL, match=r"sqlite:///path/to/file\.db") as refused:
        Database(nonsense)
    assert "hush" not in str(refused.value)


@pytest.mark.parametrize("scheme", ["mysql", "mongodb", "redis", "mysql+pymysql", "https"])
def test_a_database_that_memalchemy_does_not_work_on_is_named(scheme: str) -> None:
    with pytest.raises(UnknownURL, match=f"does not work on '{scheme.split('+')[0]}'"):
        Database(f"{scheme}://ada:secret@db.example.com/agents")


@pytest.mark.parametrize(
    ("url", "driver"),
    [
        ("postgresql+psycopg2://ada@db/agents", "psycopg2"),
        ("sqlite+pysqlcipher:///agent.db", "pysqlcipher"),
        ("oracle+cx_oracle://ada@db/agents", "cx_oracle"),
    ],
)
def test_a_driver_that_is_not_used_is_named(url: str, driver: str) -> None:
    with pytest.raises(UnknownURL, match=driver):
        parse_url(url)


def test_two_slashes_too_few_before_a_file_are_explained() -> None:
    with pytest.raises(UnknownURL, match=r"sqlite:///agent\.db"):
        parse_url("sqlite://agent.db")


@pytest.mark.parametrize(
    ("url", "hidden", "extra"),
    [
        ("postgresql://ada@db/x", ["asyncpg", "psycopg"], "postgres"),
        ("postgresql+asyncpg://ada@db/x", ["asyncpg"], "postgres"),
        ("postgresql+psycopg://ada@db/x", ["psycopg"], "psycopg"),
        ("oracle://ada@db/x", ["oracledb"], "oracle"),
    ],
)
def test_a_missing_driver_is_named_with_the_command_that_installs_it(
    without: Without, url: str, hidden: list[str], extra: str
) -> None:
    without(*hidden)

    with pytest.raises(DriverMissing) as caught:
        Database(url)

    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    packages = project["project"]["optional-dependencies"][extra]
    command, _, named = str(caught.value).partition("Run: ")[2].partition(" (")
    program, verb, *asked = shlex.split(command)
    assert (program, verb) == ("pip", "install")
    # Hatchling writes a requirement's extras and versions in an order of its own.
    assert sorted(map(str.lower, asked)) == sorted(packages)
    assert f"memalchemy[{extra}]" in named
    assert caught.value.driver in hidden
    assert isinstance(caught.value, ImportError)


def test_sqlite_needs_no_driver_of_a_server(without: Without) -> None:
    without("asyncpg", "psycopg", "oracledb")

    assert parse_url("sqlite://").dialect == "sqlite"


# --- Secrets -------------------------------------------------------------------------------------

SCHEMES = st.sampled_from(
    ["postgresql", "postgres", "postgresql+psycopg", "oracle", "mysql", "sqlite", "nonsense"]
)
SECRETS = st.text(st.characters(codec="utf-8"), min_size=1).map(lambda t: f"{MARK}{t}{MARK}")
TYPED = st.text(st.sampled_from(string.punctuation + " aZ0é"), min_size=1).map(
    lambda t: f"{MARK}{t}{MARK}"
)


def shown(url: str | URL) -> str:
    """Everything that can be seen of a URL: what is printed, or the error and its traceback."""
    try:
        db = Database(url)
    except MemalchemyError as error:
        return "".join([*traceback.format_exception(error), repr(error), str(error.args)])
    return f"{db!r} {db} {db.for_tenant('other')!r} {db._backend.display}"


@settings(deadline=None)
@given(SCHEMES, SECRETS)
def test_a_password_is_never_shown(scheme: str, secret: str) -> None:
    assert MARK not in shown(f"{scheme}://ada:{quote(secret, safe='')}@db.example.com/agents")


@settings(deadline=None)
@given(SCHEMES, SECRETS)
def test_a_password_in_a_url_object_is_never_shown(scheme: str, secret: str) -> None:
    assert MARK not in shown(URL.create(scheme, "ada", secret, "db.example.com", database="x"))


@settings(deadline=None)
@given(
    SCHEMES,
    st.sampled_from(["password", "sslpassword", "passfile", "wallet_password", "PassWord"]),
    SECRETS,
)
def test_a_password_in_the_query_is_never_shown(scheme: str, name: str, secret: str) -> None:
    url = f"{scheme}://ada@db.example.com/agents?{name}={quote(secret, safe='')}&{name}=x"

    assert MARK not in shown(url)


@settings(deadline=None)
@given(SCHEMES, TYPED)
def test_a_password_that_was_not_percent_encoded_is_never_shown(scheme: str, secret: str) -> None:
    assert MARK not in shown(f"{scheme}://ada:{secret}@db.example.com/agents")


@settings(deadline=None)
@given(SECRETS)
def test_a_password_with_odd_characters_reaches_the_driver_unchanged(secret: str) -> None:
    target = parse_url(f"postgresql://ada:{quote(secret, safe='')}@db.example.com/agents")

    assert connect_arguments(target)["password"] == secret
