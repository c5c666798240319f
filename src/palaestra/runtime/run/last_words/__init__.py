"""The last lines of a run: what happened, whether it was enough long before, and what to do next."""
