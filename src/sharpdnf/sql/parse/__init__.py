"""Text -> parse tree: what is read, what is refused, and whether the database reads it alike."""
