"""What earlier releases said over HTTP and wrote into files: later ones answer it, and read it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from document_changes import lacks

from httpserver import running
from memalchemy import Database, Store
from memalchemy.http.operations import OPERATIONS
from memalchemy.store import import_items
from stored.contents import readable
from stored.kinds import directory_of, file_of, releases, unzipped
from stored.wire import exported_lines, lost, playing, session

each_release = pytest.mark.parametrize("release", releases())


def stored(release: str, name: str) -> Any:
    return json.loads(unzipped(directory_of(release) / f"{name}.gz"))


@each_release
async def test_clients_understand_the_answers_of_an_earlier_server(release: str) -> None:
    content = stored(release, "http.json")
    with playing(content["requests"]):
        told = await session("http://an-earlier-release.invalid")

    assert lost(content["told"], told, exactly=True) == []


@each_release
def test_the_server_answers_the_requests_of_earlier_clients(release: str, tmp_path: Path) -> None:
    with running(Database(f"sqlite:///{tmp_path}/agent.db")) as url, httpx.Client() as client:
        for asked in stored(release, "http.json")["requests"]:
            body = None if asked["body"] is None else json.dumps(asked["body"])
            answer = client.request(
                asked["method"], url + asked["path"], headers=asked["headers"], content=body
            )
            said = f"{asked['method']} {asked['path']}"
            assert answer.status_code == asked["status"], said
            assert lost(asked["answer"], answer.json()) == [], said


@each_release
def test_nothing_is_gone_from_the_document_of_an_earlier_release(
    release: str, tmp_path: Path
) -> None:
    with running(Database(f"sqlite:///{tmp_path}/agent.db")) as url:
        document = httpx.get(f"{url}/v1/openapi.json").json()

    assert lacks(stored(release, "openapi.json"), document) == []


def test_most_operations_are_asked_for_in_the_session() -> None:
    asked = stored(releases()[-1], "http.json")["requests"]
    paths = {(one["method"], one["path"].partition("?")[0]) for one in asked}

    assert len(paths) > 0.8 * len(OPERATIONS)


DOCUMENT: Any = {
    "paths": {
        "/v1/logs": {
            "post": {
                "parameters": [{"in": "query", "name": "limit", "schema": {"type": "integer"}}],
                "requestBody": {
                    "content": {"application/json": {"schema": {"$ref": "#/components/Asked"}}}
                },
                "responses": {
                    "200": {
                        "content": {"application/json": {"schema": {"$ref": "#/components/Told"}}}
                    }
                },
            }
        }
    },
    "components": {
        "Asked": {"type": "object", "properties": {"text": {"type": ["string", "null"]}}},
        "Told": {
            "type": "object",
            "required": ["hits"],
            "properties": {
                "hits": {"type": "array", "items": {"$ref": "#/components/Told"}},
                "score": {"type": "number"},
            },
        },
    },
}


def _operation(document: Any) -> Any:
    return document["paths"]["/v1/logs"]["post"]


CHANGES: dict[str, Callable[[Any], object]] = {
    "POST /v1/logs is gone": lambda d: d["paths"].clear(),
    "POST /v1/logs: the parameter limit is gone": lambda d: _operation(d)["parameters"].clear(),
    "POST /v1/logs: the parameter limit is required now": lambda d: _operation(d)["parameters"][
        0
    ].update(required=True),
    "POST /v1/logs: limit no longer takes integer": lambda d: _operation(d)["parameters"][0][
        "schema"
    ].update(type="string"),
    "POST /v1/logs: body.text is gone": lambda d: d["components"]["Asked"]["properties"].clear(),
    "POST /v1/logs: body.text is required now": lambda d: d["components"]["Asked"].update(
        required=["text"]
    ),
    "POST /v1/logs: body.text no longer takes null": lambda d: d["components"]["Asked"][
        "properties"
    ]["text"].update(type="string"),
    "POST /v1/logs: the answer 200 is gone": lambda d: _operation(d)["responses"].clear(),
    "POST /v1/logs: answer 200.score is gone": lambda d: d["components"]["Told"]["properties"].pop(
        "score"
    ),
    "POST /v1/logs: answer 200.hits may be missing": lambda d: d["components"]["Told"].update(
        required=[]
    ),
    "POST /v1/logs: answer 200.score may now be null": lambda d: d["components"]["Told"][
        "properties"
    ]["score"].update(type=["number", "null"]),
}


@pytest.mark.parametrize("said", CHANGES)
def test_what_a_later_document_lacks_is_named(said: str) -> None:
    later = copy.deepcopy(DOCUMENT)
    CHANGES[said](later)

    assert lacks(DOCUMENT, later) == [said]


def test_a_later_document_may_have_more() -> None:
    later = copy.deepcopy(DOCUMENT)
    later["paths"]["/v1/more"] = {"get": {"responses": {}}}
    later["components"]["Told"]["properties"]["more"] = {"type": "string"}
    later["components"]["Asked"]["properties"]["text"]["type"] = ["string", "null", "integer"]

    assert lacks(DOCUMENT, later) == []


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ({"a": 1}, {}, ["answer.a is gone"]),
        ({"a": 1}, {"a": "1"}, ["answer.a was 1, is '1'"]),
        ({"a": [1, 2]}, {"a": [1]}, ["answer.a has other elements"]),
        ({"a": {"b": 1}}, {"a": 1}, ["answer.a is no object any more"]),
        ({"created_at": "then"}, {"created_at": 7}, ["answer.created_at is of another type"]),
        ({"created_at": "then"}, {"created_at": "now", "more": 1}, []),
    ],
)
def test_what_a_later_answer_lacks_is_named(was: Any, now: Any, said: list[str]) -> None:
    assert lost(was, now) == said


# --- Lines of JSON -------------------------------------------------------------------------------


@each_release
async def test_items_that_an_earlier_release_exported_are_imported(
    release: str, tmp_path: Path
) -> None:
    content = json.loads((directory_of(release) / "contents.json").read_text())
    lines = unzipped(directory_of(release) / "items.jsonl.gz").splitlines()
    async with Database(f"sqlite:///{tmp_path}/agent.db") as db:
        async for batch in import_items(Store(db), lines):
            assert (batch.problems, batch.counts["imported"]) == ((), len(lines))
        value = await Store(db).get(("values",), "every type")
        assert readable(value) == content["features"]["values"]["state"]
        for item in content["items"]:
            found = await Store(db).get_item(content["space"], item["key"])
            assert found is not None
            assert (found.value, found.metadata) == (item["value"], item["meta"])
            assert await Store(db).get_embedding(content["space"], item["key"]) == item["vector"]


@each_release
@pytest.mark.parametrize("name", ["items", "records"])
def test_the_lines_of_an_export_lose_no_field(release: str, name: str, tmp_path: Path) -> None:
    (tmp_path / "agent.db").write_bytes(unzipped(file_of(release, "plain", "sqlite")))
    was = unzipped(directory_of(release) / f"{name}.jsonl.gz").splitlines()
    now = exported_lines(f"sqlite:///{tmp_path}/agent.db")[name].splitlines()

    assert len(was) > 10
    faults = lost([*map(json.loads, was)], [*map(json.loads, now)], "line", exactly=True)
    assert faults == []
