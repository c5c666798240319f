"""ML-Agents' wire protocol: converts messages to arrays and back. Used by environments, games in Python and the
low-level API.
"""
