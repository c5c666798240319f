"""Environments that need nothing else installed: Warp kernels, for CPU and CUDA alike, any number of areas.

One module an environment: its columns, its kernels, a thin class with what is known about it. `base` is what they
share, `columns` the memory that torch and Warp both see, `picture` draws areas for people.
"""
