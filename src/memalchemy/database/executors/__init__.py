"""Executors: one for each way to a database. They take programs, and batch those that wait.

SQLite's writer and readers, asyncpg without SQLAlchemy, SQLAlchemy's connections, and a host's own.
"""
