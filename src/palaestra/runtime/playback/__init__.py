"""Plays an environment for someone who watches or takes part: in a thread, at real speed, with brains that can be
exchanged.
"""
