"""Rebuild words: the search text of rows, and the field terms of items, from their payloads.

An older release has made words by other rules. They are found as that release found them, and here
they are made anew, wherever there are some. Words that a checkpoint has taken over from pruned ones
are made from its state, if that has their text.

Words can be lost, too. A database that may not hold readable words has none: a rotation has removed
them, or rows were written without them. Once words are allowed again, they are made from the
payloads, as a save makes them.

Whether a row without words should have some is a setting of the class that wrote it,
``index_text``, which the database does not know. A rotation that removes words notes the namespaces
from which it removed some. Words of other namespaces are rebuilt only where the caller names them:
what was kept out of the readable words on purpose stays out.
"""
