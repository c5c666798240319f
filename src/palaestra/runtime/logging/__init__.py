"""Statistics of a run and their trackers, the console, timers and pictures."""
