"""ML-Agents' low-level API: `mlagents_envs` programs run once their imports name `palaestra.unity` instead."""
