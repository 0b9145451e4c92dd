"""The tests that README.md names for locus, LazyBridge, lauren-ai and llm-agents-from-scratch.

A file is of one system and one of its parts. A test shows what a row of it says, or, if its
name begins with a code such as ``l7``, that a defect of that system is none here. Rows also name
tests of other directories; `test_parity_page` holds the page and all of them together.
"""
