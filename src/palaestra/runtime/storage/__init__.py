"""Files of a run: checkpoints, snapshots, models, status, locks and signatures."""
