"""Experience: `rollout` holds the data that a trainer learns from, buffers fill a rollout, minibatches divide it."""
