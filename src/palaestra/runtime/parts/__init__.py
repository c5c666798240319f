"""Features of a run, and their common base."""
