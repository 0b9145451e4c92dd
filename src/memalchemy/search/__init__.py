"""Search by text, by vector and by both, with rankings that are alike on every database.

- `text`: text search in items, entries and checkpoints.
- `vectors`: the items nearest to a vector.
- `hybrid`: one ranking made of two.
- `diversity`: hits that differ from each other.
- `indexes`: indexes of vectors, built on request.
- `cache_versions`: the versions by which a cache of vectors finds out what has changed.
- `scope`: conditions on the namespace and the life of items.
"""

from memalchemy.search import citus  # noqa: F401 (it registers a variant)
