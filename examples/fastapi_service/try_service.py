"""Ask the service a few things, as clients would, after `alembic upgrade heads`.

    python try_service.py

Twenty clients write into one ticket at the same time, and some of their commits fail. What was
answered is stored once, and what was not stored was answered with an error.
"""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count

from app import app
from fastapi.testclient import TestClient
from sqlalchemy import event
from sqlalchemy.orm import Session

CLIENTS = 20


def main() -> None:
    # As a server does: an exception of the service is an answer with status 500.
    with TestClient(app, raise_server_exceptions=False) as client:
        opened = client.post(
            "/tickets", json={"customer": "Ada", "subject": "My gift card does not arrive."}
        ).json()
        print("Opened:", opened)

        url = f"/tickets/{opened['id']}/messages"
        for text in ("Where is it?", "And now?"):
            print("Answered:", client.post(url, json={"text": text}).json()["answer"])

        asked = ask_at_once(client, url, "Question {} of many at once?")
        assert {*asked.values()} == {200}
        check_what_is_stored(client, url, asked)
        print(f"Of {CLIENTS} clients at once none lost its question, and none has it twice.")

        with failing_commits(each=4):
            asked = ask_at_once(client, url, "Question {} while commits fail?")
        assert {*asked.values()} == {200, 500}
        check_what_is_stored(client, url, asked)
        failed = [*asked.values()].count(500)
        print(f"Of {CLIENTS} commits {failed} failed, and {failed} clients were told.")

        refused = client.post("/tickets", json={"customer": "Bob", "subject": "Please refuse me."})
        print("Refused:", refused.status_code)

        with failing_commits(each=1):
            lost = client.post("/tickets", json={"customer": "Eve", "subject": "The commit fails."})
        print("Not committed:", lost.status_code)
        assert lost.status_code == 500, "a ticket was acknowledged and is not stored"

        tickets = client.get("/tickets").json()
        print("Tickets:", tickets)
        assert [ticket["id"] for ticket in tickets] == [opened["id"]]

        hits = client.get("/search", params={"words": "gift card"}).json()
        print("Found:", hits[0]["text"])
        assert hits[0]["thread_id"] == opened["thread_id"]
        assert client.get("/search", params={"words": "refuse"}).json() == []
        assert client.post("/tickets/77/messages", json={"text": "?"}).status_code == 404


def ask_at_once(client: TestClient, url: str, text: str) -> dict[str, int]:
    """Send a question of each client at the same time; return the status of each question."""
    texts = [text.format(number) for number in range(CLIENTS)]
    with ThreadPoolExecutor(CLIENTS) as pool:
        answers = [*pool.map(lambda text: client.post(url, json={"text": text}), texts)]
    told = [answer.json()["answer"] for answer in answers if answer.status_code == 200]
    assert len({*told}) == len(told), "two clients were told that they are the same turn"
    return {text: answer.status_code for text, answer in zip(texts, answers, strict=True)}


def check_what_is_stored(client: TestClient, url: str, asked: dict[str, int]) -> None:
    """Each question that was answered is stored once, with its answer, and no other is."""
    messages = client.get(url).json()
    stored = [message["content"] for message in messages]
    assert {text: stored.count(text) for text in asked} == {
        text: 1 if status == 200 else 0 for text, status in asked.items()
    }
    # A turn is a question and its answer, whoever else asks; the first message is the subject.
    assert [message["role"] for message in messages[1:]] == ["user", "assistant"] * (
        len(messages) // 2
    )


@contextmanager
def failing_commits(each: int) -> Iterator[None]:
    """Let each so many-th commit fail, as if the connection were lost."""
    numbers = count(1)

    def fail(session: Session) -> None:
        if next(numbers) % each == 0:
            raise RuntimeError("The connection is lost before COMMIT.")

    event.listen(Session, "before_commit", fail)
    try:
        yield
    finally:
        event.remove(Session, "before_commit", fail)


if __name__ == "__main__":
    main()
