"""One run: `api` starts and ends it, `loop` is the training loop, `training_run` holds the changing state."""
