"""Protection of what is stored: encryption, signatures, and proofs, as programs at the one door.

`memalchemy.database.Database.run` passes every program through the `guard`. `sealing` encrypts the
payloads that it binds. `signing` signs the rows that it writes, with `signed_logs`, `signed_items`
and `removals`, and `proven_reads` holds what it reads to the signatures. `signed_reads` and
`found_items` have the checks that programs make where they decode what they have read;
`proven_jobs` lets jobs go on beside rows that are not proven. `known_heads` remembers heads for the
next save, and `key_registry` tells which keys a tenant is written with. The codec has the bytes:
`codec.encryption`, `codec.signatures`, `codec.anchors`.
"""

from memalchemy.protection import citus, no_upsert  # noqa: F401 (they register variants)
