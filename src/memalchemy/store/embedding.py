"""Embed values: find the texts to embed, and call the caller's function for them."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from memalchemy.codec.search_text import texts_in
from memalchemy.errors import InvalidArgument, StoreCapabilityError
from memalchemy.keys import check_name
from memalchemy.search.vectors import check_vector
from memalchemy.store.write import VectorRow

Vectors = Sequence[Sequence[float]]
Embedder = Callable[[list[str]], Vectors | Awaitable[Vectors]]
"""Texts in, a vector for each out, in their order; plain or a coroutine function."""

Index = bool | Sequence[str] | None

WHOLE = ""
"""The field of a vector that stands for the whole value."""

MAX_FIELD_CHARACTERS = 128


@dataclass(frozen=True, slots=True)
class Text:
    """Text to embed, and the field and part that its vector belongs to."""

    field: str
    part: int
    text: str


def texts_to_embed(value: Any, index: bool | Sequence[str]) -> list[Text]:
    """Return the texts to embed of *value*: all its texts as one, or each of some fields.

    A field is a top-level key, or a JSON pointer if it begins with ``/``. A list of texts under it
    gives a part each; any other value that holds texts gives one.
    """
    if index is False:
        return []
    if index is True:
        whole = "\n".join(texts_in(value))
        return [Text(WHOLE, 0, whole)] if whole.strip() else []
    check_index(index)
    found = []
    for field in index:
        check_field(field)
        for part, said in enumerate(_parts_of_text(_value_at(value, field))):
            if said.strip():
                found.append(Text(field, part, said))
    return found


def check_index(index: object) -> None:
    """Raise `TypeError` unless *index* says what is to be embedded."""
    if index is None or isinstance(index, bool):
        return
    if isinstance(index, str) or not isinstance(index, Sequence):
        given = "one string" if isinstance(index, str) else type(index).__name__
        raise TypeError(f"index is True, False or a list of fields, not {given}")


def check_field(field: object) -> str:
    """Return *field* if it can name a vector of an item."""
    if isinstance(field, str) and len(field) > MAX_FIELD_CHARACTERS:
        raise InvalidArgument(f"a field's name has at most {MAX_FIELD_CHARACTERS} characters")
    return check_name(field, "field")


def _value_at(value: Any, field: str) -> Any:
    steps = [field]
    if field.startswith("/"):
        steps = [s.replace("~1", "/").replace("~0", "~") for s in field[1:].split("/")]
    for step in steps:
        if isinstance(value, Mapping):
            value = value.get(step)
        elif isinstance(value, (list, tuple)) and step.isdecimal() and int(step) < len(value):
            value = value[int(step)]
        else:
            return None
    return value


def _parts_of_text(found: Any) -> list[str]:
    if isinstance(found, str):
        return [found]
    if isinstance(found, (list, tuple)) and all(isinstance(one, str) for one in found):
        return list(found)
    joined = "\n".join(texts_in(found))
    return [joined] if joined else []


def vector_rows(embedding: Any, model: str) -> list[VectorRow]:
    """Return the rows of the vectors that a caller gives: one, or of fields, or of fields in parts.

    Raises:
        TypeError, ValueError: one of them is no vector, or none that can be searched for.
    """
    given = embedding if isinstance(embedding, Mapping) else {WHOLE: embedding}
    rows = []
    for field, vectors in given.items():
        check_field(field)
        parts = vectors if is_nested(vectors) else [vectors]
        for part, vector in enumerate(parts):
            rows.append(VectorRow(field, model, part, check_vector(vector)))
    return rows


def is_nested(vectors: Any) -> bool:
    """Return whether *vectors* are several, those of the parts of a field, and not one."""
    if getattr(vectors, "ndim", 1) == 2:
        return True
    return isinstance(vectors, (list, tuple)) and any(isinstance(v, Sequence) for v in vectors)


async def embed(embedder: Embedder, texts: Iterable[str]) -> list[Any]:
    """Return a checked vector for each of *texts*, from one call.

    Raises:
        TypeError, ValueError: the function did not return a vector for each text.
    """
    wanted = list(texts)
    if not wanted:
        return []
    found: Any = embedder(wanted)
    if inspect.isawaitable(found):
        found = await found
    if not hasattr(found, "__iter__"):
        raise TypeError(
            f"the embedder gave {type(found).__name__}; it must give a vector for each text"
        )
    vectors = list(found)
    if len(vectors) != len(wanted):
        raise ValueError(
            f"the embedder gave {len(vectors)} vectors for {len(wanted)} texts; it must give one "
            "for each, in their order"
        )
    return [check_vector(vector, "a vector of the embedder") for vector in vectors]


def missing_embedder(what: str) -> StoreCapabilityError:
    """Return the error for a call that needs vectors of texts without an embedder."""
    hint = "give Store an embedder=, a function of a list of texts, or this call an embedding="
    return StoreCapabilityError(
        "semantic_search", "Store", hint, message=f"{what} needs vectors of texts: {hint}"
    )
