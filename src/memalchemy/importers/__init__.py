"""Bringing in what other systems wrote. Each importer is a file of its own."""
