"""Self-play in a run: which team learns, its opponents, their ratings, and the league of snapshots."""
