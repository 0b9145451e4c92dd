"""Stands in for the Claude CLI: answers each prompt with the number of lines that it has seen.

It speaks the protocol of the SDK, writes its transcript below CLAUDE_CONFIG_DIR, and tells the SDK
of the lines, as the CLI does for a session store.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from pathlib import Path
from typing import Any


def tell(message: dict[str, Any]) -> None:
    print(json.dumps(message), flush=True)


def transcript() -> tuple[str, Path]:
    """The id of the session to resume, or of a new one, and the file of its transcript."""
    option = "--resume="
    resumed = [one.removeprefix(option) for one in sys.argv if one.startswith(option)]
    session_id = resumed[0] if resumed else str(uuid.uuid4())
    projects = Path(os.environ["CLAUDE_CONFIG_DIR"], "projects")
    return session_id, projects / os.environ["PROJECT_KEY"] / f"{session_id}.jsonl"


def main() -> None:
    session_id, file = transcript()
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["type"] == "control_request":
            answer = {"subtype": "success", "request_id": asked["request_id"], "response": {}}
            tell({"type": "control_response", "response": answer})
        if asked["type"] != "user":
            continue
        known = file.read_text().splitlines() if file.exists() else []
        said = {
            "role": "assistant",
            "content": [{"type": "text", "text": f"I have seen {len(known)} lines."}],
            "model": "scripted",
        }
        common = {"sessionId": session_id, "timestamp": "2026-03-01T12:00:00.000Z"}
        lines = [
            {"type": "user", "uuid": str(uuid.uuid4()), "message": asked["message"], **common},
            {"type": "assistant", "uuid": str(uuid.uuid4()), "message": said, **common},
            {"type": "last-prompt", "lastPrompt": asked["message"]["content"]},
        ]
        file.parent.mkdir(parents=True, exist_ok=True)
        with file.open("a") as out:
            out.writelines(json.dumps(one) + "\n" for one in lines)
        tell({"type": "transcript_mirror", "filePath": str(file), "entries": lines})
        tell({"type": "assistant", "message": said, "session_id": session_id})
        times = {"duration_ms": 1, "duration_api_ms": 1, "num_turns": 1, "is_error": False}
        tell({"type": "result", "subtype": "success", "session_id": session_id, **times})


if __name__ == "__main__":
    main()
