"""One of several processes that upgrade a database at the same moment.

Says that it is ready, then reads a line of JSON for each database and answers with one.
"""

from __future__ import annotations

import asyncio
import json
import sys
import traceback

from memalchemy import Checkpointer, Database


async def upgrade_and_save(
    who: str, url: str, pgbouncer: bool, first_use: bool = False
) -> list[str]:
    if first_use:
        async with Database(url, migrate="upgrade", pgbouncer=pgbouncer) as db:
            await Checkpointer(db).save({"who": who}, f"thread {who}")
        return []
    async with Database(url, migrate="off", pgbouncer=pgbouncer) as db:
        ran = await db.migrate()
        await db.check()
        await Checkpointer(db).save({"who": who}, f"thread {who}")
        return ran


def main(who: str) -> None:
    print(json.dumps("ready"), flush=True)
    for line in sys.stdin:
        try:
            answer: object = asyncio.run(upgrade_and_save(who, **json.loads(line)))
        except Exception:  # noqa: BLE001 - the test says what it was
            answer = traceback.format_exc()
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
