"""What `--env` means: built-in environments, Unity games, and environments of the user's own."""
