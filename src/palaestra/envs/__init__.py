"""Environments: `base` defines the interface, `builtin` has our games, `unity` runs Unity games, `gymnasium` wraps Gymnasium's."""
