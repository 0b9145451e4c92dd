"""Queries that every text search answers alike, whether it looks for steps or for items."""

from __future__ import annotations

IN_ANY_SPELLING = [
    ("Ein Café in Zürich", "cafe zurich"),
    ("ein cafe in zurich", "CAFÉ"),
    ("cafe\u0301", "café"),
    ("我想去北京大学学习", "北京大学"),
    ("東京タワーへ行きます", "東京"),
    ("東京タワーへ行きます", "タワー"),
    ("서울에서 만나요", "서울"),
    ("Привет, мир", "привет"),
    ("ΑΘΗΝΑ", "αθηνα"),
    ("हिन्दी भाषा", "हिन्दी"),
    ("user@example.com wrote", "example"),
    ("path/to/some_file.txt", "file"),
    ("flight HAT136", "hat136"),
    ("it costs $152.50", "152"),
    ("it's 100% sure", "100%"),
    ("ﬁnancial", "financial"),
    ("half \ud800 a zeppelin", "zeppelin"),
    ("a\x00zeppelin", "zeppelin"),
]
"""Texts, each with a query that finds it."""

BLANK = ("", "   ")
WITHOUT_WORDS = ("!?…", "'\"", "*", "()", "- -", "\x00", "\ud800", "%", "_", "\\", ";--")
"""Queries that find nothing."""

LIKE_OPERATORS = (
    "NOT hotel",
    "hotel OR",
    "hotel*",
    '"hotel',
    "hotel AND (",
    "NEAR(hotel taxi)",
    "-hotel",
    "hotel:*",
    "search_text:hotel",
    "{hotel} & |",
    "hotel' OR '1'='1",
)
"""Queries that look like operators, and find what has the word hotel."""
