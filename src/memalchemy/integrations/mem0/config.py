"""`vector_store_config`: what mem0 is given to keep its memories here."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mem0.utils.factory import VectorStoreFactory
from mem0.vector_stores.configs import VectorStoreConfig
from pydantic import BaseModel

from memalchemy.integrations._base import AnyDatabase

PROVIDER = "memalchemy"

# mem0 has a method for this of models, and none of vector stores; the mapping is public.
VectorStoreFactory.provider_to_class[PROVIDER] = (
    "memalchemy.integrations.mem0.vector_store.MemalchemyVectorStore"
)


def vector_store_config(
    db: AnyDatabase | None = None,
    *,
    collection_name: str = "mem0",
    namespace: Iterable[str] = (),
) -> VectorStoreConfig:
    """Return a configuration for mem0: ``config.vector_store = vector_store_config(url)``.

    *config* is a ``MemoryConfig``. Its constructor refuses providers that mem0 does not know, so
    the configuration is assigned. mem0 makes a second store of it, for entities, in the collection
    with ``_entities`` behind its name.

    Args:
        db, collection_name, namespace: as `MemalchemyVectorStore` takes them.
    """
    options = _Options(collection_name=collection_name, db=db, namespace=tuple(namespace))
    # Validation looks for a module of the provider's within mem0.
    return VectorStoreConfig.model_construct(provider=PROVIDER, config=options)


class _Options(BaseModel):
    """The arguments of `MemalchemyVectorStore`. A copy has the same database."""

    collection_name: str
    db: Any
    namespace: tuple[str, ...]

    def model_dump(self, **_: Any) -> dict[str, Any]:
        """Return the arguments as they are: a `Database` is none that could be dumped."""
        return dict(self)

    def __deepcopy__(self, memo: Any = None) -> _Options:
        return self.model_copy()

    def __repr_args__(self) -> Iterable[tuple[str | None, Any]]:
        return [("collection_name", self.collection_name)]  # a URL may have a password


__all__ = ["vector_store_config"]
