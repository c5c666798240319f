"""Environments that need nothing else installed: Warp kernels for CPU and CUDA, with any number of areas.

Each game has a folder with its columns, its kernels, and an environment class with its facts; long rules and heuristics
are modules of their own. All games share `base`; `physics` and `sensors` hold bodies and senses in the plane, `drawing`
draws areas.
"""
