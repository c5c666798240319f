"""Low-level API with the public classes and module paths of ML-Agents' `mlagents_envs`, for Unity games and all other
environments.

Code written for `mlagents_envs` runs after its imports are changed to `palaestra.unity`.
"""
