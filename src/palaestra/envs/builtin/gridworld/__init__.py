"""GridWorld."""
