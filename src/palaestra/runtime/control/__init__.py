"""Requests to a learning run, and the progress that it reports: both are files in the run's folder."""
