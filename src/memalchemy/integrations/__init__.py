"""Adapters: what an agent framework calls its storage, over what this library has.

A file for each framework, which imports it; each is behind the extra of its name, and none speaks
SQL. Nothing here is imported with `memalchemy` itself.
"""
