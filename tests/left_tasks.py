"""No call leaves a task running: its connection would be lost where the loop ends meanwhile.

A plugin of pytest's that looks at each test with ``await`` when it has taken its last step.
"""

from __future__ import annotations

import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest

import memalchemy

LOOP = pytest.StashKey[asyncio.AbstractEventLoop]()
SOURCES = str(Path(memalchemy.__file__).parent)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if isinstance(item, pytest.Function) and inspect.iscoroutinefunction(item.function):
            item.fixturenames.insert(0, "loop_of_the_test")


@pytest.fixture
async def loop_of_the_test(request: pytest.FixtureRequest) -> None:
    request.node.stash[LOOP] = asyncio.get_running_loop()


@pytest.hookimpl(wrapper=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> Any:
    result = yield
    if (loop := pyfuncitem.stash.get(LOOP, None)) is not None:
        left = [task for task in asyncio.all_tasks(loop) if SOURCES in _file_of(task)]
        assert not left, f"calls have ended, and their tasks run: {left}"
    return result


def _file_of(task: asyncio.Task[Any]) -> str:
    code = getattr(task.get_coro(), "cr_code", None)
    return "" if code is None else str(code.co_filename)
