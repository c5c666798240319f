"""Runs: `api` begins and ends one, `loop` is what it does, `run` owns what changes meanwhile, and each file of its folder has a module.

`settings` is all that can be set. `playing`, `evaluation`, `history` and `curves` serve commands that look at runs.
"""
