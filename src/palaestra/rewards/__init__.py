"""Reward signals: each turns a rollout into one column of rewards."""
