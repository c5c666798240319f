"""Environments: `base` is the interface, `builtin` has our games, `unity`, `gymnasium` and `pettingzoo` connect
others.
"""
