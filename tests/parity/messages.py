"""Messages as the replaced systems have them, and an embedder that knows drinks."""

from __future__ import annotations

from typing import Any


def user(text: str) -> dict[str, Any]:
    return {"role": "user", "content": text}


def answer(text: str) -> dict[str, Any]:
    return {"role": "assistant", "content": text}


def system(text: str) -> dict[str, Any]:
    return {"role": "system", "content": text}


TALK = [m for n in range(20) for m in (user(f"question {n}"), answer(f"answer {n}"))]
