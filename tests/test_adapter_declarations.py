"""An adapter declares what is its own, and whatever copies, removes or shows it goes by that."""

from __future__ import annotations

import itertools
import os
import pkgutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from drawn_examples import examples
from installed_packages import install_package
from memalchemy import Checkpointer, Database, MemalchemyError, Store, adapters, integrations
from memalchemy.adapters import (
    ADAPTERS,
    AdapterDeclaration,
    ThreadParts,
    View,
    register_adapter,
)
from memalchemy.inspection import Inspector
from memalchemy.inspection.internal_items import holds_internal_items, internal_binds, places
from memalchemy.inspection.store import count_items_up_to
from memalchemy.integrations._declarations import BY_ADAPTER
from memalchemy.keys import encode_namespace
from memalchemy.log.thread_parts import main_paths, thread_parts

MODULES = [one.name for one in pkgutil.iter_modules(integrations.__path__) if one.name[0] != "_"]
"""The adapters."""


def messages_of_toy(state: Mapping[str, Any]) -> tuple[tuple[str, ...], list[Any]] | None:
    """The messages of a state of the toy's: a text with a line for each."""
    said = state.get("said")
    if not isinstance(said, str):
        return None
    return ("said",), [{"role": "user", "content": line} for line in said.splitlines()]


TOY = AdapterDeclaration(
    root="toy",
    internal=(("toy", ..., "my_index"), ("toy", "notes", ...)),
    parts=ThreadParts(lambda main, other: main == ("toy",) and other == ("toy", "scratch")),
    view=View(
        bookkeeping=("own:",),
        silent_channels=("tick:",),
        objects={"~toy": lambda stored: stored["~toy"]},
        messages=messages_of_toy,
        interrupts=lambda state: [(state["asks"], "a")] if "asks" in state else None,
    ),
)


@pytest.fixture
def toy() -> Iterator[None]:
    """The toy's declaration, for one test."""
    register_adapter(TOY)
    yield
    ADAPTERS.remove("toy")


# --- The declarations ----------------------------------------------------------------------------


def test_every_adapter_has_one_declaration() -> None:
    assert set(BY_ADAPTER) == set(MODULES)
    assert len({one.root for one in BY_ADAPTER.values()}) == len(MODULES)


def test_declarations_import_no_framework() -> None:
    code = (
        "import sys; from memalchemy.adapters import ADAPTERS; ADAPTERS.all()\n"
        "print(*{name.partition('.')[0] for name in sys.modules})"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(ran.stdout.split())

    frameworks = {"agents", "agent_framework", "claude_agent_sdk", "google", "langchain_core"}
    assert "memalchemy" in loaded
    assert not loaded & (frameworks | set(MODULES))


def test_the_frameworks_whose_checkpoints_say_where_they_were_made_are_pruned_by_that() -> None:
    declared = [one for one in ADAPTERS.all() if one.parts is not None and one.parts.origin]

    assert main_paths() == [encode_namespace((one.root,)) for one in declared]


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"root": ""}, ValueError),
        ({"root": 1}, TypeError),
        ({"internal": ((...,),)}, ValueError),
        ({"internal": ((),)}, ValueError),
        ({"internal": (("toy", None),)}, TypeError),
        ({"internal": ("toy",)}, TypeError),
        ({"internal": (("toy", "x" * 600),)}, MemalchemyError),
    ],
)
def test_a_malformed_declaration_is_refused(wrong: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        AdapterDeclaration(**{"root": "toy"} | wrong)


@pytest.mark.usefixtures("toy")
def test_a_root_is_declared_once_unless_it_is_to_be_replaced() -> None:
    other = AdapterDeclaration(root="toy")
    register_adapter(TOY)

    with pytest.raises(ValueError, match="an adapter 'toy' already"):
        register_adapter(other)
    with pytest.raises(ValueError, match="an adapter 'mem0' already"):
        register_adapter(AdapterDeclaration(root="mem0", parts=TOY.parts))
    with pytest.raises(TypeError, match=r"is no .*AdapterDeclaration"):
        register_adapter("toy")  # type: ignore[arg-type]

    register_adapter(other, replace=True)
    assert ADAPTERS.of(("toy", "x")) == other


# --- A toy adapter -------------------------------------------------------------------------------


@pytest.mark.usefixtures("toy")
async def test_internal_namespaces_are_neither_shown_nor_counted(db: Database) -> None:
    store, inspector = Store(db), Inspector(db)
    internal = [
        ("toy", "my_index"),
        ("toy", "a", "b", "my_index"),
        ("toy", "notes"),
        ("toy", "notes", "x"),
    ]
    shown = [
        ("toy",),
        ("toy", "my-index"),
        ("toy", "my_index", "x"),
        ("toy2", "my_index"),
        ("a", "my_index"),
    ]
    for namespace in (*internal, *shown):
        await store.put(namespace, "key", {"content": "a word"})
    assert [holds_internal_items(one) for one in internal] == [True] * len(internal)
    assert [holds_internal_items(one) for one in shown] == [False] * len(shown)
    assert (await inspector.overview())["items"] == len(shown)
    listed = (await inspector.items())["items"]
    assert sorted(tuple(one["namespace"]) for one in listed) == sorted(shown)
    hits = (await inspector.search("word"))["hits"]
    assert sorted(tuple(one["namespace"]) for one in hits) == sorted(shown)
    below = (await inspector.namespaces(("toy",)))["namespaces"]
    assert [(*one["namespace"], one["items"]) for one in below] == [
        ("toy", "a", 0),
        ("toy", "my-index", 1),
    ]
    everything = (await inspector.items(internal=True))["items"]
    assert len(everything) == len(shown) + len(internal)
    (note,) = (await inspector.items(("toy", "notes", "x")))["items"]
    assert note["namespace"] == ["toy", "notes", "x"]


@pytest.mark.usefixtures("toy")
async def test_a_thread_is_shown_as_its_adapter_declares(db: Database) -> None:
    steps = Checkpointer(db, namespace=("toy",))
    first = await steps.save({"said": "hello", "own:turn": 1, "mood": "calm"}, "t")
    second = await steps.save(
        {"~toy": {"said": "hello\nbye", "own:turn": 2, "mood": "glad", "asks": "sure?"}}, "t"
    )
    inspector = Inspector(db)

    found = await inspector.transcript("t", ("toy",))
    before = await inspector.transcript("t", ("toy",), at=first)
    changed = await inspector.diff("t", ("toy",), a=first, b=first)
    interrupts = await inspector.interrupts("t", ("toy",))
    added = await inspector.added_messages("t", ("toy",), at=second)

    assert [one["text"] for one in found["messages"]] == ["hello", "bye"]
    assert found["path"] == "/said"
    assert [child["key"] for child in before["rest"]["children"]] == ["mood"]
    assert changed["hidden"] == 0
    assert [(one["value"], one["id"]) for one in interrupts] == [("sure?", "a")]
    assert [one["text"] for one in added["messages"]] == ["bye"]


@pytest.mark.usefixtures("toy")
async def test_differences_leave_out_the_bookkeeping_of_the_adapter_alone(db: Database) -> None:
    for namespace, hidden in ((("toy",), 1), (("other",), 0)):
        steps = Checkpointer(db, namespace=namespace)
        a = await steps.save({"own:turn": 1, "mood": "calm"}, "t")
        b = await steps.save({"own:turn": 2, "mood": "glad"}, "t")

        found = await Inspector(db).diff("t", namespace, a=a, b=b)

        assert found["hidden"] == hidden
        assert len(found["changes"]) == 2 - hidden


@pytest.mark.usefixtures("toy")
async def test_what_copies_and_removes_a_thread_takes_its_declared_logs_along(db: Database) -> None:
    main, scratch, other = (
        Checkpointer(db, namespace=("toy", *rest)) for rest in ((), ("scratch",), ("other",))
    )
    for steps in (main, scratch, other):
        await steps.save({"n": 1}, "t")

    await main.fork("t", new_thread_id="copy")
    assert [await steps.exists("copy") for steps in (main, scratch, other)] == [True, True, False]

    await main.delete("t", all_namespaces=False)
    assert [await steps.exists("t") for steps in (main, scratch, other)] == [False, False, True]


async def test_a_prune_keeps_what_the_declared_origins_need(db: Database) -> None:
    parts = ThreadParts(
        lambda main, other: other[: len(main)] == main, lambda _, metadata: metadata.get("of")
    )
    register_adapter(AdapterDeclaration(root="toy", parts=parts))
    try:
        main, scratch = (Checkpointer(db, namespace=("toy", *rest)) for rest in ((), ("scratch",)))
        for id_ in ("1", "2", "3"):
            await main.save({"n": id_}, "t", id_)
            await scratch.save({"n": id_}, "t", f"{id_} made", {"of": id_})

        await main.prune("t", keep_last=1)

        assert [one.checkpoint_id async for one in main.history("t")] == ["3"]
        assert [one.checkpoint_id async for one in scratch.history("t")] == ["3 made"]
    finally:
        ADAPTERS.remove("toy")


# --- A package -----------------------------------------------------------------------------------

THEIRS = """
from memalchemy.adapters import AdapterDeclaration, ThreadParts, View

DECLARATION = AdapterDeclaration(
    root="theirs",
    internal=(("theirs", "index"),),
    parts=ThreadParts(lambda main, other: other == (*main, "notes")),
    view=View(messages=lambda state: (("said",), [{"role": "user", "content": state["said"]}])),
)
"""


def installed(place: Path, package: str, code: str, name: str = "theirs") -> None:
    """Put a package with a declaration into *place*."""
    install_package(place, package, adapters.GROUP, name, code, "DECLARATION")


async def test_the_command_line_goes_by_the_declaration_of_a_package(tmp_path: Path) -> None:
    installed(tmp_path, "package_f", THEIRS)
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    async with Database(f"sqlite:///{tmp_path}/a.db") as db:
        await Checkpointer(db, namespace=("theirs",)).save({"said": "good morning"}, "t")
        await Checkpointer(db, namespace=("theirs", "notes")).save({"n": 1}, "t")

    def run(*arguments: str) -> str:
        ran = subprocess.run(
            [sys.executable, "-m", "memalchemy", "--db", f"{tmp_path}/a.db", *arguments],
            env=os.environ | {"PYTHONPATH": paths},
            capture_output=True,
            text=True,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    assert "good morning" in run("show", "t", "--namespace", "theirs")
    run("delete", "t", "--namespace", "theirs", "--yes")
    async with Database(f"sqlite:///{tmp_path}/a.db") as db:
        assert not await Checkpointer(db, namespace=("theirs", "notes")).exists("t")


@pytest.mark.parametrize(
    ("code", "message"),
    [
        ("import nowhere_to_be_found", "cannot be imported: ModuleNotFoundError"),
        ("DECLARATION = 'theirs'", "is no memalchemy.adapters.AdapterDeclaration"),
        (THEIRS.replace('root="theirs"', 'root="mine"'), "declares the root 'mine'"),
    ],
    ids=["import", "class", "root"],
)
def test_an_error_names_the_package_whose_declaration_cannot_be_used(
    code: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, "package_g", code)
    monkeypatch.syspath_prepend(tmp_path)
    sys.modules.pop("package_g_module", None)

    with pytest.raises(
        MemalchemyError, match=f"the adapter 'theirs' of the package package_g .*{message}"
    ):
        thread_parts("/theirs/")


def test_a_package_cannot_replace_a_declaration_of_memalchemys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed(tmp_path, "package_h", "import nowhere_to_be_found", name="langgraph")
    monkeypatch.syspath_prepend(tmp_path)

    assert ADAPTERS.get("langgraph") is BY_ADAPTER["langgraph"]


# --- Patterns of namespaces ----------------------------------------------------------------------

PARTS = st.text(alphabet="ab_%\\/~-é", max_size=3)
PATTERNS = st.lists(st.one_of(PARTS, st.just(...)), min_size=1, max_size=4).map(tuple)


def belongs(pattern: tuple[Any, ...], namespace: tuple[str, ...]) -> bool:
    """Whether a namespace is of a pattern, told part by part."""
    if not pattern:
        return not namespace
    if pattern[0] is ...:
        return any(belongs(pattern[1:], namespace[at:]) for at in range(len(namespace) + 1))
    return namespace[:1] == pattern[:1] and belongs(pattern[1:], namespace[1:])


def namespaces_near(pattern: tuple[Any, ...]) -> st.SearchStrategy[tuple[str, ...]]:
    """Namespaces of a pattern, and those in which a part is another."""
    some = st.lists(PARTS, max_size=2).map(tuple)
    each = [some if part is ... else st.one_of(st.just((part,)), some) for part in pattern]
    return st.tuples(*each).map(lambda parts: tuple(itertools.chain(*parts)))


@pytest.mark.parametrize("adapter", [name for name in BY_ADAPTER if BY_ADAPTER[name].internal])
@given(data=st.data())
@settings(max_examples=examples(50))
def test_the_internal_namespaces_of_an_adapter_are_those_of_its_patterns(
    adapter: str, data: st.DataObject
) -> None:
    for pattern in BY_ADAPTER[adapter].internal:
        namespace = data.draw(namespaces_near(pattern))
        assume(namespace)
        every = [one for name in BY_ADAPTER for one in BY_ADAPTER[name].internal]
        own = namespace[-1:] == ("by time",)

        assert holds_internal_items(namespace) == (
            own or any(belongs(one, namespace) for one in every)
        )


@given(data=st.data())
@settings(
    max_examples=examples(100),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
async def test_the_database_matches_patterns_as_the_library_does(
    db: Database, data: st.DataObject
) -> None:
    pattern = data.draw(PATTERNS.filter(lambda one: any(part is not ... for part in one)))
    register_adapter(AdapterDeclaration(root="toy", internal=(pattern,)), replace=True)
    try:
        namespace = data.draw(namespaces_near(pattern))
        assume(namespace)
        store = Store(db)
        await store.put(namespace, "key", 1)
        counted = await count_items_up_to(db, (), below=True, most=10)
        await store.delete(namespace, "key")

        assert holds_internal_items(namespace) == belongs(pattern, namespace)
        assert counted == int(not holds_internal_items(namespace))
    finally:
        ADAPTERS.remove("toy")


async def test_many_patterns_have_a_place_in_the_statements(db: Database) -> None:
    many = tuple(("toy", f"index {at}") for at in range(adapters.MOST_PATTERNS - 10))
    register_adapter(AdapterDeclaration(root="toy", internal=many))
    try:
        for namespace in (many[-1], ("toy", "shown")):
            await Store(db).put(namespace, "key", 1)

        assert places() > len(many)
        assert len(internal_binds(shown=False)) == places()
        assert await count_items_up_to(db, (), below=True, most=10) == 1
        assert len((await Inspector(db).items())["items"]) == 1

        too_many = tuple(("toy", f"index {at}") for at in range(adapters.MOST_PATTERNS + 1))
        register_adapter(AdapterDeclaration(root="toy", internal=too_many), replace=True)
        with pytest.raises(MemalchemyError, match="below one namespace of each adapter"):
            await Inspector(db).items()
    finally:
        ADAPTERS.remove("toy")
