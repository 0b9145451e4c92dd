"""Key rotation: encrypt everything that is stored with the first key of a database.

Rows are listed with the key that each is under. Batch by batch those under another key are read,
opened, encrypted and written, while others read and write. A row is written only if it is still
what was read, and it says itself under which key it is. So no progress is recorded, several
rotations may run at once, and a killed one continues when it is run again. Positions, versions and
times stay as they are. The epochs of logs move, so that a copy notices the new form of their rows.
"""
