"""Pictures of runs, of comparisons and of demonstrations, drawn with matplotlib."""
