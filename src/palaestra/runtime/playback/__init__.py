"""Plays an environment in a thread, at real speed, for a person who watches or takes part; brains can be exchanged."""
