"""Policies over the store and the log: what an agent remembers, and how it is put to use.

Speaks to `Store`, `ThreadLog` and the contracts; knows no SQL.
"""
