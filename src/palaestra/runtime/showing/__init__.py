"""Files in a run's folder for people who look at the run: models while it learns, tags and notes."""
