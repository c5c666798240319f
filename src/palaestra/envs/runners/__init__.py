"""Copies of an environment in Ray actors, on whichever machines Ray has (`--env-runners`)."""
