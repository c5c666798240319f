"""Static pages of runs, which need neither a server nor the internet."""
