"""Copies of an environment in Ray actors, on any machines of a Ray cluster (`--env-runners`)."""
