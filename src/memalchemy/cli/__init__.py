"""The command line. It calls the public API and prints; the library's logic is not here."""

from memalchemy.cli.app import app, main

__all__ = ["app", "main"]
