"""Four uncertain edges, about which many tests ask the same question."""

import pyarrow as pa

import sharpdnf

EDGES = {"src": [1, 1, 2, 3], "dst": [2, 3, 3, 4], "p": [0.5, 0.5, 0.5, 0.9]}
TWO_STEPS = "SELECT DISTINCT e.src FROM edge e JOIN edge f ON e.dst = f.src"


def edge_database() -> sharpdnf.ProbDB:
    """A database with the table ``edge``."""
    found = sharpdnf.connect()
    found.register("edge", pa.table(EDGES), prob="p")
    return found
