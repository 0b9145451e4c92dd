"""Adapters: storage classes that agent frameworks call, on a memalchemy database.

Each module is named after its framework, which it imports, and is installed by the extra of the
same name. `memalchemy` itself imports none of them.
"""
