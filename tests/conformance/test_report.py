"""Reports, and the program that prints them."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from native_subjects import SUBJECTS

from memalchemy import Database, Store, conformance
from memalchemy.conformance import (
    ADAPTER_CHECKS,
    STORE_CHECKS,
    Check,
    NotConforming,
    check_adapter,
    check_log,
    check_store,
)
from memalchemy.conformance.__main__ import main


class Few(dict[str, object]):
    """A store with no more than it has to have, and without versions."""

    async def put(self, namespace: tuple[str, ...], key: str, value: object) -> None:
        self[f"{namespace}{key}"] = value

    async def get(self, namespace: tuple[str, ...], key: str) -> object:
        return self.get_(f"{namespace}{key}")

    def get_(self, key: str) -> object:
        return dict.get(self, key)

    async def delete(self, namespace: tuple[str, ...], key: str) -> bool:
        return self.pop(f"{namespace}{key}", None) is not None


class Narrow:
    """A store of memalchemy with no more than a store has to have."""

    def __init__(self, db: Database) -> None:
        self.store = Store(db)

    async def put(self, namespace: tuple[str, ...], key: str, value: object) -> int:
        return await self.store.put(namespace, key, value)

    async def get(self, namespace: tuple[str, ...], key: str) -> object:
        return await self.store.get(namespace, key)

    async def delete(self, namespace: tuple[str, ...], key: str) -> bool:
        return await self.store.delete(namespace, key)


def chosen(*names: str) -> list[Check]:
    return [check for check in (*STORE_CHECKS, *ADAPTER_CHECKS) if check.name in names]


async def test_checks_of_what_a_store_need_not_have_are_skipped() -> None:
    report = await check_store(Narrow)

    report.raise_for_failures()
    assert {"values_are_the_callers_own", "a_cancelled_put_is_whole_or_absent"} <= {
        one.check for one in report.passed
    }
    assert "capabilities.search is not true" in str(report)


async def test_a_failure_says_what_was_promised_what_happened_and_where_it_is_written() -> None:
    checks = chosen("a_put_replaces_and_counts_versions", "changes_at_once_lose_nothing")
    report = await check_store(Few, checks=checks)

    assert str(report).splitlines() == [
        "test_report.Few",
        "FAILED   a_put_replaces_and_counts_versions",
        "  promised: A put replaces the value, and returns its version: 1, or one more than "
        "before.",
        "  happened: the versions: expected [1, 2, 3], found [None, None, None]",
        "  see:      memalchemy.Store.put",
        "skipped  changes_at_once_lose_nothing: there is no method change",
        "0 passed, 1 failed, 1 skipped",
    ]
    with pytest.raises(NotConforming, match="does not keep 1 of its promises"):
        report.raise_for_failures()
    assert not report.ok


async def test_a_report_is_json() -> None:
    report = await check_store(Few, checks=chosen("a_put_replaces_and_counts_versions"))

    told = json.loads(json.dumps(report.to_dict()))
    assert (told["ok"], told["passed"], told["failed"], told["skipped"]) == (False, 0, 1, 0)
    assert told["results"][0]["check"] == "a_put_replaces_and_counts_versions"
    assert told["results"][0]["seconds"] >= 0


async def test_an_error_and_a_timeout_are_failures() -> None:
    class Raising(Store):
        async def put(self, *args: object, **options: object) -> int:
            raise ZeroDivisionError("of its own")

    class Hanging(Store):
        async def put(self, *args: object, **options: object) -> int:
            await asyncio.Event().wait()
            return 1

    checks = chosen("a_put_replaces_and_counts_versions")
    (raised,) = (await check_store(Raising, checks=checks)).failed
    (hung,) = (await check_store(Hanging, checks=checks, timeout=0.2)).failed

    assert raised.message.startswith("ZeroDivisionError was raised: of its own")
    assert hung.message == "it did not end within 0.2 seconds"


async def test_a_factory_is_called_for_each_check_and_what_it_makes_is_closed() -> None:
    made: list[str] = []

    @asynccontextmanager
    async def make() -> AsyncIterator[Store]:
        async with Database("sqlite://") as db:
            made.append("opened")
            yield Store(db)
            made.append("closed")

    async def awaited() -> Few:
        made.append("awaited")
        return Few()

    await check_store(make, checks=STORE_CHECKS[:2])
    await check_store(awaited, checks=STORE_CHECKS[:2])

    assert made == ["opened", "closed"] * 2 + ["awaited"] * 2


async def test_what_a_check_has_written_to_a_given_database_is_erased(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"
    (await check_store(Store, database=url)).raise_for_failures()
    report = await check_adapter(SUBJECTS["entries"], database=url)
    report.raise_for_failures()

    async with Database(url) as db, db.transaction() as tx:
        for table in ("threads", "deltas", "store_items", "embeddings"):
            ours = f"SELECT count(*) FROM {table} WHERE tenant LIKE 'conformance-%'"
            found = await tx.exec_driver_sql(ours)
            assert found.scalar() == 0, table


async def test_what_cannot_be_checked_is_refused() -> None:
    with pytest.raises(ValueError, match="a factory that takes a Database"):
        await check_log(lambda: None, database="sqlite://")
    with pytest.raises(ValueError, match="a subject is a Subject, not dict"):
        await check_adapter("native_subjects:SUBJECTS")
    for name in ("native_subjects", "native_subjects:", "native_subjects:SUBJECTS[none]", "no.x:Y"):
        with pytest.raises(ValueError, match=r"named as|there is no object"):
            await check_adapter(name)


async def test_without_a_name_for_other_processes_their_checks_are_skipped() -> None:
    checks = chosen("processes_lose_no_write", "a_killed_process_loses_no_acknowledged_write")
    report = await check_adapter(SUBJECTS["entries"], checks=checks)

    assert not report.ok
    assert {one.message for one in report.skipped} == {
        "give the subject as 'module:ATTRIBUTE', so that processes can import it"
    }


def test_every_public_name_has_a_docstring_and_lists_are_of_checks() -> None:
    for name in conformance.__all__:
        value = getattr(conformance, name)
        assert value is not None
        if isinstance(value, list):
            assert all(isinstance(one, Check) for one in value)
            assert len({one.name for one in value}) == len(value)
        else:
            assert value.__doc__


# --- The program ---------------------------------------------------------------------------------


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(Path(__file__).parent), *filter(None, sys.path)])
    return subprocess.run(
        [sys.executable, "-m", "memalchemy.conformance", *arguments],
        env=os.environ | {"PYTHONPATH": paths},
        capture_output=True,
        text=True,
    )


def test_the_program_checks_what_it_is_told() -> None:
    good = run("memalchemy:Store", "--check", "an_absent_item_is_none")
    assert (good.returncode, good.stderr) == (0, "")
    assert good.stdout.splitlines()[-1] == "1 passed, 0 failed, 0 skipped"

    bad = run("test_report:Few", "--json", "--check", "a_put_replaces_and_counts_versions")
    assert bad.returncode == 1
    assert [one["failed"] for one in json.loads(bad.stdout)] == [1]


def test_the_program_takes_a_subject_or_several_and_a_database(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"sqlite:///{tmp_path}/agent.db"
    only = ("--database", url, "--check", "tenants_are_separate")
    assert main(["native_subjects:SUBJECTS[items]", *only]) == 0
    assert main(["native_subjects:SUBJECTS", *only]) == 0
    assert capsys.readouterr().out.count("passed   tenants_are_separate") == 1 + len(SUBJECTS)
    assert main(["broken_adapters:BROKEN[tenants_are_separate]", *only]) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["native_subjects:NONE"], "there is no object native_subjects:NONE"),
        (["native_subjects:NOON"], "is no Subject, and cannot be called"),
        (["memalchemy:KeyValue"], "makes no checkpointer, store or log"),
        (["memalchemy:Store", "--check", "none"], "there is no check none"),
    ],
)
def test_the_program_refuses_what_it_cannot_check(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)

    assert ended.value.code == 2
    assert message in capsys.readouterr().err
