"""Brains: objects that choose actions when a policy is played. `model` has `load_policy`, which runs an exported
policy without torch."""
