"""Most of the parts of a run, one in each file; self-play and lessons have separate packages."""
