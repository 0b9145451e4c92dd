"""Importers of what other systems wrote: files, and tables of frameworks."""
