"""Environments that need nothing else installed: Warp kernels for CPU and CUDA, with any number of areas.

Each game has a folder: its columns, its kernels, and an environment class with its facts; long rules and heuristics
have modules of their own. `base` is shared by all games, `physics` and `sensors` hold bodies and senses in the plane,
`drawing` draws areas.
"""
