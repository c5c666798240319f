"""Features of a run, and what they share."""
