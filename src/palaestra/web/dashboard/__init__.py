"""The pages `/` (all runs) and `/run` (one run)."""
