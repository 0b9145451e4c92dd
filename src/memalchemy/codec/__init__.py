"""Bytes and the values they stand for. Pure: no I/O and no SQL.

- ``values``: Python values as canonical MessagePack, and as JSON.
- ``deltas``: a state as what differs from another one.
- ``payloads``: the values of items and entries, and pending writes.
- ``compression``, ``checksum``, ``encryption``: the steps that follow each of them.
- ``vectors``: embeddings as float32.
- ``search_text``, ``field_terms``: the words by which text searches and filters find a row.
- ``foreign_msgpack``: texts in values that a framework has serialised itself.
"""
