"""Gymnasium's spaces, as specs and columns."""
