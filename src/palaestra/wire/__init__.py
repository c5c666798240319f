"""ML-Agents' wire protocol: messages to arrays and back, for environments, games in Python and the low-level API."""
