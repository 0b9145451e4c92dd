"""Copies of a database in another one: `database_copy.copy`.

Rows are copied as they are stored. The order is:

1. Compare the heads of all logs, and all items, with the target, and refuse to begin if the target
   holds something else under the same keys.
2. Register the source's encryption keys on the target.
3. Copy the logs (`logs`). A log is checked as `verify` does, read as of the same moment,
   written, read back and compared in one transaction of the target: so it is there whole or not at
   all. Of a log that has only grown since an earlier copy, that is done with the rows that are new
   (`grown_logs`). Small logs share a transaction.
4. Copy the items of stores, each with its vectors, in the same way (`items`).

A log or an item that is damaged, or not what was signed, is left out whole, and so the target
verifies. The others are copied, and an error at the end names what was left out.

A copy can be repeated, and a killed one continues when it is run again, because the head of a log
says enough: `row_comparison.epoch_of_copy` marks it as copied and unchanged since. So a log that is
there already is left alone, brought up to date or refused, and no progress is recorded anywhere.
"""
