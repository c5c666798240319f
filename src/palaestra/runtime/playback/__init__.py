"""Plays an environment in a thread, at real speed, for someone who watches or takes part; brains can be exchanged."""
