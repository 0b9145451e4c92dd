"""The HTTP server. Its public names are those of `memalchemy.http`."""
