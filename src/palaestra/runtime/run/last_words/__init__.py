"""The last lines of a run: its result, whether a shorter run would have been enough, and the next steps."""
