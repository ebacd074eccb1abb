"""Weighted #DNF counting: exact, guaranteed and learned."""

from sharpdnf.dnf import DNF, Batch

__all__ = ["DNF", "Batch"]
__version__ = "0.1.0"
