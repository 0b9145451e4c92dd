"""Long-term memory in English, German and Japanese: found by words, then by meaning.

    python examples/memory_in_three_languages.py

A search by words needs no model. It finds a word in any script and case, with and without accents,
in the language in which it was said. To find a Japanese sentence by an English question, a store
needs an embedding model that knows both. `ToyEmbedder` stands for one here: it knows nine words,
and shows what is called and when, not how well a model finds.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from memalchemy.sync import Database, Store, UserMemoryStore

SAID = {
    "ada": [
        "I never eat peanuts.",
        "I live in a small flat in Lisbon.",
    ],
    "jörg": [
        "Ich esse keine Erdnüsse, sie machen mich krank.",
        "Ich wohne in einem alten Haus in Köln.",
    ],
    "ゆき": [
        "私はピーナッツを食べません。",
        "私は京都の小さな家に住んでいます。",
    ],
}
"""What people have told the agent, by their ids, which may be of any script, too."""


class ToyEmbedder:
    """Stands for a model that knows several languages: it is a list of nine words.

    A vector counts, for each meaning, the words of a text that have it. Texts without such a word
    are all alike. A real embedder is a function of the same form: `encode` of a multilingual model
    of `sentence-transformers`, or a call of a service.
    """

    MEANINGS = (
        ("peanut", "erdnüsse", "ピーナッツ"),
        ("live", "wohne", "住んで"),
        ("eat", "esse", "食べ"),
    )

    def __call__(self, texts: Sequence[str]) -> list[list[float]]:
        # The last number is for texts without such a word: a vector of zeros has no direction.
        return [[*(self.count(text, words) for words in self.MEANINGS), 0.1] for text in texts]

    def count(self, text: str, words: tuple[str, ...]) -> float:
        return float(sum(text.casefold().count(word) for word in words))


def first(facts: UserMemoryStore, user: str, query: str) -> str | None:
    """Return the fact of a user that fits best, and print it."""
    found = [fact.content for fact in facts.search(user, query)]
    print(f"  {user}: {query} → {found[0] if found else 'nothing'}")
    return found[0] if found else None


def by_words(db: Database) -> None:
    """Search the facts of each user by words: there is no model, and nothing to configure."""
    facts = UserMemoryStore(db)
    for user, sentences in SAID.items():
        for sentence in sentences:
            facts.add(user, sentence)

    print("By words, in the language in which it was said:")
    for user, query, expected in (
        ("ada", "LISBON", SAID["ada"][1]),
        ("ada", "peanut", SAID["ada"][0]),  # another form of the word
        ("jörg", "koln", SAID["jörg"][1]),  # without the dots
        ("jörg", "Was ist mit Erdnüssen?", SAID["jörg"][0]),
        ("ゆき", "京都", SAID["ゆき"][1]),  # a word amid others: nothing is between them
        ("ゆき", "ピーナッツは大丈夫ですか", SAID["ゆき"][0]),
    ):
        assert first(facts, user, query) == expected

    # No word is translated, and nobody's facts are found for another user.
    assert first(facts, "ゆき", "peanuts") is None
    assert first(facts, "ada", "京都") is None


def by_meaning(db: Database) -> None:
    """Give the facts that are there vectors, and find them by a question in another language."""
    store = Store(db, embedder=ToyEmbedder(), model="toy")
    report = store.reembed(("facts",), prefix=True)
    print("Vectors for", report.embedded, "facts that had none.")
    assert report.embedded == 6

    facts = UserMemoryStore(store)
    print("By meaning, as far as nine words go:")
    for user, query, expected in (
        ("ゆき", "May she eat peanuts?", SAID["ゆき"][0]),
        ("jörg", "Where does he live?", SAID["jörg"][1]),
        ("ada", "どこに住んでいますか", SAID["ada"][1]),
    ):
        assert first(facts, user, query) == expected

    # The agent puts what fits into the prompt.
    prompt = facts.recall("ゆき", [{"role": "user", "content": "May I eat peanuts?"}], top_k=1)
    assert SAID["ゆき"][0] in prompt[1]["content"]
    assert SAID["ゆき"][1] not in prompt[1]["content"]


if __name__ == "__main__":
    with (
        tempfile.TemporaryDirectory() as directory,
        Database(f"sqlite:///{Path(directory) / 'memory.db'}") as db,
    ):
        by_words(db)
        by_meaning(db)
