"""SQLite: its executor, with one writer thread and readers, and what a file asks for.

`executor` runs programs: `writer` commits many together, `readers` read beside it. `connections`
opens a file and sends statements, `read_only` opens one that nobody may write, `forks` leaves alone
what a child process has inherited. `backup` copies a file and `shrink` rewrites it.
"""
