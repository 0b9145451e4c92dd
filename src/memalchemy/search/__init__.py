"""The read side: text, vectors, and both, in rankings that are alike on every database."""
