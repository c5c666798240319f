"""Presentation of results: as text, in a notebook, as data frames."""
