"""Worlds: the user's own SQL, run in every possible world or in many that are drawn at random."""
