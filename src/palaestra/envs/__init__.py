"""Environments: `base` is the contract, `builtin` has ours, `gymnasium` takes any of Gymnasium's, `slots` seats agents that come and go."""
