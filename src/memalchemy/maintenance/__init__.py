"""Maintenance of a whole database, while others go on reading and writing.

`verify` looks for damage, `rotation` encrypts everything with the first key, `copying` copies to
another database, `space` measures what takes room and gives back what is free. A backup of a SQLite
file is `memalchemy.Database.backup`.

Each runs for a long time over many rows. So each reads in pages (`memalchemy.log.scan`), writes in
short transactions, and keeps no record of how far it is: it can be killed at any time, and a second
run continues.
"""
