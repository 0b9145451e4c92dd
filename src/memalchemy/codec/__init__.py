"""Pure bytes, no I/O: values, deltas, checksums, and the text that search indexes."""
