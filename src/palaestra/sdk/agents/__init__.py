"""Agents, their sensors, actions and groups, and the registry that holds them."""
