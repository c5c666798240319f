"""Environment parameters and their curricula in a run."""
