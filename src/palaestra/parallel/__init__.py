"""Processes beside this one: their start and end, and shared memory for tensors."""
