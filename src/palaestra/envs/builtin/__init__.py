"""Environments that need nothing else installed: Warp kernels, for CPU and CUDA alike, any number of areas.

One module an environment: its columns, its kernels, a thin class with what is known about it; rules and heuristics that
are long stand beside it. `base`, `columns`, `tables` and `copies` are what all share; `planar`, `contacts`, `driving`,
`rays`, `grid_sensor` and `camera` are bodies and senses in the plane; `picture...` draw areas for people.
"""
