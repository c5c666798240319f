"""One run: `learning` starts and ends a run, `loop` is the training loop, `training_run` holds the changing state."""
