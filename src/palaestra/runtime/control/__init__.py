"""Requests to a run that learns, and what it tells of its progress: both are files in the run's folder."""
