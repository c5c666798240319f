"""Frequently changed settings, which have their own flag and keyword."""

MOST_CHANGED = {
    "trainer": ("trainer_type", "the algorithm: ppo, sac, poca, bc, or your own as package.module:Class"),
    "max_steps": ("max_steps", "decisions until training ends, such as 1e6"),
    "stop_at": ("stop_when.at_least", "mean reward of 100 episodes at which training ends"),
    "stop_without_progress": (
        "stop_when.no_progress",
        "end the run (exit status 3) after this many decisions without a better reward",
    ),
    "learning_rate": ("hyperparameters.learning_rate", "step size of the optimizer, such as 3e-4"),
    "batch_size": ("hyperparameters.batch_size", "decisions in one gradient step"),
    "buffer_size": ("hyperparameters.buffer_size", "decisions before each update (ppo, poca), or in the replay (sac)"),
    "hidden_units": ("network_settings.hidden_units", "units of each layer"),
    "num_layers": ("network_settings.num_layers", "layers of the network"),
    "summary_freq": ("summary_freq", "decisions between summaries"),
}
"""Settings of every behavior that have a flag (--max-steps): path in a behavior's block, and help."""
