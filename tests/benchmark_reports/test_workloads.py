"""What the benchmarks work on: threads of a file, and a corpus that is the same every time."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from benchmarks.corpus import embedder, named, nearest, plain_words, texts, vectors, words_of_name
from benchmarks.workload import FEWEST, FULL, BadThreads, prose, read_messages, read_threads

ROOT = Path(__file__).parents[2]
SMALL = ROOT / "tests" / "data" / "threads.jsonl"


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


def test_the_embedder_knows_forms_of_a_word_and_no_order_and_embeds_any_text() -> None:
    copy, copied, other, same, wordless = embedder()(
        ["copy files", "copied a file", "parse dates", "copy files", "!?"]
    )

    assert np.array_equal(copy, same)
    assert float(copy @ copied) > 0.2 > float(copy @ other)
    assert float(np.linalg.norm(wordless)) == pytest.approx(1)


def test_known_items_have_one_name_each_which_is_asked_for_as_words() -> None:
    known = named()
    names = [one.name.lower() for one in known]

    assert len(set(names)) == len(names) > 500
    assert names.index("sqlalchemy") < names.index("textwrapper")
    for name, words in [
        ("langgraph-checkpoint", "langgraph checkpoint"),
        ("get_file_type", "get file type"),
        ("FileType", "file type"),
    ]:
        assert words_of_name(name) == words


def test_texts_are_the_same_every_time_and_of_some_forty_words() -> None:
    made = texts(read_messages(SMALL), 200, seed=8)

    assert made == texts(read_messages(SMALL), 200, seed=8)
    assert all(25 < len(one.split()) < 400 for one in made)


def test_only_words_of_letters_alone_are_chosen_to_look_for() -> None:
    assert plain_words("Copy 3 files_now, naïve x2") == {"copy", "files", "now"}


def test_the_small_file_of_the_repository_will_do() -> None:
    messages = read_messages(SMALL)

    assert FEWEST <= len(messages) < FULL
    assert len(prose(messages, 20_000, 3)) == 20_000


def test_threads_of_a_file_are_joined_only_where_that_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "threads.jsonl"
    path.write_text('{"messages": [{"a": 1}, {"a": 2}]}\n{"messages": []}\n' * 50)

    threads = read_threads(path)

    assert threads == [[{"a": 1}, {"a": 2}]] * 50, "more than are joined"
    assert read_messages(path) == [{"a": 1}, {"a": 2}] * 20
    with pytest.raises(BadThreads, match="line 1 is not a thread"):
        read_threads(ROOT / "README.md")
    path.write_text('{"messages": []}\n')
    with pytest.raises(BadThreads, match="holds no messages"):
        read_threads(path)


def test_a_file_that_will_not_do_is_refused_with_what_it_should_be(tmp_path: Path) -> None:
    path = tmp_path / "threads.jsonl"
    for content, complaint in [
        ('{"messages": [{"role": "user", "content": "Hi"}]}\n', f"at least {FEWEST}"),
        ("Hello!\n", "line 1 is not a thread"),
        ('{"thread_id": "a"}\n', "one JSON object per line"),
        ('{"messages": ["Hi"]}\n', "no list of objects"),
        ("", "holds 0 messages"),
    ]:
        path.write_text(content)

        with pytest.raises(BadThreads, match=complaint):
            read_messages(path)
