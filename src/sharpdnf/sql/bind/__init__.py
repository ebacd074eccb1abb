"""Parse tree -> relational tree: every name bound to a column of a FROM item."""
