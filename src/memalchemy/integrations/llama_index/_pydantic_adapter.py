"""An adapter that is also a pydantic model, as LlamaIndex's stores are."""

from __future__ import annotations

from typing import Any, ClassVar

from llama_index.core.bridge.pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    field_serializer,
)

from memalchemy.database import Database
from memalchemy.integrations._base import Adapter

ROOT = "llama_index"


class ModelAdapter(Adapter, BaseModel):
    """An `Adapter` whose attributes pydantic knows.

    What it dumps has the namespace and never the database, which may have a password in it.
    """

    model_config: ClassVar[ConfigDict] = ConfigDict(arbitrary_types_allowed=True)

    root: ClassVar[str] = ROOT

    db: Database = Field(default=None, exclude=True, repr=False)  # type: ignore[assignment]
    namespace: tuple[str, ...] = ()

    _owns_db: bool = PrivateAttr()
    _loop: Any = PrivateAttr()

    @field_serializer("namespace")
    def _dump_namespace(self, namespace: tuple[str, ...]) -> list[str]:
        """Return the namespace as the constructor takes it."""
        return list(namespace[1:])
