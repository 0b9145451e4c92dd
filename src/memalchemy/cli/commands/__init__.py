"""The commands: a file for each of them, or for a group such as ``memalchemy store``."""
