"""Second import path of the names of `memalchemy.context`."""

from memalchemy import context
from memalchemy.context import *  # noqa: F403 - the same names

__all__ = context.__all__
