"""Page that shows agents at work."""
