"""Copies of an environment in processes of their own, as one `Env`: shared memory, restarts, no waiting."""
