"""Environments: `base` is the interface, `builtin` has our games; `unity`, `gymnasium`, `pettingzoo` connect."""
