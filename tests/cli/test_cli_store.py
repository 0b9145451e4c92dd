"""The store commands."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from commandline import Answer, Call, lines, process

from lifetimes import MOMENT
from memalchemy import Database, Store
from memalchemy.cli.parsers import format_namespace, parse_namespace
from memalchemy.keys import encode_namespace

ITEM = {
    "namespace", "key", "value", "metadata", "created_at", "updated_at", "version", "expires_at",
}  # fmt: skip
EXOTIC = {
    "day": date(2026, 3, 1),
    "at": datetime(2026, 3, 1, 12, 30, tzinfo=UTC),
    "bytes": b"\x00\xff",
    "set": {3, 1, 2},
    "tuple": (1, (2.0, True)),
    "price": Decimal("1.50"),
    "id": UUID(int=1),
    "large": 2**80,
    "infinite": float("-inf"),
    "surrogate": "\ud800",
    "~b": {"~t": "no tag"},
    "none": None,
}


def on(url: str, work: Callable[[Store], Coroutine[Any, Any, Any]]) -> Any:
    """Run *work* with the store of the database, and return its result."""

    async def whole() -> Any:
        async with Database(url) as db:
            return await work(Store(db))

    return asyncio.run(whole())


Run = Callable[..., Answer]


@pytest.fixture
def run(file_url: str, call: Call) -> Run:
    """Call a store command on a SQLite file with the schema."""
    assert call("--db", file_url, "upgrade").code == 0
    return lambda *arguments, **more: call("--db", file_url, "store", *arguments, **more)


@pytest.fixture
def memories(run: Run) -> Run:
    """Call a store command on a file with three items."""
    likes = '{"text": "Ada likes green tea"}'
    assert run("put", "users/ada", "likes", likes, "--metadata", '{"kind": "note"}').code == 0
    assert run("put", "users/ada/old", "cat", "a cat named Tom", "--text").code == 0
    assert run("put", "users/bob", "likes", '{"text": "coffee"}').code == 0
    return run


def everything(run: Run) -> str:
    return run("export").out


def test_an_item_is_put_read_found_and_removed(url: str, call: Call) -> None:
    store = ("--db", url, "store")
    assert call("--db", url, "upgrade").code == 0
    value = '{"text": "Ada likes green tea", "stars": 5}'
    assert call(*store, "put", "users/ada", "likes", value, "--json").json["version"] == 1
    assert (
        call(*store, "put", "users/ada", "likes", value).out == "version 2 of likes in users/ada\n"
    )
    assert call(*store, "put", "users/ada/notes", "n", "[]", "--ttl", "1d").code == 0
    assert call(*store, "get", "users/ada", "likes").json == json.loads(value)
    assert set(call(*store, "get", "users/ada", "likes", "--json").json) == ITEM
    assert [row["key"] for row in call(*store, "ls", "users", "--prefix", "--json").json] == [
        "likes",
        "n",
    ]
    assert call(*store, "ls", "--json").json == [
        {"namespace": ["users", "ada"], "items": 1},
        {"namespace": ["users", "ada", "notes"], "items": 1},
    ]
    (hit,) = call(*store, "search", "users", "TEA", "--prefix", "--json").json
    assert (hit["key"], hit["score"], set(hit)) == ("likes", 1.0, ITEM | {"score"})
    assert call(*store, "sweep", "--json").json == {"removed": 0}
    assert call(*store, "rm", "users/ada", "likes").code == 0
    assert call(*store, "rm", "/", "--all", "--prefix", "--yes", "--json").json == {"removed": 1}
    assert call(*store, "ls", "--json").json == []


# --- Namespaces and keys --------------------------------------------------------------------------


@pytest.mark.parametrize(
    "parts",
    [(), ("a",), ("a", "b/c"), ("~", "/", "~1"), ("",), ("", "a"), ("a", ""), ("", ""),
     ("a", "", "b"), ("日本", "é\x00")],
)  # fmt: skip
def test_every_namespace_can_be_written(parts: tuple[str, ...]) -> None:
    assert parse_namespace(format_namespace(parts)) == parts
    assert parse_namespace(encode_namespace(parts)) == parts


def test_parts_may_hold_slashes_and_tildes(run: Run) -> None:
    run("put", "a~1b/c~0d", "k", "1")

    assert run("ls", "--json").json == [{"namespace": ["a/b", "c~d"], "items": 1}]
    assert "a~1b/c~0d" in run("ls").out
    assert run("get", "/a~1b/c~0d/", "k").out == "1\n"
    assert run("get", "a/b/c~0d", "k").code == 1


def test_the_root_holds_items_of_its_own(memories: Run) -> None:
    memories("put", "/", "a", "null")

    assert [item["key"] for item in memories("ls", "/", "--json").json] == ["a"]
    assert memories("get", "/", "a").out == "null\n"
    assert len(memories("ls", "/", "--prefix", "--json").json) == 4


# --- ls -------------------------------------------------------------------------------------------


def test_items_are_listed_by_key_or_the_newest_first(run: Run) -> None:
    for key in ("b", "a", "c"):
        run("put", "n", key, "1")

    assert [item["key"] for item in run("ls", "n", "--json").json] == ["a", "b", "c"]
    assert [item["key"] for item in run("ls", "n", "--newest", "--json").json] == ["c", "a", "b"]


def test_a_list_is_limited_and_says_so(memories: Run) -> None:
    answer = memories("ls", "/", "--prefix", "--limit", "2")

    assert "bob" not in answer.out
    assert answer.err == "only the first 2; --limit shows more\n"
    assert memories("ls", "/", "--prefix", "--limit", "3").err == "3 items\n"


def test_a_list_can_be_filtered(memories: Run) -> None:
    found = memories("ls", "/", "--prefix", "--filter", '{"kind": "note"}', "--json").json

    assert [item["key"] for item in found] == ["likes"]


def test_namespaces_are_listed_below_one(memories: Run) -> None:
    found = memories("ls", "users/ada", "--namespaces", "--json").json

    assert [row["namespace"] for row in found] == [["users", "ada"], ["users", "ada", "old"]]


def test_the_text_of_an_item_cannot_control_the_terminal(run: Run) -> None:
    run("put", "n", "k\x1b[31m", '"\\u001b[2J"')

    assert "\x1b" not in run("ls", "n").out
    assert "\x1b" not in run("get", "n", "k\x1b[31m").out


# --- put ------------------------------------------------------------------------------------------


def test_a_value_comes_from_the_line_from_a_file_or_from_stdin(run: Run, tmp_path: Path) -> None:
    (tmp_path / "v.json").write_text('{"from": "a file"}')
    run("put", "n", "line", '"é"')
    run("put", "n", "file", f"@{tmp_path}/v.json")
    run("put", "n", "stdin", "-", stdin="[1, 2.0]")
    run("put", "n", "text", "-", "--text", stdin="[1, 2]\n")
    run("put", "n", "dash", "--", "-1")

    values = {item["key"]: item["value"] for item in run("ls", "n", "--json").json}
    assert values == {
        "line": "é",
        "file": {"from": "a file"},
        "stdin": [1, 2.0],
        "text": "[1, 2]\n",
        "dash": -1,
    }


def test_ttl_sets_the_lifetime_of_an_item(run: Run) -> None:
    run("put", "n", "k", "1", "--ttl", "30d")
    item = run("get", "n", "k", "--json").json

    left = datetime.fromisoformat(item["expires_at"]) - datetime.fromisoformat(item["updated_at"])
    assert left == timedelta(days=30)
    run("put", "n", "k", "1")
    assert run("get", "n", "k", "--json").json["expires_at"] is None


def test_put_and_rm_check_the_expected_version(run: Run) -> None:
    assert run("put", "n", "k", "1", "--expected-version", "none").code == 0
    assert run("put", "n", "k", "2", "--expected-version", "1").code == 0

    for expected in ("none", "1", "3"):
        refused = run("put", "n", "k", "9", "--expected-version", expected)
        assert refused.code == 4
        assert refused.err.startswith("error [MA-CONFLICT]: ")
    assert run("get", "n", "k").out == "2\n"
    assert run("rm", "n", "k", "--expected-version", "1").code == 4
    assert run("rm", "n", "k", "--expected-version", "2").code == 0


# --- What makes no sense --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("put", "users/ada", "likes", "tea"), "VALUE is not JSON"),
        (("put", "users/ada", "likes", "tea"), "for plain text add --text"),
        (("put", "users/ada", "likes", "NaN"), "VALUE is not JSON"),
        (
            ("put", "users/ada", "likes", "1e400"),
            "VALUE is not JSON (the number 1e400",
        ),
        (("put", "users/ada", "likes", "1", "--metadata", '{"n": 1e400}'), "1e400 is too large"),
        (("search", "users/ada", "tea", "--filter", '{"n": -1e400}'), "-1e400 is too large"),
        (("put", "users/ada", "likes", "[" * 100_000), "VALUE is nested too deep"),
        (("put", "users/ada", "likes", "@/nowhere.json"), "cannot read /nowhere.json"),
        (
            ("put", "users/ada", "likes", "1", "--metadata", "[]"),
            "must be a JSON object",
        ),
        (("put", "users/ada", "likes", "1", "--metadata", "kind=note"), "--metadata is not JSON"),
        (("put", "users/ada", "likes", "1", "--ttl", "soon"), "is not a duration"),
        (("put", "users/ada", "likes", "1", "--ttl", "0d"), "ttl must be longer than zero"),
        (("put", "users/ada", "likes", "1", "--expected-version", "0"), "is not a version"),
        (("put", "users/ada", "likes", "1", "--expected-version", "-1"), "is not a version"),
        (("put", "users/a~da", "likes", "1"), "a ~ in a part is written ~0"),
        (("put", "", "likes", "1"), "/ is the root"),
        (("rm", "users/ada"), "exactly one of KEY or --all"),
        (("rm", "users/ada", "likes", "--all"), "exactly one of KEY or --all"),
        (("rm", "users/ada", "likes", "--prefix"), "--prefix goes with --all"),
        (("rm", "users/ada", "likes", "--expected-version", "none"), "must be a version"),
        (("rm", "users/ada", "--all", "--expected-version", "1"), "goes with KEY"),
        (("ls", "--prefix"), "name a namespace"),
        (("ls", "users", "--namespaces", "--filter", "{}"), "name a namespace"),
        (("ls", "users", "--filter", "{"), "--filter is not JSON"),
        (("ls", "users", "--filter", '{"a": {"$foo": 1}}'), "unknown operator '$foo'"),
        (("search", "users"), "give QUERY, --embedding or both"),
        (("search", "users", "--embedding", "0.1"), "--embedding must be a list of numbers"),
        (("search", "users", "--embedding", '["a"]'), "must hold numbers"),
        (("search", "users", "--embedding", "[0, 0]"), "which cannot be compared"),
        (("import", "-", "--skip", "--overwrite"), "not both"),
    ],
)
def test_a_mistake_is_a_one_line_error_and_changes_nothing(
    memories: Run, arguments: tuple[str, ...], said: str
) -> None:
    before = everything(memories)

    answer, told = memories(*arguments), memories(*arguments, "--json")

    assert answer.code == told.code == 2
    assert answer.out == told.out == ""
    assert answer.err.startswith("error [MA-USAGE]: ")
    assert said in answer.err
    assert answer.err.count("\n") == told.err.count("\n") == 1
    error = json.loads(told.err)["error"]
    assert answer.err == f"error [MA-USAGE]: {error['message']}\n"
    assert everything(memories) == before


@pytest.mark.parametrize(
    "arguments",
    [("search", "users", "x", "--threshold", "2"), ("search", "users", "x", "--metric", "far"),
     ("ls", "users", "--limit", "0"), ("put", "users", "k"), ("nothing",), ("get", "users")],
)  # fmt: skip
def test_an_option_with_a_wrong_value_shows_the_usage(
    memories: Run, arguments: tuple[str, ...]
) -> None:
    answer = memories(*arguments)

    assert answer.code == 2
    assert "Usage: " in answer.err


def test_a_missing_file_is_not_created(call: Call, file_url: str) -> None:
    for arguments in (("put", "n", "k", "1"), ("ls",), ("sweep",), ("export",)):
        assert call("--db", file_url, "store", *arguments).code == 3
    assert not Path(file_url.removeprefix("sqlite:///")).exists()


# --- rm and sweep ---------------------------------------------------------------------------------


def test_removing_a_namespace_asks_and_takes_only_yes(memories: Run) -> None:
    before = everything(memories)
    for reply in ("n\n", "", "\n"):
        refused = memories("rm", "users/ada", "--all", "--prefix", stdin=reply)
        assert refused.code == 4
        assert "Remove 2 items of users/ada and all below it" in refused.err
        assert "error [MA-NOT-CONFIRMED]: nothing was removed" in refused.err
    assert everything(memories) == before

    assert memories("rm", "users/ada", "--all", stdin="y\n").out == "1 item removed\n"
    assert memories("rm", "users/ada", "--all", "--prefix", "--yes").out == "1 item removed\n"
    assert memories("rm", "users/ada", "--all", "--prefix", "--yes").code == 1
    assert [row["namespace"] for row in memories("ls", "--json").json] == [["users", "bob"]]


def test_sweep_counts_expired_items(memories: Run, file_url: str) -> None:
    async def short_lived(store: Store) -> None:
        await store.put_batch([(("n",), f"k{n}", n) for n in range(3)], ttl=MOMENT)

    on(file_url, short_lived)

    assert memories("get", "n", "k0").code == 1
    assert memories("sweep").out == "3 expired items removed\n"
    assert memories("sweep", "--json").json == {"removed": 0}


# --- search ---------------------------------------------------------------------------------------


def test_a_search_stays_in_its_namespace_without_prefix(memories: Run) -> None:
    assert memories("search", "users", "likes tea", "--json").json == []
    hint = "--prefix searches the namespaces below"
    assert hint in memories("search", "users", "likes tea").err
    assert hint not in memories("search", "users", "nowhere to be found", "--prefix").err
    assert hint not in memories("search", "users/ada", "tea cat").err
    assert len(memories("search", "users/ada", "tea cat", "--json").json) == 1
    found = memories("search", "users/ada", "tea cat", "--prefix", "--json").json
    assert {hit["key"] for hit in found} == {"likes", "cat"}
    (limited,) = memories(
        *("search", "users/ada", "green tea cat", "--prefix", "--threshold", "0.6", "--json")
    ).json
    assert limited["key"] == "likes"


def test_a_search_finds_any_of_the_words_or_all(memories: Run) -> None:
    words = ("search", "users", "coffee tea", "--prefix", "--json")
    assert len(memories(*words, "--match", "any").json) == len(memories(*words).json) == 2
    assert memories(*words, "--match", "all").json == []
    words = ("search", "users", "green tea", "--prefix", "--json")
    assert [hit["key"] for hit in memories(*words, "--match", "all").json] == ["likes"]
    vector = ("search", "users", "--embedding", "[1, 0]", "--match", "all")
    assert "match= is for the modes text and hybrid" in memories(*vector).err


def test_a_search_says_that_it_went_by_words(memories: Run, file_url: str) -> None:
    on(file_url, lambda store: store.put(("users", "ada"), "k", "a mug", embedding=[1.0, 0.0]))
    answer = memories("search", "users/ada", "mug", "--embedding", "[1, 0, 0]")

    assert "a mug" in answer.out
    assert "3 dimensions" in answer.err
    assert "the search went by words alone\n" in answer.err
    assert "Warning" not in answer.err


def test_a_search_shows_where_it_found_the_words(memories: Run) -> None:
    answer = memories("search", "users", "coffee", "--prefix", "--explain")

    assert "users/bob" in answer.out
    assert "coffee" in answer.out
    assert "text: " in answer.out
    explained = memories("search", "users", "coffee", "--prefix", "--explain", "--json").json
    assert [hit["key"] for hit in explained["hits"]] == ["likes"]
    assert set(explained["plans"][0]) == {"strategy", "reason", "details"}


def test_an_explained_search_says_that_there_are_no_vectors(memories: Run) -> None:
    answer = memories("search", "users/ada", "--embedding", "[1, 0]", "--explain")

    assert "there are no vectors of the model 'default' here" in answer.out
    assert answer.err == "0 items\n--prefix searches the namespaces below as well\n"


def test_one_item_is_counted_as_one(memories: Run) -> None:
    assert memories("ls", "users/ada").err == "1 item\n"
    assert memories("ls", "users", "--prefix").err == "3 items\n"
    assert memories("ls", "users/bob", "--namespaces").err == "1 namespace\n"


def test_a_search_by_vector_finds_the_nearest_items(
    memories: Run, file_url: str, tmp_path: Path
) -> None:
    async def fill(store: Store) -> None:
        await store.put(("v",), "east", {"n": 1}, embedding=[1.0, 0.1])
        await store.put(("v",), "north", {"n": 2, "t": "cold"}, embedding=[0.0, 1.0])
        await Store(store.db, model="other").put(("v",), "else", 1, embedding=[1.0, 0.0])

    on(file_url, fill)
    (tmp_path / "v.json").write_text("[1, 0]")

    def keys(*arguments: str) -> list[str]:
        return [hit["key"] for hit in memories("search", "v", *arguments, "--json").json]

    assert keys("--embedding", "[1, 0]") == ["east", "north"]
    assert keys("--embedding", f"@{tmp_path}/v.json", "--limit", "1") == ["east"]
    assert keys("--embedding", "[1, 0]", "--filter", '{"n": 2}') == ["north"]
    assert keys("--embedding", "[1, 0]", "--threshold", "0.9", "--metric", "dot") == ["east"]
    assert keys("--embedding", "[1, 0]", "--model", "other") == ["else"]
    assert keys("cold", "--embedding", "[1, 0]") == ["north", "east"]


# --- export and import ----------------------------------------------------------------------------


def test_exported_items_are_imported_unchanged(
    url: str, call: Call, file_url: str, tmp_path: Path
) -> None:
    there, here = f"{file_url}.other", url

    async def fill(store: Store) -> None:
        await store.put(("a", "b/c"), "exotic", EXOTIC, {"kind": "note", "n": [1, 2.5, None]})
        await store.put(("a",), "key\udc80", None, ttl=3600)
        vectors = {"title": [0.1, 0.2], "/parts": [[1.0, 2.0], [3.0, -4.0]]}
        await store.put(("a",), "v", 1, embedding=vectors)

    async def all_items(store: Store) -> Any:
        items = await store.list_items((), prefix=True, order="key")
        numbers = [
            np.float32(await store.get_embedding(("a",), "v", field=field, part=part)).tolist()
            for field, part in (("title", 0), ("/parts", 0), ("/parts", 1))
        ]
        return [
            (i.namespace, i.key, repr(i.value), i.metadata, i.expires_at) for i in items
        ], numbers

    assert call("--db", there, "upgrade").code == call("--db", here, "upgrade").code == 0
    on(there, fill)
    for source, target in ((there, here), (here, f"{file_url}.third")):
        file = str(tmp_path / "items.jsonl")
        exported = call("--db", source, "store", "export", "--vectors", "-o", file, "--json")
        assert (exported.code, exported.json) == (0, {"items": 3, "file": file})
        imported = call("--db", target, "store", "import", file, "--json")
        assert (imported.code, imported.json["items"]["imported"]) == (0, 3), imported.err
        assert on(target, all_items) == on(source, all_items)


def test_vectors_of_several_models_are_exported_and_imported(
    run: Run, file_url: str, call: Call
) -> None:
    rows = [
        {"field": "", "model": model, "part": 0, "vector": [0.5, number]}
        for number, model in enumerate(("one", "two"))
    ]
    given = {"namespace": ["n"], "key": "k", "value": 1, "vectors": rows}

    assert run("import", "-", stdin=lines(given)).code == 0

    assert json.loads(run("export", "--vectors").out)["vectors"] == rows
    assert "vectors" not in json.loads(everything(run))


def test_an_export_covers_one_namespace_or_all(memories: Run) -> None:
    def keys(*arguments: str) -> list[Any]:
        return [json.loads(line)["key"] for line in memories("export", *arguments).out.splitlines()]

    assert keys() == ["likes", "cat", "likes"]
    assert keys("users/ada") == ["likes"]
    assert keys("users/ada", "--prefix") == ["likes", "cat"]
    assert keys("nothing") == []


def test_a_file_of_items_appears_when_it_is_complete(memories: Run, tmp_path: Path) -> None:
    refused = memories("export", "-o", str(tmp_path / "nowhere" / "items.jsonl"))

    assert refused.code == 2
    assert refused.err.startswith("error [MA-")
    assert memories("export", "-o", str(tmp_path / "items.jsonl")).out.startswith("3 items in ")
    assert not list(tmp_path.glob(".*"))


def test_an_import_twice_changes_nothing(memories: Run) -> None:
    exported = everything(memories)

    again = memories("import", "-", "--json", stdin=exported)

    assert again.code == 0
    assert again.json["items"]["unchanged"] == 3
    assert everything(memories) == exported


@pytest.mark.parametrize(
    ("option", "code", "status", "value"),
    [(None, 4, "conflict", 1), ("--skip", 0, "skipped", 1), ("--overwrite", 0, "overwritten", 2)],
)
def test_an_item_that_exists_and_differs_is_a_conflict_or_skipped_or_overwritten(
    run: Run, option: str | None, code: int, status: str, value: int
) -> None:
    run("put", "n", "k", "1")
    given = lines({"namespace": ["n"], "key": "k", "value": 2})

    answer = run("import", "-", *filter(None, [option]), "--json", stdin=given)

    assert (answer.code, answer.json["items"][status]) == (code, 1)
    assert run("get", "n", "k").json == value
    if option is None:
        assert answer.err.startswith("line 1 (k in n): an item of this namespace and key is there")
        assert answer.json["problems"][0]["line"] == 1


@pytest.mark.parametrize("other", [True, 1.0, "1"])
def test_values_that_python_takes_for_equal_are_a_conflict(run: Run, other: Any) -> None:
    run("put", "n", "k", "1")

    assert (
        run("import", "-", stdin=lines({"namespace": ["n"], "key": "k", "value": other})).code == 4
    )


GOOD = {"namespace": ["n"], "key": "good", "value": 1}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("{", "is not JSON"),
        ("[]", "is not a JSON object"),
        ('{"namespace": ["n"], "key": "k", "value": NaN}', "JSON has no NaN"),
        ('{"namespace": ["n"], "key": "k", "value": [-1e400]}', "-1e400 is too large"),
        ("[" * 100_000, "is nested too deep"),
        ({"namespace": ["n"], "key": "k"}, "has no 'value'"),
        ({"namespace": "n", "key": "k", "value": 1}, "a namespace that is not a list"),
        ({"namespace": [1], "key": "k", "value": 1}, "has a namespace that is not a list of texts"),
        ({"namespace": [], "key": 1, "value": 1}, "has a key that is not a text"),
        (GOOD | {"key": "k" * 300}, "key"),
        (GOOD | {"metdata": {}}, "has a field that no item has: 'metdata'"),
        (GOOD | {"metadata": []}, "metadata is a mapping"),
        (GOOD | {"value": {"~b": "?"}}, "a tag that cannot be read"),
        (GOOD | {"expires_at": "soon"}, "not a time in ISO 8601"),
        (GOOD | {"expires_at": "2999-01-01T00:00:00"}, "without an offset"),
        (GOOD | {"vectors": {}}, "'vectors' that are not a list"),
        (GOOD | {"vectors": [{"vector": [1.0]}]}, "a vector that is not {field, model, part"),
        (GOOD | {"vectors": [{"field": "", "model": "m", "part": 0, "vector": [0]}]}, "is zero"),
    ],
)  # fmt: skip
def test_a_bad_line_is_reported_and_nothing_of_its_batch_is_written(
    memories: Run, line: Any, said: str
) -> None:
    before = everything(memories)

    answer = memories("import", "-", "--overwrite", stdin=lines(GOOD, "", line, GOOD))

    assert answer.code == 4
    assert answer.err.startswith("line 3: ")
    assert said in answer.err
    assert answer.out.startswith("items: 1 bad, 2 left")
    assert everything(memories) == before


def test_the_other_batches_of_an_import_are_written(run: Run) -> None:
    given: list[Any] = [{"namespace": ["n"], "key": f"{n:04}", "value": n} for n in range(1200)]
    given[700] = "no item"

    answer = run("import", "-", "--json", stdin=lines(*given))

    assert answer.code == 4
    assert answer.json["problems"][0]["line"] == 701
    counts = answer.json["items"]
    assert (counts["imported"], counts["bad"], counts["left"]) == (700, 1, 499)
    assert len(run("ls", "n", "--limit", "2000", "--json").json) == 700
    given[700] = {"namespace": ["n"], "key": "0700", "value": 700}
    corrected = run("import", "-", "--json", stdin=lines(*given))
    assert corrected.code == 0
    assert (corrected.json["items"]["imported"], corrected.json["items"]["unchanged"]) == (500, 700)


def test_an_expired_item_is_not_imported(run: Run) -> None:
    given = lines(GOOD | {"expires_at": "2020-01-01T00:00:00+00:00"}, GOOD | {"key": "other"})

    answer = run("import", "-", "--json", stdin=given)

    assert answer.code == 0
    assert (answer.json["items"]["expired"], answer.json["items"]["imported"]) == (1, 1)
    assert run("get", "n", "good").code == 1


def test_the_last_line_of_a_repeated_key_wins_with_overwrite(run: Run) -> None:
    given = lines(GOOD, GOOD | {"value": 2})

    assert run("import", "-", stdin=given).code == 4
    assert run("import", "-", "--overwrite", stdin=given).code == 0
    assert run("get", "n", "good").out == "2\n"


def test_an_import_creates_a_file_with_its_schema(call: Call, file_url: str) -> None:
    assert call("--db", file_url, "store", "import", "-", stdin=lines(GOOD)).code == 0
    assert call("--db", file_url, "store", "get", "n", "good").out == "1\n"
    assert call("--db", file_url, "check").code == 0


def test_tenants_do_not_see_each_others_items(memories: Run, call: Call, file_url: str) -> None:
    other = ("--db", file_url, "--tenant", "acme", "store")

    assert call(*other, "ls", "--json").json == []
    assert call(*other, "import", "-", stdin=everything(memories)).code == 0
    assert call(*other, "rm", "/", "--all", "--prefix", "--yes").out == "3 items removed\n"
    assert len(memories("ls", "--json").json) == 3


def test_an_export_can_be_piped_into_an_import(memories: Run, file_url: str) -> None:
    exported = process("--db", file_url, "store", "export")
    copied = process("--db", f"{file_url}.copy", "store", "import", "-", input=exported.stdout)

    assert (copied.returncode, exported.stderr) == (0, "3 items\n")
    assert copied.stdout.startswith("items: 3 imported, in ")
