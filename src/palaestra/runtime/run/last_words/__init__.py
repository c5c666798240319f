"""The last lines of a run: its result, whether a shorter run had sufficed, and the next steps."""
