"""What features of a run are, and what they share."""
