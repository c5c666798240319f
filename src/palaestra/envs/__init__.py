"""Environments: `base` is the interface, `builtin` has Palaestra's games; `unity`, `gymnasium`, `pettingzoo` open the
environments of others."""
