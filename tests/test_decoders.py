"""Whatever parses bytes or text into many objects is called in one module, which counts first.

The package's syntax trees are walked for calls of parsers. One that stands elsewhere has a reason
here, and a reason that no call needs any more is refused, too.
"""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import memalchemy
from source_trees import parsed

PACKAGE = Path(memalchemy.__file__).parent
DOOR = "_bounds.py"

PARSERS = frozenset(
    {
        # JSON, MessagePack, and what else becomes many objects
        *("loads", "unpackb", "Unpacker", "JSONDecoder", "raw_decode", "iterparse", "json.load"),
        *("validate_json", "model_validate_json", "parse_raw", "from_json", "safe_load"),
        *("FromString", "ParseFromString", "MergeFromString", "ParseDict", "loads_typed"),
        *("literal_eval", "eval", "fromstring", "read_csv", "csv.reader", "DictReader"),
        # what becomes more bytes
        *("decompress", "decompressobj", "decompressor", "ZstdDecompressor", "stream_reader"),
        # what becomes a number of any length in more than linear work
        *("Fraction", "set_int_max_str_digits"),
    }
)
"""Names of functions that parse.

`int` of decimal digits refuses over 4,300 of them. `int` to the base 16, `Decimal`, `UUID`,
`fromisoformat`, `fromhex`, `b64decode` and `frombuffer` make one object of the size of what they
are given, in linear work.
"""

REASONS: dict[tuple[str, str], str] = {
    ("codec/compression.py", "zstandard.ZstdDecompressor"): "inflates to a given limit at most",
    ("codec/compression.py", "decompressor"): "inflates to a given limit at most",
    ("codec/compression.py", "zlib.decompressobj"): "inflates to a given limit at most",
    ("codec/compression.py", "decompressor.decompress"): "inflates to a given limit at most",
    ("codec/compression.py", "inflate.decompress"): "inflates to a given limit at most",
    ("codec/compression.py", "_decompressor(dictionary).decompress"): (
        "inflates to a given limit at most"
    ),
    ("codec/deltas.py", "decompress"): "that of codec/compression.py, with a limit",
    ("codec/payloads.py", "decompress"): "that of codec/compression.py, with a limit",
    ("http/server/_compression.py", "zlib.decompressobj"): "inflates to a given limit at most",
    ("http/server/_compression.py", "self._gzip.decompress"): "inflates to a given limit at most",
    ("http/server/_endpoints.py", "wire.loads"): "it parses through the door",
    ("http/client/_transport.py", "wire.loads"): "it parses through the door",
    ("conformance/_processes.py", "json.loads"): "lines of a process that this one has started",
    ("conformance/_worker.py", "json.loads"): "lines of the process that has started this one",
    ("analysis/_query_process.py", "json.loads"): "lines of the process that has started this one",
    ("store/jsonl.py", "orjson.loads"): "digits of a vector that were written in the same line",
    ("integrations/openai_agents/run_states.py", "RunState.from_json"): "a tree that was decoded",
    (
        "integrations/_importers/llm_agents_from_scratch.py",
        "Episode.model_validate_json",
    ): "counted before it",
    ("integrations/langgraph/_message_cache.py", "serde.loads_typed"): "counted before it",
    ("integrations/langgraph/_message_cache.py", "ormsgpack.unpackb"): "what was just packed",
    ("integrations/a2a/_protobuf.py", "message.MergeFromString"): "counted before it",
    ("integrations/langgraph/_pending_writes.py", "records.loads"): "it reads through the door",
    ("integrations/langgraph/_records.py", "loads"): "it reads through the door",
    ("integrations/langgraph/saver.py", "records.loads"): "it reads through the door",
    (
        "integrations/langgraph/_source_tables.py",
        "JsonPlusSerializer(allowed_msgpack_modules=None).loads_typed",
    ): "counted before it",
}


def calls_of_parsers(source: str) -> list[str]:
    """Return the functions that are called, or passed on, and whose names are those of parsers."""
    found = []
    tree = parsed(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Attribute, ast.Name)) and isinstance(node.ctx, ast.Load):
            name = node.attr if isinstance(node, ast.Attribute) else node.id
            if name in PARSERS or ast.unparse(node) in PARSERS:
                found.append(ast.unparse(node))
        elif isinstance(node, ast.Call) and ast.unparse(node) == "response.json()":
            found.append(ast.unparse(node))
    return found


def test_parsers_are_called_in_one_module_or_for_a_reason() -> None:
    calls = {
        (path.relative_to(PACKAGE).as_posix(), call)
        for path in PACKAGE.rglob("*.py")
        for call in calls_of_parsers(path.read_text(encoding="utf-8"))
        if path.relative_to(PACKAGE).as_posix() != DOOR
    }
    assert calls - REASONS.keys() == set()
    assert REASONS.keys() - calls == set(), "reasons that nothing needs any more"


@pytest.mark.parametrize(
    "source",
    [
        "import json\nx = json.loads(y)",
        "from orjson import loads\nloads(y)",
        "import ormsgpack as o\no.unpackb(y)",
        "json.JSONDecoder().raw_decode",
        "partial(json.loads, strict=False)",
        "response.json()",
        "zlib.decompressobj()",
        "Task.FromString(stored)",
        "Model.model_validate_json(text)",
    ],
)
def test_a_call_of_a_parser_is_found(source: str) -> None:
    assert calls_of_parsers(source)


def test_int_refuses_digits_that_would_take_it_long() -> None:
    with pytest.raises(ValueError, match="4300"):
        int("9" * 5_000)
