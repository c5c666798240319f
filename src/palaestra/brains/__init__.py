"""Brains: what decides in play. `model` has `load_policy`, which runs an exported policy without torch."""
