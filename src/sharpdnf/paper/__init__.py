"""What reproduces the paper: its formulas, their labels, the evaluation, and its tables and figures."""
