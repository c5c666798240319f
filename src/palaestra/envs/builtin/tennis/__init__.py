"""Tennis."""
