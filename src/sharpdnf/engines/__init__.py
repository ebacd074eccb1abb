"""Counting algorithms, one file each, behind one front door."""

from sharpdnf.engines.front import count
from sharpdnf.engines.registry import discover, engine

__all__ = ["count", "discover", "engine"]
