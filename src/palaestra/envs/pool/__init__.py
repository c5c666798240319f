"""Copies of an environment in separate processes, as one `Env`: with shared memory and restarts, and without waiting
for slow copies."""
