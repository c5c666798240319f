"""Trains one setting with several seeds, one after another or side by side, and sums the results up."""
