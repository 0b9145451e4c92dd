"""Transcript of the demo: an invented on-call agent finds out why invoices are missing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

SYSTEM = """You are the on-call agent of the billing team.
Find the cause before you change anything. Read with the tools; write only after a person agrees.
Tools: read_log, query_db, read_file, run_tests, open_change, deploy, page_human.
Services: invoice-worker (makes PDF invoices from orders), ledger (bookings), mailer (sends mail).
Every night at 02:00 UTC invoice-worker reads the orders of the day before in batches of 200, locks
each customer's ledger row, books the invoice, and hands the PDF to mailer. A batch that fails is
tried three times. Report in plain sentences: what happened, since when, whom it affects, what you
did, what is left to do. Amounts are in cents. Never print a customer's name or card number."""


def _worker_log() -> str:
    lines = []
    for batch in range(1, 25):
        stamp = f"2026-03-14T02:{batch:02d}:{(batch * 17) % 60:02d}Z"
        if batch in (9, 14, 21):
            for attempt in (1, 2, 3):
                lines.append(
                    f"{stamp} ERROR invoice-worker batch={batch} attempt={attempt} ledger: "
                    f"deadlock detected while locking customer {4100 + batch * 7} after "
                    f"{4100 + batch * 7 + 3}"
                )
            lines.append(f"{stamp} ERROR invoice-worker batch={batch} gave up, 200 orders skipped")
        else:
            lines.append(
                f"{stamp} INFO invoice-worker batch={batch} orders=200 booked=200 sent=200"
            )
    return "\n".join(lines)


def _missing_orders() -> str:
    rows = [
        {"order_id": 880_000 + n * 37, "customer_id": 4163 + n % 6, "batch": (9, 14, 21)[n % 3],
         "total_cents": 1299 + (n * 731) % 20_000, "invoice_id": None}
        for n in range(24)
    ]  # fmt: skip
    return json.dumps({"rows": rows, "truncated": True, "total": 600})


def _answer_with_locks() -> str:
    """Return what the invented tool answers: pairs of processes that wait for each other."""
    rows = [
        {"pid": 7000 + n, "application": ("invoice-worker", "ledger-recalc")[n % 2],
         "waits_for": 7000 + (n ^ 1), "relation": "ledger_customers", "mode": "ForUpdate",
         "query": "SELECT balance FROM ledger_customers WHERE id = $1 FOR UPDATE"}
        for n in range(6)
    ]  # fmt: skip
    return json.dumps({"rows": rows})


BOOKING = '''def book(batch, ledger):
    """Book one invoice for each order of *batch*, all or none."""
    with ledger.transaction() as tx:
        for order in batch.orders:
            account = tx.lock_customer(order.customer_id)
            account.charge(order.total_cents, reference=order.id)
        return tx.commit()
'''

RECALC = '''def recalculate(ledger, changed):
    """Recompute the balances of the customers in *changed*, ascending by id."""
    with ledger.transaction() as tx:
        for customer_id in sorted(changed):
            account = tx.lock_customer(customer_id)
            account.balance = sum(entry.cents for entry in account.entries())
        return tx.commit()
'''

PATCH = """--- a/worker/booking.py
+++ b/worker/booking.py
@@ -2,5 +2,6 @@
     with ledger.transaction() as tx:
-        for order in batch.orders:
+        # The same order of locks as ledger/recalc.py: two orders of locks are a deadlock.
+        for order in sorted(batch.orders, key=lambda order: order.customer_id):
             account = tx.lock_customer(order.customer_id)
"""

# A role and its text; or "call", a tool, its arguments and its result.
RUN: tuple[tuple[Any, ...], ...] = (
    ("system", SYSTEM),
    ("user", "Support says some customers got no invoice for Friday. Please find out why."),
    ("call", "read_log", {"service": "invoice-worker", "night": "2026-03-14"}, _worker_log()),
    ("assistant", "Three of 24 batches gave up last night with a deadlock in the ledger: 9, 14 and "
     "21. That is 600 orders. I will look at those orders, then at what else held the locks."),
    ("call", "query_db", {"sql": "SELECT * FROM orders WHERE day = '2026-03-13' AND invoice_id IS "
     "NULL ORDER BY order_id"}, _missing_orders()),
    ("call", "query_db", {"sql": "SELECT count(*) FROM orders WHERE invoice_id IS NULL AND day "
     "BETWEEN '2026-03-01' AND '2026-03-12'"}, '{"rows": [{"count": 0}]}'),
    ("assistant", "Exactly 600 orders have no invoice, all of Friday; the two weeks before have "
     "none. So it began last night. What changed on Friday?"),
    ("call", "read_log", {"service": "deploys", "since": "2026-03-12"},
     "2026-03-12T16:20Z mailer 5.1.2\n2026-03-13T11:05Z ledger 9.0.0: recalc runs at 02:00, "
     "hourly before\n2026-03-13T15:40Z storefront 31.4.0"),
    ("call", "query_db", {"sql": "SELECT * FROM lock_waits WHERE night = '2026-03-14'"},
     _answer_with_locks()),
    ("assistant", "The ledger's release 9.0.0 moved its balance recalculation to 02:00. Since then "
     "it meets invoice-worker, and each waits for the other. I will read both loops."),
    ("call", "read_file", {"path": "worker/booking.py"}, BOOKING),
    ("call", "read_file", {"path": "ledger/recalc.py"}, RECALC),
    ("assistant", "The recalculation locks customers in ascending order, booking in the order of "
     "the orders. Two orders of locks on the same rows are the deadlock. Two ways out: move the "
     "recalculation back to another hour, or let booking lock in ascending order too. The second "
     "stays right whatever the schedule. Shall I prepare it, and a rerun of the three batches?"),
    ("user", "Prepare the fix, yes. Do not rerun anything before it is deployed."),
    ("call", "open_change", {"title": "Book in the ledger's order of locks", "diff": PATCH},
     '{"change": 2291, "state": "draft"}'),
    ("call", "run_tests", {"change": 2291, "suite": "worker"},
     "71 passed, 1 failed\nFAILED tests/test_booking.py::test_invoices_follow_the_order_of_orders"),
    ("call", "read_file", {"path": "tests/test_booking.py", "lines": "40-52"},
     "def test_invoices_follow_the_order_of_orders(ledger):\n    orders = [order(3), order(1)]\n"
     "    assert [i.order for i in book(batch(orders), ledger)] == orders\n"),
    ("assistant", "One test wants invoices numbered in the order of the orders, and it is right: "
     "numbers must not depend on customer ids. I will take all locks first, in ascending order, "
     "and book afterwards in the old order."),
    ("call", "open_change", {"change": 2291, "diff": PATCH.replace(
        "for order in sorted(batch.orders, key=lambda order: order.customer_id):",
        "for customer_id in sorted({order.customer_id for order in batch.orders}):")},
     '{"change": 2291, "state": "draft", "revision": 2}'),
    ("call", "run_tests", {"change": 2291, "suite": "worker"}, "72 passed"),
    ("call", "run_tests", {"change": 2291, "suite": "two-workers", "rounds": 500},
     "500 rounds of booking against recalculation: 0 deadlocks (before the change: 43)"),
    ("assistant", "Change 2291 is ready: all 72 tests pass, and 500 rounds against the "
     "recalculation have no deadlock where there were 43. May I deploy it?"),
    ("user", "Reviewed and approved. Deploy, then rerun batches 9, 14 and 21."),
    ("call", "deploy", {"service": "invoice-worker", "change": 2291},
     '{"release": "12.7.1", "state": "healthy", "instances": 4}'),
    ("call", "deploy", {"service": "invoice-worker", "job": "rerun", "batches": [9, 14, 21]},
     "batch=9 booked=200 sent=200\nbatch=14 booked=200 sent=200\nbatch=21 booked=200 sent=200"),
    ("call", "query_db", {"sql": "SELECT count(*) FROM orders WHERE day = '2026-03-13' AND "
     "invoice_id IS NULL"}, '{"rows": [{"count": 0}]}'),
    ("assistant", "Done. Since the ledger's release 9.0.0 on Friday its recalculation ran together "
     "with invoicing and locked customers in another order; three batches, 600 orders, were left "
     "without an invoice. Release 12.7.1 takes the locks in one order. All 600 invoices are booked "
     "and sent, none twice. Left to do: tell support, and alert on batches that give up."),
)  # fmt: skip

TODO = ("find the cause", "prepare a fix", "deploy it", "rerun the batches")
DONE_AT = (20, 34, 39, 41)
DOLLARS_READ, DOLLARS_WRITTEN = 2.5e-6, 1e-5
"""An invented price of a token."""


def messages() -> list[dict[str, Any]]:
    """Return the run as messages in OpenAI's format; four characters count as a token."""
    run: list[dict[str, Any]] = []
    for role, *content in RUN:
        if role != "call":
            run.append({"role": role, "content": content[0]})
            continue
        name, arguments, result = content
        call = {"name": name, "arguments": json.dumps(arguments)}
        call_id = f"call_{len(run):03d}"
        run.append(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": call_id, "type": "function", "function": call}],
            }
        )
        run.append({"role": "tool", "tool_call_id": call_id, "name": name, "content": result})
    tokens = [len(json.dumps(message)) // 4 for message in run]
    for number, message in enumerate(run):
        if message["role"] == "assistant":
            message["model"] = "invented"
            read, written = sum(tokens[:number]), tokens[number]
            message["usage"] = {
                "prompt_tokens": read,
                "completion_tokens": written,
                "cost_usd": round(read * DOLLARS_READ + written * DOLLARS_WRITTEN, 6),
            }
    return run


def states() -> Iterator[dict[str, Any]]:
    """Yield the state after every message: the messages so far, the plan, the tokens used."""
    run = messages()
    read = written = 0
    for number, message in enumerate(run, 1):
        if message["role"] == "assistant":
            read += message["usage"]["prompt_tokens"]
            written += message["usage"]["completion_tokens"]
        yield {
            "messages": run[:number],
            "todo": [
                {"task": task, "done": number >= at} for task, at in zip(TODO, DONE_AT, strict=True)
            ],
            "tokens": {"read": read, "written": written},
        }
