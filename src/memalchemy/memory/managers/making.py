"""Messages that a manager writes itself, of the kind of those it was given."""

from __future__ import annotations

import copy
import dataclasses
import enum
from collections.abc import Mapping, Sequence
from typing import Any

from memalchemy.messages import read


def make(
    kind: Sequence[Any], role: str, content: Any, metadata: Mapping[str, Any], **fields: Any
) -> Any:
    """A message as those of *kind* are: a dict if they are, else an object of their class.

    *fields* are further ones that it needs. A dict has the metadata only if one of them has any: a
    model's API refuses keys that it does not know. An object has it if its class takes it.

    Raises:
        TypeError: the class cannot be made from a role and a content.
    """
    like = next((one for one in kind if read(one, "role") is not None), kind[0])
    if isinstance(like, Mapping):
        message = {"role": role, "content": content, **fields}
        if metadata and any(isinstance(one, Mapping) and "metadata" in one for one in kind):
            message["metadata"] = dict(metadata)
        return message
    spoken: Any = role
    if isinstance(read(like, "role"), enum.Enum):
        spoken = type(read(like, "role"))(role)
    made: Any = type(like)
    for extra in ({"metadata": dict(metadata)}, {}) if metadata else ({},):
        try:
            return made(role=spoken, content=content, **fields, **extra)
        except TypeError:
            continue
        except ValueError:  # pydantic's own, of a class that forbids fields it does not know
            if not extra:
                raise
    raise TypeError(
        f"a {made.__qualname__} cannot be made from role= and content=; hand the manager "
        "Message.of(message) of each message instead"
    )


def shortened(message: Any, longest: int) -> Any:
    """The message with each of its texts cut to *longest* characters: itself if none is longer.

    ``None`` if its class cannot be copied with another content.
    """
    name = "content" if read(message, "content") is not None else "output"
    content = read(message, name)
    short = _cut(content, longest)
    return message if short is content else replaced(message, name, short)


def replaced(message: Any, name: str, value: Any) -> Any:
    """A copy with another value in one field; ``None`` if its class allows no such thing."""
    if isinstance(message, Mapping):
        return {**message, name: value}
    if hasattr(message, "model_copy"):
        return message.model_copy(update={name: value})
    if dataclasses.is_dataclass(message) and not isinstance(message, type):
        return dataclasses.replace(message, **{name: value})
    double = copy.copy(message)
    try:
        setattr(double, name, value)
    except (AttributeError, TypeError):
        return None
    return double


def _cut(content: Any, longest: int) -> Any:
    if isinstance(content, str):
        return shorten_text(content, longest)
    if isinstance(content, (list, tuple)):
        parts = [_cut(part, longest) for part in content]
        same = all(a is b for a, b in zip(parts, content, strict=True))
        return content if same else parts
    if isinstance(content, Mapping):
        changed = {}
        for name in ("text", "content"):
            if isinstance(content.get(name), (str, list, tuple)):
                part = _cut(content[name], longest)
                if part is not content[name]:
                    changed[name] = part
        return {**content, **changed} if changed else content
    return content


def shorten_text(text: str, longest: int) -> str:
    """Its head and its tail, at most *longest* characters, with a note of what is left out."""
    if len(text) <= longest:
        return text
    note = f"\n[… {len(text) - longest:,} characters left out …]\n"
    room = longest - len(note)
    if room < 40:
        return text[:longest]
    head = room * 2 // 3
    return text[:head] + note + text[len(text) - (room - head) :]
