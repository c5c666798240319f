"""Files in a run's folder for people who look at it: models while it learns, tags and notes."""
