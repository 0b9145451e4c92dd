"""Executors: each runs programs on the connections of one road to a database."""
