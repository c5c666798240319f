"""ML-Agents' wire protocol: messages to columns and back. Environments, games in Python and the low-level API share it."""
