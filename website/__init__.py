"""What builds the documentation site: see mkdocs.yml and `nox -s docs`."""
