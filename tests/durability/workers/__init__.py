"""Processes that tests start: ``python -m workers.NAME``, from the directory above this one.

Each takes a database URL and a tenant, does what its arguments say, and tells about it in lines of
JSON on standard output.
"""
