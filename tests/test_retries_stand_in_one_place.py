"""What is tried again is tried again by `memalchemy._retry`; each other loop has its reason here.

A loop may be a retry if it counts, or goes on until something ends it, and either goes on after an
error, or counts to a constant.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from pages import ROOT
from source_trees import parsed

PACKAGE = ROOT / "src" / "memalchemy"
PLACE = "_retry.py"


def _within(node: ast.AST) -> Iterator[ast.AST]:
    """Every part of a loop, but for functions and loops in it."""
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda | ast.ClassDef):
            continue
        yield part
        if not isinstance(part, ast.For | ast.AsyncFor | ast.While):
            yield from _within(part)


def _leaves(statements: list[ast.stmt]) -> bool:
    """Whether a block always ends by leaving its loop."""
    last = statements[-1]
    if isinstance(last, ast.If):
        return bool(last.orelse) and _leaves(last.body) and _leaves(last.orelse)
    if isinstance(last, ast.With | ast.AsyncWith):
        return _leaves(last.body)
    return isinstance(last, ast.Raise | ast.Return | ast.Break)


def _counts(loop: ast.AST) -> ast.expr | None:
    """To what a loop counts; ``None`` if it passes over things."""
    if not isinstance(loop, ast.For) or not isinstance(loop.iter, ast.Call):
        return None
    called = ast.unparse(loop.iter.func)
    if called in ("reversed", "enumerate") and isinstance(loop.iter.args[0], ast.Call):
        called, arguments = ast.unparse(loop.iter.args[0].func), loop.iter.args[0].args
    else:
        arguments = loop.iter.args
    if called.endswith("count"):
        return ast.Constant(None)
    return arguments[-1] if called == "range" and len(arguments) < 3 else None


def _is_constant(bound: ast.expr) -> bool:
    names = [node.id for node in ast.walk(bound) if isinstance(node, ast.Name)]
    of_others = [node.attr for node in ast.walk(bound) if isinstance(node, ast.Attribute)]
    return all(name.isupper() for name in names) and not set(of_others) - {"tries"}


def may_retry(loop: ast.AST) -> bool:
    """Whether a loop may try something again."""
    bound = _counts(loop)
    if not isinstance(loop, ast.While) and bound is None:
        return False
    parts = list(_within(loop))
    goes_on = any(
        not _leaves(part.body) for part in parts if isinstance(part, ast.ExceptHandler)
    ) or any(
        isinstance(part, ast.Call) and ast.unparse(part.func).endswith("suppress") for part in parts
    )
    return goes_on or (bound is not None and _is_constant(bound))


def loops(tree: ast.AST, around: str = "") -> Iterator[str]:
    """The functions with a loop that may try something again, once for each loop."""
    for node in ast.iter_child_nodes(tree):
        name = around
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            name = f"{around}.{node.name}".strip(".")
        elif may_retry(node):
            yield around
        yield from loops(node, name)


_STEPS = "it finishes work in steps, or in rounds"
_FORWARDS = "it runs a program and passes errors into it"
_ONE_MOMENT = "a read is repeated that others wrote into, as often as `CONFLICTS` says"
_CANCELLED = "it waits on although it was cancelled"
_SECOND_LOOK = "a second statement tells whether a row was made by others or is not as required"

REASONS = {
    "analysis/steps.py _range_until_damage": "it halves a page until it has the damaged entry",
    "analysis/steps.py _read_entries": "it reads one page after another, and steps over damage",
    "_bounds.py _decoded_memory": "it looks at one file after another",
    "cli/checkpoint_references.py is_ancestor": _STEPS,
    "cli/commands/demo_transcript.py _worker_log": _STEPS,
    "cli/commands/tail.py tail": "it shows what is new for ever, and waits anyway",
    "database/backend.py Backend._send": "the retry of lost connections of a database",
    "database/connection_lock.py ConnectionLock._wait_uncancelled": _CANCELLED,
    "database/first_statement.py TransactionConnection._send_first": "the retry of the "
    "first statement of a transaction, which runs in a greenlet",
    "database/program_runner.py run_program": _FORWARDS,
    "database/sqlite/executor.py SQLiteExecutor._back_up": _ONE_MOMENT,
    "database/sqlite/readers.py _Reader._outcome": _ONE_MOMENT,
    "database/sqlite/shrink.py _empty_wal": "it pauses as long as each of its steps took",
    "database/thread_future.py wait_uncancelled": _CANCELLED,
    "http/client/_transport.py Transport.send": "the retry of lost connections of HTTP, which "
    "also goes by statuses and Retry-After",
    "http/server/_checkpoints.py put_checkpoint": "the time of the request is its bound",
    "integrations/langgraph/_sweeper.py _run": "it sweeps at intervals anyway",
    "integrations/llama_index/chat_store.py MemalchemyChatStore._read_all": "two logs are read "
    "until nobody wrote meanwhile; a few tries do, for both are shown in any case",
    "integrations/openai_agents/_adapter.py uninterrupted": _CANCELLED,
    "log/no_upsert.py _allot_positions": _SECOND_LOOK,
    "log/scan.py scan": _STEPS,
    "protection/signed_reads.py check_sums": _ONE_MOMENT,
    "maintenance/rotation/key_rotation.py KeyRotation.run": _STEPS,
    "maintenance/verify/text_indexes.py TextIndexCheck.check_rows": "a finding is confirmed",
    "protection/key_registry.py before_payloads.checked": _FORWARDS,
    "protection/proven_reads.py with_proven_rows.proven": _FORWARDS,
    "protection/signing.py sign_rows.signed": _FORWARDS,
    "search/_vector_cache.py Matrix.up_to_date": _STEPS,
    "store/jsonl.py export_items": _STEPS,
    "store/no_upsert.py _put_alone": _SECOND_LOOK,
    "_files.py _descriptor": "one symbolic link of a chain at a time, as many as Linux follows",
    "store/reembedding.py Reembedding._embed_places": "what others changed is embedded once more, "
    "a few times: one item that never rests does not hold up the others",
}
"""Loops outside of `_retry`, each with the reason why it is no other retry beside those."""


def found_in_the_package() -> set[str]:
    return {
        f"{path.relative_to(PACKAGE).as_posix()} {function}"
        for path in sorted(PACKAGE.rglob("*.py"))
        if path.name != PLACE and path.relative_to(PACKAGE).parts[0] != "conformance"
        for function in loops(parsed(path.read_text()))
    }


def test_every_loop_that_may_be_a_retry_has_its_reason() -> None:
    assert found_in_the_package() == REASONS.keys()


@pytest.mark.parametrize(
    "body",
    [
        "while True:\n  try: return send()\n  except Conflict: continue",
        "while True:\n  try: return send()\n  except Conflict:\n    if not left: raise",
        "for _ in range(TRIES):\n  if send(): return",
        "for left in reversed(range(3)):\n  if send(): return",
        "for number, _ in enumerate(range(CONFLICTS.tries)):\n  if send(): return",
        "for number in itertools.count():\n  with suppress(Conflict): return send()",
        "for number in range(tries):\n  try: send()\n  except Conflict: pass\n  else: break",
        "for one in things:\n  while True:\n    try: return send()\n    except OSError: pass",
    ],
)
def test_a_loop_that_may_be_a_retry_is_found(body: str) -> None:
    function = "def f():\n" + "".join(f"  {line}\n" for line in body.splitlines())

    assert list(loops(parsed(function))) == ["f"]


@pytest.mark.parametrize(
    "body",
    [
        "for one in things:\n  try: send(one)\n  except Corrupt: continue",
        "while rows:\n  rows = read()",
        "while True:\n  try: read()\n  except Corrupt: raise",
        "for at in range(len(rows)):\n  send(rows[at])",
        "for at in range(0, size, PAGE):\n  send(at)",
    ],
)
def test_a_loop_that_passes_over_things_is_none(body: str) -> None:
    function = "def f():\n" + "".join(f"  {line}\n" for line in body.splitlines())

    assert list(loops(parsed(function))) == []
