"""Experience: `rollout` is what a trainer learns from, `buffers` fill one, `minibatches` cut one up."""
