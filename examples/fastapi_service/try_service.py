"""Ask the service a few things, as a client would, after `alembic upgrade heads`.

python try_service.py
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

from app import app
from fastapi.testclient import TestClient
from sqlalchemy import event
from sqlalchemy.orm import Session


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

        texts = [f"Question {number} of many at once?" for number in range(12)]
        with ThreadPoolExecutor(len(texts)) as pool:
            answers = list(pool.map(lambda text: client.post(url, json={"text": text}), texts))
        assert {answer.status_code for answer in answers} == {200}
        said = [message["content"] for message in client.get(url).json()]
        print("Of", len(texts), "questions at once it has", sum(text in said for text in texts))
        assert set(texts) < set(said), "a question was answered and is lost"
        assert len({answer.json()["answer"] for answer in answers}) == len(texts)
        assert len(said) == 1 + 2 * 2 + 2 * len(texts)

        refused = client.post("/tickets", json={"customer": "Bob", "subject": "Please refuse me."})
        print("Refused:", refused.status_code)

        event.listen(Session, "before_commit", fail)
        lost = client.post("/tickets", json={"customer": "Eve", "subject": "The commit fails."})
        event.remove(Session, "before_commit", fail)
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


def fail(session: Session) -> None:
    raise RuntimeError("The connection is lost before COMMIT.")


if __name__ == "__main__":
    main()
