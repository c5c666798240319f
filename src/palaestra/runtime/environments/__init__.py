"""Opens the environment that `--env` names: built-in, Unity game, or the user's own."""
