"""How well a fact about a user is found by a prompt for which it matters, however old it is.

``nox -s memory-relevance`` measures with a real sentence model, and prints tables.
"""
