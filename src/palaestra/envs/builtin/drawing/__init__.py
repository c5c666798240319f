"""Pictures of areas for people."""
