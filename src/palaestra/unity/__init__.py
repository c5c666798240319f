"""The low-level API: the public classes and module paths of ML-Agents' `mlagents_envs`, for Unity games and every other environment.

Code that was written for `mlagents_envs` runs once its imports name `palaestra.unity`.
"""
