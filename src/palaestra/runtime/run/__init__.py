"""One run: `api` starts and ends it, `loop` is what it does, `training_run` holds what changes meanwhile."""
