"""Relational tree -> SQL of one dialect; the rows that come back -> formulas."""
