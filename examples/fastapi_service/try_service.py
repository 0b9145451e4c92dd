"""Ask the service a few things, as a client would, after `alembic upgrade heads`.

python try_service.py
"""

from __future__ import annotations

from app import app
from fastapi.testclient import TestClient


def main() -> None:
    with TestClient(app) as client:
        opened = client.post(
            "/tickets", json={"customer": "Ada", "subject": "My gift card does not arrive."}
        ).json()
        print("Opened:", opened)

        url = f"/tickets/{opened['id']}/messages"
        for text in ("Where is it?", "And now?"):
            print("Answered:", client.post(url, json={"text": text}).json()["answer"])

        refused = client.post("/tickets", json={"customer": "Bob", "subject": "Please refuse me."})
        print("Refused:", refused.status_code)

        tickets = client.get("/tickets").json()
        print("Tickets:", tickets)
        assert [ticket["id"] for ticket in tickets] == [opened["id"]]

        hits = client.get("/search", params={"words": "gift card"}).json()
        print("Found:", hits[0]["text"])
        assert hits[0]["thread_id"] == opened["thread_id"]
        assert client.get("/search", params={"words": "refuse"}).json() == []
        assert client.post("/tickets/77/messages", json={"text": "?"}).status_code == 404


if __name__ == "__main__":
    main()
