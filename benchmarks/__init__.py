"""Measured ratios against other libraries and the raw drivers: ``nox -s bench -- --threads FILE``.

Every ratio is taken side by side in one run: the subjects take turns, and the median over the
rounds counts. A missed target is a missed target: the run ends with exit code 1 and says so.
"""
