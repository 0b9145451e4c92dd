"""`memalchemy reembed`: items that were imported without vectors are found by meaning."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from commandline import Call, environment, process

import embedders
from memalchemy.codec.secret_keys import generate_key
from waiting import A_WHILE, wait_until

SINCE = ("--embedder", embedders.NAME)
"""How the function is named that makes vectors."""


@pytest.fixture
def imported(url: str, call: Call) -> str:
    """A database with items without vectors in three namespaces."""
    assert call("--db", url, "upgrade").code == 0
    items = [
        {"namespace": [path], "key": f"k{n}", "value": {"title": f"word{n}", "body": "other"}}
        for path in ("docs", "notes")
        for n in range(7)
    ]
    items.append({"namespace": ["docs", "deep"], "key": "number", "value": 5})
    given = "\n".join(map(json.dumps, items))
    assert call("--db", url, "store", "import", "-", stdin=given).code == 0
    return url


def test_imported_items_are_found_by_meaning_afterwards(imported: str, call: Call) -> None:
    vector = json.dumps(embedders.embed(["word3"])[0])
    looking = ("--db", imported, "store", "search", "docs", "--embedding", vector, "--explain")
    before = call(*looking, "--json").json
    assert before["hits"] == []
    assert before["plans"][1]["details"] == {"items": 7}
    assert "passed over: items without a vector" in call(*looking).out
    where = ("--db", imported, "reembed", "--namespace", "docs", *SINCE)

    rehearsed = call(*where, "--dry-run")
    assert rehearsed.code == 0
    assert "7 items would get 7 vectors of the model 'default'" in rehearsed.out
    assert call(*looking, "--json").json["hits"] == []
    answer = call(*where)

    assert answer.code == 0
    assert "7 items got 7 vectors of the model 'default'" in answer.out
    assert "1 item without text to embed" in answer.out
    after = call(*looking, "--json").json
    assert len(after["plans"]) == 1
    assert after["hits"][0]["key"] == "k3" or len(after["hits"]) == 7
    again = call(*where, "--json").json
    assert again == {
        **dict.fromkeys(("embedded", "vectors", "removed", "left", "damaged"), 0),
        **{"textless": 1, "left_out": [], "seconds": again["seconds"], "dry_run": False},
    }


@pytest.mark.parametrize(
    ("options", "embedded", "vectors"),
    [
        (("--all-namespaces",), 14, 14),
        (("--namespace", "docs", "--namespace", "notes"), 14, 14),
        (("--namespace", "docs", "--namespace", "/docs/deep", "--namespace", "docs"), 7, 7),
        (("--namespace", "/notes", "--index", "title", "--index", "body"), 7, 14),
        (("--namespace", "absent"), 0, 0),
        (("--all-namespaces", "--only-embedded"), 0, 0),
        (("--all-namespaces", "--batch-size", "2", "--model", "other", "--again"), 14, 14),
    ],
    ids=lambda one: " ".join(one) if isinstance(one, tuple) else str(one),
)
def test_what_is_embedded_is_chosen(
    imported: str, call: Call, options: tuple[str, ...], embedded: int, vectors: int
) -> None:
    for dry in ("--dry-run",), ():
        found = call("--db", imported, "reembed", *SINCE, *options, *dry, "--json").json
        assert (found["embedded"], found["vectors"], found["dry_run"]) == (
            *(embedded, vectors),
            bool(dry),
        )


def test_one_model_takes_the_place_of_another(imported: str, call: Call) -> None:
    where = ("--db", imported, "reembed", "--all-namespaces", *SINCE, "--json")
    assert call(*where, "--model", "old").json["embedded"] == 14
    found = call(*where, "--model", "new", "--replace-model", "old").json
    assert (found["embedded"], found["removed"]) == (14, 14)
    again = call(*where, "--model", "new", "--replace-model", "old").json
    assert (again["embedded"], again["removed"]) == (0, 0)


FUNCTIONS = ("embed", "embed_slowly", "model.embed_documents")


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_are_named_by_a_file_or_a_module(
    imported: str, call: Call, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    file = Path(embedders.__file__)
    monkeypatch.chdir(file.parent)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for given in (f"{file}:{name}", f"embedders:{name}", f"embedders.py:{name}"):
        options = ("--namespace", "docs", "--again", "--embedder", given, "--json")
        assert call("--db", imported, "reembed", *options).json["embedded"] == 7, given
    monkeypatch.setenv("MEMALCHEMY_EMBEDDER", f"embedders:{name}")
    assert call("--db", imported, "reembed", "--namespace", "notes", "--json").json["embedded"] == 7


def test_a_module_of_the_current_directory_is_found(file_url: str, tmp_path: Path) -> None:
    (tmp_path / "app_with_embedder.py").write_text(
        "def embed(texts):\n    return [[1.0]] * len(texts)\n"
    )
    assert process("--db", file_url, "upgrade").returncode == 0
    put = ("store", "put", "docs", "k", '"text"')
    assert process("--db", file_url, *put).returncode == 0
    command = ("reembed", "--namespace", "docs", "--embedder", "app_with_embedder:embed", "--json")
    answer = process("--db", file_url, *command, cwd=tmp_path)
    assert answer.returncode == 0, answer.stderr
    assert json.loads(answer.stdout)["embedded"] == 1


@pytest.mark.parametrize(
    ("options", "what"),
    [
        ((), "give --namespace"),
        (("--namespace", "docs", "--all-namespaces"), "give --namespace"),
        (("--namespace", "docs"), "--embedder MODULE:FUNCTION"),
        (("--namespace", "docs", "--embedder", "embed"), "module:ATTRIBUTE"),
        (("--namespace", "docs", "--embedder", "no_such_module:embed"), "no_such_module"),
        (("--namespace", "docs", "--embedder", "embedders:absent"), "absent"),
        (("--namespace", "docs", "--embedder", "/no/such/file.py:embed"), "/no/such/file.py"),
        (("--namespace", "docs", "--embedder", "embedders:NO_FUNCTION"), "is int, and no function"),
        (("--namespace", "docs", "--embedder", "{broken}:embed"), "ZeroDivisionError"),
        (("--namespace", "docs", *SINCE, "--replace-model", "default"), "again"),
        (("--namespace", "docs", *SINCE, "--batch-size", "0"), "batch-size"),
        (("--namespace", "docs", *SINCE, "--model", "m" * 129), "at most 128 characters"),
        (("--namespace", "docs", *SINCE, "--index", "f" * 129), "at most 128 characters"),
    ],
    ids=lambda one: one if isinstance(one, str) else "",
)
def test_wrong_usage_says_what_is_wrong_and_changes_nothing(
    imported: str, call: Call, tmp_path: Path, options: tuple[str, ...], what: str
) -> None:
    broken = tmp_path / "broken.py"
    broken.write_text("1 / 0\n")
    given = [one.replace("{broken}", str(broken)) for one in options]
    answer = call("--db", imported, "reembed", *given)
    assert answer.code == 2
    assert what in answer.err
    found = call("--db", imported, "reembed", "--all-namespaces", *SINCE, "--dry-run", "--json")
    assert found.json["embedded"] == 14


def test_a_function_that_does_not_work_ends_the_command(imported: str, call: Call) -> None:
    name = embedders.NAME.replace(":embed", ":refuse")
    answer = call("--db", imported, "reembed", "--namespace", "docs", "--embedder", name, "--json")
    assert answer.code == 1
    error = json.loads(answer.err)["error"]
    assert error["code"] == "MA-EMBEDDER"
    assert "OSError: no route to the model" in error["message"]


def test_an_item_that_the_function_refuses_is_named(imported: str, call: Call) -> None:
    call("--db", imported, "store", "put", "docs", "long", json.dumps("word " * 40))
    name = embedders.NAME.replace(":embed", ":refuse_long")
    answer = call("--db", imported, "reembed", "--namespace", "docs", "--embedder", name)
    assert answer.code == 1
    assert "7 items got 7 vectors" in answer.out
    assert "1 were left" in answer.out
    assert "'long' in docs: the embedder refused it: ValueError: a text is too long" in answer.out


def test_every_tenant_may_be_meant(imported: str, call: Call) -> None:
    for tenant in ("ada", "bob"):
        put = ("--tenant", tenant, "store", "put", "docs", "k", '"text"')
        assert call("--db", imported, *put).code == 0
    where = ("--db", imported, "reembed", "--all-namespaces", *SINCE, "--json")
    assert call(*where, "--tenant", "ada").json["embedded"] == 1
    assert call(*where, "--tenant", "ada", "--all-tenants").code == 2
    assert call(*where, "--all-tenants").json["embedded"] == 15


@pytest.mark.own_keys
@pytest.mark.own_signing_keys
def test_encrypted_and_signed_databases_are_embedded_as_they_allow(
    url: str, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEMALCHEMY_KEYS", generate_key())
    monkeypatch.setenv("MEMALCHEMY_SIGNING_KEYS", generate_key())
    assert call("--db", url, "upgrade").code == 0
    assert call("--db", url, "store", "put", "docs", "k", '"text"').code == 0
    where = ("--db", url, "reembed", "--namespace", "docs", *SINCE)
    refused = call(*where)
    assert refused.code == 4
    assert "--readable vectors" in refused.err
    assert call(*where, "--readable", "vectors", "--json").json["embedded"] == 1
    assert call("--db", url, "--readable", "vectors", "verify").code == 0


SLOW = """
import time
from pathlib import Path

def embed(texts):
    with open({asked!r}, "a") as file:
        file.write("".join(text + chr(10) for text in texts))
    while "word20" in texts and not Path({allowed!r}).exists():
        time.sleep(0.01)
    return [[1.0, len(text)] for text in texts]
"""
"""A module whose function waits with some texts until it is allowed to go on."""


def test_a_command_that_was_killed_goes_on(file_url: str, call: Call, tmp_path: Path) -> None:
    assert call("--db", file_url, "upgrade").code == 0
    given = "\n".join(
        json.dumps({"namespace": ["docs"], "key": f"k{n:02}", "value": f"word{n}"})
        for n in range(40)
    )
    assert call("--db", file_url, "store", "import", "-", stdin=given).code == 0
    asked, allowed = tmp_path / "asked", tmp_path / "allowed"
    module = tmp_path / "slow_embedder.py"
    module.write_text(SLOW.format(asked=str(asked), allowed=str(allowed)))
    command = ["--db", file_url, "reembed", "--namespace", "docs", "--batch-size", "4", "--json"]
    command += ["--embedder", f"{module}:embed"]
    running = subprocess.Popen(
        [sys.executable, "-m", "memalchemy", *command],
        env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        wait_until(lambda: asked.exists() and "word20" in asked.read_text())
    finally:
        running.kill()
        running.communicate(timeout=A_WHILE)
    allowed.touch()

    found = call(*command)

    assert found.code == 0
    assert found.json["embedded"] == 20
    texts = [text for text in asked.read_text().splitlines() if text.startswith("word")]
    twice = [*range(40), *range(20, 24)]  # those of the batch that was ended
    assert sorted(texts) == sorted(f"word{n}" for n in twice)
