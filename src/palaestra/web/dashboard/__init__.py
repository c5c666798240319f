"""The pages `/`, all runs, and `/run`, one of them."""
