"""Starts runs from the page."""
