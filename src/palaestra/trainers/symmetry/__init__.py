"""Mirrored copies of experience: the mirror (`mirror`), its settings, and the trainers that learn from the copies."""
