"""Copies of an environment in separate processes, as one `Env`: shared memory, restarts, no waiting for slow copies."""
