"""Mirrored copies of experience: the mirror (`mirror`), its settings, and trainers that learn from it."""
