"""Mirrored copies of experience: what a mirror is (`mirror`), its settings, and trainers that learn from it."""
