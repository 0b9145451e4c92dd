"""Oracle without a server: a lint of the texts, the real dialect and driver over a recording."""
