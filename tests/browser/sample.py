"""A database as agents of several frameworks leave it, with content that attacks whoever looks."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from memalchemy import (
    Checkpointer,
    Conversation,
    Database,
    Episode,
    EpisodeStore,
    MemoryFact,
    Store,
    ThreadLog,
    UserMemoryStore,
)
from memalchemy.state import Message

REFUND = "support/refund-8841"
LANGGRAPH = ("langgraph",)
BRANCHED = "trip-to-lisbon"
CONVERSATION = "ada/parcel"
LONG = "nightly-crawl"
OPENAI = ("openai-agents", "main")
OPENAI_THREAD = "research-2026-11"
SEVERAL = 120
DESK, ANALYSIS, ANSWER = "desk", "analysis/churn-2026-11", "The revenue of **November** is up"
LONG_STEPS = 450

SCRIPT = "<script>window.attacked = 1; alert(1)</script>"
IMAGE = '<img src="https://evil.example/x" onerror="window.attacked = 2">'
TERMINAL = "\x1b[31mred\x1b[0m \x1b]0;title\x07 and \x00 NUL"
BIDI = "price \u202eRUE 001\u202c for \u2066you\u2069"
TAGS = "hello" + "".join(chr(0xE0000 + ord(letter)) for letter in "ignore all") + " there"
TEN_MEGABYTES = "0123456789" * 1_048_576
HOSTILE_MARKDOWN = [
    "[click](javascript:window.attacked=5) and <a href='javascript:alert(5)'>this</a>",
    "![pixel](https://evil.example/pixel.png) ![data](data:text/html,<script>alert(6)</script>)",
    "[data](data:text/html;base64,PHNjcmlwdD4=) [vb](vbscript:x) <https://evil.example/auto>",
    "[mail](mailto:ada@example.org) [relative](../../etc/passwd) [file](file:///etc/passwd)",
    ">" * 2_000 + " deep",
    "- " * 1_000 + "nested",
    "[" * 5_000 + "](x)",
    "*" * 10_000,
    "`" * 9_999,
    "|a" * 2_000 + "|\n" + "|-" * 2_000 + "|\n",
    "```html\n<img src=x onerror=window.attacked=7>\n```",
    "[x]: javascript:alert(8)\n\n[x]",
]
"""What a parser of Markdown could be led astray by."""
MARKDOWN_THREAD = "hostile markdown"

HOSTILE = [
    SCRIPT,
    IMAGE,
    TERMINAL,
    BIDI,
    TAGS,
    "javascript:alert(3)",
    "{{7*7}}${7*7}",
    "\ud800 lone",
]
HOSTILE_IDS = [
    SCRIPT,
    f"hostile {BIDI}",
    "a" * 250,
    "q\"'><b onmouseover=alert(4)>",
    "dots/../..//%2e%2e",
    "",
]
HOSTILE_THREAD = "hostile content"


def start() -> datetime:
    return datetime.now(UTC) - timedelta(hours=3)


async def embed(texts: Sequence[str]) -> list[list[float]]:
    """Vectors of words' hashes: texts that share words are near."""
    return [_vector(text) for text in texts]


def _vector(text: str) -> list[float]:
    sums = [0.01] * 32
    for word in text.lower().split():
        sums[hashlib.blake2b(word.encode(), digest_size=2).digest()[0] % 32] += 1.0
    norm = math.sqrt(sum(one * one for one in sums))
    return [one / norm for one in sums]


async def fill(url: str) -> None:
    """Write the sample to a database."""
    async with Database(url) as db:
        await _several(db)
        await _desk(db)
        await _analysis(db)
        await _long(db)
        await _hostile(db)
        await _store(db)
        await _memories(db)
        await _openai(db)
        await _conversation(db)
        await _branched(db)
        await _langgraph(db)


async def _several(db: Database) -> None:
    names = ["onboarding", "invoice", "triage", "digest", "review"]
    for number in range(SEVERAL):
        place: tuple[str, ...] = [("pydantic-ai",), ("google-adk",), ()][number % 3]
        at = datetime.now(UTC) - timedelta(days=20, hours=-number)
        name = f"{names[number % 5]}-{hashlib.md5(str(number).encode()).hexdigest()[:8]}"
        state = {"messages": [{"role": "user", "content": f"Start of {name}"}], "turn": number}
        await Checkpointer(db, namespace=place).save(state, name, occurred_at=at)


QUESTIONS = [
    ("Where is my order?", "get_order", "shipped"),
    ("Can I change the delivery address?", "get_order", "packed"),
    ("The invoice has the wrong VAT number.", "get_invoice", "sent"),
    ("How do I reset the grinder after descaling?", "search_manual", "page 14"),
    ("I was charged twice for the filters.", "get_payments", "two charges"),
    ("Do you deliver to Graz on Saturdays?", "search_manual", "yes"),
]
PEOPLE = ["ada", "bob", "eve", "u-2041", "u-2077"]


async def _desk(db: Database) -> None:
    """Write threads that say who works for whom, and what each answer took."""
    checkpointer = Checkpointer(db)
    today = datetime.now(UTC) - timedelta(minutes=40)
    for number in range(44):
        said, tool, result = QUESTIONS[number % len(QUESTIONS)]
        model, price = [("small-2", 0.4), ("large-4", 6.0), ("small-2", 0.4)][number % 3]
        given, made = 700 + 137 * (number % 11), 90 + 31 * (number % 7)
        failed = number % 9 == 4
        messages: list[dict[str, Any]] = [
            {"role": "user", "content": said},
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": tool, "arguments": f'{{"id": {8800 + number}}}'},
                    }
                ],
                "model": model,
                "usage": {"prompt_tokens": given, "completion_tokens": 24},
                "metadata": {"cost_usd": given * price / 1e6, "latency_ms": 640 + 9 * number},
            },
            {
                "role": "tool",
                "tool_call_id": "c1",
                "name": tool,
                "content": "TimeoutError: the shop did not answer" if failed else result,
                **({"status": "error"} if failed else {}),
            },
            {
                "role": "assistant",
                "content": "I am sorry, I could not look it up." if failed else f"It is: {result}.",
                "model": model,
                "usage": {"prompt_tokens": given + 60, "completion_tokens": made},
                "metadata": {"cost_usd": (given + 5 * made) * price / 1e6, "latency_ms": 1210},
            },
        ]
        own = {"user_id": PEOPLE[number % 5], "agent": ["desk", "billing"][number % 2]}
        at = today - timedelta(days=number * 27 // 44, minutes=7 * number)
        parent = None
        for count in (1, 2, 3, 4):
            parent = await checkpointer.save(
                {"messages": messages[:count]},
                f"{DESK}/{8800 + number}",
                metadata=own | {"node": ["input", "agent", "tools", "agent"][count - 1]},
                parent_id=parent,
                occurred_at=at + timedelta(seconds=[0, 1, 4, 6][count - 1]),
            )


async def _analysis(db: Database) -> None:
    """Write a thread whose messages are Markdown, code and tables."""
    rows = [
        {
            "month": month,
            "customers": 410 + 37 * at,
            "lost": 21 - 3 * at,
            "rate": round(0.051 - at / 150, 3),
        }
        for at, month in enumerate(("August", "September", "October", "November"))
    ]
    query = "SELECT month, count(*) AS customers\nFROM customers -- of this year\nGROUP BY month"
    code = (
        "def churn(rows: list[Row], month: str) -> float:\n"
        '    """Return the share of customers lost in a month."""\n'
        "    lost = sum(1 for row in rows if row.month == month)\n"
        "    return lost / max(len(rows), 1)  # never by zero\n"
    )
    answer = f"""{ANSWER}, and churn is down. What changed:

| month | lost | rate |
|:--|--:|--:|
| August | 21 | 5.1 % |
| November | 12 | 3.1 % |

1. **Onboarding** mails go out on day one, see [the plan](https://example.org/plan).
2. The *annual* plan has a month free.

> Two months are no trend.

```python
{code}```

Run `churn(rows, "November")` to check it. Shall I send it to the team?
"""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You are an analyst. Show your numbers."},
        {"role": "user", "content": "Why did churn fall in November? Please show the numbers."},
        {
            "role": "assistant",
            "content": "",
            "reasoning_content": "I need customers and losses by month.",
            "tool_calls": [
                {
                    "id": "q1",
                    "type": "function",
                    "function": {"name": "run_sql", "arguments": json.dumps({"query": query})},
                }
            ],
            "model": "large-4",
            "usage": {"prompt_tokens": 2140, "completion_tokens": 88},
            "metadata": {"cost_usd": 0.0133, "latency_ms": 2100},
        },
        {"role": "tool", "tool_call_id": "q1", "name": "run_sql", "content": json.dumps(rows)},
        {
            "role": "assistant",
            "content": answer,
            "model": "large-4",
            "usage": {
                "prompt_tokens": 2630,
                "completion_tokens": 412,
                "prompt_tokens_details": {"cached_tokens": 2048},
            },
            "metadata": {"cost_usd": 0.0274, "latency_ms": 6900},
        },
    ]
    checkpointer = Checkpointer(db)
    first = datetime.now(UTC) - timedelta(hours=5)
    parent = None
    for count, (node, seconds) in enumerate(
        [("input", 0), ("input", 0), ("plan", 3), ("run_sql", 5), ("answer", 12)], 1
    ):
        parent = await checkpointer.save(
            {"messages": messages[:count]},
            ANALYSIS,
            metadata={"node": node, "user_id": "grace", "agent": "analyst"},
            parent_id=parent,
            occurred_at=first + timedelta(seconds=seconds),
        )
    await checkpointer.set_thread_metadata(ANALYSIS, {"title": "Why churn fell in November"})
    log = [{"role": "assistant", "content": text} for text in HOSTILE_MARKDOWN]
    await ThreadLog(db, namespace=("log",)).append(MARKDOWN_THREAD, log)


async def _long(db: Database) -> None:
    checkpointer = Checkpointer(db)
    first = datetime.now(UTC) - timedelta(days=2)
    pages: list[str] = []
    for number in range(LONG_STEPS):
        pages = [*pages[-40:], f"https://example.org/page/{number}"]
        await checkpointer.save(
            {"queue": pages, "seen": number, "errors": number // 90},
            LONG,
            metadata={"source": "loop", "step": number},
            occurred_at=first + timedelta(minutes=number),
        )


async def _hostile(db: Database) -> None:
    checkpointer = Checkpointer(db)
    log = ThreadLog(db, namespace=("openai-agents", SCRIPT))
    for number, name in enumerate(HOSTILE_IDS):
        at = start() - timedelta(days=1, minutes=number)
        await checkpointer.save(
            {"messages": [{"role": "user", "content": f"said in {name}"}]},
            name,
            name,
            occurred_at=at,
        )
        await Store(db).put(("ids", name), name, {"text": f"kept as {name}"})
    await log.append(HOSTILE_THREAD, [{"role": "user", "content": text} for text in HOSTILE])
    state = {
        "messages": [{"role": f"{SCRIPT}", "name": BIDI, "content": SCRIPT}]
        + [{"role": "user", "content": text} for text in HOSTILE]
        + [
            {
                "role": "assistant",
                "content": IMAGE,
                "tool_calls": [
                    {
                        "id": IMAGE,
                        "type": "function",
                        "function": {"name": SCRIPT, "arguments": '{"a": "' + "<b>" + '"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": IMAGE, "name": SCRIPT, "content": TERMINAL},
            {"role": "user", "content": TEN_MEGABYTES},
        ],
        SCRIPT: {IMAGE: BIDI, TERMINAL: TAGS, "__proto__": {"polluted": True}},
        "constructor": "toString",
        "bytes": b"\x00\xff<script>",
        "deep": _deep(60),
        "wide": list(range(5_000)),
        "big": 2**70,
        "nothing": None,
    }
    first = await checkpointer.save(state, HOSTILE_THREAD, metadata={SCRIPT: IMAGE, "title": BIDI})
    changed = {**state, "constructor": IMAGE, "bytes": SCRIPT, BIDI: TERMINAL}
    second = await checkpointer.save(changed, HOSTILE_THREAD, parent_id=first)
    await checkpointer.put_writes([(SCRIPT, {IMAGE: BIDI})], HOSTILE_THREAD, second, IMAGE)


def _deep(levels: int) -> Any:
    return {"level": levels, "below": _deep(levels - 1)} if levels else "bottom"


async def _store(db: Database) -> None:
    store = Store(db, embedder=embed)
    documents = {
        "refund-policy": "Refunds above 100 EUR need the approval of a person.",
        "shipping": "Parcels inside the EU arrive within five days.",
        "warranty": "A broken grinder is replaced or refunded within two years.",
        "opening-hours": "The shop is open from nine to six, on Saturdays until two.",
        "returns": "A refund is paid within five days after the parcel came back.",
    }
    for key, text in documents.items():
        await store.put(
            ("documents", "policies"), key, {"text": text, "language": "en"}, index=["text"]
        )
    for theme in ("light", "dark", "system", "dark"):
        await store.put(
            ("users", "ada"),
            "preferences",
            {"theme": theme, "units": "metric", "beta": True},
            index=False,
        )
    await store.put(
        ("users", "bob"),
        "session",
        {"cart": ["GR-2", "FILTER-100"], "total": 141.8},
        index=False,
        ttl=5400,
    )
    await store.put(
        ("users", "eve"), SCRIPT, {"text": IMAGE, BIDI: TERMINAL}, {SCRIPT: IMAGE}, index=False
    )
    await store.put(("users", SCRIPT), "key", {"text": TEN_MEGABYTES[:100_000]}, index=False)


async def _memories(db: Database) -> None:
    facts = UserMemoryStore(db)
    known = [
        ("ada", "Allergic to peanuts; carries an EpiPen.", ["health", "food"], 0.97),
        ("ada", "Prefers short answers in British English.", ["style"], 0.8),
        ("ada", "Works on Tuesdays and Thursdays only.", ["work"], 0.66),
        ("bob", "Has a golden retriever named Pixel.", ["family"], 0.91),
        ("bob", "Moved from Berlin to Graz in March.", ["place"], 0.72),
        ("eve", f"{SCRIPT} {BIDI}", [IMAGE], 0.2),
    ]
    for number, (user, text, topics, confidence) in enumerate(known):
        await facts.add(MemoryFact(f"f{number}", user, text, topics=topics, confidence=confidence))
    episodes = EpisodeStore(db)
    for episode in (
        Episode(
            task="Refund order 8841",
            rollout="get_order, asked for approval, refund, notify",
            result="129.90 EUR refunded",
            metadata={"lesson": "Ask for approval above 100 EUR."},
        ),
        Episode(task="Book a table for six", error="The restaurant is closed on Mondays."),
        Episode(task="Summarise the week", result="Sent to the team", metadata={"words": "312"}),
        Episode(task=SCRIPT, rollout=TERMINAL, result=IMAGE),
    ):
        await episodes.write(episode)
    store = Store(db)
    for kind, text in (
        ("user", "Ada answers within an hour, but not on Fridays."),
        ("feedback", "Say first what was done, then why."),
        ("project", "The grinder GR-2 is recalled since October."),
    ):
        value = {"type": kind, "key": kind, "content": text, "metadata": {"from": "support"}}
        await store.put(("memory", "support", kind), kind, value)


async def _openai(db: Database) -> None:
    log = ThreadLog(db, namespace=OPENAI)
    items: list[dict[str, Any]] = [
        {"role": "user", "content": "How do vector databases rank a refund policy?"},
        {
            "type": "reasoning",
            "summary": [{"type": "summary_text", "text": "I should look for sources."}],
        },
        {
            "type": "function_call",
            "call_id": "c1",
            "name": "web_search",
            "arguments": '{"query": "bm25"}',
        },
        {"type": "function_call_output", "call_id": "c1", "output": "3 results"},
        {
            "role": "assistant",
            "content": [{"type": "output_text", "text": "They combine words and vectors."}],
        },
    ]
    for number in range(130):
        items.append({"role": "user", "content": f"Question {number}: what else?"})
        items.append({"role": "assistant", "content": f"Answer {number}, with one more source."})
    await log.append(OPENAI_THREAD, items)


async def _conversation(db: Database) -> None:
    talk = Conversation(db, CONVERSATION)
    await talk.add(Message.system("You are kind and brief."))
    await talk.add(
        "Where is my parcel? It should have come on Monday.", "It is in Graz. It arrives today."
    )
    await talk.add(
        "Thank you! Is a refund of the shipping possible?", "Yes: 4.90 EUR, within five days."
    )


async def _branched(db: Database) -> None:
    checkpointer = Checkpointer(db)
    first = start()
    plan = ["Find flights", "Find a hotel", "Book both"]
    ids: dict[str, str] = {}
    said: dict[str, list[dict[str, Any]]] = {"": []}
    steps = [
        # name, parent, node, text, budget, what else the state holds
        ("a1", "", "plan", "I will look for flights first.", 900, {}),
        ("a2", "a1", "tools", "Two flights: 214 EUR direct, 160 EUR with a stop.", 900, {}),
        ("a3", "a2", "plan", "The direct one leaves at six.", 686, {"flight": "TP1235"}),
        ("b1", "a2", "plan", "Cheaper: the one with a stop.", 740, {"flight": "IB3112"}),
        ("b2", "b1", "tools", "A stop of five hours in Madrid.", 740, {"flight": "IB3112"}),
        ("a4", "a3", "tools", "Hotel Alfama: 92 EUR a night.", 686, {"flight": "TP1235"}),
        ("c1", "a3", "tools", "Casa do Rio: 71 EUR a night.", 686, {"flight": "TP1235"}),
        (
            "a5",
            "a4",
            "plan",
            "Alfama is near the conference.",
            410,
            {"flight": "TP1235", "hotel": "Alfama"},
        ),
        (
            "c2",
            "c1",
            "plan",
            "Casa do Rio is far out.",
            473,
            {"flight": "TP1235", "hotel": "Casa do Rio"},
        ),
        ("c3", "c2", "answer", "I would not take it.", 473, {"flight": "TP1235"}),
        (
            "a6",
            "a5",
            "answer",
            "Both are held until tonight.",
            410,
            {"flight": "TP1235", "hotel": "Alfama"},
        ),
        (
            "d1",
            "a5",
            "plan",
            "One more look at trains.",
            410,
            {"flight": "TP1235", "hotel": "Alfama"},
        ),
        (
            "a7",
            "a6",
            "tools",
            "Booked: TP1235 and Alfama.",
            410,
            {"flight": "TP1235", "hotel": "Alfama"},
        ),
        (
            "a8",
            "a7",
            "answer",
            "Lisbon is booked. You fly on Friday.",
            410,
            {"flight": "TP1235", "hotel": "Alfama"},
        ),
    ]
    for number, (name, parent, node, text, budget, more) in enumerate(steps):
        said[name] = [*said[parent], {"role": "assistant", "content": text}]
        state = {
            "messages": [
                {"role": "user", "content": "Book me a trip to Lisbon for under 900 EUR."},
                *said[name],
            ],
            "plan": "\n".join(
                f"{'done' if at < number // 4 else 'open'}: {one}" for at, one in enumerate(plan)
            ),
            "budget": {"left": budget, "currency": "EUR"},
            **more,
        }
        metadata = {"node": node, "step": number, "model": "large" if node == "plan" else "small"}
        at = first + timedelta(minutes=4 * number)
        ids[name] = await checkpointer.save(
            state,
            BRANCHED,
            f"lisbon-{name}",
            metadata,
            parent_id=ids.get(parent),
            occurred_at=at,
        )


async def _langgraph(db: Database) -> None:
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
    from langgraph.checkpoint.base import empty_checkpoint

    from memalchemy.integrations.langgraph import MemalchemySaver

    saver = MemalchemySaver(db)
    order = '{"order_id": 8841, "total": 129.9, "currency": "EUR", "status": "delivered"}'
    calls = [
        {
            "id": "call_1",
            "name": "get_order",
            "args": {"order_id": 8841, "fields": ["total", "status"]},
        }
    ]
    refund = [{"id": "call_2", "name": "refund", "args": {"order_id": 8841, "amount": 129.9}}]
    think = [
        {
            "type": "thinking",
            "thinking": "The policy allows 100 EUR without approval. This is more, so I ask.",
        },
        {
            "type": "text",
            "text": "You get your money back, as soon as a colleague has approved it.",
        },
    ]
    messages: list[Any] = [
        SystemMessage("You are a support agent. Be brief. Refunds above 100 EUR need approval."),
        HumanMessage("Hi! My coffee grinder (order 8841) arrived broken. Can I get a refund?"),
        AIMessage("I am sorry to hear that. Let me look at the order.", tool_calls=calls),
        ToolMessage(order, tool_call_id="call_1", name="get_order"),
        AIMessage(think, tool_calls=refund),
        ToolMessage(
            "PermissionError: a refund of 129.90 EUR needs approval",
            tool_call_id="call_2",
            name="refund",
            status="error",
        ),
    ]
    nodes = ["__start__", "agent", "tools", "agent", "tools"]
    config: Any = {"configurable": {"thread_id": REFUND, "checkpoint_ns": ""}}
    for number, node in enumerate(nodes):
        checkpoint = empty_checkpoint()
        count = [2, 3, 4, 5, 6][number]
        version = f"{number + 1:032}.0"
        checkpoint["channel_values"] = {
            "messages": messages[:count],
            "customer": {"id": 77, "tier": "gold"},
        }
        checkpoint["channel_versions"] = {"messages": version, "customer": version}
        metadata: Any = {
            "source": "input" if not number else "loop",
            "step": number - 1,
            "node": node,
        }
        config = await saver.aput(config, checkpoint, metadata, checkpoint["channel_versions"])
    question = {
        "question": "Refund 129.90 EUR for order 8841?",
        "choices": ["approve", "reject"],
        "limit": 100,
    }
    await saver.aput_writes(
        config, [("messages", [AIMessage("Waiting for approval.")])], "agent-2f1c"
    )
    await saver.aput_writes(
        config, [("__interrupt__", [{"value": question, "id": "int-77"}])], "approve-9d0e"
    )
