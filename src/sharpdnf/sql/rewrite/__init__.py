"""Tree -> tree: the SELECTs of a bound query get columns of lineage, one construct a file."""
