"""What the store's benchmarks are filled with: the same every time, and what it says it is."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.corpus import embedder, named, nearest, plain_words, texts, vectors, words_of_name
from benchmarks.measure import Finding, at_least
from benchmarks.workload import read_messages

SMALL = Path(__file__).parent / "data" / "threads.jsonl"


def test_vectors_are_the_same_every_time_of_length_one_and_in_clusters() -> None:
    made, questions = vectors(3000, seed=2), vectors(20, seed=3)

    assert np.array_equal(made, vectors(3000, seed=2))
    assert np.allclose(np.linalg.norm(made, axis=1), 1, atol=1e-5)
    near = [made[nearest(made, one, 10)] @ one for one in questions]
    assert 0.35 < float(np.mean(near)) < 0.8
    assert abs(float(np.mean(made @ questions.T))) < 0.1


def test_the_nearest_come_first() -> None:
    made = np.eye(4, dtype=np.float32)
    question = np.array([0.1, 0.9, 0.5, 0.0], dtype=np.float32)

    assert nearest(made, question, 3) == [1, 2, 0]


def test_the_embedder_knows_forms_of_a_word_and_no_order() -> None:
    copy, copied, other, same = embedder()(
        ["copy files", "copied a file", "parse dates", "copy files"]
    )

    assert np.array_equal(copy, same)
    assert float(copy @ copied) > 0.2 > float(copy @ other)


def test_a_text_without_words_has_a_vector_all_the_same() -> None:
    (made,) = embedder()(["!?"])

    assert float(np.linalg.norm(made)) == pytest.approx(1)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("langgraph-checkpoint", "langgraph checkpoint"),
        ("get_file_type", "get file type"),
        ("FileType", "file type"),
    ],
)
def test_a_name_is_asked_for_as_words(name: str, words: str) -> None:
    assert words_of_name(name) == words


def test_known_items_have_one_name_each_and_packages_come_first() -> None:
    known = named()
    names = [one.name.lower() for one in known]

    assert len(set(names)) == len(names) > 500
    assert names.index("sqlalchemy") < names.index("textwrapper")


def test_texts_are_the_same_every_time_and_of_some_forty_words() -> None:
    made = texts(read_messages(SMALL), 200, seed=8)

    assert made == texts(read_messages(SMALL), 200, seed=8)
    assert all(25 < len(one.split()) < 400 for one in made)


def test_only_words_of_letters_alone_are_chosen_to_look_for() -> None:
    assert plain_words("Copy 3 files_now, naïve x2") == {"copy", "files", "now"}


def test_a_share_is_shown_without_a_unit() -> None:
    found = Finding("vectors", "recall", 0.9951, "", at_least(0.99, timed=False), "", "")

    assert str(found) == "0.995"
