"""Trains one setting with several seeds, one after another or side by side, and summarizes the results."""
