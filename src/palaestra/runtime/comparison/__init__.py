"""Compares settings over several seeds: groups of runs, their scores, interval estimates, a table and a picture."""
