"""Databases behind one small protocol: find relations, number uncertain rows once, run the lineage query."""
