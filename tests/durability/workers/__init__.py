"""Processes that tests start: ``python -m workers.NAME``, from the directory above this one.

Each takes a database URL and a tenant, does what its arguments say, and tells about it in lines of
JSON on standard output.
"""

import os
import sys
from pathlib import Path

if os.environ.get("MEMALCHEMY_STRICT_ORACLE"):  # see tests/oracle/strict.py
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from oracle import strict

    strict.install()
