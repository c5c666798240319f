"""Other processes of ours: their start and end, and shared memory for tensors."""
